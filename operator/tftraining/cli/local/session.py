"""`tftj run --local` from its options to its exit code: prepares a LocalRun, reports its result."""

import contextlib
import json
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType
from tftraining_operator.core.conditions import is_finished, is_true
from tftraining_operator.core.job import Job
from tftraining_operator.core.raw_pod import runs_trainer

from tftraining import manifest
from tftraining.cli import interpreter
from tftraining.cli.local import messages
from tftraining.cli.local.commands import ignored_features
from tftraining.cli.local.display import display
from tftraining.cli.local.locks import locked
from tftraining.cli.local.logs import Logs
from tftraining.cli.local.run import LocalRun, Stop
from tftraining.cli.local.tasks import Settings
from tftraining.cli.signals import StopRequests, stop_requests
from tftraining.errors import ExitCode, InputError
from tftraining.view.training import describe_roles

_CLAIM = "attempt.json"
"""The trainer's record of the job that saves in a folder."""
_INSTALL = (
    "Choose a Python that has the trainer with --python; docs/guide/local.md explains how to"
    " install it."
)


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of the command."""

    file: str
    python: str | None
    checkpoint_dir: Path | None
    log_dir: Path | None
    show_logs: bool
    variables: Mapping[str, str]
    folders: Mapping[str, Path]


def run_local(choices: Choices, console: Console) -> ExitCode:
    """Run a job on this computer; return the exit code. Raises TFTrainingError."""
    text = manifest.read(choices.file)
    found = manifest.parse(text, choices.file, uid=f"local-{secrets.token_hex(8)}")
    job = found.job
    policy = job.spec.run_policy
    if policy.suspend:
        raise InputError(f"{choices.file}: spec.runPolicy.suspend: set it to false to run the job")
    if (other := job.spec.other_manager) is not None:
        field, manager = other
        raise InputError(
            f"{choices.file}: {field}: this operator ignores jobs with the value {manager}; remove "
            "it to run the job"
        )
    settings = Settings(
        python=interpreter.find(choices.python, (), fix=""),
        checkpoints=checkpoint_folder(job, choices.checkpoint_dir),
        logs=(choices.log_dir or Path(f"{job.name}-logs")).absolute(),
        variables=choices.variables,
        folders=choices.folders,
    )
    _refuse_another_jobs(settings.checkpoints, job)
    with (
        # Outermost: a signal while the folder is being made or removed would leave it behind.
        stop_requests() as requests,
        tempfile.TemporaryDirectory(prefix=f"tftj-{job.name}-") as scratch,
        contextlib.ExitStack() as locks,
    ):
        run = LocalRun(found, settings, Path(scratch))
        if any(runs_trainer(pod) for pod in run.pods):
            interpreter.find(choices.python, ("tftrainer", "tensorflow", "tf_keras"), fix=_INSTALL)
        _create_folders(settings)
        _lock(run, settings, locks)
        _print_header(run, settings, console)
        shown = display(console, _logs(run) if choices.show_logs else None)
        try:
            job = run.run(shown, lambda: Stop(min(requests.count, Stop.NOW)))
        finally:
            shown.close()
    return _print_result(run, job, settings, requests, console)


def checkpoint_folder(job: Job, chosen: Path | None) -> Path | None:
    """Return the folder in place of the job's checkpoint volume. Raises InputError."""
    checkpoint = job.spec.checkpoint
    if checkpoint is None:
        if chosen is not None:
            raise InputError(
                "--checkpoint-dir: the job saves no checkpoints: set spec.checkpoint in the file"
            )
        return None
    if checkpoint.uri is not None and chosen is None:
        return None
    return (chosen or Path(f"{job.name}-checkpoints")).absolute()


def _refuse_another_jobs(folder: Path | None, job: Job) -> None:
    """Raise InputError for a checkpoint folder that a job of another name has used."""
    if folder is None:
        return
    try:
        owner = json.loads((folder / _CLAIM).read_text())["job"]
    except (OSError, ValueError, KeyError, TypeError):
        # The trainer says what is wrong with it.
        return
    if owner and owner != job.name:
        raise InputError(
            f"checkpoint folder {folder} belongs to job {owner}: choose another one for {job.name}"
            " with --checkpoint-dir"
        )


def _create_folders(settings: Settings) -> None:
    for folder in filter(None, (settings.logs, settings.checkpoints)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot create the folder {folder}: {error.strerror}") from error


def _lock(run: LocalRun, settings: Settings, locks: contextlib.ExitStack) -> None:
    """Refuse a second run in the same folders: its chief would take over, and end the first.

    Raises InputError.
    """
    places = []
    if (folder := settings.checkpoints) is not None:
        what = f"saves in {_relative(folder)}: choose another folder with --checkpoint-dir"
        places.append((folder, what))
    # Not the folder: jobs of other names may have the same one for their logs.
    log = run.log_path(run.pods[0]["metadata"]["name"])
    what = f"writes to {_relative(settings.logs)}: choose another folder with --log-dir"
    places.append((log, what))
    try:
        log.touch()
        for path, what in places:
            locks.enter_context(locked(path, f"another local run {what}, or stop that run"))
    except OSError as error:
        raise InputError(f"cannot open {error.filename}: {error.strerror}") from error


def _logs(run: LocalRun) -> Logs:
    logs = Logs()
    for pod in run.pods:
        name = pod["metadata"]["name"]
        logs.follow(name, run.log_path(name))
    return logs


def _print_header(run: LocalRun, settings: Settings, console: Console) -> None:
    job = run.job

    def field(name: str, *value: str | tuple[str, str]) -> None:
        console.print(Text.assemble((f"{name:12}", "dim"), *value), soft_wrap=True)

    field("job", (job.name, "bold"), f", {job.spec.strategy}: {describe_roles(job)}")
    if settings.checkpoints is not None:
        found = newest_checkpoint(settings.checkpoints)
        resumed = f", resuming from {found} (use another folder to start over)" if found else ""
        field("checkpoints", f"{_relative(settings.checkpoints)}{resumed}")
    elif job.spec.checkpoint is None:
        field("checkpoints", "none: spec.checkpoint is not set")
    field("logs", _relative(settings.logs))
    ignored = ignored_features(run.pods)
    ignored += [f"spec.{part}" for part in run.ignored_parts]
    if keys.LABEL_QUEUE in job.meta.labels:
        ignored.append(f"the label {keys.LABEL_QUEUE}")
    if ignored:
        field("ignored", "; ".join(ignored))


def newest_checkpoint(folder: Path) -> str | None:
    """Return the name of the newest checkpoint in a folder, None if it has none."""
    steps = [
        int(step)
        for path in folder.glob("ckpt-*.index")
        if (step := path.stem.removeprefix("ckpt-")).isdigit()
    ]
    return f"ckpt-{max(steps)}" if steps else None


def _print_result(
    run: LocalRun, job: Job, settings: Settings, requests: StopRequests, console: Console
) -> ExitCode:
    status = job.status

    def line(text: str, colour: str = "") -> None:
        console.print(Text(text, style=colour), soft_wrap=True)

    saved = None
    if settings.checkpoints is not None and (name := newest_checkpoint(settings.checkpoints)):
        saved = f"checkpoint: {_relative(settings.checkpoints)}/{name}"
    if not is_finished(status):
        line("Stopped before the training was complete", "yellow")
        if saved is not None:
            line(f"{saved}; the same command resumes from it")
        return requests.exit_code or ExitCode.FAILED
    succeeded = is_true(status, ConditionType.SUCCEEDED)
    line(messages.result(status), "green" if succeeded else "red")
    if not succeeded and status.last_failure is not None:
        log = _relative(run.log_path(status.last_failure.pod))
        for text in messages.failure_details(status, log):
            line(f"  {text}")
    if saved is not None:
        line(saved)
    if settings.checkpoints is not None and status.model is not None:
        line(f"model: {_relative(Path(status.model.path))}")
    return ExitCode.SUCCEEDED if succeeded else ExitCode.FAILED


def _relative(path: Path) -> str:
    """Return a path as one would type it in the working directory."""
    here = Path.cwd()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
