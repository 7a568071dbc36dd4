"""Which of the pods that carry the job's name are its own, and what they are like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.observed import observe, parse_pod, slots

from tests.unit.builders import MUCH_LATER, NOW, PodBuilder, a_job, a_pod, at, seen, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.core.observed import Pod

JOB = a_job().with_workers(2).build()
EARLIER = a_job().named("mnist", uid="uid-0").build()


def parsed(pod: PodBuilder) -> Pod:
    found = parse_pod(JOB, pod.raw, MUCH_LATER)
    assert found is not None
    return found


def test_own_pods_are_found_by_role_and_index() -> None:
    observed = seen(
        JOB, a_pod(JOB, Role.WORKER, 1), a_pod(JOB, Role.CHIEF), a_pod(JOB, Role.WORKER)
    )
    assert [p.name for p in observed.of(Role.WORKER)] == ["mnist-worker-0", "mnist-worker-1"]
    chief = observed.get(Role.CHIEF)
    assert chief is not None
    assert observed.get(Role.PS) is None


def test_a_pod_of_an_earlier_job_is_not_ours_but_holds_its_name() -> None:
    observed = seen(JOB, a_pod(EARLIER, Role.CHIEF))
    assert observed.pods == {}
    assert observed.occupied == {"mnist-chief-0"}


def test_a_service_of_an_earlier_job_is_not_ours_but_holds_its_name() -> None:
    observed = observe(JOB, [], [desired.service(EARLIER)], NOW)
    assert (observed.has_service, observed.service_occupied) == (False, True)
    observed = observe(JOB, [], [desired.service(JOB)], NOW)
    assert (observed.has_service, observed.service_occupied) == (True, False)


def _without_owner(pod: PodBuilder) -> None:
    del pod.raw["metadata"]["ownerReferences"]


def _owned_without_control(pod: PodBuilder) -> None:
    pod.raw["metadata"]["ownerReferences"][0]["controller"] = False


@pytest.mark.parametrize("change", [_without_owner, _owned_without_control])
def test_labels_alone_make_no_pod_ours(change: Callable[[PodBuilder], None]) -> None:
    pod = a_pod(JOB, Role.CHIEF)
    change(pod)
    assert seen(JOB, pod).pods == {}


LABELS = (keys.LABEL_ROLE, keys.LABEL_INDEX, keys.LABEL_ATTEMPT)


@pytest.mark.parametrize("label", LABELS)
def test_an_own_pod_that_lost_a_label_is_known_by_its_name_and_variables(label: str) -> None:
    pod = a_pod(JOB, Role.CHIEF, attempt=3)
    del pod.raw["metadata"]["labels"][label]
    found = parsed(pod)
    assert (found.role, found.index, found.attempt) == (Role.CHIEF, 0, 3)


def test_labels_and_annotations_cannot_change_what_a_pod_is() -> None:
    pod = a_pod(JOB, Role.CHIEF, attempt=3)
    pod.raw["metadata"]["labels"] |= dict(zip(LABELS, ("worker", "7", "999"), strict=True))
    pod.raw["metadata"]["annotations"][keys.ANNOTATION_WORKERS] = "17"
    found = parsed(pod)
    assert (found.role, found.index, found.attempt, found.workers) == (Role.CHIEF, 0, 3, "2")


def _without_variables(pod: PodBuilder, *names: str) -> None:
    container = pod.raw["spec"]["containers"][0]
    container["env"] = [each for each in container["env"] if each["name"] not in names]


def test_what_the_variables_of_an_older_operator_do_not_say_is_read_from_the_metadata() -> None:
    pod = a_pod(JOB, Role.CHIEF, attempt=3)
    _without_variables(pod, "TFTRAINING_ATTEMPT", "TFTRAINING_CLUSTER_WORKERS")
    found = parsed(pod)
    assert (found.attempt, found.workers) == (3, "2")


def test_the_metadata_say_what_they_say_in_older_versions() -> None:
    gap = a_job().with_workers(3).with_status(excluded_workers=[1]).build()
    metadata = a_pod(gap, Role.CHIEF, attempt=4).raw["metadata"]
    assert metadata["labels"][keys.LABEL_ATTEMPT] == "4"
    assert metadata["annotations"][keys.ANNOTATION_WORKERS] == "0,2"
    assert parsed(a_pod(gap, Role.CHIEF)).workers == "0,2"


@pytest.mark.parametrize(
    "name", ["mnist-master-0", "mnist-chief-00", "mnist-chief", "mnist-x-chief-0", "chief-0", "a"]
)
def test_an_own_pod_that_is_no_task_of_the_job_holds_its_name(name: str) -> None:
    pod = a_pod(JOB, Role.CHIEF)
    pod.raw["metadata"]["name"] = name
    observed = seen(JOB, pod)
    assert (observed.pods, observed.occupied) == ({}, {name})


def test_a_pod_that_does_not_say_its_attempt_holds_its_name() -> None:
    pod = a_pod(JOB, Role.CHIEF)
    _without_variables(pod, "TFTRAINING_ATTEMPT")
    del pod.raw["metadata"]["labels"][keys.LABEL_ATTEMPT]
    assert seen(JOB, pod).occupied == {"mnist-chief-0"}


def test_a_pod_without_status_is_pending() -> None:
    pod = a_pod(JOB, Role.CHIEF)
    del pod.raw["status"]
    found = parsed(pod)
    assert (found.phase, found.active, found.ready) == ("Pending", True, False)


@pytest.mark.parametrize(
    ("pod", "active", "succeeded", "failed"),
    [
        pytest.param(a_pod(JOB, Role.CHIEF).running(), True, False, False, id="running"),
        pytest.param(a_pod(JOB, Role.CHIEF).exited(0), False, True, False, id="ended well"),
        pytest.param(a_pod(JOB, Role.CHIEF).exited(1), False, False, True, id="failed"),
        pytest.param(
            a_pod(JOB, Role.PS).restarted_in_place(1), True, False, False, id="back in place"
        ),
    ],
)
def test_phases(pod: PodBuilder, *, active: bool, succeeded: bool, failed: bool) -> None:
    found = parsed(pod)
    assert (found.active, found.succeeded, found.failed) == (active, succeeded, failed)


@pytest.mark.parametrize(
    ("code", "succeeded", "failed"),
    [pytest.param(0, True, False, id="well"), pytest.param(1, False, True, id="badly")],
)
def test_a_sidecar_that_runs_on_does_not_hide_the_end(
    code: int, *, succeeded: bool, failed: bool
) -> None:
    found = parsed(a_pod(JOB, Role.CHIEF).exited(code).with_sidecar())
    assert (found.active, found.succeeded, found.failed) == (False, succeeded, failed)
    assert found.only_sidecars_run


def test_a_sidecar_that_fails_is_nobodys_end() -> None:
    chief = a_pod(JOB, Role.CHIEF).running().with_sidecar("terminated")
    assert parsed(chief).active
    ended = a_pod(JOB, Role.CHIEF).exited(0).with_sidecar("terminated")
    ended.status["phase"] = "Failed"
    found = parsed(ended)
    assert (found.succeeded, found.failure, found.only_sidecars_run) == (True, None, False)


def test_a_pod_that_its_node_ended_has_failed_whatever_its_container_says() -> None:
    pod = a_pod(JOB, Role.CHIEF).exited(0).evicted()
    assert parsed(pod).failed


@pytest.mark.parametrize(
    ("ran", "in_restart_backoff"),
    [
        pytest.param(40, True, id="it had run well"),
        pytest.param(5, False, id="it crashes as it starts"),
    ],
)
def test_the_kubelets_delay_is_for_what_crashes_as_it_starts(
    ran: float, *, in_restart_backoff: bool
) -> None:
    assert (
        parsed(a_pod(JOB, Role.PS).in_restart_backoff(ran=ran)).in_restart_backoff
        is in_restart_backoff
    )


def test_since_when_and_until_when() -> None:
    found = parsed(a_pod(JOB, Role.PS).running(seconds=7).deleting().disrupted(9))
    assert (found.ready_since, found.grace_ends) == (stamp(7), stamp(30))
    assert found.disruption is not None
    assert (found.disruption.reason, found.disruption.time) == ("EvictionByEvictionAPI", stamp(9))
    assert parsed(a_pod(JOB, Role.PS).running(ready=False, seconds=7)).ready_since is None


def test_what_has_no_owner_is_in_nobodys_way() -> None:
    pod = a_pod(JOB, Role.CHIEF)
    _without_owner(pod)
    assert seen(JOB, pod).occupied == frozenset()


def test_what_a_pod_tells_of_itself() -> None:
    found = parsed(a_pod(JOB, Role.CHIEF, attempt=3).exited(1, "boom", seconds=9).deleting())
    assert (found.attempt, found.workers) == (3, "2")
    assert (found.node, found.deleting, found.termination_message) == ("node-1", True, "boom")
    assert found.finished_at == "2026-01-02T03:04:14Z"


@pytest.mark.parametrize(
    ("role", "code", "counts"),
    [
        pytest.param(Role.CHIEF, 0, True, id="a chief has done its work"),
        pytest.param(Role.CHIEF, 1, False, id="a chief that failed has not"),
        pytest.param(Role.PS, 0, False, id="a server that ended is about to come back"),
    ],
)
def test_a_container_that_ended_counts_before_its_phase_follows(
    role: Role, code: int, *, counts: bool
) -> None:
    pod = a_pod(JOB, role).exited(code)
    pod.status["phase"] = "Running"
    assert parsed(pod).counts_as_ready is counts


NAMED = a_job().with_container(ports=[{"name": "web", "containerPort": 8080}]).build()


def _with_ip(address: str) -> PodBuilder:
    pod = a_pod(JOB, Role.CHIEF).running()
    pod.status["podIP"] = address
    return pod


@pytest.mark.parametrize(
    ("pod", "url"),
    [
        pytest.param(
            _with_ip("198.18.0.7"), "http://198.18.0.7:8080/progress", id="by its address"
        ),
        pytest.param(_with_ip("fd00::1"), "http://[fd00::1]:8080/progress", id="IPv6"),
        pytest.param(
            a_pod(NAMED, Role.CHIEF).running(),
            "http://198.18.0.9:8080/progress",
            id="though the user has named the port",
        ),
        pytest.param(a_pod(JOB, Role.WORKER).running(), None, id="a worker says nothing"),
        pytest.param(a_pod(JOB, Role.CHIEF), None, id="none before it runs"),
        pytest.param(a_pod(JOB, Role.CHIEF).running().deleting(), None, id="none when it goes"),
        pytest.param(a_pod(JOB, Role.CHIEF).exited(0), None, id="none after its end"),
    ],
)
def test_where_progress_is_served(pod: PodBuilder, url: str | None) -> None:
    assert parsed(pod).progress_url == url


def test_slots_are_in_the_order_of_creation() -> None:
    assert [name for _, _, name in slots(a_job().with_workers(2).with_evaluator().build())] == [
        "mnist-ps-0",
        "mnist-worker-0",
        "mnist-worker-1",
        "mnist-chief-0",
        "mnist-evaluator-0",
    ]


def test_a_sidecar_that_ended_does_not_make_the_training_container_unready() -> None:
    pod = a_pod(JOB, Role.CHIEF).running(seconds=7).with_sidecar("terminated")
    pod.condition("Ready", value=False, reason="ContainersNotReady", lastTransitionTime=stamp(9))
    found = parsed(pod)
    assert (found.ready, found.ready_since, found.counts_as_ready) == (True, stamp(7), True)


@pytest.mark.parametrize("reason", ["", "NodeNotReady", "ReadinessGatesNotReady"])
def test_a_pod_whose_node_is_lost_is_not_ready_though_its_container_says_so(reason: str) -> None:
    pod = a_pod(JOB, Role.CHIEF).running()
    pod.condition("Ready", value=False, reason=reason, lastTransitionTime=stamp(9))
    found = parsed(pod)
    assert (found.ready, found.ready_since) == (False, None)


def test_a_native_sidecar_that_runs_on_is_a_process_of_the_pod() -> None:
    pod = a_pod(JOB, Role.CHIEF).exited(0)
    pod.status["initContainerStatuses"] = [{"name": "mesh", "state": {"running": {}}}]
    assert parsed(pod).only_sidecars_run


def _times(pod: PodBuilder, *, now: float) -> list[str | None]:
    found = parse_pod(JOB, pod.made(0).raw, at(now))
    assert found is not None
    causes = [found.failure, found.disruption, found.startup_problem]
    times = [found.finished_at, found.ready_since, *(each.time for each in causes if each)]
    return [time for time in times if time is not None]


@pytest.mark.parametrize(
    ("pod", "count"),
    [
        pytest.param(lambda at: a_pod(JOB, Role.CHIEF).exited(1, seconds=at), 2, id="an end"),
        pytest.param(lambda at: a_pod(JOB, Role.PS).running(seconds=at), 1, id="readiness"),
        pytest.param(lambda at: a_pod(JOB, Role.PS).disrupted(at), 1, id="a disruption"),
        pytest.param(
            lambda at: a_pod(JOB, Role.PS).waiting(
                "CrashLoopBackOff",
                lastState={"terminated": {"exitCode": 1, "finishedAt": stamp(at)}},
            ),
            2,
            id="a crash loop",
        ),
    ],
)
def test_times_of_nodes_are_bounded(pod: Callable[[float], PodBuilder], count: int) -> None:
    assert _times(pod(5), now=60) == [stamp(5)] * count
    assert _times(pod(3600), now=60) == [stamp(60)] * count
    assert _times(pod(-600), now=60) == [stamp(0)] * count


def test_a_pod_that_the_kubelet_refused_is_disrupted_since_it_was_made() -> None:
    pod = a_pod(JOB, Role.CHIEF).made(5)
    pod.status.update(phase="Failed", reason="OutOfcpu", message="not enough cpu")
    found = parsed(pod)
    assert found.disruption is not None
    assert (found.failed, found.disruption.reason, found.disruption.time) == (
        True,
        "OutOfcpu",
        stamp(5),
    )


def test_what_is_slow_to_start_is_looked_at_again() -> None:
    pod = a_pod(JOB, Role.CHIEF)
    pod.raw["spec"]["schedulerName"] = "own"
    observed = seen(JOB, pod, now=at(1)).get(Role.CHIEF)
    assert observed is not None
    assert (observed.startup_problem, observed.startup_recheck_at) == (None, at(10))
