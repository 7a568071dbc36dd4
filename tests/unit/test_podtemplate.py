"""What the user wrote stays, what a task needs is added, and a clash is refused with its fix."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.podtemplate import (
    InvalidTemplateError,
    pod_spec,
    restart_policy,
    template,
)

from tests.unit.builders import IMAGE, JobBuilder, Raw, a_job

TMP = "/tmp"  # noqa: S108 - in the container
CLAIM = {"persistentVolumeClaim": {"claimName": "mnist"}}


def spec_of(job: JobBuilder, role: Role = Role.CHIEF, index: int = 0) -> Raw:
    return pod_spec(job.build(), role, index, 0, IMAGE)


def trains(spec: Raw) -> Raw:
    found: Raw = next(c for c in spec["containers"] if c["name"] == keys.CONTAINER)
    return found


def mounts(spec: Raw) -> dict[str, str]:
    return {m["mountPath"]: m["name"] for m in trains(spec).get("volumeMounts", [])}


def a_template(**spec: Any) -> JobBuilder:
    job = a_job()
    job.raw["spec"]["template"]["spec"].update(spec)
    return job


def sharing() -> JobBuilder:
    """A job whose ps mount the checkpoint claim as well."""
    return a_job().with_role("ps", mountCheckpoint=True)


def test_a_pod_is_found_by_the_jobs_service_and_gets_no_credentials() -> None:
    spec = spec_of(a_job().with_workers(3), Role.WORKER, 2)
    assert (spec["hostname"], spec["subdomain"]) == ("mnist-worker-2", "mnist")
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False


def test_credentials_that_the_user_asks_for_are_given() -> None:
    assert spec_of(a_template(automountServiceAccountToken=True))["automountServiceAccountToken"]


def test_what_the_operator_does_not_know_is_kept() -> None:
    spec = spec_of(a_template(runtimeClassName="nvidia", brandNewField={"a": [1]}))
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["brandNewField"] == {"a": [1]}


def test_a_template_is_merged_once_and_no_pod_changes_it() -> None:
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    shared = {"spec": {"affinity": affinity, "volumes": [], "containers": [{"name": "tensorflow"}]}}
    topology = {"topology": {"pack": "kubernetes.io/hostname"}}
    job = a_job().with_evaluator().with_spec(template=shared, scheduling=topology).build()
    made = {role: template(job, role) for role in Role}
    before = copy.deepcopy(made)
    for role in Role:
        desired.pod(job, role, 0, 0, IMAGE)
        assert template(job, role) is made[role]
    assert made == before


def test_a_number_stays_a_number() -> None:
    job = a_job().with_container(resources={"limits": {"cpu": 1, "memory": "2Gi"}})
    limits = trains(spec_of(job))["resources"]["limits"]
    assert limits == {"cpu": 1, "memory": "2Gi"}
    assert type(limits["cpu"]) is int


def test_other_containers_stay_but_for_what_their_end_says() -> None:
    sidecar = {"name": "log", "image": "busybox"}
    spec = spec_of(a_template(containers=[sidecar, {"name": keys.CONTAINER, "image": "my"}]))
    assert spec["containers"][0].items() >= sidecar.items()
    assert spec["containers"][0].keys() - sidecar == {"terminationMessagePolicy"}
    assert {e["name"] for e in trains(spec)["env"]} > {"TF_CONFIG"}


def test_the_users_variables_stay_and_can_refer_to_ours() -> None:
    own = {"name": "RUN", "value": "$(TFTRAINING_JOB)-64"}
    env = trains(spec_of(a_job().with_container(env=[own])))["env"]
    # The kubelet expands only names that stand earlier in the list.
    assert env[-1] == own
    assert json.loads({e["name"]: e["value"] for e in env}["TF_CONFIG"])["task"]["type"] == "chief"


def test_a_roles_template_lies_over_the_shared_one() -> None:
    own = {"spec": {"containers": [{"name": keys.CONTAINER, "image": "gpu"}]}}
    job = a_job().with_container(image="cpu").with_role("worker", template=own)
    assert trains(spec_of(job, Role.WORKER))["image"] == "gpu"
    assert trains(spec_of(job, Role.CHIEF))["image"] == "cpu"


@pytest.mark.parametrize(
    ("role", "ports"),
    [
        pytest.param(Role.CHIEF, {"cluster": 2222, "progress": 8080}, id="chief"),
        pytest.param(Role.EVALUATOR, {"cluster": 2222, "progress": 8080}, id="evaluator"),
        pytest.param(Role.WORKER, {"cluster": 2222}, id="worker"),
        pytest.param(Role.PS, {"cluster": 2222}, id="ps"),
    ],
)
def test_ports_are_named(role: Role, ports: dict[str, int]) -> None:
    found = trains(spec_of(a_job().with_evaluator(), role))["ports"]
    assert {p["name"]: p["containerPort"] for p in found} == ports


def test_a_port_that_the_user_names_is_not_named_twice() -> None:
    ports = [{"name": "grpc", "containerPort": 2222}]
    found = trains(spec_of(a_job().with_container(ports=ports), Role.WORKER))["ports"]
    assert found == ports


def test_the_name_of_a_port_that_a_role_does_not_open_is_free() -> None:
    ports = [{"name": "progress", "containerPort": 9000}]
    job = a_job().with_role(
        "worker", template={"spec": {"containers": [{"name": "tensorflow", "ports": ports}]}}
    )
    found = trains(spec_of(job, Role.WORKER))["ports"]
    assert {p["name"]: p["containerPort"] for p in found} == {"progress": 9000, "cluster": 2222}


@pytest.mark.parametrize(
    ("job", "role", "probed"),
    [
        pytest.param(a_job(), Role.CHIEF, True, id="a chief is ready when it is connected"),
        pytest.param(a_job(), Role.WORKER, True, id="a worker is ready when it serves"),
        pytest.param(
            a_job().with_evaluator(), Role.EVALUATOR, False, id="an evaluator serves none"
        ),
        pytest.param(a_job().mirrored(), Role.CHIEF, False, id="a single process serves none"),
        pytest.param(a_job().mirrored(workers=1), Role.WORKER, True, id="a mirrored worker serves"),
    ],
)
def test_readiness_is_an_open_cluster_port(job: JobBuilder, role: Role, *, probed: bool) -> None:
    probe = trains(spec_of(job, role)).get("readinessProbe")
    assert (probe is not None) == probed
    assert probe is None or probe["tcpSocket"] == {"port": 2222}


def test_the_users_own_probe_is_kept() -> None:
    probe = {"exec": {"command": ["true"]}}
    assert trains(spec_of(a_job().with_container(readinessProbe=probe)))["readinessProbe"] == probe


def test_a_log_speaks_where_the_trainer_wrote_no_last_words() -> None:
    assert trains(spec_of(a_job()))["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_the_log_of_other_containers_speaks_as_well_unless_the_user_says_otherwise() -> None:
    fetch, mesh = {"name": "fetch"}, {"name": "mesh", "terminationMessagePolicy": "File"}
    job = a_job()
    job.raw["spec"]["template"]["spec"] |= {"initContainers": [fetch]}
    job.raw["spec"]["template"]["spec"]["containers"].append(mesh)
    spec = spec_of(job)
    assert spec["initContainers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert spec["containers"][-1] == mesh


@pytest.mark.parametrize(
    ("job", "role", "mounted"),
    [
        pytest.param(a_job(), Role.CHIEF, True, id="chief"),
        pytest.param(a_job().with_evaluator(), Role.EVALUATOR, True, id="evaluator"),
        pytest.param(a_job(), Role.WORKER, False, id="worker"),
        pytest.param(a_job(), Role.PS, False, id="ps"),
        pytest.param(sharing(), Role.PS, True, id="ps that shares the claim"),
        pytest.param(sharing(), Role.WORKER, False, id="worker beside a ps that shares it"),
        pytest.param(a_job().mirrored(workers=1), Role.WORKER, True, id="mirrored worker"),
    ],
)
def test_who_mounts_the_checkpoints(job: JobBuilder, role: Role, *, mounted: bool) -> None:
    spec = spec_of(job.with_spec(checkpoint=CLAIM), role)
    volumes = {v["name"]: v for v in spec.get("volumes", [])}
    assert ("/checkpoints" in mounts(spec)) == mounted
    if mounted:
        volume = volumes[mounts(spec)["/checkpoints"]]
        assert volume["persistentVolumeClaim"] == {"claimName": "mnist"}
    else:
        assert not any("persistentVolumeClaim" in v for v in volumes.values())


def test_checkpoints_in_an_empty_dir_are_mounted_where_the_user_says() -> None:
    spec = spec_of(a_job().with_spec(checkpoint={"emptyDir": {}, "path": "/ckpt"}))
    volume = next(v for v in spec["volumes"] if v["name"] == mounts(spec)["/ckpt"])
    assert volume["emptyDir"] == {}


def test_checkpoints_in_object_storage_need_no_volume() -> None:
    spec = spec_of(a_job().with_container(image="my").with_spec(checkpoint={"uri": "gs://b/c"}))
    assert "volumes" not in spec
    assert mounts(spec) == {}


def test_the_users_volumes_and_mounts_stay() -> None:
    job = a_template(volumes=[{"name": "data", "emptyDir": {}}]).with_spec(checkpoint=CLAIM)
    spec = spec_of(job.with_container(volumeMounts=[{"name": "data", "mountPath": "/data"}]))
    assert spec["volumes"][0] == {"name": "data", "emptyDir": {}}
    assert mounts(spec)["/data"] == "data"


def test_our_image_meets_the_restricted_pod_security_standard() -> None:
    spec = spec_of(a_job())
    container = trains(spec)
    assert container["image"] == IMAGE
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert TMP in mounts(spec), "a read-only root needs somewhere to write"


def test_of_the_users_image_nothing_is_demanded() -> None:
    spec = spec_of(a_job().with_container(image="my/trainer:1"))
    assert trains(spec)["image"] == "my/trainer:1"
    assert "securityContext" not in spec
    assert "securityContext" not in trains(spec)
    assert mounts(spec) == {}


def test_the_users_security_context_wins_field_by_field() -> None:
    job = a_template(securityContext={"runAsUser": 1000})
    spec = spec_of(job.with_container(securityContext={"readOnlyRootFilesystem": False}))
    assert spec["securityContext"]["runAsUser"] == 1000
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert trains(spec)["securityContext"]["readOnlyRootFilesystem"] is False


@pytest.mark.parametrize("path", [TMP, f"{TMP}/", f"/.{TMP}/."])
def test_an_own_tmp_is_kept(path: str) -> None:
    own = [{"name": "big", "mountPath": path}]
    spec = spec_of(
        a_template(volumes=[{"name": "big", "emptyDir": {}}]).with_container(volumeMounts=own)
    )
    assert mounts(spec) == {path: "big"}


@pytest.mark.parametrize(
    ("job", "role", "policy"),
    [
        pytest.param(a_job(), Role.CHIEF, "Never", id="the operator counts the chief's ends"),
        pytest.param(a_job(), Role.WORKER, "Always", id="the kubelet restarts a worker in place"),
        pytest.param(a_job(), Role.PS, "Always", id="the kubelet restarts a ps in place"),
        pytest.param(a_job().with_evaluator(), Role.EVALUATOR, "OnFailure", id="it ends by itself"),
        pytest.param(
            a_job().with_role("worker", restartPolicy="Never"),
            Role.WORKER,
            "Never",
            id="a worker that must never fail",
        ),
        pytest.param(a_job().mirrored(workers=1), Role.WORKER, "Never", id="a gang is counted"),
        pytest.param(
            a_job().mirrored(workers=1).with_evaluator(),
            Role.EVALUATOR,
            "OnFailure",
            id="an evaluator beside a gang",
        ),
    ],
)
def test_restart_policy(job: JobBuilder, role: Role, policy: str) -> None:
    assert restart_policy(job.build(), role) == policy
    assert spec_of(job, role)["restartPolicy"] == policy


@pytest.mark.parametrize(
    "field",
    ["volumes", "securityContext", "initContainers", "affinity"],
)
def test_an_empty_key_in_the_yaml_is_an_absent_field(field: str) -> None:
    assert field in a_template(**{field: None}).raw["spec"]["template"]["spec"]
    assert spec_of(a_template(**{field: None})) == spec_of(a_job())


@pytest.mark.parametrize("field", ["env", "ports", "volumeMounts", "securityContext", "resources"])
def test_an_empty_key_in_the_container_is_an_absent_field(field: str) -> None:
    assert spec_of(a_job().with_container(**{field: None})) == spec_of(a_job())


@pytest.mark.parametrize(
    ("job", "names"),
    [
        pytest.param(a_template(hostname="x"), ["spec.hostname", "remove"], id="hostname"),
        pytest.param(a_template(subdomain="x"), ["spec.subdomain", "remove"], id="subdomain"),
        pytest.param(
            a_template(restartPolicy="Never"),
            ["spec.restartPolicy", "spec.chief.restartPolicy"],
            id="the pod's restartPolicy, for which there is another field",
        ),
        pytest.param(
            a_job().with_container(env=[{"name": "TF_CONFIG", "value": "{}"}]),
            ["TF_CONFIG", "remove"],
            id="TF_CONFIG",
        ),
        pytest.param(
            a_job().with_container(env=[{"name": "TFTRAINING_FOO", "value": ""}]),
            ["TFTRAINING_FOO", "remove"],
            id="any variable under our prefix",
        ),
        pytest.param(
            a_job().with_container(env=[{"name": "GRPC_FAIL_FAST", "value": "no"}]),
            ["GRPC_FAIL_FAST", "remove"],
            id="a gRPC variable of ours",
        ),
        pytest.param(
            a_template(volumes={"name": "data"}), ["spec.volumes", "list"], id="volumes no list"
        ),
        pytest.param(a_template(volumes=["data"]), ["spec.volumes", "list"], id="a volume's name"),
        pytest.param(
            a_job().with_container(ports=[8080]), ["ports", "list"], id="a port that is a number"
        ),
        pytest.param(
            a_job().with_container(ports=[{"name": "cluster", "containerPort": 9999}]),
            ["spec.containers[tensorflow].ports", "9999", "`cluster`", "2222", "another name"],
            id="the name of our port for another one",
        ),
        pytest.param(
            a_job().with_container(
                ports=[{"name": "a", "containerPort": 2222}, {"name": "progress"}]
            ),
            ["spec.containers[tensorflow].ports", "`progress`", "8080", "another name"],
            id="the name of our other port",
        ),
        pytest.param(
            a_job().with_container(volumeMounts="/data"), ["volumeMounts", "list"], id="a path"
        ),
        pytest.param(
            a_job().with_container(resources={"limits": {"memory": "2 GB"}}),
            ["spec.containers[tensorflow].resources.limits.memory", "'2 GB'", "1.5Gi"],
            id="what is no quantity, by field and value",
        ),
        pytest.param(
            a_template(initContainers=[{"name": "a", "resources": {"requests": {"cpu": "one"}}}]),
            ["spec.initContainers[a].resources.requests.cpu", "'one'"],
            id="a quantity of an init container",
        ),
        pytest.param(
            a_job().with_container(resources={"limits": {"cpu": "1" * 20_000 + "x"}}),
            ["spec.containers[tensorflow].resources.limits.cpu", "1…", "no quantity"],
            id="a quantity of 20,000 digits, which took a minute to look through",
        ),
        pytest.param(
            a_template(securityContext=[]), ["spec.securityContext", "object"], id="a list"
        ),
        pytest.param(
            a_job().with_container(securityContext="privileged"),
            ["securityContext", "object"],
            id="a word for a security context",
        ),
    ],
)
def test_a_clash_is_refused_with_its_field_and_fix(job: JobBuilder, names: list[str]) -> None:
    with pytest.raises(InvalidTemplateError) as refused:
        spec_of(job)
    for name in ["template of chief", *names]:
        assert name in str(refused.value)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    "value", [1, 0.5, "2", "500m", "1.5Gi", "1e3", "2E", "12E6", ".5", "+1k", "100n", "4Ei"]
)
def test_every_quantity_of_kubernetes_is_one(value: object) -> None:
    limits = {"limits": {"memory": value}}
    assert trains(spec_of(a_job().with_container(resources=limits)))["resources"] == limits


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_our_labels_are_ours(where: str) -> None:
    job = a_job()
    job.raw["spec"]["template"]["metadata"] = {where: {"tftraining.dev/role": "boss"}}
    with pytest.raises(InvalidTemplateError, match=r"tftraining\.dev/role; remove it"):
        spec_of(job)


def test_the_users_labels_and_annotations_are_on_the_pod() -> None:
    job = a_job()
    job.raw["spec"]["template"]["metadata"] = {"labels": {"team": "a"}, "annotations": {"b": "c"}}
    metadata = desired.pod(job.build(), Role.CHIEF, 0, 0, IMAGE)["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["labels"][keys.LABEL_ROLE] == "chief"
    assert metadata["annotations"]["b"] == "c"


def test_a_template_chooses_neither_name_nor_namespace_nor_owner() -> None:
    job = a_job()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "uid-of-other"}
    job.raw["spec"]["template"]["metadata"] = {
        "name": "other-chief-0",
        "namespace": "kube-system",
        "ownerReferences": [owner],
    }
    metadata = desired.pod(job.build(), Role.CHIEF, 0, 0, IMAGE)["metadata"]
    built = job.build()
    assert (metadata["name"], metadata["namespace"]) == (f"{built.name}-chief-0", built.namespace)
    assert metadata["ownerReferences"] == [desired.owner_reference(built)]
