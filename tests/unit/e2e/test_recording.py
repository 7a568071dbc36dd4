"""What a recording tells: where chiefs resumed, how long what was lost took to come back."""

from typing import Any

import pytest

from e2e.api import Api
from e2e.chaos.recovery import Recovery, quantile, recovery, standstill
from e2e.recording import Recording, Sample, first_steps_after


def sample(
    at: float, step: int, *, chief: str = "a", saved: int | None = None, phase: str = "training"
) -> Sample:
    return Sample(at, chief, phase, step, saved)


def pod(uid: str, *, state: str = "running", leaving: bool = False, ready: bool = False) -> Any:
    labels = {"job": "mnist", "role": "worker", "index": "0"}
    metadata: dict[str, Any] = {
        "name": "mnist-worker-0",
        "uid": uid,
        "labels": {f"tftraining.dev/{name}": value for name, value in labels.items()},
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    return {
        "metadata": metadata,
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "tensorflow", "state": {state: {}}, "restartCount": 0}],
        },
    }


@pytest.fixture
def record() -> Recording:
    return Recording(Api(0), "space")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the time at which changes arrive."""
    now = [0.0]
    monkeypatch.setattr("e2e.recording.time.monotonic", lambda: now[0])
    return lambda at: now.__setitem__(0, at)


def test_each_restart_is_told_once_in_order(record: Recording) -> None:
    def see(time: str, *, counted: bool) -> None:
        restart = {"time": time, "counted": counted, "reason": "ExitCode", "message": "ended"}
        record.see_job(
            "MODIFIED", {"metadata": {"name": "mnist"}, "status": {"lastRestart": restart}}
        )

    record.see_job("ADDED", {"metadata": {"name": "mnist"}})
    see("03:04:05", counted=True)
    see("03:04:05", counted=True)
    see("03:04:09", counted=False)

    assert record.restarts("mnist") == [
        "03:04:05 counted, ExitCode: ended",
        "03:04:09 not counted, ExitCode: ended",
    ]
    assert record.restarts("another") == []


def test_a_resume_tells_what_was_lost(record: Recording) -> None:
    record.samples["mnist"] = [
        sample(1, 10, saved=8),
        sample(2, 19, saved=16),
        sample(3, 0, chief="b", phase="waiting"),
        sample(4, 16, chief="b", saved=16),
        sample(5, 30, chief="b", saved=24),
    ]
    (resume,) = record.resumes("mnist")

    assert (resume.last_step, resume.last_checkpoint, resume.start) == (19, 16, 16)
    assert resume.lost == 3
    assert resume.interval == 8


def test_a_chief_that_began_anew_has_lost_all(record: Recording) -> None:
    record.samples["mnist"] = [sample(1, 10, saved=8), sample(2, 1, chief="b", saved=None)]
    (resume,) = record.resumes("mnist")

    assert (resume.start, resume.last_checkpoint, resume.lost) == (0, 8, 10)


def test_two_pods_at_once_are_a_duplicate(record: Recording) -> None:
    record.see_pod("ADDED", pod("a"))
    record.see_pod("MODIFIED", pod("a", leaving=True))
    record.see_pod("ADDED", pod("b"))
    record.see_pod("DELETED", pod("a"))
    record.see_pod("MODIFIED", pod("b"))

    assert len(record.duplicates) == 1


def test_one_after_the_other_is_none(record: Recording) -> None:
    record.see_pod("ADDED", pod("a"))
    record.see_pod("DELETED", pod("a"))
    record.see_pod("ADDED", pod("b"))

    assert record.duplicates == []


def test_steps_of_another_chief_are_no_steps() -> None:
    samples = [sample(1, 5), sample(2, 9, chief="b"), sample(3, 9, chief="b")]
    assert first_steps_after(samples, 0) is None
    assert first_steps_after([*samples, sample(4, 10, chief="b")], 0) == 4


def see(record: Recording, clock: Any, *changes: tuple[float, str, Any]) -> None:
    for at, kind, thing in changes:
        clock(at)
        record.see_pod(kind, thing)


def test_the_shares_of_a_recovery(record: Recording, clock: Any) -> None:
    see(
        record,
        clock,
        (0, "ADDED", pod("a", ready=True)),
        (11, "MODIFIED", pod("a", leaving=True)),
        (12, "DELETED", pod("a", leaving=True)),
        (12.5, "ADDED", pod("b", state="waiting")),
        (14, "MODIFIED", pod("b")),
        (18, "MODIFIED", pod("b", ready=True)),
    )

    found = recovery("mnist-worker-0", record.pods, [], steps_stop=False, at=10, end=20)
    assert found == Recovery(8, operator=0.5, removal=0, pod_start=1.5, tensorflow=4, standstill=0)


def test_what_the_kubelet_takes_is_not_the_operators(record: Recording, clock: Any) -> None:
    see(
        record,
        clock,
        (11, "MODIFIED", pod("a", state="terminated")),
        (11.5, "MODIFIED", pod("a", state="terminated", leaving=True)),
        (13, "DELETED", pod("a", state="terminated", leaving=True)),
        (13.25, "ADDED", pod("b", state="waiting")),
    )

    found = recovery("mnist-worker-0", record.pods, [], steps_stop=True, at=10, end=20)
    assert (found.operator, found.removal) == (0.75, 1.5)


def test_a_process_is_the_kubelets_to_start_until_it_says_otherwise(
    record: Recording, clock: Any
) -> None:
    in_restart_backoff = pod("a", state="waiting")
    status = in_restart_backoff["status"]["containerStatuses"][0]
    status["state"]["waiting"] = {"reason": "CrashLoopBackOff"}
    status["lastState"] = {"terminated": {"exitCode": 137}}
    see(
        record,
        clock,
        (11, "MODIFIED", pod("a", state="terminated")),
        (12, "MODIFIED", in_restart_backoff),
        (12.25, "MODIFIED", pod("a", state="terminated", leaving=True)),
        (13, "DELETED", pod("a", state="terminated", leaving=True)),
        (13.25, "ADDED", pod("b", state="waiting")),
    )

    found = recovery("mnist-worker-0", record.pods, [], steps_stop=True, at=10, end=20)
    assert (found.operator, found.removal) == (0.5, 0.75)


def test_a_process_that_comes_back_in_its_pod_needs_no_operator(
    record: Recording, clock: Any
) -> None:
    see(
        record,
        clock,
        (11, "MODIFIED", pod("a", state="terminated")),
        (12, "MODIFIED", pod("a")),
        (15, "MODIFIED", pod("a", ready=True)),
    )

    found = recovery("mnist-worker-0", record.pods, [], steps_stop=False, at=10, end=20)
    assert found == Recovery(5, operator=None, pod_start=1, tensorflow=3, standstill=0)


def test_a_standstill_is_counted_from_the_fault() -> None:
    samples = [sample(1, 1), sample(2, 2), sample(3, 2), sample(8, 3), sample(9, 4)]
    assert standstill(samples, at=4, end=9) == 4


def test_quantiles() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([3, 1, 2], 0.95) == 3
