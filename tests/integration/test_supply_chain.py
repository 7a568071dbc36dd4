"""The steps of a release, on a registry of our own: signed is verified, and changed is refused."""

import pytest

from tools.cluster import engine
from tools.cluster.binaries import is_built
from tools.cluster.shell import succeeds
from tools.supply_chain import PROGRAMS, run_all


@pytest.mark.timeout(900)
def test_a_changed_image_is_refused_and_the_chart_comes_from_the_registry() -> None:
    missing = [name for name in PROGRAMS if not is_built(name)]
    if missing:
        pytest.skip(f"not built: {', '.join(missing)}; `make supply-chain` builds and runs them")
    if engine.pid() is None and not succeeds(["docker", "version"], timeout=20):
        pytest.skip("no Docker engine runs, which builds and pushes the images")
    shown = run_all(print)
    assert any("no signatures found" in each for each in shown)
