"""`tftj wait`, `tftj progress`, and `tftj submit --wait`: follow a job and say how it ended."""

from tftraining.cli import console
from tftraining.client import TFTrainingClient
from tftraining.errors import ExitCode
from tftraining.job import TrainingJob


def wait(client: TFTrainingClient, name: str, goal: str, timeout: float | None) -> ExitCode:
    """Wait silently; print how the job is then. Raises TFTrainingError."""
    return _conclude(client.follow(name, goal, lambda _seen: None, timeout=timeout))


def watch(client: TFTrainingClient, name: str, timeout: float | None) -> ExitCode:
    """Show the progress until the job has finished. Raises TFTrainingError."""
    from tftraining.progress_view import ProgressView

    with ProgressView(console.out()) as view:

        def show(seen: TrainingJob) -> None:
            if not seen.finished:  # the end is told below
                view.show(seen)

        seen = client.follow(name, "finished", show, timeout=timeout)
    return _conclude(seen)


def show_once(client: TFTrainingClient, name: str) -> None:
    """Show how far a job is at present."""
    from tftraining.progress_view import ProgressView

    with ProgressView(console.out(), transient=False) as view:
        view.show(client.get(name))


def _conclude(seen: TrainingJob) -> ExitCode:
    console.show(str(seen))
    return ExitCode.FAILED if seen.failed else ExitCode.SUCCEEDED
