"""Runs jobs on a cluster, and takes pictures of what a user sees of them."""

import sys
from pathlib import Path

from rich.markup import escape

from e2e.install import CHART, NAMESPACE, RELEASE, ROOT, helm, installed, namespaced
from e2e.scenarios.space import Space
from e2e.screenshots import board, jobs, notebook, page, terminal
from e2e.terminal import console, say
from tools.browser import NoBrowserError, Page, browsing, program
from tools.cluster import Cluster, ClusterError, obtain
from tools.interrupts import raised
from tools.waiting import eventually

_SPACE = "vision"
_ENOUGH = 60
"""Percent of the training at which its curve has a form."""


def main() -> int:
    """Make the pictures; return the exit code."""
    try:
        chromium = program(say)
        with raised(), obtain(say=say) as cluster, installed(cluster, say, _SPACE):
            say("installing the web page with helm")
            where = ("--namespace", NAMESPACE, "--reuse-values")
            helm(cluster, "upgrade", RELEASE, CHART, *where, "--set=web.enabled=true", "--wait")
            with namespaced(cluster, _SPACE, wait=True), browsing(chromium) as tab:
                _take(cluster, tab)
    except (ClusterError, NoBrowserError) as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return 1
    return 0


def _take(cluster: Cluster, tab: Page) -> None:
    space = Space(cluster, _SPACE)
    with page.forwarded(cluster) as url:
        say("running a job to its end, and one that fails")
        jobs.run_to_their_end(space)
        say("training, while other jobs wait")
        jobs.start(space)
        with terminal.progress(space, jobs.TRAINS) as shown:
            eventually(lambda: _percent(space) >= _ENOUGH, "it has trained for a while", 400)
            frame = terminal.last_frame(shown())
        for picture in page.pictures(tab, url, _SPACE, trains=jobs.TRAINS, fails=jobs.FAILS):
            _say(picture)
        if tab.problems:
            raise ClusterError("the browser complains of:\n" + "\n".join(tab.problems))
    for picture in terminal.pictures(tab, frame):
        _say(picture)
    say("starting TensorBoard")
    _say(board.picture(tab, space, jobs.TRAINS))
    space.kubectl("delete", "tftj", "--all")
    say("running the notebook of the docs")
    _say(notebook.picture(tab, space))


def _percent(space: Space) -> int:
    progress = space.status(jobs.TRAINS).get("progress") or {}
    return int(progress.get("percent") or 0)


def _say(picture: Path) -> None:
    say(f"{picture.relative_to(ROOT)}: {picture.stat().st_size // 1000} kB")


if __name__ == "__main__":
    sys.exit(main())
