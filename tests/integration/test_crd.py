"""The CustomResourceDefinition in a real API server: what users see, write and are told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tftraining_operator.api import crd as definition
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.job import parse_job

from tests import integrations
from tests.apiserver import KubectlError
from tests.unit.api.cases import CLAIM, a_container, a_spec

if TYPE_CHECKING:
    from tests.apiserver import ApiServer

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SERVING = ROOT / "examples/serving/tensorflow-serving.yaml"
AUTOSCALER = ROOT / "examples/autoscaling/hpa.yaml"

pytestmark = pytest.mark.usefixtures("crd")


def a_job(name: str = "mnist", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": {"name": name},
        "spec": a_spec(**spec),
    }


def create(server: ApiServer, namespace: str, job: dict[str, Any]) -> str:
    return server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(job))


def stored(server: ApiServer, namespace: str, name: str = "mnist") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        server.kubectl("-n", namespace, "get", "tftj", name, "-o", "json")
    )
    return found


def report(server: ApiServer, namespace: str, status: dict[str, Any]) -> None:
    """Write a status as the operator does."""
    path = f"/apis/{keys.API_VERSION}/namespaces/{namespace}/{keys.PLURAL}/mnist/status"
    server.merge(path, {"status": status}, query={"fieldValidation": "Strict"})


def test_it_is_established_and_structural(apiserver: ApiServer, crd: str) -> None:
    status = json.loads(apiserver.kubectl("get", "crd", crd, "-o", "json"))["status"]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_a_plain_apply_of_it_works_again_and_changes_nothing(
    apiserver: ApiServer, crd: str
) -> None:
    path = str(ROOT / definition.COPIES[0])
    assert Path(path).stat().st_size < 100_000
    assert f"{crd} unchanged" in apiserver.kubectl("apply", "-f", path)


def test_short_name_and_categories_find_jobs(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, a_job())
    for word in ("tftj", "ml", "training", keys.PLURAL, keys.SINGULAR):
        assert "mnist" in apiserver.kubectl("-n", namespace, "get", word, "-o", "name")


OWN_OBJECTS = (
    "spec",
    "spec.chief",
    "spec.worker",
    "spec.ps",
    "spec.evaluator",
    "spec.checkpoint",
    "spec.checkpoint.persistentVolumeClaim",
    "spec.runPolicy",
    "status",
    "status.conditions",
    "status.progress",
    "status.lastFailure",
    "status.roles",
)


@pytest.mark.parametrize("path", OWN_OBJECTS)
def test_explain_has_a_sentence_for_every_field_of(apiserver: ApiServer, path: str) -> None:
    text = apiserver.kubectl("explain", f"tftj.{path}")
    fields = text.partition("FIELDS:\n")[2]
    for field in fields.strip("\n").split("\n\n"):
        name, *sentences = field.strip().splitlines()
        assert sentences, f"{path}: nothing is said of {name}"
        assert sentences[0].strip() != "<no description>", f"{path}: nothing is said of {name}"


def test_defaults_are_stored(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, a_job())
    spec = stored(apiserver, namespace)["spec"]
    assert spec["strategy"] == "ParameterServer"
    assert spec["chief"] == {"replicas": 1, "restartPolicy": "ExitCode"}
    assert spec["runPolicy"] == {
        "suspend": False,
        "backoffLimit": 3,
        "startupDeadlineSeconds": 600,
        "evaluatorGraceSeconds": 120,
        "cleanPodPolicy": "Running",
        "managedBy": "tftraining.dev/operator",
    }
    assert "evaluator" not in spec


def test_a_template_is_kept_as_it_was_written(apiserver: ApiServer, namespace: str) -> None:
    template = a_container(
        resources={"limits": {"cpu": 1, "memory": "1Gi"}},
        fieldOfTomorrow={"deep": [1, {"er": None}]},
    )
    template["spec"] |= {"nodeSelector": {"disk": "ssd"}, "another": True}
    template["metadata"] = {"labels": {"team": "vision"}, "unheardOf": 1}
    create(apiserver, namespace, a_job(template=template))
    assert stored(apiserver, namespace)["spec"]["template"] == template


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"worker_replcas": 2}, "spec.worker.replcas"),
        ({"wroker": {}}, "spec.wroker"),
        ({"runPolicy_backOffLimit": 2}, "spec.runPolicy.backOffLimit"),
        ({"checkpoint_emptyDir": {"medium": "Memory"}}, "spec.checkpoint.emptyDir.medium"),
    ],
)
def test_kubectl_refuses_a_typo_and_names_its_path(
    apiserver: ApiServer, namespace: str, spec: dict[str, Any], path: str
) -> None:
    with pytest.raises(KubectlError, match=f'unknown field "{path}"'):
        create(apiserver, namespace, a_job(**spec))


def test_a_typo_in_a_template_is_for_the_operator_to_find(
    apiserver: ApiServer, namespace: str
) -> None:
    create(apiserver, namespace, a_job(template=a_container(imag="busybox")))


def test_a_broken_rule_tells_what_to_write(apiserver: ApiServer, namespace: str) -> None:
    with pytest.raises(KubectlError, match=r"spec\.chief\.replicas: .*add workers instead"):
        create(apiserver, namespace, a_job(chief_replicas=2))


def test_a_long_name_is_refused_with_the_limit_and_the_reason(
    apiserver: ApiServer, namespace: str
) -> None:
    with pytest.raises(KubectlError, match=r"at most 51 characters: pod names add up to 12"):
        create(apiserver, namespace, a_job("m" * 52))


def test_a_generated_name_is_taken(apiserver: ApiServer, namespace: str) -> None:
    job = a_job()
    job["metadata"] = {"generateName": "mnist-"}
    assert "mnist-" in create(apiserver, namespace, job)


def test_scale_sets_the_number_of_workers_and_shows_the_real_one(
    apiserver: ApiServer, namespace: str
) -> None:
    create(apiserver, namespace, a_job())
    report(apiserver, namespace, {"workerReplicas": 2, "workerSelector": "role=worker"})
    path = f"/apis/{keys.API_VERSION}/namespaces/{namespace}/{keys.PLURAL}/mnist/scale"
    scale = apiserver.request("GET", path).body
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 2, "selector": "role=worker"}
    apiserver.kubectl("-n", namespace, "scale", "tftj/mnist", "--replicas=5")
    assert stored(apiserver, namespace)["spec"]["worker"]["replicas"] == 5


def test_scale_cannot_break_a_rule(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, a_job())
    with pytest.raises(KubectlError, match=r"needs workers"):
        apiserver.kubectl("-n", namespace, "scale", "tftj/mnist", "--replicas=0")


def test_the_status_is_written_on_its_own_and_only_there(
    apiserver: ApiServer, namespace: str
) -> None:
    job = a_job() | {"status": {"state": "Running"}}
    create(apiserver, namespace, job)
    assert "status" not in stored(apiserver, namespace)
    report(apiserver, namespace, {"state": "Running", "restarts": 1})
    found = stored(apiserver, namespace)
    assert found["status"]["state"] == "Running"
    assert found["metadata"]["generation"] == 1


def test_a_refused_template_is_corrected_by_applying_the_job_again(
    apiserver: ApiServer, namespace: str
) -> None:
    def apply(image: str) -> None:
        job = a_job(template=a_container(image=image))
        apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(job))

    apply("trainer:1")
    report(apiserver, namespace, {"state": "InvalidTemplate", "message": "no such field"})
    apply("trainer:2")
    containers = stored(apiserver, namespace)["spec"]["template"]["spec"]["containers"]
    assert [container["image"] for container in containers] == ["trainer:2"]

    for state in ("Running", None):
        report(apiserver, namespace, {"state": state})
        refused = r"spec\.template: .*can change only while the job is suspended"
        with pytest.raises(KubectlError, match=refused):
            apply("trainer:3")


def test_a_refused_job_is_not_handed_over(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, a_job())
    report(apiserver, namespace, {"state": "InvalidSpec"})
    job = json.dumps(a_job(runPolicy_managedBy="example.com/other"))
    with pytest.raises(KubectlError, match=r"managedBy is immutable"):
        apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=job)


@pytest.mark.parametrize("by_hand", [False, True], ids=["by the field", "and by hand"])
def test_the_ps_mount_the_claim_once(
    apiserver: ApiServer, namespace: str, *, by_hand: bool
) -> None:
    job = a_job(checkpoint=CLAIM, ps={"replicas": 2, "mountCheckpoint": True})
    if by_hand:
        mount = {"name": "mine", "mountPath": "/checkpoints"}
        template = a_container(volumeMounts=[mount])
        template["spec"]["volumes"] = [{"name": "mine", **CLAIM}]
        job["spec"]["ps"]["template"] = template
    create(apiserver, namespace, job)
    found = stored(apiserver, namespace)
    pod = desired.pod(parse_job(found, datetime.now(UTC)), Role.PS, 1, 0, "trainer")
    path, query = f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}
    answer = apiserver.request("POST", path, pod, query=query)
    assert answer.ok is not by_hand
    if by_hand:
        assert 'volumeMounts[1].mountPath: Invalid value: "/checkpoints"' in answer.message
    else:
        mounts = answer.body["spec"]["containers"][0]["volumeMounts"]
        assert "/checkpoints" in [each["mountPath"] for each in mounts]


def test_the_columns_tell_how_far_a_job_is(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, a_job())
    status = {
        "state": "Running",
        "message": "All pods are ready",
        "restarts": 1,
        "replicas": {"worker": "3/4", "ps": "2/2"},
        "progress": {
            "step": 4500,
            "percentText": "45%",
            "etaSeconds": 200,
            "etaText": "3m20s",
            "loss": "0.23",
            "updatedAt": "2026-01-01T00:00:00Z",
        },
    }
    report(apiserver, namespace, status)
    lines = apiserver.kubectl("-n", namespace, "get", "tftj").splitlines()
    assert lines[0].split() == ["NAME", "STATE", "WORKERS", "PS", "PROGRESS", "RESTARTS", "AGE"]
    assert lines[1].split()[:-1] == ["mnist", "Running", "3/4", "2/2", "45%", "1"]
    wide = apiserver.kubectl("-n", namespace, "get", "tftj", "-o", "wide").splitlines()
    assert wide[0].split()[-5:] == ["STEP", "LOSS", "ETA", "MODEL", "MESSAGE"]
    assert wide[1].split()[7:] == ["4500", "0.23", "3m20s", "All", "pods", "are", "ready"]


def test_jobs_are_found_by_state_and_by_suspension(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, a_job())
    create(apiserver, namespace, a_job("paused", runPolicy_suspend=True))
    report(apiserver, namespace, {"state": "Failed"})

    def having(field: str) -> str:
        return apiserver.kubectl(
            "-n", namespace, "get", "tftj", f"--field-selector={field}", "-o", "name"
        ).strip()

    assert having("status.state=Failed") == "tftrainingjob.tftraining.dev/mnist"
    assert having("spec.runPolicy.suspend=true") == "tftrainingjob.tftraining.dev/paused"


def test_wait_returns_on_either_end(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, a_job())
    condition = {
        "type": "Finished",
        "status": "True",
        "reason": "Failed",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    report(apiserver, namespace, {"conditions": [condition]})
    apiserver.kubectl(
        *("-n", namespace, "wait", "--for=condition=Finished", "tftj/mnist", "--timeout=5s")
    )


def test_server_side_apply_merges_containers_by_name(apiserver: ApiServer, namespace: str) -> None:
    def apply(manager: str, container: dict[str, Any], **spec: Any) -> None:
        job = a_job() | {
            "spec": {"template": {"spec": {"containers": [container]}}, **spec},
        }
        apiserver.kubectl(
            *("-n", namespace, "apply", "--server-side", f"--field-manager={manager}", "-f", "-"),
            stdin=json.dumps(job),
        )

    apply(
        "one", {"name": "tensorflow", "args": ["a"]}, worker={}, ps={}, runPolicy={"suspend": True}
    )
    apply("two", {"name": "sidecar", "image": "busybox"})
    containers = stored(apiserver, namespace)["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["tensorflow", "sidecar"]


@pytest.mark.parametrize("path", [*EXAMPLES, SERVING, AUTOSCALER], ids=lambda path: path.name)
def test_an_example_passes_strict_validation(
    apiserver: ApiServer, namespace: str, path: Path
) -> None:
    apiserver.kubectl(
        *("-n", namespace, "create", "--dry-run=server", "--validate=strict", "-f", str(path))
    )


@pytest.mark.parametrize("name", integrations.NAMES)
def test_the_job_of_an_integration_passes_strict_validation(
    apiserver: ApiServer, namespace: str, name: str
) -> None:
    apiserver.kubectl(
        *("-n", namespace, "create", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps(integrations.inner(name)),
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_begins_with_what_it_shows_and_how_to_run_it(path: Path) -> None:
    comment = path.read_text().split("apiVersion")[0]
    assert comment.startswith("# ")
    assert f"kubectl apply -f examples/{path.name}" in comment
    job = [each for each in yaml.safe_load_all(path.read_text()) if each["kind"] == keys.KIND]
    assert [each["metadata"]["name"] for each in job] == [path.stem]
