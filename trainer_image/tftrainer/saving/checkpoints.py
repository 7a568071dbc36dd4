"""Saves and restores checkpoints; called by resume (restore) and recorder (save).

The process that holds this names the files, and deletes old ones. Under ParameterServer each ps
writes and reads its own variables if it sees the directory; else the chief does, through its own
CPU device, so that no ps needs the volume (see Devices). Parts are written to a folder of their own
and put together by the chief: a ps that is killed meanwhile leaves no checkpoint. A checkpoint is
never ignored silently: if there are some and none can be read, that is an error.

tf.train.CheckpointManager is not used: under ParameterServer it makes a new graph for each save,
and a new graph is sent to every server. One that hangs would then hold the chief's interpreter
lock, and with it the watchdog, for as long as gRPC waits for it.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.data.position import Position
from tftrainer.errors import BadConfigurationError, CheckpointUnavailableError
from tftrainer.runtime.outages import is_outage
from tftrainer.runtime.progress import SavedCheckpoint
from tftrainer.saving import files
from tftrainer.user import layers
from tftrainer.user.model import all_metrics

_LOG = logging.getLogger(__name__)
_VOCABULARIES = "vocabularies"
_FORMS = "metric_forms"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ASIDE = "-before"
_NAME = re.compile(rf"/ckpt-(\d+)({_ASIDE})?$")
"""Path of a checkpoint, or of the copy of one that is being written again."""


class UnreadableError(Exception):
    """A checkpoint is damaged, or not all there."""


class Devices(Protocol):
    """Which devices write and read variables that are on several processes."""

    own: str
    """The device of this process."""

    def to_write(self, directory: str) -> str | None:
        """Return the one that writes all variables to a directory; None if each process its own.

        Raises what TensorFlow raises if this process cannot write there.
        """

    def to_read(self, path: str) -> str | None:
        """Return the one that reads all variables of a checkpoint; None if each process its own."""


class Checkpoints:
    """The checkpoints of one directory, for one model and its step."""

    def __init__(
        self,
        directory: str,
        *,
        keep: int,
        devices: Devices | None = None,
        **parts: Any,  # noqa: ANN401
    ) -> None:
        """`devices` is for variables on other processes; else this one reads and writes."""
        self._directory = directory = directory.rstrip("/")
        self._keep = keep
        self._devices = devices
        # What they have counted of the epoch: else the rest of it would pass for all of it.
        self._metrics = {each.name: each for each in all_metrics(parts.get("model"))}
        self._forms = json.dumps({name: _form(each) for name, each in self._metrics.items()})
        with tf.device(devices and devices.own):
            self._position = _text("")
            # As they are learned now, unless others are restored: training does not change them.
            self._own = {
                "position": self._position,
                _VOCABULARIES: _text(layers.vocabularies(parts.get("model"))),
                _FORMS: _text(self._forms),
            }
        self._parts = parts
        self._checkpoint = tf.train.Checkpoint(**parts, **self._own, metrics=self._metrics)
        _refuse_what_cannot_be_saved(self._checkpoint)
        with reached(directory, "opened"):
            tf.io.gfile.makedirs(directory)
            self._kept = _oldest_first(directory)
            device = devices.to_write(directory) if devices else None
        self._write = self._checkpoint.write
        if devices is not None:
            self._write = _graph_that_writes(self._checkpoint, device)

    def restore(self) -> str | None:
        """Restore the newest checkpoint that can be read; None if there is none at all."""
        failures = []
        for path in reversed(self._kept):
            try:
                self._restore(path)
            except UnreadableError as error:
                # What it has restored until then, the next older one replaces.
                _LOG.warning("checkpoint %s cannot be read, trying an older one: %s", path, error)
                failures.append(f"{path}: {error}")
                continue
            return path
        if failures:
            raise CheckpointUnavailableError(
                f"no checkpoint in {self._directory} can be read ({failures[0]}). To train from "
                "the beginning, empty the directory or use another one."
            )
        return None

    @property
    def position(self) -> Position | None:
        """Where in the data the checkpoint that was restored was made; None if it does not say."""
        return Position.parse(self._position.numpy().decode())

    def restore_from(self, location: str) -> str:
        """Restore a checkpoint, or the newest of a directory, that another training has written."""
        with reached(location, "read"):
            known = [location] if tf.io.gfile.exists(f"{location}.index") else None
            paths = known or _oldest_first(location.rstrip("/"))
        if not paths:
            raise BadConfigurationError(
                f"--resume-from: there is no checkpoint in {location}. Set it to the directory of "
                "an earlier training, or to one of its checkpoints, as this container sees it."
            )
        with needed(paths[-1]):
            self._restore(paths[-1], "train without --resume-from (spec.checkpoint.resumeFrom)")
        return paths[-1]

    def save(self, step: int, position: Position) -> SavedCheckpoint:
        """Write one that is named after the step, and drop the oldest."""
        path = f"{self._directory}/ckpt-{step}"
        self._position.assign(position.text())
        # Perhaps for want of a lost ps, which the message names: who catches it finds out.
        with reached(self._directory, "written"):
            if self._kept == [path]:
                self._set_aside(path)
            self._write(tf.constant(path))
            self._rotate(path)
        return SavedCheckpoint(step=step, path=path, time=datetime.now(UTC))

    def _set_aside(self, path: str) -> None:
        """Copy the only checkpoint: while it is written again, it cannot be read."""
        aside = f"{path}{_ASIDE}"
        try:
            copy(path, aside)
        except tf.errors.ResourceExhaustedError:
            # Rather the risk of a moment than no last checkpoint.
            _remove(aside)
        else:
            self._kept = [aside, path]

    def _rotate(self, newest: str) -> None:
        written = [*(path for path in self._kept if path != newest), newest]
        self._kept = [path for path in written if not path.endswith(_ASIDE)][-self._keep :]
        write_state(self._directory, [path.rpartition("/")[2] for path in self._kept])
        for dropped in written:
            if dropped not in self._kept:
                _remove(dropped)

    def _restore(self, path: str, otherwise: str = "use another checkpoint directory") -> None:
        try:
            reader = _reader(path)
            # One of an older trainer has not all.
            own = {name: each for name, each in self._own.items() if reader.has_tensor(_key(name))}
            metrics = _of_forms(self._metrics, _text_in(reader, _FORMS))
            checkpoint = tf.train.Checkpoint(**self._parts, **own, metrics=metrics)
            _read(checkpoint, path, self._options_to_read(path)).assert_existing_objects_matched()
            _use_restored(checkpoint, reader)
            self._own[_FORMS].assign(self._forms)
        except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
            raise BadConfigurationError(
                f"checkpoint {path} does not fit this model: {str(error)[:1000]} If the model was "
                f"changed on purpose, {otherwise}."
            ) from error

    def _options_to_read(self, path: str) -> Any:  # noqa: ANN401
        try:
            return _options(self._devices.to_read(path) if self._devices else None)
        except tf.errors.OpError as error:
            _raise_unreadable(path, error)


def _refuse_what_cannot_be_saved(checkpoint: tf_types.Checkpoint) -> None:
    """Raise BadConfigurationError for a model that holds layers as TensorFlow saves none.

    It says so when it saves: perhaps at the end of training, and again after each restart.
    """
    try:
        tf.train.TrackableView(checkpoint).descendants()
    except ValueError as error:
        raise BadConfigurationError(
            f"the model cannot be saved: {str(error)[:1000]} Give a dict of layers texts as keys, "
            "and do nothing but append to a list of layers."
        ) from error


def step_of(path: str) -> int | None:
    """Return the step that a checkpoint is named after, None for one that was named otherwise."""
    name = _NAME.search(path)
    return None if name is None else int(name[1])


def found(path: str, step: int) -> SavedCheckpoint:
    """Describe a checkpoint that an earlier process wrote."""
    written = tf.io.gfile.stat(f"{path}.index").mtime_nsec / 1e9
    return SavedCheckpoint(step=step, path=path, time=datetime.fromtimestamp(written, UTC))


def any_in(directory: str) -> bool:
    """Whether there is any checkpoint in a directory."""
    with reached(directory, "read"):
        return bool(_complete(directory))


def newest(directory: str) -> str | None:
    """Return the path of the one that was written last; None if there is none."""
    with reached(directory, "read"):
        return next(reversed(_oldest_first(directory)), None)


def found_or_none(path: str, step: int) -> SavedCheckpoint | None:
    """Do the same for one that the chief may have deleted meanwhile."""
    try:
        return found(path, step)
    except tf.errors.OpError:
        return None


def read(checkpoint: tf_types.Checkpoint, path: str) -> Any:  # noqa: ANN401
    """Restore the variables and return TensorFlow's status of it; compares all checksums.

    Raises UnreadableError, when some of the variables may be restored, and what TensorFlow raises
    for variables that do not fit.
    """
    reader = _reader(path)
    status = _read(checkpoint, path)
    _use_restored(checkpoint, reader)
    return status


def _read(checkpoint: tf_types.Checkpoint, path: str, options: Any = None) -> Any:  # noqa: ANN401
    """Restore the variables of a checkpoint that `_reader` has opened."""
    try:
        return checkpoint.read(path, options=options)
    except tf.errors.InvalidArgumentError:
        raise
    except tf.errors.OpError as error:
        _raise_unreadable(path, error)


def _use_restored(checkpoint: tf_types.Checkpoint, reader: Any) -> None:  # noqa: ANN401
    """Have the model compute with what was restored; `reader` is of the same checkpoint."""
    layers.use_restored(getattr(checkpoint, "model", None), _text_in(reader, _VOCABULARIES))


def _raise_unreadable(path: str, error: tf.errors.OpError) -> NoReturn:
    """Raise UnreadableError for a damaged checkpoint, another for one that is away."""
    _raise_if_away(path, error)
    raise UnreadableError(f"{type(error).__name__}: {error.message}") from error


def _raise_if_away(path: str, error: tf.errors.OpError) -> None:
    """Raise CheckpointUnavailableError for an outage: an older checkpoint would be no better."""
    if is_outage(error):
        raise unavailable(path.rpartition("/")[0], "read", error) from error


@contextmanager
def needed(path: str) -> Iterator[None]:
    """Raise CheckpointUnavailableError if the checkpoint that is read in this block is damaged."""
    try:
        yield
    except UnreadableError as error:
        raise CheckpointUnavailableError(f"checkpoint {path} cannot be read: {error}") from error


def _reader(path: str) -> Any:  # noqa: ANN401 -- of TensorFlow
    """Open a checkpoint, and read the part that TensorFlow does not read in an op."""
    try:
        reader = tf.train.load_checkpoint(path)
        reader.get_tensor(_OBJECT_GRAPH)
    except Exception as error:  # it raises whatever pybind makes of a status
        _require_reachable(path)
        raise UnreadableError(f"{type(error).__name__}: {error}") from error
    return reader


def _require_reachable(path: str) -> None:
    """Raise CheckpointUnavailableError if a checkpoint is away, rather than damaged.

    TensorFlow's reader says the same of both; its files say which it is.
    """
    try:
        with tf.io.gfile.GFile(f"{path}.index", "rb") as index:
            index.read(1)
    except tf.errors.OpError as error:
        _raise_if_away(path, error)


def _text(value: str) -> tf_types.Variable:
    return tf.Variable(value, trainable=False, dtype=tf.string)


def _text_in(reader: Any, name: str) -> str | None:  # noqa: ANN401 -- of TensorFlow
    """Return a text of a checkpoint; None if it is of an older trainer, which wrote none."""
    key = _key(name)
    return reader.get_tensor(key).decode() if reader.has_tensor(key) else None


def _form(metric: tf_types.Metric) -> list[str]:
    """Return what tells whether the variables of one metric can be restored into another's."""
    return [f"{each.name.partition(':')[0]} {each.shape}" for each in metric.variables]


def _of_forms(
    metrics: Mapping[str, tf_types.Metric], forms: str | None
) -> dict[str, tf_types.Metric]:
    """Return the metrics that are as they were saved; others begin anew."""
    saved = json.loads(forms or "{}")
    return {name: each for name, each in metrics.items() if saved.get(name) == _form(each)}


def _key(name: str) -> str:
    """Return what TensorFlow calls the value of a variable of a checkpoint."""
    return f"{name}/.ATTRIBUTES/VARIABLE_VALUE"


def _graph_that_writes(
    checkpoint: tf_types.Checkpoint, io_device: str | None
) -> Callable[..., Any]:
    """Return what writes to a prefix; its graph exists from now on."""
    write = tf.function(
        lambda prefix: checkpoint.write(prefix, options=_options(io_device)),
        input_signature=[tf.TensorSpec([], tf.string)],
        autograph=False,
    )
    write.get_concrete_function()
    return write  # type: ignore[no-any-return]


def _options(io_device: str | None) -> Any:  # noqa: ANN401
    return tf.train.CheckpointOptions(experimental_io_device=io_device)


def unfinished(name: str) -> str:
    """Return the folder for the parts of a checkpoint ckpt-NAME, as TensorFlow calls it."""
    return f"ckpt-{name}_temp"


def remove_unfinished(directory: str) -> None:
    """Delete what processes left that were killed; for the only one that writes there.

    That is parts, and data without an index, which is written last and deleted first. A ps that
    still writes for a chief that is gone cannot complete its part then.
    """
    with reached(directory, "written"):
        for folder in tf.io.gfile.glob(f"{directory}/{unfinished('*')}"):
            tf.io.gfile.rmtree(folder)
        data = tf.io.gfile.glob(f"{directory}/ckpt-*.data-*")
        # After the data: what is complete by then stays.
        complete = set(_complete(directory))
        for file in data:
            path = file.rpartition(".data-")[0]
            if _NAME.search(path) and path not in complete:
                tf.io.gfile.remove(file)


def copy(path: str, to: str) -> None:
    """Copy a checkpoint, the index last: what has none is no checkpoint."""
    for file in [*tf.io.gfile.glob(f"{path}.data-*"), f"{path}.index"]:
        tf.io.gfile.copy(file, f"{to}{file.removeprefix(path)}", overwrite=True)


def _remove(path: str) -> None:
    """Delete a checkpoint, the index first."""
    for file in (f"{path}.index", *tf.io.gfile.glob(f"{path}.data-*")):
        if tf.io.gfile.exists(file):
            tf.io.gfile.remove(file)


def write_state(directory: str, names: list[str]) -> None:
    """Write what tf.train.latest_checkpoint reads: a CheckpointState as text, oldest first."""
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    files.replace(f"{directory}/checkpoint", "\n".join([*lines, ""]))


def _complete(directory: str) -> list[str]:
    """Return the paths of the checkpoints that have an index, in no order."""
    found = tf.io.gfile.glob(f"{directory}/ckpt-*.index")
    return [path.removesuffix(".index") for path in found]


def _oldest_first(directory: str) -> list[str]:
    """List by the time of writing; first those that the state file, which may be lost, lacks.

    But last the one after which a chief was killed that had not listed it yet.
    """
    known = _listed(directory)
    paths = _complete(directory)
    # A copy before what it is a copy of.
    found = {(int(name[1]), not name[2]): p for p in paths if (name := _NAME.search(p))}
    others = [path for _, path in sorted(found.items()) if path not in known]
    newer = [path for path in others if known and _follows(path, known[-1])]
    return [*(path for path in others if path not in newer), *known, *newer]


def _follows(path: str, before: str) -> bool:
    """Whether a checkpoint is of a later step than another, and was not written before it."""
    step, known = step_of(path), step_of(before)
    if step is None or known is None or step <= known:
        return False
    try:
        one, two = (tf.io.gfile.stat(f"{each}.index").mtime_nsec for each in (path, before))
    except tf.errors.NotFoundError:
        return False
    # By whole seconds, as TensorFlow tells them.
    return bool(one >= two)


def _listed(directory: str) -> list[str]:
    """Read the state file; none are listed in one that is lost or garbled."""
    try:
        state = tf.train.get_checkpoint_state(directory)
    except ValueError as error:
        # Empty, as a crash of the volume's server can leave it.
        _LOG.warning("%s/checkpoint is garbled (%r); ignoring it", directory, error)
        return []
    return list(state.all_model_checkpoint_paths) if state else []


@contextmanager
def reached(directory: str, verb: str, *, what: str = "checkpoints") -> Iterator[None]:
    """Raise CheckpointUnavailableError if `what` cannot be `verb` in a directory in this block."""
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        raise unavailable(directory, verb, error, what=what) from error


def unavailable(
    directory: str, verb: str, error: Exception, *, what: str = "checkpoints"
) -> CheckpointUnavailableError:
    """Return the error for a directory in which `what` cannot be `verb`."""
    volume = "the volume is mounted, has room, and may be written by this user"
    bucket = "the bucket exists, and the pod's credentials allow to read and write it"
    return CheckpointUnavailableError(
        f"{what} in {directory} cannot be {verb}: {error}. Check that "
        f"{bucket if '://' in directory else volume}."
    )
