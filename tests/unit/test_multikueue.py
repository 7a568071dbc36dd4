"""Jobs that run in another cluster, in whole passes: MultiKueue's part between two fake clusters is
played by `sync`; tests/integration/test_multikueue.py has the real one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tftraining.view.why import why
from tftraining_operator.api import keys
from tftraining_operator.core.schedulers.offer import Availability, Offer
from tftraining_operator.reconcile import errors
from tftraining_operator.reconcile.store import JobKey, Kind

from tests.unit import kueue
from tests.unit.builders import JobBuilder, a_job
from tests.unit.fakes import FakeCluster, Operator

if TYPE_CHECKING:
    import asyncio

    from tftraining_operator.api.status import Status

_Object = dict[str, Any]

KEY = JobKey("default", "mnist")
KUEUE = Offer(workloads=Availability.USABLE)


@dataclass
class Clusters:
    """A manager with its jobs, and the worker cluster that trains them."""

    manager: Operator
    worker: Operator
    kept_in: str = "annotations"
    """Where Kueue notes the name of the Workload that it brings; "labels" before 0.18."""

    def submit(self, job: JobBuilder | None = None) -> None:
        self.manager.cluster.submit(for_multikueue(job).raw)
        self.manager.settle()

    def dispatch(self, workers: int | None = None) -> None:
        """The worker cluster has quota: the Workload goes there, then the job, then both run."""
        here, there = self.manager.cluster, self.worker.cluster
        workload = copy.deepcopy(kueue.the_workload(here))
        workload.pop("status", None)
        metadata = {name: workload["metadata"][name] for name in ("name", "namespace", "labels")}
        there._create(Kind.WORKLOAD, {**workload, "metadata": metadata}, dry_run=False)
        self.worker.settle()
        kueue.admit(there, workers)
        job = copy.deepcopy(here.job(KEY))
        del job["spec"]["managedBy"]
        job.pop("status", None)
        job["metadata"] = {
            "name": KEY.name,
            "namespace": KEY.namespace,
            "labels": job["metadata"].get("labels", {}),
            "annotations": {},
        }
        job["metadata"][self.kept_in]["kueue.x-k8s.io/prebuilt-workload-name"] = metadata["name"]
        there.submit(job)
        kueue.admit(here)
        self.run()

    def run(self) -> None:
        """Let the worker cluster's pods run, and Kueue copy the status."""
        self.worker.settle()
        while self.worker.cluster.run_pods():
            self.worker.settle()
        self.sync()

    def sync(self) -> None:
        """Copy the status to the manager, and end its Workload with the other one."""
        here, there = self.manager.cluster, self.worker.cluster
        status = copy.deepcopy(there.job(KEY).get("status"))
        here.change(Kind.JOB, here.job(KEY), lambda raw: raw.update(status=status))
        if kueue.conditions(kueue.the_workload(there)).get("Finished", ("", ""))[0] == "True":
            kueue._write(here, Finished=("True", "Succeeded", "the other one has"))
        self.manager.settle()

    def end_pods(self) -> None:
        """Let the worker cluster's pods go, the chief first, which saves."""
        for name in ("mnist-chief-0", "mnist-worker-0", "mnist-ps-0"):
            self.worker.cluster.collect(name)
            self.worker.settle()

    def recall(self) -> None:
        """Kueue takes the job back from the worker cluster."""
        cluster = self.worker.cluster
        cluster.remove_job(KEY)
        cluster.collect_garbage()
        self.worker.settle()

    @property
    def here(self) -> Status:
        return self.manager.cluster.status(KEY)

    @property
    def there(self) -> Status:
        return self.worker.cluster.status(KEY)


def for_multikueue(job: JobBuilder | None = None) -> JobBuilder:
    found = (job or a_job()).with_spec(managedBy="kueue.x-k8s.io/multikueue")
    return found.with_label(keys.LABEL_QUEUE, "research")


@pytest.fixture
def clusters(runner: asyncio.Runner) -> Clusters:
    # Objects of two clusters never share a uid.
    there = FakeCluster(_uids=100)
    manager = Operator(FakeCluster(), runner, offer=KUEUE)
    return Clusters(manager, Operator(there, runner, offer=KUEUE))


def made(cluster: FakeCluster) -> set[Kind]:
    return {kind for kind, _, _ in cluster.objects} - {Kind.JOB}


def test_the_manager_makes_nothing_but_a_workload_and_says_what_it_waits_for(
    clusters: Clusters,
) -> None:
    clusters.submit()
    cluster = clusters.manager.cluster
    assert made(cluster) == {Kind.WORKLOAD}
    kueue.pending(cluster, "no quota")
    clusters.manager.settle()
    status = clusters.here
    assert (status.state, status.start_time) == ("Queued", None)
    assert str(status.message).endswith("in research: Kueue: no quota")


@pytest.mark.parametrize("kept_in", ["annotations", "labels"])
def test_the_worker_cluster_adopts_the_workload_and_trains(
    clusters: Clusters, kept_in: str
) -> None:
    clusters.kept_in = kept_in
    clusters.submit()
    sent = copy.deepcopy(kueue.the_workload(clusters.manager.cluster))
    clusters.dispatch()
    there = clusters.worker.cluster
    adopted = kueue.the_workload(there)
    assert adopted["metadata"]["name"] == sent["metadata"]["name"]
    owner = adopted["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (there.job(KEY)["metadata"]["uid"], True)
    assert adopted["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == owner["uid"]
    assert adopted["spec"] == sent["spec"], "MultiKueue takes back what is not as it was sent"
    assert len(there.pods()) == 3
    assert made(clusters.manager.cluster) == {Kind.WORKLOAD}
    assert clusters.there.state == clusters.here.state == "Running"


def test_the_manager_writes_no_status_of_a_job_that_runs_elsewhere(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    before = clusters.manager.cluster.calls["patch_status"]
    clusters.worker.cluster.clock.tick(60)
    clusters.worker.cluster.act("mnist-worker-0", lambda pod: pod.exited(137))
    clusters.run()
    assert clusters.manager.cluster.calls["patch_status"] == before
    assert clusters.here == clusters.there


def test_a_restarted_operator_goes_on_in_both_clusters(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    clusters.manager = Operator(clusters.manager.cluster, clusters.manager.runner, offer=KUEUE)
    clusters.worker = Operator(clusters.worker.cluster, clusters.worker.runner, offer=KUEUE)
    clusters.run()
    assert clusters.there.state == clusters.here.state == "Running"
    assert clusters.there.attempt == 0


def test_its_end_is_told_and_it_is_deleted_when_it_has_been_kept_for_long_enough(
    clusters: Clusters,
) -> None:
    clusters.submit(a_job().with_policy(ttlSecondsAfterFinished=60))
    clusters.dispatch()
    clusters.worker.cluster.act("mnist-chief-0", lambda pod: pod.exited(0))
    clusters.worker.settle()
    for name in ("mnist-worker-0", "mnist-ps-0"):
        clusters.worker.cluster.collect(name)
    clusters.run()
    assert clusters.here.state == "Succeeded"
    finished = kueue.conditions(kueue.the_workload(clusters.worker.cluster))["Finished"]
    assert finished == ("True", "Succeeded")
    clusters.manager.cluster.clock.tick(61)
    clusters.manager.settle()
    assert (Kind.JOB, *KEY) not in clusters.manager.cluster.objects


def test_the_worker_cluster_keeps_a_finished_job_until_the_manager_knows_of_its_end(
    clusters: Clusters,
) -> None:
    """Such as where the two clusters cannot reach each other for a while."""
    clusters.submit(a_job().with_policy(ttlSecondsAfterFinished=0))
    clusters.dispatch()
    there = clusters.worker.cluster
    there.act("mnist-chief-0", lambda pod: pod.exited(0))
    clusters.worker.wait(600)
    assert clusters.there.state == "Succeeded"
    finished = kueue.conditions(kueue.the_workload(there))["Finished"]
    assert finished == ("True", "Succeeded")
    clusters.sync()
    assert (Kind.JOB, *KEY) not in clusters.manager.cluster.objects, "it counts there"


def test_a_job_that_is_evicted_waits_again_and_is_sent_anew(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    here = clusters.manager.cluster
    kueue.evict(here)
    clusters.manager.settle()
    assert kueue.conditions(kueue.the_workload(here))["QuotaReserved"][0] == "False"
    clusters.recall()
    status = clusters.here
    assert status.state == "Queued"
    assert status.queue is not None
    assert (status.queue.evictions, status.queue.preemptions) == (1, 1)
    clusters.dispatch()
    assert clusters.here.state == "Running"


def test_suspending_takes_it_out_of_the_queue_and_resuming_puts_it_back(
    clusters: Clusters,
) -> None:
    clusters.submit()
    clusters.dispatch()
    here = clusters.manager.cluster
    here.suspend(KEY)
    clusters.manager.settle()
    assert not kueue.workloads(here)
    clusters.recall()
    assert clusters.here.state == "Suspended"
    here.resume(KEY)
    clusters.manager.settle()
    assert clusters.here.state == "Queued"
    clusters.dispatch()
    assert clusters.here.state == "Running"


def test_a_job_that_is_scaled_is_sent_anew(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    here = clusters.manager.cluster
    before = kueue.the_workload(here)["metadata"]["uid"]
    here.edit(KEY, lambda spec: spec["worker"].update(replicas=3))
    clusters.manager.settle()
    clusters.recall()
    clusters.manager.settle()
    workload = kueue.the_workload(here)
    assert workload["metadata"]["uid"] != before
    assert kueue.summary(workload)["podSets"] == [("chief", 1), ("worker", 3), ("ps", 1)]
    clusters.dispatch()
    assert len(clusters.worker.cluster.pods()) == 5


def test_a_job_that_the_worker_cluster_refuses_is_sent_anew_when_it_is_corrected(
    clusters: Clusters,
) -> None:
    here, there = clusters.manager.cluster, clusters.worker.cluster
    bad = errors.InvalidObjectError("serviceAccountName: Invalid value", status=422)
    there.refuse = lambda kind, _body: bad if kind is Kind.POD else None
    clusters.submit()
    clusters.dispatch()
    assert clusters.here.state == "InvalidTemplate"
    before = kueue.the_workload(here)["metadata"]["uid"]
    clusters.manager.wait(60)
    assert kueue.the_workload(here)["metadata"]["uid"] == before
    here.edit(KEY, lambda spec: spec["template"]["spec"].update(serviceAccountName="a"))
    clusters.manager.settle()
    assert kueue.the_workload(here)["metadata"]["uid"] != before
    assert clusters.here.state == "Queued"
    kueue.delete(there)
    clusters.recall()
    there.refuse = lambda _kind, _body: None
    clusters.dispatch()
    assert clusters.here.state == "Running"


def test_what_an_operator_of_another_version_has_sent_stays(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    here = clusters.manager.cluster
    here.change(
        Kind.WORKLOAD,
        kueue.the_workload(here),
        lambda raw: raw["metadata"]["labels"].update({keys.LABEL_SHAPE: "another"}),
    )
    clusters.manager.settle()
    assert kueue.the_workload(here)["metadata"]["labels"][keys.LABEL_SHAPE] == "another"


def test_the_worker_cluster_asks_for_no_workers_that_the_manager_did_not_give(
    clusters: Clusters,
) -> None:
    clusters.submit(a_job().with_role("worker", replicas=4, minReplicas=2))
    clusters.dispatch(workers=2)
    clusters.worker.cluster.clock.tick(60)
    clusters.run()
    there = clusters.worker.cluster
    assert not kueue.extensions(there)
    assert len(there.pods()) == 4
    admitted = [c for c in clusters.here.conditions if c.type == "Admitted"]
    assert "with 2 of 4 workers; the others have no quota" in admitted[0].message


def test_an_elastic_job_asks_for_all_its_workers_at_once(clusters: Clusters) -> None:
    job = a_job().with_role("worker", replicas=4, minReplicas=2)
    clusters.submit(job.with_spec(scheduling={"elastic": True}))
    podsets = kueue.summary(kueue.the_workload(clusters.manager.cluster))["podSets"]
    assert dict(podsets)["worker"] == 4


def test_an_eviction_in_the_worker_cluster_gives_the_quota_back_there(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    there = clusters.worker.cluster
    kueue.evict(there)
    clusters.worker.settle()
    clusters.end_pods()
    clusters.sync()
    workload = kueue.the_workload(there)
    assert kueue.conditions(workload)["QuotaReserved"][0] == "False"
    assert clusters.here.state == "Queued"
    kueue.admit(there)
    clusters.run()
    assert clusters.here.state == "Running"


def test_a_workload_that_is_not_there_yet_is_waited_for(clusters: Clusters) -> None:
    job = a_job().with_label(keys.LABEL_QUEUE, "research")
    job.with_label("kueue.x-k8s.io/prebuilt-workload-name", "mnist-1a2b3")
    clusters.worker.cluster.submit(job.raw)
    clusters.worker.settle()
    assert not kueue.workloads(clusters.worker.cluster)
    assert "Workload mnist-1a2b3, which MultiKueue brings, is not there" in str(
        clusters.there.message
    )


def test_suspended_in_the_worker_cluster_it_keeps_its_workload(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    there = clusters.worker.cluster
    there.suspend(KEY)
    clusters.worker.settle()
    clusters.end_pods()
    assert clusters.there.state == "Suspended"
    assert kueue.the_workload(there)


def test_a_job_in_no_queue_says_which_label_it_needs(clusters: Clusters) -> None:
    job = a_job().with_spec(managedBy="kueue.x-k8s.io/multikueue")
    clusters.manager.cluster.submit(job.raw)
    clusters.manager.settle()
    status = clusters.here
    assert status.state == "InvalidSpec"
    assert "set its label kueue.x-k8s.io/queue-name to a LocalQueue" in str(status.message)


def test_without_kueue_it_says_so(runner: asyncio.Runner) -> None:
    operator = Operator(FakeCluster(), runner)
    operator.cluster.submit(for_multikueue().raw)
    operator.settle()
    assert operator.cluster.status(KEY).state == "SchedulerUnavailable"


def test_kueue_away_for_an_upgrade_changes_nothing(clusters: Clusters) -> None:
    clusters.submit()
    clusters.dispatch()
    before = clusters.here
    clusters.manager.offer = Offer()
    clusters.manager.store.clear(Kind.WORKLOAD, None)
    clusters.manager.look(KEY)
    clusters.manager.settle()
    assert clusters.here == before


def test_why_says_where_it_runs(clusters: Clusters) -> None:
    clusters.submit()
    cluster = clusters.manager.cluster
    cluster.edit(KEY, lambda spec: spec["worker"].update(replicas=2))
    clusters.manager.settle()
    clusters.dispatch()
    found = why(cluster.job(KEY), [], [], cluster.clock())
    name = kueue.the_workload(cluster)["metadata"]["name"]
    assert found.state == "Running"
    assert f"in another cluster, which status.clusterName of Workload {name} names" in found.text
    assert "latest change" not in found.text
