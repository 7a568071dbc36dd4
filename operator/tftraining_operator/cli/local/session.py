"""`tftj run --local` from its options to its exit code: the shell around a LocalRun."""

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.cli import interpreter, manifest
from tftraining_operator.cli.errors import CommandError, ExitCode, InputError
from tftraining_operator.cli.local import messages
from tftraining_operator.cli.local.commands import left_aside, runs_trainer
from tftraining_operator.cli.local.display import display
from tftraining_operator.cli.local.logs import Logs
from tftraining_operator.cli.local.run import LocalRun, Settings, Stop
from tftraining_operator.cli.signals import Asked, noted
from tftraining_operator.core.conditions import is_finished, is_true
from tftraining_operator.core.job import Job

_INSTALL = (
    "Name a Python that has the trainer with --python; docs/guide/local.md tells how to install it."
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
    """Run a job on this computer; return the exit code. Raises CommandError."""
    text = manifest.read(choices.file)
    found = manifest.parse(text, choices.file, uid=f"local-{secrets.token_hex(8)}")
    job = found.job
    if job.spec.run_policy.suspend:
        raise InputError(f"{choices.file}: spec.runPolicy.suspend: set it to false to run the job")
    settings = Settings(
        python=interpreter.find(choices.python, (), fix=""),
        checkpoints=checkpoint_folder(job, choices.checkpoint_dir),
        logs=(choices.log_dir or Path(f"{job.name}-logs")).absolute(),
        variables=choices.variables,
        folders=choices.folders,
    )
    with tempfile.TemporaryDirectory(prefix=f"tftj-{job.name}-") as scratch, noted() as asked:
        run = LocalRun(found, settings, Path(scratch))
        if any(runs_trainer(pod) for pod in run.pods):
            interpreter.find(choices.python, ("tftrainer", "tensorflow", "tf_keras"), fix=_INSTALL)
        _make(settings)
        _introduce(run, settings, console)
        shown = display(console, _logs(run) if choices.show_logs else None)
        try:
            job = run.run(shown, lambda: Stop(min(asked.times, Stop.NOW)))
        finally:
            shown.close()
    return _conclude(run, job, settings, asked, console)


def checkpoint_folder(job: Job, given: Path | None) -> Path | None:
    """Return the folder in place of the job's checkpoint volume. Raises InputError."""
    checkpoint = job.spec.checkpoint
    if checkpoint is None:
        if given is not None:
            raise InputError(
                "--checkpoint-dir: the job keeps no checkpoints: set spec.checkpoint in the file"
            )
        return None
    if checkpoint.uri is not None and given is None:
        return None
    return (given or Path(f"{job.name}-checkpoints")).absolute()


def _make(settings: Settings) -> None:
    for folder in filter(None, (settings.logs, settings.checkpoints)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"the folder {folder} cannot be made: {error.strerror}") from error


def _logs(run: LocalRun) -> Logs:
    logs = Logs()
    for pod in run.pods:
        name = pod["metadata"]["name"]
        logs.follow(name, run.log_of(name))
    return logs


def _introduce(run: LocalRun, settings: Settings, console: Console) -> None:
    job = run.job

    def say(what: str, *rest: str | tuple[str, str]) -> None:
        console.print(Text.assemble((f"{what:12}", "dim"), *rest), soft_wrap=True)

    say("job", (job.name, "bold"), f", {job.spec.strategy}: {messages.describe_roles(job)}")
    if settings.checkpoints is not None:
        found = newest_checkpoint(settings.checkpoints)
        goes_on = f", goes on from {found}; another folder begins anew" if found else ""
        say("checkpoints", f"{_near(settings.checkpoints)}{goes_on}")
    elif job.spec.checkpoint is None:
        say("checkpoints", "none: spec.checkpoint is not set")
    say("logs", _near(settings.logs))
    if aside := left_aside(run.pods):
        say("not here", "; ".join(aside))


def newest_checkpoint(folder: Path) -> str | None:
    """Return the name of the newest checkpoint in a folder, None if it has none."""
    steps = [
        int(step)
        for path in folder.glob("ckpt-*.index")
        if (step := path.stem.removeprefix("ckpt-")).isdigit()
    ]
    return f"ckpt-{max(steps)}" if steps else None


def _conclude(
    run: LocalRun, job: Job, settings: Settings, asked: Asked, console: Console
) -> ExitCode:
    status = job.status

    def say(text: str, colour: str) -> None:
        console.print(Text(text, style=colour), soft_wrap=True)

    saved = None
    if settings.checkpoints is not None and (name := newest_checkpoint(settings.checkpoints)):
        saved = f"checkpoint: {_near(settings.checkpoints)}/{name}"
    if not is_finished(status):
        say("Ended before the training was complete", "yellow")
        if saved is not None:
            console.print(f"{saved}; the same command goes on from it", soft_wrap=True)
        return asked.code or ExitCode.FAILED
    succeeded = is_true(status, ConditionType.SUCCEEDED)
    say(messages.result(status), "green" if succeeded else "red")
    if not succeeded and status.last_failure is not None:
        for text in messages.describe_failure(status, _near(run.log_of(status.last_failure.pod))):
            console.print(Text(f"  {text}"), soft_wrap=True)
    if saved is not None:
        console.print(saved, soft_wrap=True)
    return ExitCode.SUCCEEDED if succeeded else ExitCode.FAILED


def _near(path: Path) -> str:
    """Name a path as one would type it here."""
    here = Path.cwd()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
