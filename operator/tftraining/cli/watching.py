"""`tftj wait`, `tftj progress`, and `tftj submit --wait`: follow a job and say how it ended."""

from rich.console import Console
from tftraining_operator.api.keys import ConditionType

from tftraining import following
from tftraining.cli import console as consoles
from tftraining.cli import durations
from tftraining.cluster.cluster import Cluster
from tftraining.errors import ExitCode
from tftraining.following import Seen
from tftraining.progress_view import ProgressView
from tftraining.view.why import why


def wait(cluster: Cluster, name: str, goal: str, timeout: str | None) -> ExitCode:
    """Wait silently for one of following.GOALS; print how the job is then.

    Raises TFTrainingError.
    """
    limit = durations.seconds("--timeout", timeout)
    seen = following.follow(cluster, name, following.GOALS[goal], lambda _seen: None, timeout=limit)
    return _conclude(seen)


def watch(
    cluster: Cluster, name: str, console: Console, option: str, timeout: str | None
) -> ExitCode:
    """Show the progress until the job has finished. Raises TFTrainingError."""
    limit = durations.seconds(option, timeout)
    goal = ConditionType.FINISHED
    with ProgressView(console) as view:

        def show(seen: Seen) -> None:
            if not following.reached(seen.job, goal):  # the end is told below
                view.show(seen)

        seen = following.follow(cluster, name, goal, show, timeout=limit)
    return _conclude(seen)


def show_once(cluster: Cluster, name: str, console: Console) -> None:
    """Show how far a job is at present."""
    with ProgressView(console, transient=False) as view:
        view.show(following.look(cluster, name))


def _conclude(seen: Seen) -> ExitCode:
    consoles.show(f"{seen.raw['metadata']['name']}: {why(seen.raw, seen.pods, (), seen.now)}")
    return following.exit_code(seen.job)
