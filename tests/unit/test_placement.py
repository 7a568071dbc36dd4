"""What spec.scheduling adds to pods, beside what the user's templates say."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.api.status import GangStatus
from tftraining_operator.core import desired
from tftraining_operator.core.podtemplate import InvalidTemplateError

from tests.unit.builders import IMAGE, JobBuilder, Raw, a_job, stamp

POD_AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"
OF_THE_JOB = {"matchLabels": {"tftraining.dev/job-uid": "uid-1"}}


def with_template(job: JobBuilder, **spec: Any) -> JobBuilder:
    job.raw["spec"]["template"]["spec"] |= spec
    return job


def pod(job: JobBuilder, role: Role = Role.WORKER, gang: GangStatus | None = None) -> Raw:
    return desired.pod(job.build(), role, 0, 0, IMAGE, gang=gang)


def a_gang(scheduler: Gang, *, scheduled: bool = False) -> GangStatus:
    return GangStatus(
        scheduler=scheduler,
        group="the-group",
        attempt=0,
        members=3,
        waiting_since=stamp(),
        scheduled_time=stamp() if scheduled else None,
    )


def test_a_job_that_says_nothing_of_it_has_plain_pods() -> None:
    added = {"affinity", "topologySpreadConstraints", "priorityClassName", "schedulerName"}
    assert not added & pod(a_job())["spec"].keys()


def test_the_priority_class_of_all_pods() -> None:
    job = a_job().with_spec(scheduling={"priorityClassName": "high"}).with_evaluator()
    assert {pod(job, role)["spec"]["priorityClassName"] for role in Role} == {"high"}


def test_packing_prefers_nodes_close_to_the_jobs_other_pods() -> None:
    job = a_job().with_spec(scheduling={"topology": {"pack": "example.com/rack"}})
    affinity = pod(job)["spec"]["affinity"]
    term = {"topologyKey": "example.com/rack", "labelSelector": OF_THE_JOB}
    assert affinity == {"podAffinity": {POD_AFFINITY: [{"weight": 100, "podAffinityTerm": term}]}}


def test_spreading_prefers_equal_numbers() -> None:
    job = a_job().with_spec(scheduling={"topology": {"spread": "example.com/rack"}})
    assert pod(job)["spec"]["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": "example.com/rack",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": OF_THE_JOB,
        }
    ]


def test_the_evaluator_is_placed_anywhere() -> None:
    topology = {"topology": {"pack": "example.com/rack"}}
    job = a_job().with_spec(scheduling=topology).with_evaluator()
    assert "affinity" not in pod(job, Role.EVALUATOR)["spec"]


def test_the_users_own_preferences_stay() -> None:
    own = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
    given = {"nodeAffinity": {"x": "y"}, "podAffinity": {POD_AFFINITY: [own]}}
    job = with_template(a_job(), affinity=given)
    job.with_spec(scheduling={"topology": {"pack": "example.com/rack"}})
    affinity = pod(job)["spec"]["affinity"]
    assert affinity["nodeAffinity"] == {"x": "y"}
    assert len(affinity["podAffinity"][POD_AFFINITY]) == 2
    assert affinity["podAffinity"][POD_AFFINITY][0] == own
    assert len(pod(job)["spec"]["affinity"]["podAffinity"][POD_AFFINITY]) == 2, "not again"


@pytest.mark.parametrize(
    ("template", "scheduling", "field"),
    [
        pytest.param(
            {"priorityClassName": "low"},
            {"priorityClassName": "high"},
            "spec.priorityClassName",
            id="two priority classes",
        ),
        pytest.param(
            {"affinity": "zone"},
            {"topology": {"pack": "example.com/rack"}},
            "spec.affinity",
            id="an affinity that is none",
        ),
    ],
)
def test_a_template_that_contradicts_is_refused(template: Raw, scheduling: Raw, field: str) -> None:
    job = with_template(a_job().with_spec(scheduling=scheduling), **template)
    with pytest.raises(InvalidTemplateError, match=field):
        pod(job)


def test_a_template_with_a_group_of_its_own_is_refused() -> None:
    job = with_template(a_job(), schedulingGroup={"podGroupName": "mine"})
    with pytest.raises(InvalidTemplateError, match=r"spec\.schedulingGroup"):
        pod(job, gang=a_gang(Gang.IN_TREE))


def test_a_gang_under_two_schedulers_is_refused() -> None:
    job = a_job().with_spec(scheduling={"gang": "InTree"})
    job.with_role("ps", template={"spec": {"schedulerName": "elsewhere"}})
    with pytest.raises(InvalidTemplateError, match=r"default-scheduler, elsewhere.*needs one"):
        desired.samples(job.build(), IMAGE)


@pytest.mark.parametrize(
    ("scheduler", "where", "expected"),
    [
        (Gang.IN_TREE, ("spec", "schedulingGroup"), {"podGroupName": "the-group"}),
        (Gang.POD_GROUP, ("metadata", "labels", "scheduling.x-k8s.io/pod-group"), "the-group"),
        (Gang.POD_GROUP, ("spec", "schedulerName"), "scheduler-plugins-scheduler"),
        (Gang.VOLCANO, ("metadata", "annotations", "scheduling.k8s.io/group-name"), "the-group"),
        (Gang.VOLCANO, ("spec", "schedulerName"), "volcano"),
    ],
)
def test_a_pod_of_a_gang_carries(scheduler: Gang, where: tuple[str, ...], expected: Any) -> None:
    found: Any = pod(a_job(), gang=a_gang(scheduler))
    assert found["metadata"]["annotations"]["tftraining.dev/gang"] == "the-group"
    for part in where:
        found = found[part]
    assert found == expected


@pytest.mark.parametrize("scheduler", [Gang.IN_TREE, Gang.POD_GROUP])
def test_later_pods_carry_no_group(scheduler: Gang) -> None:
    assert "the-group" not in str(pod(a_job(), gang=a_gang(scheduler, scheduled=True)))


def test_later_pods_have_a_group_that_volcano_lets_in_at_once() -> None:
    job = a_job().with_spec(scheduling={"gang": "Volcano", "queue": "research"})
    gang = a_gang(Gang.VOLCANO, scheduled=True)
    found = pod(job, gang=gang)
    assert found["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "the-group-later"
    assert "tftraining.dev/gang" not in found["metadata"]["annotations"], "it is not in the gang"
    assert found["spec"]["schedulerName"] == "volcano"
    first, later = desired.pod_groups(job.build(), gang, "v1beta1")
    assert first["metadata"]["name"] == "the-group"
    assert later["metadata"]["name"] == "the-group-later"
    assert later["spec"] == {"minMember": 1, "queue": "research"}, "no room is asked for"


@pytest.mark.parametrize("scheduler", [Gang.IN_TREE, Gang.POD_GROUP, Gang.VOLCANO])
@pytest.mark.parametrize("scheduled", [False, True])
def test_only_volcano_has_a_second_group_once_the_gang_is_placed(
    scheduler: Gang, *, scheduled: bool
) -> None:
    made = desired.pod_groups(a_job().build(), a_gang(scheduler, scheduled=scheduled), "v1")
    assert len(made) == (2 if scheduled and scheduler is Gang.VOLCANO else 1)


def test_a_template_chooses_the_scheduler_by_name() -> None:
    job = with_template(a_job(), schedulerName="coscheduling")
    assert pod(job, gang=a_gang(Gang.POD_GROUP))["spec"]["schedulerName"] == "coscheduling"
