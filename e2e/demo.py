"""`make demo`: the main job on a real cluster, watched as a user watches it, then cleaned up.

While the first cluster of a machine is being built, the same job trains as local processes. That
part is left out if the KUBECONFIG names a cluster, one is running, or the engine has the image of
its nodes: then the job trains on the cluster within minutes.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape

from e2e.build_view import shown
from e2e.curve import curve
from e2e.install import ROOT, installed, namespaced
from e2e.local_training import LocalTraining, commands
from e2e.terminal import console
from tools.cluster import Cluster, ClusterError, first_build, obtain
from tools.interrupts import raised

MANIFEST = ROOT / "examples/mnist.yaml"
NAMESPACE = "tftraining-demo"
JOB = "mnist"
KEPT = ROOT / ".demo"
WANTED_ACCURACY = 0.95

_LIMIT_SECONDS = 600
_PULLED = "--timeout=300s"
"""For a pod whose node may have to pull the image of the trainer."""
_READER = """\
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: reader
    image: IMAGE
    command: [python3, -c, "import time; time.sleep(300)"]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: claim, mountPath: /checkpoints, readOnly: true}]
  volumes: [{name: claim, persistentVolumeClaim: {claimName: mnist}}]
"""
_TAR = (
    "import sys, tarfile; "
    "tarfile.open(fileobj=sys.stdout.buffer, mode='w|').add('/checkpoints', '.')"
)

_LOSSES = 'jsonpath={.status.progress.step} {.status.progress.loss}{"\\n"}'
_NEXT = {
    "make cluster-up images": "a cluster that stays, with both images; it names its KUBECONFIG",
    "helm install tftraining charts/tftraining-operator -n tftraining-system --create-namespace": (
        "the operator, in that cluster or in one that can pull the images"
    ),
    "tftj submit task.py --workers 2 --wait": (
        "your own model, from a Python file: docs/guide/getting-started.md, from pip install on"
    ),
}
"""The commands that a reader of the demo may want, and what each is for."""


def main() -> int:
    """Run the demo; return the exit code."""
    began = time.monotonic()
    local = LocalTraining(commands(MANIFEST, KEPT / "local"), _say_locally)

    def start(name: str, **options: Any) -> Cluster:  # noqa: ANN401 - those of `up`
        # Not before the cluster is this run's alone: another demo may use the folder until then.
        shutil.rmtree(KEPT, ignore_errors=True)
        return first_build.start(name, **options, beside=_beside(local))

    try:
        with raised(), obtain(say=say, start=start) as cluster:
            _await(local)
            with installed(cluster, say, NAMESPACE):
                good = _train(cluster)
                console.rule("cleaning up")
    except ClusterError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return 1
    console.print(f"{'done' if good else '[red]failed[/]'} in {time.monotonic() - began:.0f} s")
    if good:
        _show_next()
    return 0 if good else 1


def _beside(local: LocalTraining) -> first_build.Beside:
    def begin() -> None:
        say("this machine has no cluster yet: building one, which takes minutes")
        say(f"meanwhile, the same job as local processes: tftj run --local {_shown(MANIFEST)}")
        local.begin()

    return first_build.Beside(begin, partial(shown, console))


def _await(local: LocalTraining) -> None:
    if local.runs:
        say("the cluster is there: waiting for the end of the local training")
    local.wait()


def _say_locally(line: str) -> None:
    console.print(f"[cyan]local │[/] {escape(line)}", soft_wrap=True)


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _show_next() -> None:
    console.rule("next")
    for command, what in _NEXT.items():
        console.print(f"[bold]{escape(command)}[/]", soft_wrap=True)
        console.print(f"    [dim]{escape(what)}[/]", soft_wrap=True)


def say(line: str) -> None:
    """Print one step."""
    console.print(f"[dim]·[/] {escape(line)}", soft_wrap=True)


def _train(cluster: Cluster) -> bool:
    with namespaced(cluster, NAMESPACE, wait=True):
        console.rule(f"kubectl apply -f {_shown(MANIFEST)}")
        began = time.monotonic()
        _kubectl(cluster, "apply", "-f", MANIFEST)
        job, losses = _watch(cluster)
        seconds = time.monotonic() - began
        console.rule("kubectl get tftj -o wide")
        _kubectl(cluster, "get", "tftj", "-o", "wide")
        console.rule("kubectl describe tftj mnist (its events)")
        _events(cluster)
        console.rule("loss")
        console.print("\n".join(curve(losses)))
        console.rule("result")
        kept = _is_kept(cluster, job)
        return _verdict(job, seconds, kept=kept) and kept


def _is_kept(cluster: Cluster, job: dict[str, Any]) -> bool:
    """Keep what the job left; a job that never ran has nothing, and says itself why."""
    try:
        _keep(cluster, job)
    except ClusterError as error:
        say(f"could not be kept: {error}")
        return False
    return True


def _watch(cluster: Cluster) -> tuple[dict[str, Any], list[tuple[int, float]]]:
    """Print the job's line each time it changes, until it is finished.

    Return the job, and the losses that its status had, by step.
    """
    console.rule("kubectl get tftj mnist -w")
    command = _command(cluster)
    limit = [f"--timeout={_LIMIT_SECONDS}s"]
    get = [*command, "get", "tftj", JOB, "--watch", "-o"]
    with tempfile.TemporaryFile("w+") as losses:
        watches = [
            subprocess.Popen([*get, "wide"]),
            subprocess.Popen([*get, _LOSSES], stdout=losses),
        ]
        try:
            subprocess.run(
                [*command, "wait", "--for=condition=Finished", f"tftj/{JOB}", *limit],
                check=False,
                stdout=subprocess.DEVNULL,
            )
        finally:
            for watch in watches:
                watch.terminate()
                watch.wait()
        losses.seek(0)
        seen = points(losses.read())
    found: dict[str, Any] = json.loads(
        cluster.kubectl("-n", NAMESPACE, "get", "tftj", JOB, "-o", "json")
    )
    return found, seen


def points(written: str) -> list[tuple[int, float]]:
    """Return steps and losses of lines with both, the last of each step, by step."""
    pairs = [line.split() for line in written.splitlines()]
    return sorted({int(pair[0]): float(pair[1]) for pair in pairs if len(pair) == 2}.items())


def _verdict(job: dict[str, Any], seconds: float, *, kept: bool) -> bool:
    status = job.get("status") or {}
    evaluation = status.get("evaluation") or {}
    metrics = {m["name"]: float(m["value"]) for m in evaluation.get("metrics", [])}
    accuracy = metrics.get("accuracy", 0.0)
    succeeded = status.get("state") == "Succeeded"
    enough = accuracy >= WANTED_ACCURACY
    state = f"{status.get('state')} after {seconds:.0f} s: {status.get('message')}"
    console.print(f"state       {escape(state)}", soft_wrap=True)
    console.print(
        f"accuracy    {accuracy:.4f} on held-out digits, evaluated at step "
        f"{evaluation.get('step')} ({'at least' if enough else 'LESS THAN'} {WANTED_ACCURACY})"
    )
    if kept:
        checkpoint = status.get("lastCheckpoint") or {}
        console.print(
            f"checkpoint  {checkpoint.get('path')} of claim mnist, copied to "
            f"{_shown(KEPT / 'checkpoints')}/"
        )
        console.print(f"logs        {_shown(KEPT / 'logs')}/")
    return succeeded and enough


def _keep(cluster: Cluster, job: dict[str, Any]) -> None:
    """Copy logs and checkpoints out of the cluster before it goes."""
    logs = KEPT / "logs"
    logs.mkdir(parents=True)
    (KEPT / "job.json").write_text(json.dumps(job, indent=2))
    # The servers' pods are being taken away at this moment.
    kept = "tftraining.dev/role in (chief, evaluator)"
    pods = cluster.kubectl("-n", NAMESPACE, "get", "pods", "-l", kept, "-o", "name").split()
    for pod in pods:
        text = cluster.kubectl("-n", NAMESPACE, "logs", pod, "--all-containers")
        (logs / f"{pod.removeprefix('pod/')}.log").write_text(text)
    image = cluster.kubectl(
        *("-n", NAMESPACE, "get", f"pod/{JOB}-chief-0"),
        *("-o", "jsonpath={.spec.containers[0].image}"),
    )
    reader = _READER.replace("IMAGE", image)
    cluster.kubectl("-n", NAMESPACE, "apply", "-f", "-", text_in=reader)
    cluster.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/reader", _PULLED)
    archive = KEPT / "checkpoints.tar"
    command = _command(cluster)
    with archive.open("wb") as out:
        copy = [*command, "exec", "reader", "--", "python3", "-c", _TAR]
        subprocess.run(copy, stdout=out, check=True)
    with tarfile.open(archive) as tar:
        tar.extractall(KEPT / "checkpoints", filter="data")
    archive.unlink()


def _command(cluster: Cluster) -> list[str | Path]:
    return [cluster.tool("kubectl"), "--kubeconfig", cluster.kubeconfig, "-n", NAMESPACE]


def _events(cluster: Cluster) -> None:
    text = cluster.kubectl("-n", NAMESPACE, "describe", "tftj", JOB)
    sys.stdout.write(text[text.index("Events:") :])


def _kubectl(cluster: Cluster, *arguments: str | Path) -> None:
    sys.stdout.write(cluster.kubectl("-n", NAMESPACE, *arguments))


if __name__ == "__main__":
    sys.exit(main())
