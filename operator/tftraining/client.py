"""`TFTrainingClient`: what `tftj` does, from Python; `tftj` is made of it.

A method imports what it needs, because a command needs few of them, and must start quickly.
"""

from __future__ import annotations

import contextlib
import sys
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tftraining_operator.api.keys import CONTAINER, Role

from tftraining.cluster.cluster import Cluster
from tftraining.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pandas import DataFrame
    from tftraining_operator.api.types import Strategy

    from tftraining.code import Wanted
    from tftraining.functions import Function
    from tftraining.job import TrainingJob
    from tftraining.metrics import Records
    from tftraining.submission import Plan
    from tftraining.view.log_lines import Line

    _Jobs = list[TrainingJob]

_Object = dict[str, Any]

_MANIFESTS = (".yaml", ".yml", ".json", "-")
"""How the names of manifests end, and that of standard input."""

Goal = Literal["finished", "running", "ready", "suspended"]
RoleName = Literal["chief", "worker", "ps", "evaluator"]
StrategyName = Literal["ParameterServer", "MultiWorkerMirrored", "Mirrored"]


class View(Protocol):
    """Something that shows a job while it is waited for."""

    def show(self, seen: TrainingJob) -> None:
        """Display the present state."""


class TFTrainingClient:
    """The jobs of one namespace of a cluster.

    It connects as the kubeconfig (KUBECONFIG) says, else as the pod that it runs in. All methods
    raise TFTrainingError with what to do: UnreachableError if the cluster does not answer,
    NotFoundError if there is no job of the name that they are given. They are blocking, and may be
    called by several threads.
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        context: str | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """Connect to a cluster: by default to the current context and its namespace.

        Raises InputError without a usable kubeconfig. `cluster` is for tests and other connections.
        """
        if cluster is None:
            from tftraining.cluster.connection import Connection

            cluster = Cluster(Connection.open(namespace, context))
        self._cluster = cluster

    @property
    def namespace(self) -> str:
        """The namespace of all jobs of this client."""
        return self._cluster.namespace

    @property
    def cluster(self) -> Cluster:
        """The calls to the API server, for what this class does not do."""
        return self._cluster

    def __repr__(self) -> str:
        return f"<TFTrainingClient of namespace {self.namespace}>"

    # ---- start ----------------------------------------------------------------------------------
    def train(
        self,
        model_file: str | PathLike[str] | None = None,
        *,
        functions: Sequence[Function] | Mapping[str, Function] | None = None,
        name: str | None = None,
        task: str | None = None,
        strategy: StrategyName = "ParameterServer",
        workers: int = 1,
        ps: int = 1,
        evaluator: bool = False,
        checkpoint: str | None = None,
        image: str | None = None,
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        replace: bool = False,
    ) -> TrainingJob:
        """Start a job from Python code, without building an image.

        Raises InputError if an argument, the code or the job is not valid, AlreadyExistsError if
        there is a job of that name, or a ConfigMap of the name of its code, JOB-code, that neither
        this nor `tftj` has made.

        Args:
            model_file: Python file with `model()` and `dataset()`, or folder with such a file.
            functions: instead of a file, functions of this notebook: `[model, dataset]`, or by the
                trainer's names: `{"model": build, "dataset": digits}`. What they use goes along.
            name: name of the job; by default that of the file, or a new one for functions.
            task: file of the folder with `model()` and `dataset()`; by default task.py.
            strategy: ParameterServer, MultiWorkerMirrored or Mirrored.
            workers: number of workers.
            ps: number of parameter servers.
            evaluator: whether to evaluate checkpoints; requires `checkpoint`.
            checkpoint: PersistentVolumeClaim for checkpoints and the model; without one, a restart
                begins at step 0, and no model is exported.
            image: image; by default the operator's trainer image.
            env: environment variables.
            arguments: arguments of the trainer, such as `["--epochs=5"]`.
            replace: whether to delete a job of the same name first.

        """
        from tftraining import sources
        from tftraining.code import Wanted

        wanted = Wanted(
            name=name,
            strategy=_strategy(strategy),
            workers=workers,
            ps=ps,
            evaluator=evaluator,
            claim=checkpoint,
            image=image,
            variables=_variables(env or {}),
            arguments=_arguments(arguments),
        )
        if (model_file is None) == (functions is None):
            raise InputError("train() takes either a model_file or functions=[model, dataset]")
        if functions is not None:
            return self.send(_of_functions(functions, wanted), replace=replace)
        path = fspath(model_file or "")
        is_code = path.endswith(".py") or Path(path).is_dir()
        may_be_misspelt = not Path(path).exists() and not path.endswith(_MANIFESTS)
        if not is_code and not may_be_misspelt:
            raise InputError(f"{path}: train() takes Python code; submit() takes a manifest")
        return self.send(sources.plan(path, task, wanted), replace=replace)

    def submit(
        self, manifest: str | PathLike[str] | _Object, *, replace: bool = False
    ) -> TrainingJob:
        """Start a job from a manifest: a YAML file, or the object as a dict.

        `replace` deletes a job of the same name first, if the new one can be created. Raises
        InputError if the manifest is not valid or of another namespace, AlreadyExistsError if there
        is a job of that name.
        """
        from tftraining import sources, submission
        from tftraining.code import Wanted

        if isinstance(manifest, dict):
            plan = submission.plan_of([manifest], "manifest", None)
        else:
            plan = sources.plan(fspath(manifest), None, Wanted())
        return self.send(plan, replace=replace)

    def send(
        self, plan: Plan, *, replace: bool = False, say: Callable[[str], None] = lambda _text: None
    ) -> TrainingJob:
        """Send what sources.plan made: a job, and what it needs. Raises as submit does."""
        from tftraining import submission
        from tftraining.job import seen

        submission.check(plan.job, "the job")
        own = plan.job["metadata"].get("namespace")
        if own and own != self.namespace:
            raise InputError(
                f"the job's metadata.namespace is {own}, and this client is of namespace"
                f" {self.namespace}: remove it, or use TFTrainingClient({own!r})"
            )
        made = submission.send(self._cluster, plan, replace=replace, say=say)
        return seen(made, [], datetime.now(UTC))

    # ---- look -----------------------------------------------------------------------------------
    def list(self, *, selector: str = "", all_namespaces: bool = False) -> _Jobs:
        """Return the jobs of the namespace, or of all; `selector` is such as team=vision.

        Raises NotFoundError if the cluster does not know TFTrainingJobs.
        """
        from tftraining.job import seen

        now = datetime.now(UTC)
        found = self._cluster.jobs(selector=selector, everywhere=all_namespaces)
        return [seen(raw, [], now) for raw in found]

    def get(self, name: str) -> TrainingJob:
        """Return a job with its pods."""
        from tftraining import following

        return following.look(self._cluster, name)

    def describe(self, name: str) -> str:
        """Return what a job does, and why it does not run or failed: the first line says it."""
        raw = self._cluster.job(name)
        pods, events = self._cluster.pods(raw), self._cluster.events(raw)
        claims = self._cluster.claims(pods)
        from tftraining.view.describe import describe  # only for a job that was found

        return "\n".join(describe(raw, pods, events, datetime.now(UTC), claims=claims))

    def wait(
        self,
        name: str,
        goal: Goal = "finished",
        *,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> TrainingJob:
        """Wait until a job has finished, or until it runs, is ready or suspended.

        In a notebook and in a terminal it shows the progress; `progress` says otherwise. `timeout`
        is in seconds. Raises JobFailedError if the job failed, TimedOutError after the timeout,
        UnreachableError if the cluster stops answering for more than five minutes.
        """
        with progress_view(progress) as view:
            found = self.follow(name, goal, view.show, timeout=timeout)
        return checked(found)

    def follow(
        self,
        name: str,
        goal: str,
        show: Callable[[TrainingJob], None],
        *,
        timeout: float | None = None,
    ) -> TrainingJob:
        """Call `show` every 1.5 s until a job is where it is waited for; return its last state.

        Less often where it takes long to read the job, as one with a thousand pods does.
        Raises as wait does, but not for a job that failed; InputError if there is no such goal.
        """
        from tftraining import following

        kind = following.goal_of(goal)
        return following.follow(self._cluster, name, kind, show, timeout=timeout)

    def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        role: RoleName | Role | None = None,
        index: int | None = None,
        previous: bool = False,
        tail: int | None = None,
        container: str = CONTAINER,
        say: Callable[[str], None] = lambda _text: None,
    ) -> Iterator[Line]:
        """Return the logs of all pods of a job, ordered by time.

        They are followed until the loop over them is left. Raises NotFoundError if there are none,
        InputError for `follow` with `previous`, UnreachableError if the cluster stops answering for
        more than five minutes while they are followed, or no log can be read.

        Args:
            name: name of the job.
            follow: whether to follow them until the job has finished, across restarts.
            role: only this role.
            index: only the pod with this index.
            previous: the logs before the last restart in place.
            tail: only so many lines from the end of each pod's log; with follow, of those that run
                already.
            container: another container than the one that trains.
            say: called with what is missing, such as the log of a pod whose node does not answer.

        """
        from tftraining import log_reader

        found = log_reader.opened(
            self._cluster,
            name,
            follow=follow,
            role=role,
            index=index,
            previous=previous,
            tail=tail,
            container=container,
            say=say,
        )
        return iter(found)

    # ---- results --------------------------------------------------------------------------------
    def metrics(self, name: str) -> Records:
        """Return the newest values of a job: of training, evaluation and the exported model."""
        from tftraining import following, metrics

        return metrics.records(following.look(self._cluster, name).status)

    def metrics_frame(self, name: str) -> DataFrame:
        """Return the same as a pandas.DataFrame. Raises InputError without pandas."""
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise InputError("pandas is not installed: install it, or use metrics()") from error
        from tftraining.metrics import MetricRecord

        return DataFrame(self.metrics(name), columns=list(MetricRecord.__annotations__))

    def get_model(
        self,
        name: str,
        to: str | PathLike[str] | None = None,
        *,
        best: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> Path:
        """Copy the exported model of a job here; return its folder, which is `to`/STEP.

        `to` is JOB-model by default. A pod that mounts the job's volume sends it, for a day at
        most. `best` asks for the best model instead of the last one; `say` is called with what is
        being done. Raises NotFoundError if the job has exported none, InputError if it is on no
        volume (object storage, an emptyDir), AlreadyExistsError if the folder exists.
        """
        from tftraining import following, model_copy

        job = following.look(self._cluster, name)
        folder = Path(to) if to is not None else Path(f"{name}-model")
        return model_copy.copy(self._cluster, job, folder, best=best, say=say)

    # ---- change ---------------------------------------------------------------------------------
    def scale(self, name: str, workers: int) -> str:
        """Change the number of workers while the job runs; return what was done.

        Raises InputError if nothing of the job trains any more, or it cannot have so many.
        """
        from tftraining import changes

        return changes.scale(self._cluster, name, workers)

    def suspend(self, name: str) -> str:
        """Stop a job: it saves a checkpoint and deletes its pods; return what was done.

        Raises InputError if nothing of it trains any more.
        """
        from tftraining import changes

        return changes.set_suspend(self._cluster, name, value=True)

    def resume(self, name: str) -> str:
        """Continue a suspended job from its newest checkpoint; return what was done.

        Raises InputError if the job has ended.
        """
        from tftraining import changes

        return changes.set_suspend(self._cluster, name, value=False)

    def restart(self, name: str, *, say: Callable[[str], None] = lambda _text: None) -> str:
        """Restart the training from the newest checkpoint; return what was done.

        A job that has ended is deleted and created again. If that fails in between, the error, and
        what `say` is called with before, name a file with its manifest. Raises InputError if the
        job is suspended, only evaluates, or has succeeded and has checkpoints that outlive its
        pods, NotFoundError if it has no chief.
        """
        from tftraining import changes

        return changes.restart(self._cluster, name, say=say)

    def delete(self, name: str, *, wait: bool = False) -> str:
        """Delete a job with its pods; return what was done. Checkpoints on volumes are kept.

        `wait` returns when they are gone. Raises TimedOutError if that takes too long.
        """
        from tftraining import changes

        return changes.delete(self._cluster, name, wait=wait)


def checked(found: TrainingJob) -> TrainingJob:
    """Return a job that has not failed. Raises JobFailedError."""
    from tftraining.job import JobFailedError

    if found.failed:
        raise JobFailedError(found)
    return found


def progress_view(wanted: bool | None) -> contextlib.AbstractContextManager[View]:  # noqa: FBT001
    """Return what shows a job here: a live view in a notebook or terminal, else nothing."""
    from tftraining.notebook_view import NotebookView, in_notebook

    if wanted is not False and in_notebook():
        return NotebookView()
    if wanted or (wanted is None and sys.stdout.isatty()):
        from rich.console import Console

        from tftraining.progress_view import ProgressView

        return ProgressView(Console(highlight=False, markup=False, emoji=False), transient=False)
    return contextlib.nullcontext(_Silent())


class _Silent:
    def show(self, seen: TrainingJob) -> None:
        """Show nothing."""


def _of_functions(given: Sequence[Function] | Mapping[str, Function], wanted: Wanted) -> Plan:
    import secrets

    from tftraining import code, functions
    from tftraining.submission import Plan

    name = f"task-{secrets.token_hex(3)}"
    config_map, job = code.manifests(code.of_text(functions.source(given), name), wanted)
    return Plan(job, [config_map], owned=True)


def _variables(given: Mapping[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if not isinstance(value, str):
            raise InputError(f"env: {name} must be a string, not {value!r}")
    return dict(given)


def _arguments(given: Sequence[str]) -> tuple[str, ...]:
    # A string is a sequence of strings as well, of one letter each.
    if isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise InputError('arguments: must be a list of strings, such as ["--epochs=5"]')
    return tuple(given)


def _strategy(given: str) -> Strategy:
    from tftraining_operator.api.types import Strategy

    try:
        return Strategy(given)
    except ValueError as error:
        raise InputError(f"strategy: {given!r} must be one of {', '.join(Strategy)}") from error
