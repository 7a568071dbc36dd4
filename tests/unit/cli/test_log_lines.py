"""Which logs `tftj logs` reads, and the order of their lines."""

from __future__ import annotations

import pytest
from tftraining.view.log_lines import Line, Source, merged, parse, sources
from tftraining_operator.api.keys import Role

from tests.unit.builders import a_job, a_pod

JOB = a_job().with_workers(2).build()
CHIEF = a_pod(JOB, Role.CHIEF).running()
FIRST = a_pod(JOB, Role.WORKER).running()
SECOND = a_pod(JOB, Role.WORKER, 1).restarted_in_place(1)
WAITING = a_pod(JOB, Role.PS).waiting("ContainerCreating")
PODS = [pod.raw for pod in (SECOND, WAITING, FIRST, CHIEF)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param({}, ["chief-0", "worker-0", "worker-1"], id="all that have begun"),
        pytest.param({"role": Role.WORKER}, ["worker-0", "worker-1"], id="one role"),
        pytest.param({"index": 0}, ["chief-0", "worker-0"], id="one index"),
        pytest.param({"previous": True}, ["worker-1"], id="before the last restart"),
        pytest.param({"container": "sidecar"}, [], id="a container that no pod has"),
    ],
)
def test_logs_are_chosen_by_role_index_and_container(
    selection: dict[str, object], expected: list[str]
) -> None:
    assert [source.label for source in sources(PODS, **selection)] == expected  # type: ignore[arg-type]


def test_a_restart_in_place_is_another_log() -> None:
    (before,) = sources([FIRST.raw])
    (after,) = sources([a_pod(JOB, Role.WORKER).restarted_in_place(1).raw])
    assert (before.pod, before.uid) == (after.pod, after.uid)
    assert before != after


def test_a_pod_without_our_labels_has_no_logs_to_show() -> None:
    assert sources([{"metadata": {"name": "x"}}]) == []


def a_source(role: Role) -> Source:
    return Source(f"mnist-{role}-0", "uid", "tensorflow", 0, role, 0)


def test_lines_are_ordered_by_time_though_the_api_drops_zeros() -> None:
    chief, ps = a_source(Role.CHIEF), a_source(Role.PS)
    lines = [
        parse(chief, "2026-01-02T03:04:05.2Z second"),
        parse(chief, "  a line without a time"),
        parse(ps, "2026-01-02T03:04:05.12Z first"),
        parse(ps, "2026-01-02T03:04:05.200000001Z third"),
    ]
    texts = [line.text for line in merged(lines)]
    assert texts == ["first", "second", "  a line without a time", "third"]


def test_an_empty_line_stays_one() -> None:
    source = a_source(Role.CHIEF)
    line = parse(source, "2026-01-02T03:04:05.2Z ")
    assert line == Line(source, "2026-01-02T03:04:05.2Z", "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-02T05:04:05.120000000+02:00", "2026-01-02T03:04:05.120000000Z"),
        ("2026-01-01T21:34:05.000000001-05:30", "2026-01-02T03:04:05.000000001Z"),
        ("2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05Z"),
    ],
)
def test_the_time_of_a_node_in_another_zone_is_in_utc(given: str, expected: str) -> None:
    source = a_source(Role.CHIEF)
    assert parse(source, f"{given} text") == Line(source, expected, "text")


def test_what_only_begins_like_a_time_is_text() -> None:
    source = a_source(Role.CHIEF)
    for text in ("2026-Texel 1", "2026-13-02T03:04:05+02:00 x", "2026T+02:00"):
        assert parse(source, text) == Line(source, "", text)


def test_lines_of_nodes_in_several_zones_are_ordered_by_time() -> None:
    chief, ps = a_source(Role.CHIEF), a_source(Role.PS)
    lines = [
        parse(chief, "2026-01-02T05:04:05.200000000+02:00 second"),
        parse(ps, "2026-01-02T03:04:05.100000000Z first"),
        parse(ps, "2026-01-02T03:04:05.300000000Z third"),
    ]
    assert [line.text for line in merged(lines)] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("step 1\r", "step 1", id="an end of a line as on Windows"),
        pytest.param("1/9 [>..]\b\b\b\r2/9 [=>.]\r9/9 [===]", "9/9 [===]", id="a progress bar"),
        pytest.param("  0%|  |\r 50%|# |\r \r", " 50%|# |", id="one that was wiped out"),
        pytest.param("\r\r", "", id="nothing"),
        pytest.param("  two\x0cpages ", "  two pages ", id="other ends of lines"),
    ],
)
def test_a_line_is_one_line_as_a_terminal_shows_it(written: str, shown: str) -> None:
    """Each state of a bar was a line, without a pod's name: thousands for an epoch."""
    line = parse(a_source(Role.CHIEF), f"2026-01-02T03:04:05Z {written}")
    assert line.shown == shown
    assert str(line) == f"chief-0 {shown}"
