"""Pictures of the web page, which the chart runs as a pod, through a port-forward as users do."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.install import NAMESPACE, RELEASE, ROOT
from tools.browser import Page
from tools.cluster import Cluster, ClusterError

_PICTURES = ROOT / "docs/guide/web"
_WIDTHS = (390, 1280)
_MOST = 1200
"""Height of a picture in pixels at most."""
_IS_LIVE = "document.getElementById('live')?.textContent.startsWith('Live')"


@contextmanager
def forwarded(cluster: Cluster) -> Iterator[str]:
    """Forward a port of this computer to the page, and give its address there."""
    command: list[str | Path] = [
        *(cluster.tool("kubectl"), "--kubeconfig", cluster.kubeconfig, "-n", NAMESPACE),
        *("port-forward", f"deployment/{RELEASE}-operator-web", ":8080"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            if found is None:
                raise ClusterError("kubectl port-forward to the web page failed")
            yield f"http://localhost:{found[1]}/"
        finally:
            process.terminate()


def pictures(tab: Page, url: str, namespace: str, *, trains: str, fails: str) -> Iterator[Path]:
    """Take all jobs, one that trains and one that failed; yield the files."""
    _PICTURES.mkdir(exist_ok=True)
    jobs = f"{url}jobs/{namespace}"
    pages = {"overview": url, "job": f"{jobs}/{trains}", "failed": f"{jobs}/{fails}"}
    for name, address in pages.items():
        tab.look(_WIDTHS[1])
        tab.open(address)
        tab.wait_for(_IS_LIVE)
        for width in _WIDTHS:
            for dark in (False, True):
                tab.look(width, dark=dark)
                file = _PICTURES / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                tab.picture(file, most=_MOST)
                yield file
