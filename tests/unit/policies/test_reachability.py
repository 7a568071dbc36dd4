"""A server that is ready for its node, and silent for its chief, is replaced."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.status import PodReplacement
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.policies.reachability import Reachability, reachability
from tftraining_operator.core.progress import PeerCause, Report, UnreachablePeer

from tests.unit.builders import JobBuilder, PodBuilder, a_job, a_pod, at, seen, stamp

READY_AT = 100.0
TOLD_AT = 200.0


def told(
    seconds: float,
    *tasks: str,
    at_second: float | None = TOLD_AT,
    since_step: float | None = None,
    cause: str = PeerCause.TIMED_OUT,
    address: str | None = None,
) -> Report:
    peers = [
        UnreachablePeer(
            task=task, seconds=seconds, cause=cause, reason="no answer", address=address
        )
        for task in tasks or ("worker-1",)
    ]
    received = at(at_second) if at_second is not None else None
    return Report(step=5, unreachable=peers, received=received, seconds_since_step=since_step)


def judged(
    report: Report,
    *,
    now: float = TOLD_AT,
    job: JobBuilder | None = None,
    change: Any = lambda _: None,
) -> Reachability:
    built = (job or a_job().with_workers(2)).build()
    pods: list[PodBuilder] = [
        a_pod(built, role, i).running(seconds=READY_AT)
        for role in (Role.CHIEF, Role.WORKER, Role.PS)
        for i in range(built.desired(role))
    ]
    for pod in pods:
        if pod.raw["metadata"]["name"] == "mnist-worker-1":
            change(pod)
    facts = Facts(reports={Role.CHIEF: report})
    return reachability(built, seen(built, *pods), facts, at(now))


def silent(report: Report, *, now: float = TOLD_AT, **given: Any) -> dict[str, str]:
    """Who is replaced now."""
    found = judged(report, now=now, **given)
    return {r.pod.name: r.cause for r in found.replacements if r.due <= at(now)}


@pytest.mark.parametrize("task", ["worker-1", "ps-0"])
@pytest.mark.parametrize(
    ("since_step", "limit"),
    [
        pytest.param(None, 10, id="before the first step, nothing is lost with it"),
        pytest.param(30.0, 20, id="in training, as long as gRPC waits for an answer"),
    ],
)
def test_it_is_replaced_after(task: str, since_step: float | None, limit: float) -> None:
    assert silent(told(limit - 0.1, task, since_step=since_step)) == {}
    assert silent(told(limit, task, since_step=since_step)) == {
        f"mnist-{task}": f"the chief cannot reach it for {limit} s (no answer)"
    }


def test_not_for_what_happened_at_an_address_that_is_not_its_own() -> None:
    """As after an outage of the API server, when DNS still has the pod before this one."""
    assert silent(told(30, address="198.18.0.8")) == {}
    assert list(silent(told(30, address="198.18.0.9"))) == ["mnist-worker-1"]


def test_a_pod_of_two_families_is_asked_at_either_address() -> None:
    def also_ipv6(pod: PodBuilder) -> None:
        pod.status["podIPs"] = [{"ip": "198.18.0.9"}, {"ip": "fd00::9"}]

    assert list(silent(told(30, address="fd00::9"), change=also_ipv6)) == ["mnist-worker-1"]
    assert silent(told(30, address="fd00::8"), change=also_ipv6) == {}


def test_no_ps_on_which_steps_are_made() -> None:
    assert silent(told(30, "ps-0", since_step=19.9)) == {}
    assert silent(told(30, "worker-1", since_step=0))


def test_a_ps_that_a_script_waits_for_whenever_the_first_step_is_due() -> None:
    waits = told(10, "ps-0", since_step=0.0).model_copy(update={"waiting_for": ["ps-0"]})
    assert list(silent(waits)) == ["mnist-ps-0"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: pod.running(ready=False), id="its node knows already"),
        pytest.param(PodBuilder.deleting, id="it is on its way out"),
        pytest.param(lambda pod: pod.running(seconds=195), id="it has only just come"),
    ],
)
def test_not_if(change: Any) -> None:
    assert silent(told(30), change=change) == {}


def test_an_old_report_says_nothing_of_now() -> None:
    assert silent(told(30), now=TOLD_AT + 15)
    assert silent(told(30), now=TOLD_AT + 16) == {}
    assert silent(told(30, at_second=None)) == {}


def test_whom_the_job_does_not_have_is_nobody() -> None:
    assert silent(told(30, "worker-7")) == {}
    assert silent(told(30, "nonsense")) == {}


def test_a_gang_restarts_as_a_whole() -> None:
    assert silent(told(30), job=a_job().mirrored(workers=2)) == {}


@pytest.mark.parametrize("cause", [PeerCause.NOT_ASKED, PeerCause.NOT_RESOLVED])
def test_what_proves_nothing_replaces_nobody(cause: str) -> None:
    assert silent(told(500, cause=cause)) == {}


@pytest.mark.parametrize("cause", ["", "AWordOfANewerTrainer", *PeerCause][:4])
def test_a_trainer_of_another_version_is_believed(cause: str) -> None:
    proves = cause not in (PeerCause.NOT_ASKED, PeerCause.NOT_RESOLVED)
    assert bool(silent(told(30, cause=cause))) is proves


def test_a_chief_that_reaches_few_is_itself_the_suspect() -> None:
    found = judged(told(110, "worker-0", "worker-1"))
    assert found.replacements == ()
    assert found.suspicion == (
        "the chief cannot reach 2 of 3 servers; it may itself be cut off, so no server is replaced"
    )


def test_one_of_two_is_not_most() -> None:
    assert list(silent(told(30, "worker-0"), job=a_job())) == ["mnist-worker-0"]


def test_each_replacement_in_a_row_waits_longer() -> None:
    before = PodReplacement(pod="mnist-worker-1", uid="before", count=3, time=stamp(TOLD_AT - 5))
    job = a_job().with_workers(2).with_status(replacements=[before])
    found = judged(told(30), job=job, change=lambda pod: pod.made(TOLD_AT - 60))
    assert [r.due for r in found.replacements] == [at(TOLD_AT + 20)]
