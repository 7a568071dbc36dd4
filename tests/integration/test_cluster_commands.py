"""`tftj` as a process of its own, against a real API server and the real operator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.integration.jobs import GROUP_PATH, manifest
from tools.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.jobs import Namespace

ROOT = Path(__file__).parents[2]
TFJOBS = ROOT / "tests/unit/cli/tfjobs"
TASK = "def model(): ...\n\n\ndef dataset(split, context): ...\n"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/task/task.py", line 12, in dataset\n'
    "ValueError: no examples\n"
)

pytestmark = pytest.mark.timeout(120)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tftraining.cli", *arguments]


def environment(space: Namespace) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "operator"),
        "KUBECONFIG": str(space.server.kubeconfig),
        "HOME": str(space.server.kubeconfig.parent),
    }


def tftj(
    space: Namespace, *arguments: str, given: str | None = None, code: int = 0
) -> tuple[str, str]:
    """Run a command in the namespace; return what it said on both channels."""
    where = () if arguments[0] in ("convert", "completion") else (f"--namespace={space.name}",)
    name, *rest = arguments
    done = subprocess.run(
        command(name, *where, *rest),
        env=environment(space),
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def a_failed_job(space: Namespace) -> None:
    space.run_all()
    space.end("mnist-chief-0", 64, TRACEBACK)
    space.wait_for("Finished")


def test_a_job_is_submitted_listed_described_and_changed(space: Namespace) -> None:
    out, _ = tftj(space, "submit", "-", given=json.dumps(manifest()))
    assert out == f"mnist: submitted to namespace {space.name}\n"
    space.wait_for_pods("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")
    space.run_all()
    eventually(lambda: space.status().get("state") == "Running", "it runs")

    listed, _ = tftj(space, "list")
    assert [line.split()[:4] for line in listed.splitlines()] == [
        ["NAME", "STATE", "WORKERS", "PS"],
        ["mnist", "Running", "2/2", "1/1"],
    ]
    assert tftj(space, "list", "-o", "name")[0] == "tftrainingjob.tftraining.dev/mnist\n"
    whole = yaml.safe_load(tftj(space, "get", "mnist", "-o", "yaml")[0])
    assert whole["metadata"]["uid"] == space.job()["metadata"]["uid"]

    described, _ = tftj(space, "describe", "mnist")
    assert described.startswith("mnist: Running: ")
    assert "mnist-worker-1" in described
    assert "created 4 pods and the service" in described

    assert tftj(space, "scale", "mnist", "--workers=1")[0] == "mnist: scaled from 2 to 1 worker\n"
    assert space.job()["spec"]["worker"]["replicas"] == 1
    tftj(space, "suspend", "mnist")
    space.wait_for("Suspended")
    assert tftj(space, "wait", "mnist", "--for=suspended")[0].startswith("mnist: Suspended: ")
    assert tftj(space, "resume", "mnist")[0] == "mnist: resuming from its newest checkpoint\n"
    space.wait_for("Suspended", "False")


def followed(space: Namespace) -> tuple[subprocess.Popen[str], str]:
    """Follow the job by `tftj progress`; return its process and the first line that it says."""
    process = subprocess.Popen(
        command("progress", "mnist", f"--namespace={space.name}"),
        env=environment(space),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


def test_the_first_line_and_the_exit_code_say_how_a_job_failed(space: Namespace) -> None:
    space.apply(manifest())
    space.wait_for_pods("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")
    process, first_line = followed(space)
    assert "Starting: " in first_line
    a_failed_job(space)
    rest, _ = process.communicate(timeout=30)
    expected = "ValueError: no examples (/task/task.py, line 12)"
    assert expected in rest.splitlines()[-1]
    assert process.returncode == 1
    first = tftj(space, "describe", "mnist")[0].splitlines()[0]
    assert first.startswith("mnist: Failed (PermanentFailure): mnist-chief-0 exited with 64")
    assert expected in first
    tftj(space, "wait", "mnist", code=1)
    _, said = tftj(space, "suspend", "mnist", code=2)
    assert "mnist has ended (Failed): tftj restart starts it again" in said


@pytest.mark.parametrize(
    ("code", "told"),
    [(0, "mnist: Succeeded"), (64, "mnist: Failed (PermanentFailure): mnist-chief")],
)
def test_the_end_of_a_job_that_is_deleted_at_once_is_told(
    space: Namespace, code: int, told: str
) -> None:
    space.apply(manifest(runPolicy={"ttlSecondsAfterFinished": 0}))
    space.wait_for_pods("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")
    space.run_all()
    process, first_line = followed(space)
    assert first_line
    space.end("mnist-chief-0", code)
    rest, _ = process.communicate(timeout=30)
    assert rest.splitlines()[-1].startswith(told)
    assert process.returncode == (1 if code else 0)
    assert "uid" not in space.job().get("metadata", {}), "it is gone"


@pytest.mark.usefixtures("garbage_collector")
def test_a_finished_job_is_created_again_and_keeps_its_code(
    space: Namespace, tmp_path: Path
) -> None:
    task = tmp_path / "mnist.py"
    task.write_text(TASK)
    tftj(space, "submit", str(task), "--workers=1", "--", "--epochs=5")
    code = space.server.request("GET", f"/api/v1/namespaces/{space.name}/configmaps/mnist-code")
    assert code.body["data"] == {"mnist.py": TASK}
    before = space.job()["metadata"]["uid"]
    assert [owner["uid"] for owner in code.body["metadata"]["ownerReferences"]] == [before]
    eventually(lambda: len(space.pods()) == 3, "its pods")
    a_failed_job(space)

    _, said = tftj(space, "submit", str(task), code=2)
    assert "job mnist exists (Failed; it has ended): delete it first (--replace" in said

    out, said = tftj(space, "restart", "mnist")
    assert out.startswith("mnist: created again")
    assert "deleting the job mnist; its manifest is in " in said
    after = space.job()["metadata"]["uid"]
    assert after != before
    code = space.server.request("GET", f"/api/v1/namespaces/{space.name}/configmaps/mnist-code")
    assert [owner["uid"] for owner in code.body["metadata"]["ownerReferences"]] == [after]

    task.write_text(f"{TASK}# changed\n")
    tftj(space, "submit", str(task), "--replace")
    assert space.job()["metadata"]["uid"] not in (before, after)
    code = space.server.request("GET", f"/api/v1/namespaces/{space.name}/configmaps/mnist-code")
    assert code.body["data"] == {"mnist.py": f"{TASK}# changed\n"}
    tftj(space, "delete", "mnist", "--wait")
    assert not space.pods()


@pytest.mark.usefixtures("garbage_collector")
def test_a_job_is_replaced_by_what_get_printed_of_it(space: Namespace) -> None:
    """A dry run does not find that its resource version is refused: the job was gone then."""
    tftj(space, "submit", "-", given=json.dumps(manifest()))
    before = space.job()["metadata"]["uid"]
    printed, _ = tftj(space, "get", "mnist", "-o", "yaml")
    tftj(space, "submit", "-", "--replace", given=printed)
    assert space.job()["metadata"]["uid"] != before
    tftj(space, "submit", "-", "--name=copy", given=printed)
    assert space.job("copy")["spec"] == space.job()["spec"]


@pytest.mark.usefixtures("garbage_collector")
def test_a_job_is_deleted_only_if_the_api_server_takes_the_new_one(space: Namespace) -> None:
    tftj(space, "submit", "-", given=json.dumps(manifest()))
    before = space.job()["metadata"]["uid"]
    jobs = f"{GROUP_PATH}/namespaces/{space.name}/tftrainingjobs"

    def tried(job: Any) -> tuple[int, str]:
        answer = space.server.request("POST", jobs, job, query={"dryRun": "All"})
        return answer.status, answer.message

    # A name that is taken is what a dry run finds last.
    assert tried(manifest())[0] == 409
    assert tried(manifest(ps={"replicas": 0}))[0] == 422
    a_quota(space, used=1)
    _, said = eventually(lambda: _if_forbidden(tried(manifest())), "the quota")
    assert "exceeded quota: " in said

    elsewhere = {"name": "mnist", "namespace": "elsewhere"}
    other = json.dumps({**manifest(), "metadata": elsewhere})
    _, said = tftj(space, "submit", "-", "--replace", given=other, code=2)
    assert f"-: metadata.namespace is elsewhere, --namespace {space.name}: change" in said
    missing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No"}}
    both = json.dumps({"kind": "List", "items": [missing, manifest()]})
    _, said = tftj(space, "submit", "-", "--replace", given=both, code=2)
    assert "metadata.name: Invalid value" in said
    assert space.job()["metadata"]["uid"] == before

    process = subprocess.Popen(
        command("submit", "-", "--replace", f"--namespace={space.name}"),
        env=environment(space),
        stdin=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(manifest()))
    process.stdin.close()
    eventually(lambda: "uid" not in space.job().get("metadata", {}), "the old job is gone")
    a_quota(space, used=0)
    assert process.wait(timeout=60) == 0
    assert space.job()["metadata"]["uid"] != before


def a_quota(space: Namespace, *, used: int) -> None:
    """One job may be there; no controller counts them, so `used` is what it would have found."""
    hard = {"count/tftrainingjobs.tftraining.dev": "1"}
    path = f"/api/v1/namespaces/{space.name}/resourcequotas"
    space.server.request("POST", path, {"metadata": {"name": "jobs"}, "spec": {"hard": hard}})
    status = {"hard": hard, "used": dict.fromkeys(hard, str(used))}
    space.server.merge(f"{path}/jobs/status", {"status": status})


def _if_forbidden(answer: tuple[int, str]) -> tuple[int, str] | None:
    return answer if answer[0] == 403 else None


def test_a_manifest_says_its_namespace(space: Namespace) -> None:
    job = {**manifest(), "metadata": {"name": "mnist", "namespace": space.name}}
    done = subprocess.run(
        command("submit", "-"),
        env=environment(space),
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"mnist: submitted to namespace {space.name}\n", done.stderr
    assert f"tftj progress mnist -n {space.name} follows it, " in done.stderr
    assert space.job()["metadata"]["namespace"] == space.name


def test_the_chief_of_a_running_job_is_restarted(space: Namespace) -> None:
    space.apply(manifest())
    space.wait_for_pods("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")
    space.run_all()
    out, _ = tftj(space, "restart", "mnist")
    assert out == "mnist: restarting the chief, from step 0: it has no checkpoint\n"
    eventually(lambda: space.attempt("mnist-chief-0") == "1", "a new chief")
    assert space.status()["restarts"] == 0


def test_wrong_use_is_told_in_a_sentence(space: Namespace) -> None:
    space.apply(manifest(strategy="Mirrored", worker=None, ps=None))
    _, said = tftj(space, "get", "mnits", code=3)
    expected = f"error: no job mnits in namespace {space.name}; did you mean mnist?\n"
    assert said == expected
    _, said = tftj(space, "scale", "mnist", "--workers=2", code=2)
    assert "strategy Mirrored trains in the chief only" in said
    _, said = tftj(space, "logs", "mnist", code=3)
    assert "no logs to show: mnist is " in said
    _, said = tftj(space, "wait", "mnist", "--timeout=1s", code=2)
    assert "job mnist is not finished after 1 s" in said
    _, said = tftj(space, "get", "mnist", "--context=absent", code=2)
    assert "no context absent in the kubeconfig; it has " in said
    for name in ("", "."):
        _, said = tftj(space, "delete", name, code=2)
        assert said == f"error: '{name}' cannot be the name of a job\n"
    assert space.job()["metadata"]["name"] == "mnist"
    broken = manifest(ps={"replicas": 0})
    _, said = tftj(space, "submit", "-", given=json.dumps(broken), code=2)
    assert "-: spec.ps: strategy ParameterServer needs parameter servers" in said


def test_doctor_says_what_there_is_and_what_is_missing(space: Namespace) -> None:
    out, _ = tftj(space, "doctor", code=1)
    assert "ok       the API tftraining.dev/v1alpha1 is served" in out
    assert "missing  no operator is installed by its chart" in out
    assert f"ok       in namespace {space.name} you may create jobs" in out

    # The operator of this module is not installed by the chart.
    labels = {"app.kubernetes.io/name": "tftraining-operator"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    deployment = {
        "metadata": {"name": "my-operator", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    path = f"/apis/apps/v1/namespaces/{space.name}/deployments"
    assert space.server.request("POST", path, deployment).ok
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "operator-0", "acquireTime": now, "renewTime": now}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{space.name}/leases"
    lease = {"metadata": {"name": "my-operator"}, "spec": spec}
    assert space.server.request("POST", path, lease).ok
    out, _ = tftj(space, "doctor")
    assert f"ok       the operator runs in namespace {space.name} (operator-0 leads for " in out


def test_a_cluster_that_does_not_answer_is_named(space: Namespace, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    cluster: Any = {"name": "away", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "away", "context": {"cluster": "away"}}
    document = {"clusters": [cluster], "contexts": [context], "current-context": "away"}
    kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
    done = subprocess.run(
        command("list"),
        env=environment(space) | {"KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot reach the cluster at http://127.0.0.1:1: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_certificate_that_is_not_to_be_checked_is_no_news(
    space: Namespace, tmp_path: Path
) -> None:
    """The kubeconfig says so; a warning would come with each request, of which logs makes many."""
    config = json.loads(space.server.kubeconfig.read_text())
    for each in config["clusters"]:
        each["cluster"] = {"server": each["cluster"]["server"], "insecure-skip-tls-verify": True}
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps(config))
    done = subprocess.run(
        command("list", f"--namespace={space.name}"),
        env=environment(space) | {"KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, f"no jobs in namespace {space.name}\n")


def test_who_acts_as_somebody_else_has_their_rights(space: Namespace, tmp_path: Path) -> None:
    """As by kubectl; the user of the kubeconfig may do everything."""
    config = json.loads(space.server.kubeconfig.read_text())
    kubeconfig = tmp_path / "config"

    def listed(**identity: object) -> tuple[int, str]:
        for each in config["users"]:
            each["user"] |= identity
        kubeconfig.write_text(json.dumps(config))
        done = subprocess.run(
            command("list", f"--namespace={space.name}"),
            env=environment(space) | {"KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    code, said = listed(**{"as": "josé"})
    assert code == 1
    assert 'is forbidden: User "josé" cannot list resource "tftrainingjobs"' in said
    groups = ["vision", "system:masters"]
    assert listed(**{"as-groups": groups}) == (0, f"no jobs in namespace {space.name}\n")


@pytest.mark.parametrize("file", sorted(TFJOBS.iterdir()), ids=lambda path: path.name)
def test_the_api_server_takes_what_was_converted(
    space: Namespace, file: Path, tmp_path: Path
) -> None:
    tftj(space, "convert", str(file), "--output", str(tmp_path))
    (converted,) = tmp_path.iterdir()
    text = converted.read_text().replace("namespace: vision\n", f"namespace: {space.name}\n")
    options = ("--dry-run=server", "--validate=strict", "-f", "-")
    assert "tftrainingjob.tftraining.dev/" in space.kubectl("create", *options, stdin=text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to=tfjob", "--checkpoint=mnist"), "--checkpoint is for TFJobs"),
        (("--image=example.com/trainer:1",), "add --to tfjob"),
    ],
)
def test_options_of_the_other_direction_are_wrong_use(
    space: Namespace, options: tuple[str, ...], words: str
) -> None:
    _, said = tftj(space, "convert", *options, "-", given="", code=2)
    assert words in said


def test_a_job_without_an_image_goes_back_with_the_one_that_is_named(space: Namespace) -> None:
    text = (ROOT / "examples/mnist.yaml").read_text()
    _, said = tftj(space, "convert", "--to=tfjob", "-", given=text, code=1)
    assert "name it with --image" in said
    out, _ = tftj(space, "convert", "--to=tfjob", "--image=example.com/t:1", "-", given=text)
    assert "kind: TFJob" in out
    assert "image: example.com/t:1" in out


def test_tfjobs_of_the_cluster_are_converted_and_back(space: Namespace, tmp_path: Path) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
    }
    names = {"plural": "tfjobs", "singular": "tfjob", "kind": "TFJob"}
    crd = tmp_path / "crd.yaml"
    crd.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "tfjobs.kubeflow.org"},
                "spec": {
                    "group": "kubeflow.org",
                    "names": names,
                    "scope": "Namespaced",
                    "versions": [version],
                },
            }
        )
    )
    space.server.serve_crd(crd)
    space.kubectl("create", "-f", str(TFJOBS / "anchors.yaml"))
    out, said = tftj(space, "convert", "--from-cluster", f"--namespace={space.name}")
    made = yaml.safe_load(out)
    assert made["metadata"] == {"name": "anchors", "namespace": space.name}
    assert "TFJob anchors: anchors: converted" in said
    space.kubectl("create", "-f", "-", stdin=out)
    there = ("--to=tfjob", "--from-cluster", f"--namespace={space.name}", "anchors")
    back, said = tftj(space, "convert", *there)
    assert "TFTrainingJob anchors: anchors: converted" in said
    assert set(yaml.safe_load(back)["spec"]["tfReplicaSpecs"]) == {"Chief", "Worker", "PS"}
    space.kubectl("replace", "-f", "-", stdin=back)
    _, said = tftj(
        space, "convert", "--from-cluster", f"--namespace={space.name}", "absent", code=3
    )
    assert f"no TFJob absent in namespace {space.name} (found: anchors)" in said
