"""TFTrainingJobs as TFJobs, and there and back again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tftraining import manifest
from tftraining.cli.convert import directions, documents, from_tfjob
from tftraining.cli.convert.findings import Level, is_whole
from tftraining.cli.convert.to_tfjob import convert
from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Scheduling
from tftraining_operator.core import podtemplate
from tftraining_operator.core.desired import pod
from tftraining_operator.core.observed import slots

from tests.unit.api.strategies import broken_specs
from tests.unit.builders import a_job
from tests.unit.cli.conversions import (
    FILES,
    Raw,
    a_replica,
    a_tfjob,
    convert_text,
    mounting,
    plain,
    spec_of,
    told,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tftraining.cli.convert.findings import Conversion
    from tftraining_operator.core.job import Job

    from tests.unit.builders import JobBuilder

IMAGE = "example.com/trainer:1"
QUEUE = "kueue.x-k8s.io/queue-name"


def tfjob(raw: Raw, image: str | None = IMAGE) -> Raw:
    """What a job became, after what the training operator's webhook asks for."""
    return checked(convert(raw, image=image))


def checked(conversion: Conversion) -> Raw:
    assert conversion.job is not None, conversion.findings
    made: Raw = plain(conversion.job)
    assert (made["apiVersion"], made["kind"]) == ("kubeflow.org/v1", "TFJob")
    for name, replica in made["spec"]["tfReplicaSpecs"].items():
        assert name in ("Chief", "Worker", "PS", "Evaluator")
        container = container_of(replica)
        assert container["image"]
        assert "TF_CONFIG" not in variables(container)
        assert "restartPolicy" not in replica["template"]["spec"]
    return made


def container_of(replica: Raw) -> Raw:
    found = replica["template"]["spec"]["containers"]
    (container,) = (each for each in found if each["name"] == "tensorflow")
    assert isinstance(container, dict)
    return container


def variables(container: Raw) -> Raw:
    return {each["name"]: each.get("value") for each in container.get("env", [])}


def counts(made: Raw) -> dict[str, int]:
    return {name: each["replicas"] for name, each in made["spec"]["tfReplicaSpecs"].items()}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            a_job().with_workers(2).with_evaluator().raw,
            {"Chief": 1, "Worker": 2, "PS": 1, "Evaluator": 1},
            id="ParameterServer",
        ),
        pytest.param(
            a_job().mirrored(workers=3).raw, {"Chief": 1, "Worker": 3}, id="MultiWorkerMirrored"
        ),
        pytest.param(a_job().mirrored().raw, {"Chief": 1}, id="Mirrored"),
        pytest.param(
            a_job().mirrored().with_role("evaluator", replicas=0).raw,
            {"Chief": 1},
            id="a role without pods",
        ),
    ],
)
def test_roles_become_replicas(raw: Raw, expected: dict[str, int]) -> None:
    conversion = convert(raw, image=IMAGE)
    assert counts(checked(conversion)) == expected
    assert is_whole(conversion.findings), conversion.findings


def test_a_job_for_multikueue_stays_one() -> None:
    job = a_job().with_spec(managedBy="kueue.x-k8s.io/multikueue").raw
    assert tfjob(job)["spec"]["runPolicy"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert is_whole(convert(job, image=IMAGE).findings)


def test_what_the_operator_adds_is_in_the_templates() -> None:
    raw = a_job().with_workers(2).with_evaluator().raw
    made = tfjob(raw)
    replicas = made["spec"]["tfReplicaSpecs"]
    chief, worker = container_of(replicas["Chief"]), container_of(replicas["Worker"])
    assert chief["image"] == IMAGE
    assert chief["args"] == ["--task=mnist"]
    assert variables(chief) == {
        "GRPC_FAIL_FAST": "use_caller",
        "TF_GRPC_DEFAULT_OPTIONS": variables(worker)["TF_GRPC_DEFAULT_OPTIONS"],
        "TFTRAINING_JOB": "mnist",
        "TFTRAINING_STRATEGY": "ParameterServer",
        "TFTRAINING_WORKERS": "2",
        "TFTRAINING_CHECKPOINT_DIR": "/checkpoints",
        "TFTRAINING_PROGRESS_PORT": "8080",
    }
    assert "TFTRAINING_CHECKPOINT_DIR" not in variables(worker)
    assert [port["name"] for port in chief["ports"]] == ["progress"]
    assert "ports" not in worker, "TFJob adds that of the cluster"
    assert "readinessProbe" not in chief, "a TFJob's Services publish no pod that is not ready"
    claim = {"name": "tftraining-checkpoint", "persistentVolumeClaim": {"claimName": "mnist"}}
    for role in ("Chief", "Evaluator"):
        pod_spec = replicas[role]["template"]["spec"]
        assert claim in pod_spec["volumes"]
        assert pod_spec["securityContext"]["fsGroup"] == 65532, "which may write to the claim"
    assert claim not in replicas["Worker"]["template"]["spec"]["volumes"]
    assert made["spec"]["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 3}
    assert replicas["PS"]["restartPolicy"] == "ExitCode"


def test_a_generated_name_is_read_from_the_pods_label() -> None:
    raw = a_job().raw
    raw["metadata"] = {"generateName": "mnist-"}
    env = container_of(tfjob(raw)["spec"]["tfReplicaSpecs"]["Chief"])["env"]
    (job,) = (each for each in env if each["name"] == "TFTRAINING_JOB")
    path = "metadata.labels['training.kubeflow.org/job-name']"
    assert job == {"name": "TFTRAINING_JOB", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_a_job_of_the_cluster_says_which_trainer_image_it_runs() -> None:
    raw = a_job().with_status(trainer_image="example.com/running:2").raw
    image = container_of(tfjob(raw, None)["spec"]["tfReplicaSpecs"]["Chief"])["image"]
    assert image == "example.com/running:2"
    image = container_of(tfjob(raw, IMAGE)["spec"]["tfReplicaSpecs"]["Chief"])["image"]
    assert image == IMAGE, "what the user says counts"


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        pytest.param(
            a_job().raw, "spec.template.spec.containers[tensorflow]", "--image", id="no image"
        ),
        pytest.param(
            {**a_job().raw, "apiVersion": "tftraining.dev/v1"},
            "apiVersion",
            "must be tftraining.dev/v1alpha1, not tftraining.dev/v1",
            id="version",
        ),
        pytest.param(
            a_job().with_spec(extra=1).raw, "spec.extra", "unknown field", id="unknown field"
        ),
        pytest.param(a_job().with_workers(0).raw, "spec.worker", "needs workers", id="rule"),
        pytest.param(
            a_job().with_container(env=[{"name": "TF_CONFIG", "value": ""}]).raw,
            "spec.template",
            "sets the variable TF_CONFIG",
            id="template",
        ),
        pytest.param(
            a_job().with_label(QUEUE, "a").with_spec(scheduling={"queue": "b"}).raw,
            "spec.scheduling.queue",
            "remove one of the two",
            id="two queues",
        ),
        pytest.param({**a_job().raw, "metadata": {}}, "metadata.name", "is required", id="name"),
        pytest.param({**a_job().raw, "spec": []}, "spec", "must be an object", id="spec"),
        pytest.param(
            a_job().with_label("year", cast("str", 2026)).raw,
            "metadata.labels.year",
            'write "2026" in quotes',
            id="a label that is a number",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_the_field_and_the_fix(
    raw: Raw, path: str, words: str
) -> None:
    conversion = convert(raw)
    assert conversion.job is None
    assert words in told(conversion, Level.REFUSED)[path]


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        pytest.param(
            a_job().with_role("worker", replicas=3, minReplicas=2).raw,
            "spec.worker.minReplicas",
            "training waits for every worker",
            id="minReplicas",
        ),
        *(
            pytest.param(
                a_job().with_evaluator().with_policy(**{field: value}).raw,
                f"spec.runPolicy.{field}",
                words,
                id=field,
            )
            for field, value, words in (
                ("startupDeadlineSeconds", 60, "waits without limit"),
                ("recoveryDeadlineSeconds", 60, "waits without limit"),
                ("stallTimeoutSeconds", 60, "is not restarted"),
                ("evaluatorGraceSeconds", 60, "the evaluator ends with the job"),
                ("stopOnRepeatedFailure", True, "up to backoffLimit"),
                ("managedBy", "example.com/queue", "the training operator runs the job"),
            )
        ),
        pytest.param(
            a_job().with_spec(network={"policy": "Isolated"}).raw,
            "spec.network.policy",
            "no NetworkPolicy is made",
            id="network",
        ),
        pytest.param(
            a_job().with_spec(disruption={"budget": "Essential"}).raw,
            "spec.disruption.budget",
            "no PodDisruptionBudget is made",
            id="a disruption budget",
        ),
        pytest.param(
            a_job().with_spec(scheduling={"gang": "InTree"}).raw,
            "spec.scheduling.gang",
            "one by one",
            id="a gang by Kubernetes",
        ),
        pytest.param(
            a_job().with_spec(scheduling={"topology": {"pack": "zone"}}).raw,
            "spec.scheduling.topology",
            "add podAffinity",
            id="topology",
        ),
        pytest.param(
            a_job()
            .with_role("worker", replicas=2, minReplicas=1)
            .with_spec(scheduling={"elastic": True})
            .raw,
            "spec.scheduling.elastic",
            "Kueue takes a TFJob whole",
            id="elastic",
        ),
        pytest.param({**a_job().raw, "extra": 1}, "extra", "left out", id="unknown field"),
    ],
)
def test_what_a_tfjob_cannot_say_is_lost_and_reported(raw: Raw, path: str, words: str) -> None:
    conversion = convert(raw, image=IMAGE)
    checked(conversion)
    assert words in told(conversion, Level.LOST)[path]
    assert not is_whole(conversion.findings)


def test_what_the_training_operator_does_not_do_is_reported_of_every_job() -> None:
    job = a_job().with_workers(2).with_evaluator()
    conversion = convert(job.raw, image=IMAGE)
    assert set(told(conversion, Level.DIFFERS)) == {
        "spec",
        "status",
        "spec.network.policy",
        "spec.worker.replicas",
        "spec.evaluator",
        "spec.checkpoint",
        ", ".join(f"spec.{role}.restartPolicy" for role in ("chief", "worker", "ps", "evaluator")),
        "spec.runPolicy.backoffLimit",
        "spec.runPolicy.startupDeadlineSeconds",
        "spec.runPolicy.evaluatorGraceSeconds",
        "spec.runPolicy.stopOnRepeatedFailure",
        "spec.scheduling.gang",
    }
    job.raw["spec"] = plain(job.build().spec.model_dump(mode="json", by_alias=True))
    stored = convert(job.raw, image=IMAGE)
    assert stored.findings == conversion.findings, "also with the defaults of an API server"


def test_policies_that_mean_the_same_are_not_reported() -> None:
    never = {"restartPolicy": "Never"}
    job = a_job().with_spec(chief=never, network={"policy": "Open"}, scheduling={"gang": "None"})
    job.with_role("worker", **never).with_role("ps", **never)
    job.with_spec(disruption={"budget": "None"})
    job.with_policy(stopOnRepeatedFailure=False, ttlSecondsAfterFinished=60, cleanPodPolicy="All")
    conversion = convert(job.raw, image=IMAGE)
    assert is_whole(conversion.findings)
    assert set(told(conversion, Level.DIFFERS)) == {
        "spec",
        "status",
        "spec.worker.replicas",
        "spec.runPolicy.backoffLimit",
        "spec.runPolicy.startupDeadlineSeconds",
    }


def test_what_a_script_of_ones_own_has_to_know_is_reported() -> None:
    at = "spec.template.spec.containers[tensorflow]"
    assert at not in told(convert(a_job().raw, image=IMAGE), Level.DIFFERS)
    probe = {"tcpSocket": {"port": 2222}}
    job = a_job().with_container(command=["python3", "loop.py"], readinessProbe=probe)
    conversion = convert(job.raw, image=IMAGE)
    differs = told(conversion, Level.DIFFERS)
    assert "pass chief_gone_seconds" in differs[at]
    assert "other pods find a pod only when its probe succeeds" in differs[f"{at}.readinessProbe"]
    chief = checked(conversion)["spec"]["tfReplicaSpecs"]["Chief"]
    assert container_of(chief)["readinessProbe"] == probe
    mirrored = a_job().mirrored().with_container(command=["python3", "loop.py"])
    assert at not in told(convert(mirrored.raw, image=IMAGE), Level.DIFFERS)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param(a_job(), "The trainer image ignores that entry", id="ParameterServer"),
        pytest.param(a_job().mirrored(workers=1), "not been tested", id="MultiWorkerMirrored"),
        pytest.param(a_job().mirrored(), "TF_CONFIG of all pods lists it", id="Mirrored"),
    ],
)
def test_an_evaluator_in_the_cluster_is_reported(job: JobBuilder, words: str) -> None:
    raw = copy.deepcopy(job.raw)
    raw["spec"] |= {"evaluator": {}, "checkpoint": {"uri": "gs://bucket/run"}}
    differs = told(convert(raw, image=IMAGE), Level.DIFFERS)
    assert words in differs["spec.evaluator"]


def test_a_suspended_job_and_its_deadline_are_carried_over() -> None:
    raw = a_job().with_policy(suspend=True, activeDeadlineSeconds=60, backoffLimit=0).raw
    conversion = convert(raw, image=IMAGE)
    policy = checked(conversion)["spec"]["runPolicy"]
    assert policy == {
        "suspend": True,
        "activeDeadlineSeconds": 60,
        "backoffLimit": 0,
        "cleanPodPolicy": "Running",
    }
    differs = told(conversion, Level.DIFFERS)
    assert {"spec.runPolicy.suspend", "spec.runPolicy.activeDeadlineSeconds"} <= set(differs)


@pytest.mark.parametrize(
    ("given", "expected", "scheduler"),
    [
        pytest.param(
            {"gang": "Volcano", "queue": "vision", "priorityClassName": "high"},
            {"minAvailable": 4, "queue": "vision", "priorityClass": "high"},
            "volcano",
            id="Volcano",
        ),
        pytest.param(
            {"gang": "PodGroup"},
            {"minAvailable": 4},
            "scheduler-plugins-scheduler",
            id="coscheduling",
        ),
        pytest.param(
            {"priorityClassName": "high"}, {"priorityClass": "high"}, None, id="a priority"
        ),
    ],
)
def test_gangs_become_a_scheduling_policy(given: Raw, expected: Raw, scheduler: str | None) -> None:
    raw = a_job().with_workers(2).with_evaluator().with_spec(scheduling=given).raw
    conversion = convert(raw, image=IMAGE)
    made = checked(conversion)
    assert made["spec"]["runPolicy"]["schedulingPolicy"] == expected
    for replica in made["spec"]["tfReplicaSpecs"].values():
        pod_spec = replica["template"]["spec"]
        assert pod_spec.get("schedulerName") == scheduler
        assert pod_spec.get("priorityClassName") == given.get("priorityClassName")
    assert is_whole(conversion.findings)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(a_job().with_label(QUEUE, "team").raw, id="label"),
        pytest.param(a_job().with_spec(scheduling={"queue": "team"}).raw, id="spec"),
    ],
)
def test_a_queue_of_kueue_is_a_label(raw: Raw) -> None:
    conversion = convert(raw, image=IMAGE)
    made = checked(conversion)
    assert made["metadata"]["labels"] == {QUEUE: "team"}
    assert "schedulingPolicy" not in made["spec"]["runPolicy"]
    assert "integrations.frameworks" in told(conversion, Level.DIFFERS)[f"metadata.labels[{QUEUE}]"]


JOB = """\
# Trains digits.
apiVersion: tftraining.dev/v1alpha1
kind: TFTrainingJob
metadata:
  name: "digits"  # as the dashboard shows it
  labels: {'team': vision}
spec:
  template:
    spec:
      containers:
      # trains
      - name: tensorflow
        image: example.com/digits:3  # pinned
        args: [--epochs=3]
        env:
        - {name: A, value: "1"}  # of no importance
  worker:
    replicas: 2  # one for each node
  ps:
    template:
      spec:
        nodeSelector:
          disk: fast  # for the variables
        containers:
        - name: tensorflow
          args:
          - --verbose  # while we look for the cause
          resources:
            limits: {memory: 2Gi}  # measured
  runPolicy:
    backoffLimit: 6  # is enough
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
data:
  "key": 'kept'   # as it is
"""


def back(text: str) -> documents.Converted:
    return documents.convert_text(text, "x", directions.to_tfjobs(IMAGE))


def test_a_file_keeps_its_comments_and_other_objects() -> None:
    converted = back(JOB)
    for line in JOB.splitlines():
        _, mark, comment = line.partition("#")
        assert f"{mark}{comment}" in converted.text
    assert converted.text.endswith(JOB[JOB.index("---") :])
    made, other = yaml.safe_load_all(converted.text)
    assert other["kind"] == "ConfigMap"
    replicas = made["spec"]["tfReplicaSpecs"]
    assert replicas["PS"]["template"]["spec"]["nodeSelector"] == {"disk": "fast"}
    assert container_of(replicas["PS"])["args"] == ["--verbose"]
    assert "nodeSelector" not in replicas["Worker"]["template"]["spec"]
    assert container_of(replicas["Worker"])["args"] == ["--epochs=3"]
    assert variables(container_of(replicas["Worker"]))["A"] == "1"


def test_what_is_converted_converts_to_itself() -> None:
    once = back(JOB).text
    assert back(once).conversions == ()
    assert back(once).text == once


def test_a_list_is_converted_item_by_item() -> None:
    items = [a_job().raw, {"kind": "Secret", "apiVersion": "v1"}]
    converted = back(
        yaml.safe_dump({"apiVersion": "v1", "kind": "TFTrainingJobList", "items": items})
    )
    made = yaml.safe_load(converted.text)
    assert made["kind"] == "List"
    assert [item["kind"] for item in made["items"]] == ["TFJob", "Secret"]


# There and back again.


def pods(job: Job) -> dict[tuple[Role, int], Raw]:
    """The pods of a job, without the order of what has none."""
    found = {}
    for role, index, _ in slots(job):
        made = pod(job, role, index, 0, IMAGE)
        # Of two specs that say the same in other words.
        del made["metadata"]["annotations"][keys.ANNOTATION_SPEC]
        spec = made["spec"]
        # Set by the gang, which no pod has before the operator has formed one.
        spec.pop("schedulerName", None)
        for owner, field in ((spec, "volumes"), *((each, "ports") for each in spec["containers"])):
            owner[field] = sorted(owner.get(field, []), key=lambda item: str(item["name"]))
        for each in spec["containers"]:
            each["volumeMounts"] = sorted(
                each.get("volumeMounts", []), key=lambda item: str(item["mountPath"])
            )
        found[role, index] = made
    return found


def parsed(raw: Any) -> Job:
    return manifest.parse(yaml.safe_dump(plain(raw)), "x", uid="uid-1").job


_policies = st.fixed_dictionaries(
    {},
    optional={
        "backoffLimit": st.integers(0, 1000),
        "cleanPodPolicy": st.sampled_from(["All", "Running", "None"]),
        "ttlSecondsAfterFinished": st.integers(0, 99),
        "activeDeadlineSeconds": st.integers(1, 99),
        "suspend": st.booleans(),
    },
)
SCHEDULINGS: list[Raw] = [
    {},
    {"gang": "Volcano", "queue": "vision"},
    {"gang": "Volcano", "priorityClassName": "high"},
    {"gang": "PodGroup"},
    {"priorityClassName": "high"},
]
CHECKPOINTS: list[Raw] = [
    {"persistentVolumeClaim": {"claimName": "mnist"}},
    {"persistentVolumeClaim": {"claimName": "mnist"}, "path": "/models"},
    {"persistentVolumeClaim": {"claimName": "mnist"}, "resumeFrom": "/checkpoints/before"},
    {"emptyDir": {}},
    {"emptyDir": {}, "path": "/models"},
    {"uri": "gs://bucket/run"},
    {"uri": "gs://bucket/run", "resumeFrom": "gs://bucket/before"},
]
_containers = st.fixed_dictionaries(
    {},
    optional={
        "image": st.just("example.com/own:1"),
        "command": st.just(["python3", "train.py"]),
        "env": st.sampled_from([[], [{"name": "A", "value": "$(TFTRAINING_JOB)"}]]),
        "ports": st.sampled_from([[], [{"name": "grpc", "containerPort": 9000}]]),
        "resources": st.just({"limits": {"cpu": 1}}),
        "volumeMounts": st.just([{"name": "data", "mountPath": "/data"}]),
        "securityContext": st.just({"runAsUser": 1000}),
        "terminationMessagePolicy": st.just("File"),
    },
)
_templates = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.just({"disk": "fast"}),
        "automountServiceAccountToken": st.booleans(),
        "enableServiceLinks": st.booleans(),
        "volumes": st.just([{"name": "data", "emptyDir": {}}]),
        "securityContext": st.just({"fsGroup": 1}),
    },
)
_restarts = st.sampled_from(["ExitCode", "OnFailure", "Never"])


@st.composite
def _jobs(draw: Any) -> Raw:
    """Jobs that set nothing that a TFJob cannot say."""
    job = a_job()
    strategy = draw(st.sampled_from(["ParameterServer", "MultiWorkerMirrored", "Mirrored"]))
    if strategy == "ParameterServer":
        job.with_workers(draw(st.integers(1, 3))).with_role("ps", replicas=draw(st.integers(1, 2)))
    else:
        job.mirrored(workers=draw(st.integers(1, 3)) if strategy != "Mirrored" else 0)
    if draw(st.booleans()):
        checkpoint = draw(st.sampled_from(CHECKPOINTS))
        job.with_spec(checkpoint=checkpoint)
        if "emptyDir" not in checkpoint and draw(st.booleans()):
            job.with_role("evaluator", replicas=1)
    roles = [role for role in Role if role.value in job.raw["spec"]] + [Role.CHIEF]
    job.with_container(**draw(_containers))
    job.raw["spec"]["template"]["spec"] |= draw(_templates)
    for role in roles:
        job.with_role(role.value, restartPolicy=draw(_restarts))
        if draw(st.booleans()):
            container = {"name": "tensorflow", **draw(_containers)}
            own = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
            own["spec"] |= draw(_templates)
            job.with_role(role.value, template=own)
    scheduling = draw(st.sampled_from(SCHEDULINGS))
    if scheduling:
        job.with_spec(scheduling=scheduling)
    else:
        job.with_label(QUEUE, "team")
    policy = draw(_policies)
    if not scheduling:
        policy.pop("suspend", None)  # which Kueue sets there
    return job.with_policy(**policy).raw


@settings(max_examples=40, deadline=None)
@given(_jobs())
def test_a_job_that_went_and_came_back_has_the_same_pods_and_policies(raw: Raw) -> None:
    it_goes_and_comes_back(raw)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=str)
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_job(), id="ParameterServer"),
        pytest.param(a_job().mirrored(), id="Mirrored"),
        pytest.param(a_job().mirrored(workers=1), id="MultiWorkerMirrored"),
    ],
)
def test_checkpoints_go_and_come_back(job: JobBuilder, checkpoint: Raw) -> None:
    raw = copy.deepcopy(job.raw)
    raw["spec"]["checkpoint"] = checkpoint
    it_goes_and_comes_back(raw)
    if "emptyDir" not in checkpoint:
        raw["spec"]["evaluator"] = {}
        it_goes_and_comes_back(raw)


def test_a_claim_that_the_ps_mount_goes_and_comes_back() -> None:
    job = a_job().with_spec(checkpoint=CHECKPOINTS[1]).with_role("ps", mountCheckpoint=True)
    it_goes_and_comes_back(job.raw)
    ps = tfjob(job.raw)["spec"]["tfReplicaSpecs"]["PS"]
    assert "/models" in [mount["mountPath"] for mount in container_of(ps)["volumeMounts"]]


def test_ps_mount_no_bucket_that_takes_the_place_of_a_claim() -> None:
    job = a_job().with_spec(checkpoint=CHECKPOINTS[0]).with_role("ps", mountCheckpoint=True)
    returned = from_tfjob.convert(tfjob(job.raw), checkpoint="gs://bucket/run")
    assert returned.job is not None
    assert "mountCheckpoint" not in returned.job["spec"]["ps"]


@pytest.mark.parametrize("scheduling", SCHEDULINGS, ids=str)
def test_schedulings_go_and_come_back(scheduling: Raw) -> None:
    it_goes_and_comes_back(a_job().with_workers(2).with_spec(scheduling=scheduling).raw)


def it_goes_and_comes_back(raw: Raw) -> None:
    before = copy.deepcopy(raw)
    conversion = convert(raw, image=IMAGE)
    assert raw == before, "what is converted is not changed"
    assert is_whole(conversion.findings)
    returned = from_tfjob.convert(checked(conversion))
    assert is_whole(returned.findings), returned.findings
    old, new = parsed(raw), parsed(returned.job)
    assert pods(new) == pods(old)
    assert new.meta.labels == old.meta.labels
    assert new.spec.run_policy == old.spec.run_policy
    assert new.spec.strategy == old.spec.strategy
    assert new.spec.checkpoint == old.spec.checkpoint
    assert (new.spec.scheduling or Scheduling()) == (old.spec.scheduling or Scheduling())
    for role in Role:
        given, found = old.spec.role(role), new.spec.role(role)
        assert (given is None) == (found is None)
        if given is not None and found is not None:
            assert found.restart_policy == given.restart_policy


@given(broken_specs())
def test_a_broken_job_is_refused_and_no_other_becomes_one_that_cannot_come_back(spec: Any) -> None:
    conversion = convert({**a_job().raw, "spec": spec}, image=IMAGE)
    if conversion.job is None:
        assert conversion.findings[-1].level is Level.REFUSED
    else:
        assert from_tfjob.convert(checked(conversion)).job is not None


SHAPES = {
    "chief, ps and workers": a_tfjob(
        Chief=a_replica(policy="Never"), PS=a_replica(2), Worker=a_replica(3, "ExitCode")
    ),
    "one worker": a_tfjob(Worker=a_replica()),
    "three workers": a_tfjob(Worker=a_replica(3, "OnFailure")),
    "a master": a_tfjob(Master=a_replica(), Worker=a_replica(2)),
    "an evaluator": a_tfjob(
        Chief=mounting("/models"), Worker=a_replica(), Evaluator=mounting("/models")
    ),
    "a restart policy of its own": a_tfjob(Chief=a_replica(), Worker=a_replica(policy="Always")),
    "policies": a_tfjob(
        {
            "cleanPodPolicy": "All",
            "ttlSecondsAfterFinished": 60,
            "activeDeadlineSeconds": 60,
            "backoffLimit": 6,
            "suspend": True,
        },
        Worker=a_replica(),
    ),
    "a queue of Volcano": a_tfjob(
        {"schedulingPolicy": {"minAvailable": 3, "queue": "vision", "priorityClass": "high"}},
        Chief=a_replica(),
        Worker=a_replica(2),
    ),
}


def _is_within(expected: Any, found: Any) -> bool:
    """Whether `found` has all that is expected, and maybe more."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            key in found and _is_within(value, found[key]) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return all(any(_is_within(item, other) for other in found) for item in expected)
    return bool(expected == found)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tfjob_that_came_and_went_back_has_all_that_it_had(shape: str) -> None:
    raw = SHAPES[shape]
    came = from_tfjob.convert(raw)
    spec_of(came)
    made = checked(convert(came.job or {}))
    given = raw["spec"]["tfReplicaSpecs"]
    chief = next(name for name in ("Chief", "Master", "Worker") if name in given)
    left = given.get("Worker", {}).get("replicas", 0) - (chief == "Worker")
    expected = {"Chief": 1, "Worker": left}
    expected |= {name: given[name]["replicas"] for name in ("PS", "Evaluator") if name in given}
    assert counts(made) == {name: count for name, count in expected.items() if count}
    for name, replica in made["spec"]["tfReplicaSpecs"].items():
        source = given.get(name) or given[chief]
        wanted = source.get("restartPolicy") or "Never"
        assert replica["restartPolicy"] == ("OnFailure" if wanted == "Always" else wanted)
        assert _is_within(source["template"], replica["template"])
    assert _is_within(raw["spec"].get("runPolicy", {}), made["spec"]["runPolicy"])


@pytest.mark.parametrize("file", sorted(FILES.iterdir()), ids=lambda path: path.name)
def test_files_of_tfjobs_come_and_go_back(file: Path) -> None:
    (came, *others) = yaml.safe_load_all(convert_text(file.read_text()).text)
    text = yaml.safe_dump_all([came, *others])
    converted = documents.convert_text(text, "x", directions.to_tfjobs())
    (conversion,) = converted.conversions
    assert is_whole(conversion.findings)
    assert _is_within(yaml.safe_load(converted.text.partition("---")[0]), checked(conversion))


def test_a_template_has_what_a_pod_of_the_operator_has() -> None:
    """Whatever the operator adds to pods in future is carried over, unless it is left out here."""
    job = a_job().with_evaluator().build()
    replica = tfjob(a_job().with_evaluator().raw)["spec"]["tfReplicaSpecs"]["Chief"]
    made = podtemplate.pod_spec(job, Role.CHIEF, 0, 0, IMAGE)
    written = replica["template"]["spec"]
    assert set(made) - set(written) == {"hostname", "subdomain", "restartPolicy"}
    (container,) = made["containers"]
    assert set(container) - set(container_of(replica)) == {"readinessProbe"}
    assert set(variables(container)) - set(variables(container_of(replica))) == {
        "TF_CONFIG",
        "TFTRAINING_ATTEMPT",
        "TFTRAINING_CLUSTER_WORKERS",
        "TFTRAINING_JOB_UID",
    }
    assert container["name"] == keys.CONTAINER
