"""The operator's process sends the spans of a job's passes to a collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tools.waiting import eventually

pytest.importorskip(
    "opentelemetry.sdk", reason="OpenTelemetry is not installed: tftraining[traces]"
)

from tests.otlp import receiving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apiserver import ApiServer


def test_the_pods_of_a_job_are_created_within_a_span_of_its_pass(
    apiserver: ApiServer, crd: str, namespace: str, tmp_path: Path
) -> None:
    assert crd
    space = Namespace(apiserver, namespace)
    with receiving() as receiver:
        settings = {"TFTRAINING_NAMESPACES": namespace, "TFTRAINING_TRACES_ENDPOINT": receiver.url}
        operator = Operator(apiserver.kubeconfig, tmp_path / "log", settings)
        operator.start()
        try:
            space.apply(manifest())
            eventually(lambda: "mnist-worker-1" in space.pods(), "the job's pods")
            # Which is told of only when they are made.
            eventually(lambda: "status" in space.job(), "the job's status")
        finally:
            operator.stop()
        passes = receiver.named("reconcile")
        made = [span for root in passes for span in receiver.children(root)]
    assert {span.attributes["namespace"] for span in passes} == {namespace}
    assert {span.attributes["uid"] for span in passes} == {space.job()["metadata"]["uid"]}
    created = [span for span in made if span.name == "create pods"]
    assert len(created) >= len(space.pods())
    assert {span.name for span in made} >= {"create services", "patch tftrainingjobs/status"}
    assert "Traceback" not in operator.logged()
