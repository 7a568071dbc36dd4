"""Pods that lose the label by which the operator lists and watches them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tftraining_operator.api import keys

from tests.apiserver import ApiServer
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

ALL = ("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")


@pytest.fixture
def operator(apiserver: ApiServer, crd: str, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    """An operator for the test's namespace alone, which it may restart."""
    assert crd
    settings = {"TFTRAINING_NAMESPACES": namespace, "TFTRAINING_RESYNC_SECONDS": "1"}
    found = Operator(apiserver.kubeconfig, tmp_path / "log", settings)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def training(apiserver: ApiServer, namespace: str, operator: Operator) -> Namespace:
    """A namespace with a job that trains."""
    assert operator
    space = Namespace(apiserver, namespace)
    space.apply(manifest())
    space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")
    return space


def uids(space: Namespace) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in space.pods().items()}


def remove_label(space: Namespace, pod: str) -> None:
    space.kubectl("label", "pod", pod, f"{keys.LABEL_JOB}-")


@pytest.mark.parametrize("pod", ["mnist-chief-0", "mnist-worker-0"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_pod_without_our_label_trains_on_and_is_followed(
    training: Namespace, operator: Operator, pod: str, *, restarted: bool
) -> None:
    before = uids(training)
    if restarted:
        operator.stop()
    remove_label(training, pod)
    if restarted:
        operator.start()
    moments = iter(range(60))
    eventually(lambda: next(moments) >= 55, "three seconds and some resyncs pass")
    assert uids(training) == before
    status = training.status()
    assert (status["state"], status.get("attempt", 0), status.get("restarts", 0)) == (
        "Running",
        0,
        0,
    )

    training.end("mnist-chief-0", 0)  # of which no watch tells where it has no label
    training.wait_for("Succeeded")


def test_a_pod_that_gets_its_label_back_is_watched_again(
    training: Namespace, operator: Operator
) -> None:
    assert operator.healthy
    remove_label(training, "mnist-worker-0")
    training.kubectl("label", "pod", "mnist-worker-0", f"{keys.LABEL_JOB}=mnist")
    before = uids(training)
    training.end("mnist-worker-0", 1)
    eventually(
        lambda: uids(training).get("mnist-worker-0") not in (None, before["mnist-worker-0"]),
        "the worker that failed is replaced",
    )
