"""The properties of the machine are read from os-release and /proc."""

import pytest

from tools.cluster import machine
from tools.cluster.machine import Machine, debian_release, has_capability

DEBIAN = 'ID=debian\nVERSION_CODENAME="bookworm"\n'


@pytest.mark.parametrize(
    ("text", "release"),
    [
        pytest.param(DEBIAN, "bookworm", id="Debian"),
        pytest.param("ID=ubuntu\nVERSION_CODENAME=noble\n", "", id="a derivative"),
        pytest.param("", "", id="no such file"),
    ],
)
def test_only_debian_itself_has_a_release(text: str, release: str) -> None:
    assert debian_release(text) == release


@pytest.mark.parametrize(
    ("status", "there"),
    [
        pytest.param("CapBnd:\t000001ffffffffff\n", True, id="all capabilities"),
        pytest.param("CapBnd:\t000001fffeffffff\n", False, id="all but this one"),
        pytest.param("Name:\tinit\n", True, id="a kernel without this line"),
    ],
)
def test_a_capability_is_read_from_the_bounding_set(status: str, there: bool) -> None:  # noqa: FBT001
    assert has_capability(status, 24) is there


def test_the_requirements_of_an_engine_are_named_in_one_line() -> None:
    nobody = Machine(
        root=False, debian="", cgroup_v1=False, sys_resource=True, architecture="amd64"
    )

    assert "root and Debian" in nobody.why_no_engine
    assert "KUBECONFIG" in nobody.why_no_engine
    assert "\n" not in nobody.why_no_engine


@pytest.mark.parametrize(
    ("bounding", "why"),
    [("000001fffeffffff", ""), ("00000000a80425fb", "requires CAP_SYS_ADMIN and CAP_NET_ADMIN")],
    ids=["all but SYS_RESOURCE", "a container of Docker"],
)
def test_root_in_a_container_without_privileges_can_start_no_engine(
    monkeypatch: pytest.MonkeyPatch, bounding: str, why: str
) -> None:
    files = {"/proc/self/status": f"CapBnd:\t{bounding}\n", "/etc/os-release": DEBIAN}
    monkeypatch.setattr(machine, "_text", files.__getitem__)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    found = machine.look().why_no_engine

    assert why in found
    assert bool(found) is bool(why)
