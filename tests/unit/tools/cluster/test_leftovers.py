"""Leftovers: what is new is told, what is the engine's is undone, the rest is let be."""

from dataclasses import replace
from pathlib import Path

from tools.cluster.leftovers import Record, compare, rules_of, undo_rules

EMPTY = Record(
    links=("eth0", "lo"),
    rules=("filter :FORWARD ACCEPT",),
    mounts=(),
    cgroups=(),
    paths=(),
    processes=(),
    forwarding="0",
)


def test_rules_name_their_table_and_lose_their_counters() -> None:
    saved = "# comment\n*nat\n:DOCKER - [12:34]\n-A DOCKER -i docker0 -j RETURN\nCOMMIT\n"

    assert rules_of(saved) == ["nat :DOCKER -", "nat -A DOCKER -i docker0 -j RETURN"]


def test_two_pictures_of_the_same_differ_in_nothing() -> None:
    assert compare(EMPTY, EMPTY) == []


def test_what_is_new_is_told_and_what_went_away_is_not() -> None:
    after = replace(EMPTY, links=("docker0", "lo"), processes=("7 dockerd",), forwarding="1")

    assert compare(EMPTY, after) == [
        "links: docker0",
        "processes: 7 dockerd",
        "ip_forward: 1, was 0",
    ]


def test_an_idle_built_in_chain_is_no_leftover() -> None:
    assert compare(EMPTY, replace(EMPTY, rules=(*EMPTY.rules, "nat :INPUT ACCEPT"))) == []


def test_rules_go_before_the_chains_that_they_name() -> None:
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


def test_rules_of_others_and_of_before_stay() -> None:
    before = replace(EMPTY, rules=("nat :DOCKER -",))
    after = replace(before, rules=(*before.rules, "filter -A INPUT -p tcp --dport 22 -j ACCEPT"))

    assert undo_rules(before, after) == []


def test_a_picture_survives_being_saved(tmp_path: Path) -> None:
    EMPTY.save(tmp_path / "picture.json")

    assert Record.load(tmp_path / "picture.json") == EMPTY
