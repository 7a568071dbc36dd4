"""Leftovers of an engine are reported and removed; everything else is left as it is."""

import errno
import json
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tools.cluster import leftovers
from tools.cluster.debian import Toolbox
from tools.cluster.leftovers import (
    Record,
    compare,
    mount_points,
    other_engines,
    own_links,
    rules_of,
    undo_rules,
)
from tools.waiting import eventually

EMPTY = Record(
    links=("eth0", "lo"),
    rules=("filter :FORWARD ACCEPT",),
    mounts=(),
    cgroups=(),
    paths=(),
    processes=(),
    forwarding="0",
)
OURS, THEIRS = "br-0123456789ab", "br-ba9876543210"
OUR_RULES = (
    f"nat -A POSTROUTING -s 198.18.208.0/24 ! -o {OURS} -j MASQUERADE",
    f"filter -A FORWARD -o {OURS} -j DOCKER",
)
THEIR_RULES = (
    f"nat -A POSTROUTING -s 172.18.0.0/16 ! -o {THEIRS} -j MASQUERADE",
    f"filter -A FORWARD -o {THEIRS} -j DOCKER",
)
SHARED_RULES = (
    "filter :FORWARD DROP",
    "filter :DOCKER -",
    "filter -A FORWARD -j DOCKER-USER",
    "nat -A POSTROUTING -s 198.18.200.0/24 ! -o docker0 -j MASQUERADE",
)


def test_rules_are_listed_with_their_table_and_without_counters() -> None:
    saved = "# comment\n*nat\n:DOCKER - [12:34]\n-A DOCKER -i docker0 -j RETURN\nCOMMIT\n"

    assert rules_of(saved) == ["nat :DOCKER -", "nat -A DOCKER -i docker0 -j RETURN"]


def test_equal_records_have_no_difference() -> None:
    assert compare(EMPTY, EMPTY) == []


def test_only_new_entries_are_reported() -> None:
    after = replace(
        EMPTY,
        links=("docker0", "lo"),
        own_links=("docker0",),
        processes=("7 dockerd",),
        forwarding="1",
    )

    assert compare(EMPTY, after) == [
        "links: docker0",
        "processes: 7 dockerd",
        "ip_forward: 1, was 0",
    ]


def test_an_empty_built_in_chain_is_not_reported() -> None:
    assert compare(EMPTY, replace(EMPTY, rules=(*EMPTY.rules, "nat :INPUT ACCEPT"))) == []


def test_rules_are_removed_before_their_chains() -> None:
    after = replace(
        EMPTY,
        rules=(
            "filter :FORWARD DROP",
            "nat :DOCKER -",
            "nat -A OUTPUT ! -d 127.0.0.0/8 -j DOCKER",
            "nat -A POSTROUTING -s 198.18.208.0/24 ! -o br-0123456789ab -j MASQUERADE",
        ),
    )

    assert undo_rules(EMPTY, after) == [
        ["-t", "nat", "-D", "OUTPUT", "!", "-d", "127.0.0.0/8", "-j", "DOCKER"],
        [
            "-t",
            "nat",
            "-D",
            "POSTROUTING",
            "-s",
            "198.18.208.0/24",
            "!",
            "-o",
            "br-0123456789ab",
            "-j",
            "MASQUERADE",
        ],
        ["-t", "filter", "-P", "FORWARD", "ACCEPT"],
        ["-t", "nat", "-X", "DOCKER"],
    ]


def test_foreign_and_earlier_rules_are_kept() -> None:
    before = replace(EMPTY, rules=("nat :DOCKER -",))
    after = replace(before, rules=(*before.rules, "filter -A INPUT -p tcp --dport 22 -j ACCEPT"))

    assert undo_rules(before, after) == []


def test_a_record_is_saved_and_loaded(tmp_path: Path) -> None:
    EMPTY.save(tmp_path / "record.json")

    assert Record.load(tmp_path / "record.json") == EMPTY


def test_mount_points_are_read_as_they_are_called() -> None:
    mountinfo = (
        "22 1 0:20 / /proc rw,nosuid shared:12 - proc proc rw\n"
        "40 1 0:50 / /root/my\\040cache/engine/overlay2 rw - overlay overlay rw\n"
    )

    assert mount_points(mountinfo, Path("/")) == ["/proc", "/root/my cache/engine/overlay2"]


def test_only_mounts_in_our_folders_are_ours() -> None:
    mountinfo = (
        "40 1 0:50 / /cache/engine/overlay2/1/merged rw - overlay overlay rw\n"
        "41 1 0:51 / /cache/engine-2/overlay2/1/merged rw - overlay overlay rw\n"
        "42 1 0:52 / /var/lib/docker/overlay2/1/merged rw - overlay overlay rw\n"
        "43 1 0:53 / /run/docker/netns/0123456789ab rw - nsfs nsfs rw\n"
    )

    assert mount_points(mountinfo, Path("/cache/engine"), Path("/run/ours")) == [
        "/cache/engine/overlay2/1/merged"
    ]


def test_links_are_ours_by_an_address_that_we_give_or_as_a_part_of_such_a_bridge() -> None:
    def link(name: str, *addresses: str, bridge: str | None = None) -> dict[str, object]:
        told = [{"family": "inet", "local": address} for address in addresses]
        return {"ifname": name, "addr_info": told} | ({"master": bridge} if bridge else {})

    links = [
        link("lo", "127.0.0.1"),
        link("docker0", "198.18.200.1"),
        link(OURS, "fe80::1", "198.18.208.1"),
        link(THEIRS, "172.18.0.1"),
        link("tun0", "198.18.0.1"),
        link("veth0123456", bridge=OURS),
        link("veth6543210", bridge=THEIRS),
        {},
    ]

    assert own_links(json.dumps(links)) == ["br-0123456789ab", "docker0", "veth0123456"]


def test_what_another_engine_made_after_ours_began_stays() -> None:
    links = ("eth0", "lo", OURS, THEIRS, "veth0123456", "veth6543210")
    after = replace(
        EMPTY,
        links=links,
        own_links=(OURS, "veth0123456"),
        rules=(*EMPTY.rules, *OUR_RULES, *THEIR_RULES, "filter :DOCKER -"),
    )

    assert [arguments[3:] for arguments in undo_rules(EMPTY, after)] == [
        ["POSTROUTING", "-s", "198.18.208.0/24", "!", "-o", OURS, "-j", "MASQUERADE"],
        ["FORWARD", "-o", OURS, "-j", "DOCKER"],
    ], "nor the chain that theirs need"
    assert compare(EMPTY, after) == [
        f"links: {OURS}",
        "links: veth0123456",
        *(f"rules: {rule}" for rule in OUR_RULES),
    ]


def test_what_engines_share_stays_while_another_one_runs() -> None:
    after = replace(
        EMPTY,
        links=("docker0", "lo", OURS),
        own_links=("docker0", OURS),
        rules=(*SHARED_RULES, *OUR_RULES),
        cgroups=("/sys/fs/cgroup/docker",),
        paths=("/etc/docker",),
        forwarding="1",
        others=("9 dockerd",),
    )

    assert len(undo_rules(EMPTY, after)) == len(OUR_RULES)
    assert compare(EMPTY, after) == [f"links: {OURS}", *(f"rules: {rule}" for rule in OUR_RULES)]
    assert len(compare(EMPTY, replace(after, others=()))) == len(SHARED_RULES) + len(OUR_RULES) + 5


def test_addresses_tell_nothing_while_an_engine_of_another_cache_gives_them_too() -> None:
    after = replace(
        EMPTY,
        links=("docker0", OURS),
        own_links=("docker0", OURS),
        rules=OUR_RULES,
        mounts=("/cache/engine/overlay2/1/merged",),
        others=("9 dockerd --default-address-pool base=198.18.208.0/20,size=24",),
    )

    assert undo_rules(EMPTY, after) == []
    assert compare(EMPTY, after) == ["mounts: /cache/engine/overlay2/1/merged"]


def test_cleaning_up_touches_nothing_of_another_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared, forwarding = tmp_path / "docker", tmp_path / "ip_forward"
    shared.mkdir()
    (shared / "key.json").touch()
    forwarding.write_text("1")
    after = replace(
        EMPTY,
        links=("docker0", "lo", OURS, THEIRS),
        own_links=("docker0", OURS),
        rules=(*SHARED_RULES, *THEIR_RULES),
        paths=(str(shared),),
        forwarding="1",
        sysctls=("kernel/panic=10",),
        others=("9 dockerd",),
    )
    done: list[str] = []
    monkeypatch.setattr(Toolbox, "tool", lambda _, name: Path(name))
    monkeypatch.setattr(leftovers, "_SYS", tmp_path)
    monkeypatch.setattr(leftovers, "_FORWARD", forwarding)
    monkeypatch.setattr(leftovers, "record", lambda *_: after)
    monkeypatch.setattr(leftovers, "run", lambda command, **_: done.append(command[-1]))

    leftovers.clean_up(replace(EMPTY, sysctls=("kernel/panic=0",)), Toolbox(tmp_path))

    assert done == [OURS]
    assert (shared / "key.json").exists()
    assert forwarding.read_text() == "1"
    assert not (tmp_path / "kernel").exists()


def test_a_rule_that_outlives_its_bridge_is_reported() -> None:
    assert len(compare(EMPTY, replace(EMPTY, rules=OUR_RULES))) == len(OUR_RULES)


def test_another_engine_is_known_by_its_process(tmp_path: Path) -> None:
    with subprocess.Popen(["dockerd", "60"], executable="/bin/sleep") as theirs:
        try:
            eventually(lambda: f"{theirs.pid} dockerd 60" in other_engines([]), "it is found", 5)
            assert f"{theirs.pid} dockerd 60" in other_engines([str(tmp_path)])
            assert f"{theirs.pid} dockerd 60" not in other_engines(["60"]), "as it is ours"
        finally:
            theirs.kill()


def test_what_a_kubelet_set_is_set_back_but_not_counted_as_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = replace(EMPTY, sysctls=("kernel/panic=0", "vm/overcommit_memory=1"))
    after = replace(EMPTY, sysctls=("kernel/panic=10", "vm/overcommit_memory=1"))
    (tmp_path / "kernel").mkdir()
    monkeypatch.setattr(leftovers, "_SYS", tmp_path)
    monkeypatch.setattr(leftovers, "record", lambda *_: after)

    assert leftovers.clean_up(before, Toolbox(tmp_path)) == []
    assert (tmp_path / "kernel/panic").read_text() == "0"
    assert not (tmp_path / "vm").exists()


def test_a_record_of_an_earlier_version_is_loaded(tmp_path: Path) -> None:
    fields = {name: value for name, value in asdict(EMPTY).items() if name != "sysctls"}
    (tmp_path / "record.json").write_text(json.dumps(fields))

    assert Record.load(tmp_path / "record.json") == EMPTY


def test_a_record_that_cannot_be_written_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(path: Path, text: str) -> None:
        with path.open("w") as file:
            file.write(text[: len(text) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_half)

    with pytest.raises(OSError, match="No space left"):
        EMPTY.save(tmp_path / "before.json")

    assert not (tmp_path / "before.json").exists()
