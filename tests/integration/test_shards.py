"""Three operator processes that share the jobs: each job has one, and another when it is killed."""

from __future__ import annotations

import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tftraining_operator.api import keys
from tftraining_operator.controller.main import LOST
from tftraining_operator.controller.sharding import shard_of
from tftraining_operator.core.naming import bucket, lease_name

from tests.integration.jobs import Made, Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer

SECONDS = 6
"""The leases' duration. Much shorter, and a busy machine alone would end one."""
SHARDS = 3
NAMES = ("one", "two", "three")
JOBS = [f"job-{number}" for number in range(9)]
TASKS = ("chief-0", "ps-0", "worker-0", "worker-1")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"


class Group:
    """Three operators for one namespace."""

    def __init__(self, space: Namespace, folder: Path) -> None:
        self.space = space
        self.operators = {
            name: Operator(
                space.server.kubeconfig,
                folder / f"{name}.log",
                {
                    "TFTRAINING_NAMESPACES": space.name,
                    "TFTRAINING_LEASE_NAMESPACE": space.name,
                    "TFTRAINING_LEASE_IDENTITY": name,
                    "TFTRAINING_LEASE_SECONDS": str(SECONDS),
                    "TFTRAINING_SHARDS": str(SHARDS),
                },
            )
            for name in NAMES
        }

    def holders(self) -> list[str]:
        """Read who holds the shards' leases, '' for nobody."""
        paths = [
            LEASES.format(self.space.name, lease_name("tftraining-operator", shard))
            for shard in range(SHARDS)
        ]
        leases = [self.space.server.request("GET", path).body for path in paths]
        return [str((lease.get("spec") or {}).get("holderIdentity") or "") for lease in leases]

    def wait_for_shares(self, *shares: int) -> None:
        """Wait until the operators hold so many shards each, and all are held."""

        def found() -> bool:
            counts = Counter(filter(None, self.holders()))
            return sorted(counts.values()) == sorted(shares)

        eventually(found, f"shares of {shares}", 4 * SECONDS)

    def works_on(self, name: str) -> int:
        """Read how many jobs an operator counts as its own."""
        return int(self.operators[name].metric("tftraining_jobs"))

    def decoded(self, name: str, resource: str, change: str) -> int:
        """Read of how many changes an operator has decoded the event."""
        return int(
            self.operators[name].metric(
                "tftraining_operator_watch_events_total", resource=resource, type=change
            )
        )

    def stop(self) -> None:
        for operator in self.operators.values():
            operator.stop(signal.SIGKILL)


@pytest.fixture
def group(apiserver: ApiServer, crd: str, namespace: str, tmp_path: Path) -> Iterator[Group]:
    assert crd
    found = Group(Namespace(apiserver, namespace), tmp_path)
    yield found
    found.stop()


def whole(space: Namespace) -> bool:
    """Tell whether all pods of all jobs exist."""
    return space.pods().keys() == {f"{job}-{task}" for job in JOBS for task in TASKS}


@pytest.mark.timeout(150)
def test_three_share_the_jobs_and_those_of_a_killed_one_go_to_the_others(group: Group) -> None:
    space, resource = group.space, keys.PLURAL
    made = Made(space)
    for operator in group.operators.values():
        operator.start()
    group.wait_for_shares(1, 1, 1)
    for job in JOBS:
        space.apply(manifest(job))
    eventually(lambda: whole(space), "all pods of all jobs")
    holders = group.holders()
    expected = Counter(holders[shard_of(space.name, job, SHARDS)] for job in JOBS)
    assert {name: group.works_on(name) for name in NAMES} == {
        name: expected[name] for name in NAMES
    }
    decoded = {name: group.decoded(name, "pods", "ADDED") for name in NAMES}
    assert decoded == {name: expected[name] * len(TASKS) for name in NAMES}, "no others' pods"
    changes = {name: group.decoded(name, resource, "MODIFIED") for name in NAMES}
    space.kubectl("label", resource, "--all", "team=vision")

    def noticed() -> dict[str, int]:
        return {name: group.decoded(name, resource, "MODIFIED") - changes[name] for name in NAMES}

    eventually(lambda: sum(noticed().values()) >= len(JOBS), "the operators notice new labels")
    assert noticed() == {name: expected[name] for name in NAMES}, "no others' jobs"

    # As an operator leaves them that knows no buckets.
    space.kubectl("label", "pods", "-l", f"{keys.LABEL_ROLE}=worker", f"{keys.LABEL_BUCKET}-")

    killed = expected.most_common(1)[0][0]
    group.operators[killed].stop(signal.SIGKILL)
    moment = time.monotonic()
    for job in JOBS:
        space.delete_pod(f"{job}-worker-1")
    eventually(lambda: whole(space), "each worker again, those of the killed one's jobs too", 40)
    # Its lease has to end, and is left to a process without any for a third of its duration.
    assert time.monotonic() - moment < SECONDS + SECONDS / 3 + 15
    made.look()
    group.wait_for_shares(1, 2)
    for job in JOBS:
        space.delete_pod(f"{job}-ps-0")
    eventually(lambda: whole(space), "each ps again, by the watches of who gained a shard")
    made.look()

    group.operators[killed].start()
    group.wait_for_shares(1, 1, 1)
    for job in JOBS:
        space.delete_pod(f"{job}-worker-0")
    eventually(lambda: whole(space), "each worker again, whoever has its job now")
    counts = {name: len(uids) for (name, _), uids in made.look().items()}
    assert counts == {
        f"{job}-{task}": 1 if task == "chief-0" else 2 for job in JOBS for task in TASKS
    }

    paused = next(name for name in NAMES if name != killed)
    group.operators[paused].pause()
    group.wait_for_shares(1, 2)
    group.operators[paused].resume()
    assert group.operators[paused].wait(10) == LOST


@pytest.mark.timeout(90)
def test_a_job_with_the_bucket_of_another_shard_is_found(group: Group) -> None:
    """As after a backup was restored into another namespace, with its status."""
    space, number = group.space, bucket(group.space.name, "mnist")
    space.apply(manifest())
    space.patch_status("mnist", {"bucket": number + 1})
    for operator in group.operators.values():
        operator.start()
    space.wait_for_pods(*(f"mnist-{task}" for task in TASKS))
    assert space.status()["bucket"] == number

    group.wait_for_shares(1, 1, 1)
    space.patch_status("mnist", {"bucket": number + 1})
    eventually(lambda: space.status()["bucket"] == number, "its own bucket again")
    space.delete_pod("mnist-worker-1")
    space.wait_for_pods(*(f"mnist-{task}" for task in TASKS))
