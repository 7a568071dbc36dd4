"""Measures what an upgrade and a rollback by Helm cost jobs that train (`make bench-upgrade`).

The jobs begin under the version before; the tables go into docs/guide/upgrade.md. If a job was
restarted or set back, the exit code is 1 and the page stays as it is.
"""

import secrets
import sys
import time
from pathlib import Path

from e2e.demo import say
from e2e.install import (
    install,
    load_images,
    make_namespace,
    refuse_existing,
    roll_back,
    uninstall,
)
from e2e.previous import Version, previous_version
from e2e.scenarios.space import Space
from e2e.scenarios.upgrade.measuring import upgrading
from e2e.scenarios.upgrade.report import VersionChange, damage, markdown
from tools.cluster import Cluster, ClusterError, obtain
from tools.interrupts import raised
from tools.pages import fill

PAGE = Path("docs/guide/upgrade.md")
SECTION = "measured"

_UNDISTURBED_SECONDS = 20


def main() -> int:
    """Measure and write the page; return the exit code."""
    try:
        with raised(), obtain(say=say) as cluster:
            refuse_existing(cluster)
            load_images(cluster, say)
            with previous_version(cluster, say) as before:
                changes = _measured(cluster, before)
    except ClusterError as error:
        say(str(error))
        return 1
    wrong = damage(changes)
    for line in wrong:
        say(line)
    if not wrong:
        fill(PAGE, SECTION, markdown(changes))
    return 1 if wrong else 0


def _measured(cluster: Cluster, before: Version) -> list[VersionChange]:
    space = Space(cluster, f"upgrade-{secrets.token_hex(3)}")
    try:
        say("installing the version before")
        install(cluster, f"image.tag={before.tag}", chart=before.chart)
        make_namespace(cluster, space.name)
        with upgrading(space) as upgrade:
            say("starting three jobs")
            upgrade.start()
            say("upgrading and rolling back")
            return [
                upgrade.measure("none, for comparison", lambda: time.sleep(_UNDISTURBED_SECONDS)),
                upgrade.measure("`helm upgrade`", lambda: install(cluster)),
                upgrade.measure("`helm rollback`", lambda: roll_back(cluster)),
            ]
    finally:
        cluster.kubectl("delete", "namespace", space.name, "--ignore-not-found", "--wait=false")
        uninstall(cluster)


if __name__ == "__main__":
    sys.exit(main())
