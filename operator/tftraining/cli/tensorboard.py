"""`tftj tensorboard`: serves the logs of a folder or of a job in the cluster."""

import os
import secrets
import socket
import subprocess
import time
from pathlib import Path

from rich.console import Console
from tftraining_operator.api.keys import GROUP, LABEL_JOB, PLURAL

from tftraining import helper_pod, manifest
from tftraining.cli import interpreter, tensorboard_pod
from tftraining.cli.kubectl import Kubectl
from tftraining.cli.local.session import checkpoint_folder
from tftraining.cli.signals import StopRequests, stop_requests
from tftraining.errors import ExitCode, InputError, NotFoundError, TFTrainingError

_LOGS = "logs"
_INSTALL = (
    "Install it with `pip install tensorboard`, or choose a Python that has it with --python."
)
_START_SECONDS = 180
_TICK_SECONDS = 0.5


def show(
    what: str,
    *,
    namespace: str | None,
    context: str | None,
    port: int,
    image: str | None,
    python: str | None,
    console: Console,
) -> ExitCode:
    """Show the logs of a folder, a file's local run, or a job, until Ctrl-C.

    Raises TFTrainingError.
    """
    _check_free(port)
    folder = None if namespace or context else local_logs(what)
    if folder is not None:
        return _show_folder(folder, port, python, console)
    return _show_job(what, Kubectl.find(namespace, context), port, image, console)


def local_logs(what: str) -> Path | None:
    """Return the local log folder that `what` refers to, None if it is a job's name.

    Raises InputError if the folder does not exist.
    """
    path = Path(what)
    if path.is_dir():
        return path / _LOGS if (path / _LOGS).is_dir() else path
    if not path.is_file() and path.suffix not in (".yaml", ".yml"):
        if os.sep in what:
            raise InputError(f"{what}: no such file or folder")
        return None
    job = manifest.parse(manifest.read(what), what, uid="").job
    folder = checkpoint_folder(job, None)
    if folder is None:
        raise InputError(
            f"{what}: the job writes no logs to a folder: name the folder that was its"
            " --checkpoint-dir"
        )
    if not (folder / _LOGS).is_dir():
        raise InputError(
            f"{folder / _LOGS} does not exist: run the job with `tftj run --local {what}`, or name"
            " the folder that was its --checkpoint-dir"
        )
    return folder / _LOGS


def _show_folder(folder: Path, port: int, python: str | None, console: Console) -> ExitCode:
    program = interpreter.find(python, ("tensorboard",), fix=_INSTALL)
    console.print(f"TensorBoard of {folder}: http://127.0.0.1:{port} (Ctrl-C to stop)")
    command = [program, "-m", "tensorboard.main", f"--logdir={folder}"]
    command += ["--host=127.0.0.1", f"--port={port}", "--load_fast=false"]
    with (
        stop_requests() as requests,
        subprocess.Popen(  # noqa: S603 - the chosen Python
            command, start_new_session=True, stdin=subprocess.DEVNULL
        ) as process,
    ):
        while process.poll() is None and not requests.count:
            time.sleep(_TICK_SECONDS)
        process.terminate()
    return ExitCode.SUCCEEDED if requests.count else ExitCode.FAILED


def _show_job(
    name: str, kubectl: Kubectl, port: int, image: str | None, console: Console
) -> ExitCode:
    job = kubectl.get(f"{PLURAL}.{GROUP}", name)
    if job is None:
        raise NotFoundError(
            f"no job {name} in this namespace (-n NAMESPACE for another), and no folder of that"
            " name here"
        )
    pods = kubectl.select("pods", f"{LABEL_JOB}={name}")
    wanted = image or helper_pod.image(job, pods)
    if wanted is None:
        raise InputError(
            f"{name} has no pods, and neither its template nor its status names an image: name the"
            " trainer's image with --image"
        )
    pod_name = f"{name}-tensorboard-{secrets.token_hex(2)}"
    pod = tensorboard_pod.pod(pod_name, job, pods, wanted)
    with stop_requests() as requests:
        console.print(f"starting pod {pod_name} with {wanted}", soft_wrap=True)
        kubectl.create(pod)
        forward = None
        try:
            if not _becomes_ready(kubectl, pod_name, requests):
                return ExitCode.INTERRUPTED
            forward = kubectl.forward(pod_name, port, tensorboard_pod.PORT)
            console.print(
                f"TensorBoard of {name}: http://127.0.0.1:{port} (Ctrl-C deletes the pod)"
            )
            while forward.poll() is None and not requests.count:
                time.sleep(_TICK_SECONDS)
        finally:
            if forward is not None:
                forward.terminate()
                forward.wait()
            kubectl.delete("pod", pod_name)
            console.print(f"deleted pod {pod_name}")
    if not requests.count:
        raise TFTrainingError("kubectl port-forward exited: the pod or the connection is lost")
    return ExitCode.SUCCEEDED


def _becomes_ready(kubectl: Kubectl, name: str, requests: StopRequests) -> bool:
    """Wait until the pod serves; False if stopped. Raises TFTrainingError."""
    end = time.monotonic() + _START_SECONDS
    while not requests.count:
        pod = kubectl.get("pod", name)
        if pod is None:
            raise TFTrainingError(f"pod {name} was deleted")
        if helper_pod.is_ready(pod):
            return True
        if helper_pod.has_ended(pod):
            raise TFTrainingError(
                f"TensorBoard exited in pod {name}: is it installed in the image (--image)?\n"
                + kubectl.logs(name).strip()
            )
        failure = helper_pod.start_failure(pod)
        if failure or time.monotonic() > end:
            reason = failure or helper_pod.not_ready_reason(pod)
            raise TFTrainingError(
                f"pod {name} did not start: {reason or 'pulling its image takes too long'}"
            )
        time.sleep(_TICK_SECONDS)
    return False


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"--port: {port} is not available ({error.strerror}): choose another one"
            ) from error
