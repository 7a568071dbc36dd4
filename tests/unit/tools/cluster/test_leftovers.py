"""Leftovers of an engine are reported and removed; everything else is left as it is."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tools.cluster import leftovers
from tools.cluster.debian import Toolbox
from tools.cluster.leftovers import Record, compare, mount_points, rules_of, undo_rules

EMPTY = Record(
    links=("eth0", "lo"),
    rules=("filter :FORWARD ACCEPT",),
    mounts=(),
    cgroups=(),
    paths=(),
    processes=(),
    forwarding="0",
)


def test_rules_are_listed_with_their_table_and_without_counters() -> None:
    saved = "# comment\n*nat\n:DOCKER - [12:34]\n-A DOCKER -i docker0 -j RETURN\nCOMMIT\n"

    assert rules_of(saved) == ["nat :DOCKER -", "nat -A DOCKER -i docker0 -j RETURN"]


def test_equal_records_have_no_difference() -> None:
    assert compare(EMPTY, EMPTY) == []


def test_only_new_entries_are_reported() -> None:
    after = replace(EMPTY, links=("docker0", "lo"), processes=("7 dockerd",), forwarding="1")

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

    assert mount_points(mountinfo) == ["/proc", "/root/my cache/engine/overlay2"]


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
