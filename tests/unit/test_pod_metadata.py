"""The labels and annotations that the pods of all jobs get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.pod_metadata import PodMetadata

from tests.unit.builders import IMAGE, a_job
from tests.unit.fakes import FakeCluster, Operator

if TYPE_CHECKING:
    import asyncio

GIVEN = PodMetadata(
    {"team": "vision", "cost-center": "42"},
    {"note": "from the platform", keys.ANNOTATION_SAFE_TO_EVICT: "maybe"},
)
OTHERS = PodMetadata({"team": "speech"}, {})


def labels(cluster: FakeCluster) -> set[str | None]:
    return {pod["metadata"]["labels"].get("team") for pod in cluster.pods().values()}


def replace_all(cluster: FakeCluster, operator: Operator) -> None:
    """Let every pod be lost, and be made again."""
    before = {pod["metadata"]["uid"] for pod in cluster.pods().values()}
    for name in list(cluster.pods()):
        cluster.collect(name)
    operator.settle()
    after = {pod["metadata"]["uid"] for pod in cluster.pods().values()}
    assert after
    assert not after & before


def test_a_pod_has_them_beside_those_of_its_template_which_win() -> None:
    own = {"labels": {"team": "audio"}, "annotations": {"note": "from the job"}}
    job = a_job().with_role("ps", template={"metadata": own}).build()
    worker = desired.pod(job, Role.WORKER, 0, 0, IMAGE, given=GIVEN)["metadata"]
    assert worker["labels"].items() >= GIVEN.labels.items()
    assert worker["annotations"].items() >= GIVEN.annotations.items(), "our own defaults too"
    server = desired.pod(job, Role.PS, 0, 0, IMAGE, given=GIVEN)["metadata"]
    assert server["labels"].items() >= {"team": "audio", "cost-center": "42"}.items()
    assert server["annotations"]["note"] == "from the job"


def test_the_labels_of_a_job_are_the_operators_whatever_is_given() -> None:
    forged = PodMetadata({keys.LABEL_ROLE: "chief"}, {keys.ANNOTATION_WORKERS: "99"})
    made = desired.pod(a_job().build(), Role.PS, 0, 0, IMAGE, given=forged)["metadata"]
    assert made["labels"][keys.LABEL_ROLE] == "ps"
    assert made["annotations"][keys.ANNOTATION_WORKERS] != "99"


def test_they_are_tried_with_the_templates() -> None:
    for sample in desired.samples(a_job().build(), IMAGE, GIVEN):
        assert sample["metadata"]["labels"]["team"] == "vision"


def test_a_job_keeps_those_that_it_started_with(
    cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    key = cluster.submit(a_job().raw)
    before = Operator(cluster, runner, pod_metadata=GIVEN)
    before.settle()
    assert labels(cluster) == {"vision"}
    stored = cluster.status(key).pod_metadata
    assert stored is not None
    assert (stored.labels, stored.annotations) == (GIVEN.labels, GIVEN.annotations)

    after = Operator(cluster, runner, pod_metadata=OTHERS)
    after.settle()
    replace_all(cluster, after)
    assert labels(cluster) == {"vision"}

    cluster.submit(a_job().named("later", uid="u9").raw)
    after.settle()
    assert labels(cluster) == {"vision", "speech"}


def test_a_job_that_started_without_any_gets_none_later(
    cluster: FakeCluster, runner: asyncio.Runner
) -> None:
    key = cluster.submit(a_job().raw)
    before = Operator(cluster, runner)
    before.settle()
    assert cluster.status(key).pod_metadata is None
    after = Operator(cluster, runner, pod_metadata=GIVEN)
    after.settle()
    replace_all(cluster, after)
    assert labels(cluster) == {None}
