"""TFJobs as people have them, converted."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from tftraining.cli.convert.findings import Level, is_whole
from tftraining.cli.convert.from_tfjob import convert
from tftraining.errors import InputError

from tests.unit.api.strategies import broken
from tests.unit.cli.conversions import (
    FILES,
    Raw,
    a_replica,
    a_tfjob,
    convert_text,
    mounting,
    plain,
    roles,
    spec_of,
    told,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("replicas", "strategy", "expected"),
    [
        pytest.param(
            {"Chief": a_replica(), "PS": a_replica(), "Worker": a_replica(2)},
            None,
            {"chief": 1, "worker": 2, "ps": 1},
            id="chief, ps and workers",
        ),
        pytest.param({"Worker": a_replica()}, "Mirrored", {"chief": 1}, id="one worker"),
        pytest.param(
            {"Worker": a_replica(3)},
            "MultiWorkerMirrored",
            {"chief": 1, "worker": 2},
            id="three workers",
        ),
        pytest.param(
            {"Master": a_replica(), "Worker": a_replica(2)},
            "MultiWorkerMirrored",
            {"chief": 1, "worker": 2},
            id="a master",
        ),
        pytest.param({"Chief": a_replica()}, "Mirrored", {"chief": 1}, id="a chief alone"),
        pytest.param(
            {"chief": a_replica(), "worker": a_replica(), "PS": a_replica(0)},
            "MultiWorkerMirrored",
            {"chief": 1, "worker": 1},
            id="lower case, and no ps at all",
        ),
        pytest.param(
            {"Chief": {**a_replica(), "replicas": None}, "Worker": a_replica(0)},
            "Mirrored",
            {"chief": 1},
            id="null, which is one",
        ),
    ],
)
def test_replicas_become_a_strategy_with_roles(
    replicas: dict[str, Raw], strategy: str | None, expected: dict[str, int]
) -> None:
    conversion = convert(a_tfjob(**replicas))
    spec = spec_of(conversion)
    assert spec.get("strategy") == strategy
    assert roles(spec) == expected
    assert "template" in spec, "which is the same for all roles"
    assert is_whole(conversion.findings)


def test_workers_without_a_chief_say_who_the_chief_is() -> None:
    differs = told(convert(a_tfjob(Worker=a_replica(3))), Level.DIFFERS)
    assert "worker 0 is the chief" in differs["spec.tfReplicaSpecs.Worker.replicas"]


def test_a_master_says_what_tf_config_calls_it() -> None:
    differs = told(convert(a_tfjob(Master=a_replica(), Worker=a_replica())), Level.DIFFERS)
    assert "looks for master" in differs["spec.tfReplicaSpecs.Master"]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("policy", "text"), [("Always", "is not run again"), ("ExitCode", "are permanent here")]
)
def test_a_chief_made_of_workers_says_once_what_their_restart_policy_is(
    workers: int, policy: str, text: str
) -> None:
    conversion = convert(a_tfjob(Worker=a_replica(workers, policy)))
    path = "spec.tfReplicaSpecs.Worker.restartPolicy"
    (found,) = [each for each in conversion.findings if each.path == path]
    assert text in found.text


def test_roles_with_templates_of_their_own_keep_them() -> None:
    spec = spec_of(
        convert(
            a_tfjob(Chief=a_replica(), PS=a_replica(nodeSelector={"a": "b"}), Worker=a_replica())
        )
    )
    assert "template" not in spec
    assert spec["ps"]["template"]["spec"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize(
    ("job", "path", "words"),
    [
        pytest.param(
            a_tfjob(PS=a_replica(), Worker=a_replica(2)),
            "spec.tfReplicaSpecs.PS",
            "between graphs",
            id="ps and workers without a chief",
        ),
        pytest.param(
            a_tfjob(Chief=a_replica(), Worker=a_replica(), Evaluator=a_replica()),
            "spec.tfReplicaSpecs.Evaluator",
            "--checkpoint",
            id="an evaluator that does not say what it reads",
        ),
        pytest.param(
            a_tfjob(Chief=a_replica(2)), "spec.tfReplicaSpecs.Chief.replicas", "set 1", id="chiefs"
        ),
        pytest.param(
            a_tfjob(Chief=a_replica(), PS=a_replica()),
            "spec.tfReplicaSpecs.PS",
            "add a Worker",
            id="ps",
        ),
        pytest.param(
            a_tfjob(Chief=a_replica(), Master=a_replica()),
            "spec.tfReplicaSpecs.Master",
            "a second chief",
            id="chief and master",
        ),
        pytest.param(a_tfjob(Boss=a_replica()), "spec.tfReplicaSpecs.Boss", "unknown type", id="?"),
        pytest.param(a_tfjob(), "spec.tfReplicaSpecs", "is required", id="no replicas"),
        pytest.param({**a_tfjob(), "spec": []}, "spec", "must be an object", id="spec"),
        pytest.param(
            {**a_tfjob(Worker=a_replica()), "metadata": []},
            "metadata",
            "must be an object",
            id="metadata",
        ),
        pytest.param(
            {**a_tfjob(Worker=a_replica()), "metadata": {"name": "a", "labels": {"b": 1}}},
            "metadata.labels.b",
            'write "1" in quotes',
            id="a label that is a number",
        ),
        pytest.param(
            a_tfjob(Worker={"replicas": 1}),
            "spec.tfReplicaSpecs.Worker.template",
            "",
            id="template",
        ),
        pytest.param(
            a_tfjob(Worker={"template": {"spec": {"containers": [{"name": "main"}]}}}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers",
            "found: main",
            id="no container tensorflow",
        ),
        pytest.param(
            a_tfjob(Worker={"template": {"spec": {"containers": ["tensorflow"]}}}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers",
            "must be a list of objects",
            id="containers",
        ),
        pytest.param(
            a_tfjob(Worker=a_replica(policy="Sometimes")),
            "spec.tfReplicaSpecs.Worker.restartPolicy",
            "unknown value Sometimes",
            id="restartPolicy",
        ),
        pytest.param(
            a_tfjob({"backoffLimit": "x"}, Worker=a_replica()),
            "spec.runPolicy.backoffLimit",
            "must be an integer",
            id="what the API refuses",
        ),
        pytest.param(
            a_tfjob({"suspend": "no"}, Worker=a_replica()),
            "spec.runPolicy.suspend",
            "write false without quotes",
            id="a word that is true or false in older YAML only",
        ),
        pytest.param(
            {**a_tfjob(Worker=a_replica()), "metadata": {"name": "9lives"}},
            "metadata.name",
            "starting with a letter",
            id="a name that is none here",
        ),
        pytest.param(
            {**a_tfjob(Worker=a_replica()), "metadata": {}},
            "metadata.name",
            "is required",
            id="name",
        ),
        *(
            pytest.param(
                {**a_tfjob(Worker=a_replica()), "apiVersion": f"kubeflow.org/{version}"},
                "apiVersion",
                f"kubeflow.org/{version} cannot be converted, only kubeflow.org/v1",
                id=version,
            )
            for version in ("v1beta2", "v1alpha2")
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_the_field_and_the_fix(
    job: Raw, path: str, words: str
) -> None:
    conversion = convert(job)
    assert conversion.job is None
    assert not is_whole(conversion.findings)
    assert words in told(conversion, Level.REFUSED)[path]


FULL = a_tfjob(
    {"cleanPodPolicy": "All", "schedulingPolicy": {"minAvailable": 3, "queue": "vision"}},
    Chief=mounting("/models"),
    Worker=a_replica(2, "ExitCode"),
    Evaluator=mounting("/models"),
)


@given(broken([FULL, yaml.safe_load((FILES / "everything.yaml").read_text())]))
def test_a_broken_tfjob_is_converted_or_refused(job: Any) -> None:
    conversion = convert(job)
    refused = told(conversion, Level.REFUSED)
    assert (conversion.job is None) == bool(refused)


@pytest.mark.parametrize(
    ("given", "expected", "words"),
    [
        (None, "Never", ""),
        ("Never", "Never", ""),
        ("OnFailure", "OnFailure", ""),
        ("Always", "OnFailure", "a chief that exits with 0 has succeeded"),
        ("ExitCode", "ExitCode", "only 64, 77, 126 and 127 are permanent here"),
    ],
)
def test_restart_policies(given: str | None, expected: str, words: str) -> None:
    conversion = convert(a_tfjob(Chief=a_replica(policy=given), Worker=a_replica()))
    assert spec_of(conversion)["chief"]["restartPolicy"] == expected
    differs = told(conversion, Level.DIFFERS)
    assert words in differs.get("spec.tfReplicaSpecs.Chief.restartPolicy", "")


def test_the_codes_of_the_report_are_those_of_the_operator() -> None:
    from tftraining_operator.core.exit_codes import _PERMANENT  # noqa: PLC0415 - for this test

    conversion = convert(a_tfjob(Chief=a_replica(policy="ExitCode")))
    text = told(conversion, Level.DIFFERS)["spec.tfReplicaSpecs.Chief.restartPolicy"]
    *first, last = sorted(int(code) for code in _PERMANENT)
    assert f"only {', '.join(map(str, first))} and {last} are permanent" in text


@pytest.mark.parametrize(
    ("given", "expected", "differs"),
    [
        pytest.param({"backoffLimit": 5}, {"backoffLimit": 5}, "backoffLimit", id="backoffLimit"),
        pytest.param({"backoffLimit": 9999}, {"backoffLimit": 1000}, "backoffLimit", id="too many"),
        pytest.param({"cleanPodPolicy": "All"}, {"cleanPodPolicy": "All"}, None, id="All"),
        pytest.param({"cleanPodPolicy": "None"}, {"cleanPodPolicy": "None"}, None, id="None"),
        pytest.param({}, None, "cleanPodPolicy", id="the default is another one"),
        pytest.param(
            {"suspend": True, "ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 9},
            {"ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 9, "suspend": True},
            None,
            id="what is the same",
        ),
        pytest.param({"managedBy": "kubeflow.org/training-operator"}, None, None, id="managedBy"),
    ],
)
def test_run_policies(given: Raw, expected: Raw | None, differs: str | None) -> None:
    conversion = convert(a_tfjob(given, Worker=a_replica()))
    assert spec_of(conversion).get("runPolicy") == expected
    found = told(conversion, Level.DIFFERS)
    assert differs is None or f"spec.runPolicy.{differs}" in found
    assert is_whole(conversion.findings)


def test_a_job_for_multikueue_stays_one() -> None:
    conversion = convert(a_tfjob({"managedBy": "kueue.x-k8s.io/multikueue"}, Worker=a_replica()))
    assert spec_of(conversion)["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert is_whole(conversion.findings)


def test_an_unset_backoff_limit_was_none_where_pods_restart() -> None:
    restarts = told(convert(a_tfjob(Worker=a_replica(policy="OnFailure"))), Level.DIFFERS)
    assert "unset meant no limit; here it means 3" in restarts["spec.runPolicy.backoffLimit"]
    never = told(convert(a_tfjob(Worker=a_replica(policy="Never"))), Level.DIFFERS)
    assert "spec.runPolicy.backoffLimit" not in never


def test_the_first_builds_of_v1_had_the_policy_in_spec() -> None:
    job = a_tfjob(Worker=a_replica())
    job["spec"] |= {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 5}
    expected = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 5}
    assert spec_of(convert(job))["runPolicy"] == expected


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"successPolicy": "AllWorkers"}, "spec.successPolicy"),
        ({"runPolicy": {"managedBy": "example.com/queue"}}, "spec.runPolicy.managedBy"),
        (
            {"runPolicy": {"schedulingPolicy": {"scheduleTimeoutSeconds": 60}}},
            "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        ),
        ({"runPolicy": {"extra": 1}}, "spec.runPolicy.extra"),
        ({"extra": 1}, "spec.extra"),
    ],
)
def test_what_cannot_be_carried_over_is_lost_and_said(change: Raw, path: str) -> None:
    job = a_tfjob(Chief=a_replica(), Worker=a_replica(2))
    job["spec"] |= change
    conversion = convert(job)
    spec_of(conversion)
    assert path in told(conversion, Level.LOST)
    assert not is_whole(conversion.findings)


SCHEDULING = "spec.runPolicy.schedulingPolicy"


@pytest.mark.parametrize(
    ("policy", "scheduler", "expected", "differs"),
    [
        pytest.param({}, None, None, set(), id="nothing"),
        pytest.param(
            {"minAvailable": 3, "queue": "vision", "priorityClass": "high"},
            None,
            {"gang": "Volcano", "queue": "vision", "priorityClassName": "high"},
            set(),
            id="a queue of Volcano",
        ),
        pytest.param({"minAvailable": 3}, "volcano", {"gang": "Volcano"}, set(), id="Volcano"),
        pytest.param(
            {"minAvailable": 2, "minResources": {"cpu": 8}},
            "scheduler-plugins-scheduler",
            {"gang": "PodGroup"},
            {"minAvailable", "minResources"},
            id="coscheduling, with fewer pods than there are",
        ),
        pytest.param({"minAvailable": 3}, None, None, {"minAvailable"}, id="any gang"),
    ],
)
def test_gangs_and_queues_are_carried_over(
    policy: Raw, scheduler: str | None, expected: Raw | None, differs: set[str]
) -> None:
    job = a_tfjob(Chief=a_replica(), Worker=a_replica(2))
    job["spec"]["runPolicy"] = {"schedulingPolicy": policy}
    if scheduler:
        for replica in job["spec"]["tfReplicaSpecs"].values():
            replica["template"]["spec"]["schedulerName"] = scheduler
    conversion = convert(job)
    assert spec_of(conversion).get("scheduling") == expected
    assert is_whole(conversion.findings)
    found = {path for path in told(conversion, Level.DIFFERS) if path.startswith(SCHEDULING)}
    assert found == {f"{SCHEDULING}.{key}" for key in differs}


def test_a_priority_of_a_template_is_the_only_one() -> None:
    job = a_tfjob(Worker=a_replica())
    job["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": "high"}}
    replica = job["spec"]["tfReplicaSpecs"]["Worker"]
    replica["template"]["spec"]["priorityClassName"] = "low"
    conversion = convert(job)
    assert "scheduling" not in spec_of(conversion)
    assert f"{SCHEDULING}.priorityClass" in told(conversion, Level.DIFFERS)


def test_one_priority_of_all_templates_is_that_of_the_job() -> None:
    job = a_tfjob(Chief=a_replica(), Worker=a_replica())
    job["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": "high"}}
    for replica in job["spec"]["tfReplicaSpecs"].values():
        replica["template"]["spec"]["priorityClassName"] = "high"
    conversion = convert(job)
    spec = spec_of(conversion)
    assert spec["scheduling"] == {"priorityClassName": "high"}
    assert "priorityClassName" not in spec["template"]["spec"]
    assert f"{SCHEDULING}.priorityClass" not in told(conversion, Level.DIFFERS)


def test_all_workers_of_one_worker_is_no_loss() -> None:
    job = a_tfjob(Worker=a_replica())
    job["spec"] |= {"successPolicy": "AllWorkers", "enableDynamicWorker": True}
    conversion = convert(job)
    assert is_whole(conversion.findings)
    assert "spec.enableDynamicWorker" in told(conversion, Level.DIFFERS)


def test_another_port_and_the_operators_fields_leave_the_template() -> None:
    job = a_tfjob(Worker=a_replica(hostNetwork=True, subdomain="x", restartPolicy="Never"))
    container = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["ports"] = [
        {"name": "tfjob-port", "containerPort": 5000},
        {"name": "metrics", "containerPort": 9000},
    ]
    container["env"] = [{"name": "TF_CONFIG", "value": "{}"}, {"name": "A", "value": "b"}]
    before = copy.deepcopy(job)
    conversion = convert(job)
    assert job == before, "what is converted is not changed"
    template = spec_of(conversion)["template"]["spec"]
    assert set(template) == {"containers", "hostNetwork"}
    assert template["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 9000}]
    assert template["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    at = "spec.tfReplicaSpecs.Worker.template.spec"
    differs, lost = told(conversion, Level.DIFFERS), told(conversion, Level.LOST)
    assert "5000 is 2222 here" in differs[f"{at}.containers[tensorflow].ports[tfjob-port]"]
    assert f"{at}.hostNetwork" in differs
    assert set(lost) == {f"{at}.subdomain", f"{at}.containers[tensorflow].env[TF_CONFIG]"}


def test_a_port_of_the_node_is_lost_with_that_of_the_cluster() -> None:
    job = a_tfjob(Worker=a_replica())
    container = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "tfjob-port", "containerPort": 2222, "hostPort": 30000}]
    at = "spec.tfReplicaSpecs.Worker.template.spec.containers[tensorflow].ports[tfjob-port]"
    assert f"{at}.hostPort" in told(convert(job), Level.LOST)


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_who_names_an_account_gets_its_token(field: str) -> None:
    template = spec_of(convert(a_tfjob(Worker=a_replica(**{field: "trainer"}))))["template"]
    assert template["spec"][field] == "trainer"
    assert template["spec"]["automountServiceAccountToken"] is True


def test_an_evaluators_claim_is_that_which_the_chief_mounts() -> None:
    evaluator = mounting("/checkpoints", readOnly=True)
    job = a_tfjob(
        Chief=mounting("/models"), Worker=a_replica(2), PS=a_replica(), Evaluator=evaluator
    )
    conversion = convert(job)
    spec = spec_of(conversion)
    assert spec["checkpoint"] == {
        "persistentVolumeClaim": {"claimName": "models"},
        "path": "/tftraining-checkpoints",
    }
    assert spec["evaluator"]["restartPolicy"] == "Never"
    differs = told(conversion, Level.DIFFERS)["spec.tfReplicaSpecs.Evaluator"]
    assert "outside of the training cluster" in differs


def test_an_evaluators_bucket_is_that_of_both_arguments() -> None:
    replica = a_replica()
    replica["template"]["spec"]["containers"][0]["args"] = ["--dir=gs://bucket/run-1/"]
    conversion = convert(a_tfjob(Chief=replica, Worker=a_replica(), Evaluator=replica))
    assert spec_of(conversion)["checkpoint"] == {"uri": "gs://bucket/run-1"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mnist", {"persistentVolumeClaim": {"claimName": "mnist"}}),
        ("gs://bucket/run", {"uri": "gs://bucket/run"}),
    ],
)
def test_a_user_can_say_where_checkpoints_are(given: str, expected: Raw) -> None:
    job = a_tfjob(Chief=a_replica(), Worker=a_replica(), Evaluator=a_replica())
    assert spec_of(convert(job, checkpoint=given))["checkpoint"] == expected


QUEUE, MAX_TIME = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/max-exec-time-seconds"


def test_a_queue_of_kueue_is_kept_with_its_priority() -> None:
    job = a_tfjob(Chief=a_replica(), Worker=a_replica())
    labels = {QUEUE: "team", "kueue.x-k8s.io/priority-class": "urgent"}
    job["metadata"]["labels"] = labels
    conversion = convert(job)
    spec_of(conversion)
    assert is_whole(conversion.findings)
    assert conversion.job is not None
    assert plain(conversion.job["metadata"]["labels"]) == labels
    differs = told(conversion, Level.DIFFERS)
    assert "the operator makes the Workload itself" in differs[f"metadata.labels[{QUEUE}]"]


def test_kueue_suspends_a_tfjob_and_no_tftrainingjob() -> None:
    job = a_tfjob({"suspend": True, "backoffLimit": 2}, Worker=a_replica())
    assert spec_of(convert(job))["runPolicy"] == {"suspend": True, "backoffLimit": 2}
    job["metadata"]["labels"] = {QUEUE: "team"}
    conversion = convert(job)
    assert spec_of(conversion)["runPolicy"] == {"backoffLimit": 2}
    assert "until it admits it" in told(conversion, Level.DIFFERS)["spec.runPolicy.suspend"]


def test_kueues_time_limit_is_lost() -> None:
    job = a_tfjob(Worker=a_replica())
    job["metadata"]["labels"] = {MAX_TIME: "60"}
    lost = told(convert(job), Level.LOST)
    assert "set spec.runPolicy.activeDeadlineSeconds" in lost[f"metadata.labels[{MAX_TIME}]"]


def test_what_the_api_server_added_is_left_behind() -> None:
    job = a_tfjob(Worker=a_replica())
    job["metadata"] |= {
        "uid": "1",
        "resourceVersion": "2",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "finalizers": ["x"],
    }
    job["status"] = {}
    conversion = convert(job)
    assert conversion.job is not None
    assert plain(conversion.job["metadata"]) == {"name": "mnist"}
    assert set(told(conversion, Level.LOST)) == {"metadata.finalizers"}


def test_words_that_kubectl_takes_for_booleans_are_booleans() -> None:
    job = yaml.safe_dump(a_tfjob(Worker=a_replica(hostNetwork=True)))
    job = job.replace("hostNetwork: true", "hostNetwork: y")
    assert "hostNetwork: true\n" in convert_text(job).text
    labelled = convert_text(job.replace("name: mnist", "name: m\n  labels: {gpu: on}"))
    assert labelled.conversions[0].job is None, "a label is text"
    quoted = convert_text(job.replace("name: mnist", "name: m\n  labels: {gpu: 'on'}"))
    assert "labels: {gpu: 'on'}\n" in quoted.text


def test_a_file_keeps_its_comments_and_other_objects() -> None:
    text = (FILES / "parameter_server.yaml").read_text()
    converted = convert_text(text)
    for comment in (
        "# Trains digits on a small cluster.",
        "name: digits  # as the dashboard shows it",
        "# pinned",
        "# holds the variables",
        "# one for each node",
    ):
        assert comment in converted.text
    assert converted.text.endswith(text[text.index("---") :])
    job, other = yaml.safe_load_all(converted.text)
    assert job["metadata"] == {"name": "digits", "namespace": "vision"}
    assert other["kind"] == "ConfigMap"
    assert "ports" not in converted.text, "the operator opens them"


@pytest.mark.parametrize("head", ["# Copyright\n# The team\n---\n", "\n# Copyright\n\n---\n"])
def test_comments_before_the_first_document_are_kept(head: str) -> None:
    """Such as a licence."""
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
    text = f"{head}{yaml.safe_dump(a_tfjob(Chief=a_replica()))}---\n{other}"
    found = convert_text(text).text
    comments = head[: head.index("---")]
    assert found.startswith(f"{comments}---\napiVersion: tftraining.dev/v1alpha1\n")
    assert found.endswith(f"---\n{other}")
    assert len(list(yaml.safe_load_all(found))) == 2


def test_all_that_a_template_can_have_is_carried_over() -> None:
    converted = convert_text((FILES / "everything.yaml").read_text())
    (conversion,) = converted.conversions
    assert is_whole(conversion.findings)
    assert conversion.job is not None
    conversion.job["metadata"]["name"] = "segment-abcde"
    spec = spec_of(conversion)
    pod = spec["template"]["spec"]
    given = yaml.safe_load((FILES / "everything.yaml").read_text())
    before = given["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    changed = {"restartPolicy", "automountServiceAccountToken"}
    assert {k: v for k, v in pod.items() if k not in changed} == {
        k: v for k, v in before.items() if k not in changed
    }
    assert spec["scheduling"] == {"priorityClassName": "training"}
    assert pod["automountServiceAccountToken"] is True
    assert spec["runPolicy"] == {
        "cleanPodPolicy": "All",
        "ttlSecondsAfterFinished": 3600,
        "activeDeadlineSeconds": 86400,
        "backoffLimit": 6,
        "suspend": True,
    }
    assert spec["worker"] == {"replicas": 3, "restartPolicy": "ExitCode"}


@pytest.mark.parametrize("file", sorted(FILES.iterdir()), ids=lambda path: path.name)
def test_what_is_converted_converts_to_itself(file: Path) -> None:
    once = convert_text(file.read_text()).text
    assert convert_text(once).conversions == ()
    assert "TFTrainingJob" in once


def test_merged_keys_and_aliases_are_written_out() -> None:
    converted = convert_text((FILES / "anchors.yaml").read_text())
    assert not set("&*") & set(converted.text)
    assert "<<" not in converted.text
    spec = spec_of(converted.conversions[0])
    assert roles(spec) == {"chief": 1, "worker": 2, "ps": 1}
    (container,) = spec["ps"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/train:1"


def test_a_date_is_text_as_in_kubectl() -> None:
    job = yaml.safe_dump(a_tfjob(Worker=a_replica(1))).replace(
        "name: mnist", "name: m\n  labels: {day: 2026-01-01}"
    )
    converted = convert_text(job.replace("image: example.com/train:1", "image: 2026-01-02"))
    made = yaml.safe_load(converted.text)
    assert made["metadata"]["labels"] == {"day": "2026-01-01"}
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "2026-01-02"


def test_a_list_is_converted_item_by_item() -> None:
    bad = a_tfjob(PS=a_replica(), Worker=a_replica())
    items = [a_tfjob(Worker=a_replica()), bad, {"kind": "Secret", "apiVersion": "v1"}]
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    converted = convert_text(text)
    kinds = [item["kind"] for item in yaml.safe_load(converted.text)["items"]]
    assert kinds == ["TFTrainingJob", "Secret"]
    assert [each.job is None for each in converted.conversions] == [False, True]


def test_broken_yaml_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"x:3: invalid YAML"):
        convert_text("a: b\nc: [\n")
