"""Every program is locked by a go.mod that names its version."""

import pytest

from tools.cluster.binaries import PROGRAMS_DIR, SOURCES, binary, version
from tools.cluster.shell import ClusterError
from tools.cluster.wheels import platforms


@pytest.mark.parametrize("name", SOURCES)
def test_every_program_is_locked(name: str) -> None:
    source = SOURCES[name]

    assert (PROGRAMS_DIR / source.family / "go.mod").is_file()
    if source.module:
        assert (PROGRAMS_DIR / source.family / "go.sum").is_file()
        assert version(source.family, source.module).startswith("v")


def test_an_unknown_program_is_refused_with_the_known_names() -> None:
    with pytest.raises(ClusterError, match="kubectl"):
        binary("kubecuttle")


def test_wheels_for_the_newest_c_library_come_first() -> None:
    tags = platforms("amd64")

    assert tags[0] == "manylinux_2_36_x86_64"
    assert tags[-1] == "linux_x86_64"
