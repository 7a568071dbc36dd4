"""What a cluster's own policies refuse is told, tried again, and no fault of the job."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from tests.integration.jobs import manifest
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.jobs import Namespace

_PATH = "/apis/admissionregistration.k8s.io/v1"
_WORDS = "pods need the label team"
_SILENT = 'failed calling webhook "pods.example.com"'
SAMPLE = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ALL = ("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")


@contextlib.contextmanager
def policy(space: Namespace, operation: str) -> Iterator[None]:
    """Deny an operation on the pods of a namespace; the API server answers with 422."""
    name = f"{space.name}-{operation.lower()}"
    here = {"matchLabels": {"kubernetes.io/metadata.name": space.name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    made = {
        "validatingadmissionpolicies": {
            "matchConstraints": {
                "namespaceSelector": here,
                "resourceRules": [rule | {"operations": [operation]}],
            },
            "validations": [{"expression": "false", "message": _WORDS}],
        },
        "validatingadmissionpolicybindings": {"policyName": name, "validationActions": ["Deny"]},
    }
    for plural, spec in made.items():
        body = {"metadata": {"name": name}, "spec": spec}
        answer = space.server.request("POST", f"{_PATH}/{plural}", body)
        assert answer.ok, answer.message
    try:
        yield
    finally:
        for plural in reversed(made):
            space.server.request("DELETE", f"{_PATH}/{plural}/{name}")


@contextlib.contextmanager
def silent_webhook(space: Namespace) -> Iterator[None]:
    """Have a webhook admit the pods of a namespace, where nothing listens."""
    path = f"{_PATH}/validatingwebhookconfigurations"
    here = {"matchLabels": {"kubernetes.io/metadata.name": space.name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {
        "name": "pods.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "namespaceSelector": here,
        "rules": [rule | {"operations": ["CREATE"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {"metadata": {"name": space.name}, "webhooks": [webhook]}
    answer = space.server.request("POST", path, body)
    assert answer.ok, answer.message
    try:
        yield
    finally:
        space.server.request("DELETE", f"{path}/{space.name}")


def probe(
    space: Namespace, method: str, path: str, body: object = None, words: str = _WORDS
) -> bool:
    """Tell whether a policy or webhook is in force: the API server takes a moment."""
    answer = space.server.request(method, f"{path}?dryRun=All", body)
    return not answer.ok and words in answer.message


def test_a_policy_against_the_pods_is_told_and_the_job_goes_on_when_it_is_mended(
    space: Namespace,
) -> None:
    pods = f"/api/v1/namespaces/{space.name}/pods"
    with policy(space, "CREATE"):
        eventually(lambda: probe(space, "POST", pods, SAMPLE), "the policy is in force")
        space.apply(manifest())
        eventually(lambda: space.status().get("state") == "Refused", "the job says so")
        assert _WORDS in space.status()["message"]
        assert space.condition("Accepted")["status"] == "True", "the spec is not at fault"
        assert space.pods() == {}
    began = time.monotonic()
    space.wait_for_pods(*ALL)
    assert time.monotonic() - began < 60


def test_a_webhook_that_does_not_answer_is_told_and_the_job_goes_on_when_it_does(
    space: Namespace,
) -> None:
    with silent_webhook(space):
        eventually(
            lambda: probe(space, "POST", f"/api/v1/namespaces/{space.name}/pods", SAMPLE, _SILENT),
            "the webhook is asked",
        )
        space.apply(manifest())
        eventually(lambda: space.status().get("state") == "Refused", "the job says so")
        assert _SILENT in space.status()["message"]
        assert space.condition("Accepted")["status"] == "True", "the spec is not at fault"
        assert space.pods() == {}
    space.wait_for_pods(*ALL)


def test_a_policy_against_deletions_is_told_and_they_are_tried_again(space: Namespace) -> None:
    space.apply(manifest())
    space.wait_for_pods(*ALL)
    pods = f"/api/v1/namespaces/{space.name}/pods"
    with policy(space, "DELETE"):
        eventually(lambda: probe(space, "DELETE", f"{pods}/{ALL[0]}"), "the policy is in force")
        space.apply(manifest(runPolicy={"suspend": True}))
        suspended = eventually(
            lambda: c if (c := space.condition("Suspended")).get("reason") else None, "suspended"
        )
        assert suspended["reason"] == "DeletionRefused"
        assert _WORDS in suspended["message"]
    space.wait_for_pods()


def test_a_template_with_the_labels_of_another_job_is_refused_and_that_job_left_alone(
    space: Namespace,
) -> None:
    space.apply(manifest())
    space.wait_for_pods(*ALL)
    victim, before = space.job()["metadata"]["uid"], space.pods()
    thief = manifest("thief")
    labels = {"tftraining.dev/job-uid": victim, "tftraining.dev/role": "chief"}
    thief["spec"]["template"]["metadata"] = {"labels": labels}
    space.apply(thief)
    refused = space.wait_for("Accepted", "False", name="thief")
    assert refused["reason"] == "InvalidTemplate"
    assert "tftraining.dev/ is the operator's" in refused["message"]
    after = space.pods()
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
