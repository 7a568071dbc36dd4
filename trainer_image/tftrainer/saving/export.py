"""Exports the trained model, so that it can be served; called by recorder at the end of training.

The chief builds the model once more, in its own memory and outside the strategy, and restores the
checkpoint into it. The trained one cannot be exported under ParameterServer: its variables are on
the ps, which would write them to disks of their own. This way is the same under every strategy.

    <checkpoint directory>/export/<step>/saved_model.pb, variables/   a SavedModel
    <checkpoint directory>/export/<step>/model.keras                  the same as a Keras file
    <checkpoint directory>/export/best/<step>/…                       of the best checkpoint

TensorFlow Serving takes the folder `export`, with the steps as versions. A version is written under
another name and renamed when it is complete. Training is marked as complete before, so a chief that
is killed here exports again after its restart, and repeats no step.
"""

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.arguments import ExportFormat
from tftrainer.context import Context
from tftrainer.errors import CheckpointUnavailableError
from tftrainer.peering.peer_errors import lost_peer_error
from tftrainer.runtime.exception_text import summary
from tftrainer.runtime.outages import is_outage
from tftrainer.runtime.progress import ExportedModel, SavedCheckpoint
from tftrainer.saving import checkpoints, saved_names
from tftrainer.saving.checkpoints import reached, unavailable
from tftrainer.saving.exported_formats import KERAS_FILE, WRITERS
from tftrainer.saving.fence import Fence
from tftrainer.user import model
from tftrainer.user.task import UserTask

_LOG = logging.getLogger(__name__)
FOLDER = "export"
FOLDER_OF_BEST = f"{FOLDER}/best"
_CUSTOM = "custom"
_MODEL = "the exported model"
_OF_STORAGE = (
    tf.errors.DataLossError,
    tf.errors.InternalError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnknownError,
)


@dataclass(frozen=True, slots=True)
class Exporter:
    """What is needed to build the model again, and what of it is wanted."""

    task: UserTask
    context: Context
    dataset: tf_types.Dataset
    """The training data: the model is built for what it holds."""
    formats: tuple[ExportFormat, ...]
    fence: Fence | None = None
    """The right to write into the checkpoint directory, if others might."""

    def export(
        self, directory: str, saved: SavedCheckpoint, *, within: str = FOLDER
    ) -> ExportedModel | None:
        """Export the model of a checkpoint; None if nothing is wanted, or can be written.

        `within` is the folder in the checkpoint directory that gets the version. Raises
        CheckpointUnavailableError if it cannot be written, and what the task's own export() raises.
        Call it outside the strategy's scope.
        """
        if not self.formats:
            return None
        began = time.monotonic()
        folder = f"{directory.rstrip('/')}/{within}"
        path, aside = f"{folder}/{saved.step}", f"{folder}/.{saved.step}.{self._attempt}.new"
        self._check()
        with reached(folder, "written", what=_MODEL):
            for left in tf.io.gfile.glob(f"{folder}/.*.new"):
                _remove(left)
            tf.io.gfile.makedirs(aside)
        built = self._restored(saved)
        with _removed_if_it_fails(aside):
            write = self._write_own if self.task.export else self._write
            formats = write(built, aside)
            self._check()
        with reached(folder, "written", what=_MODEL):
            if not formats:
                _remove(aside)
                _LOG.warning("the model is not exported; checkpoint %s holds it", saved.path)
                return None
            _replace(aside, path)
        _LOG.info(
            "exported the model as %s to %s in %.1f s",
            " and ".join(formats),
            path,
            time.monotonic() - began,
        )
        return ExportedModel(saved.step, path, formats)

    @property
    def _attempt(self) -> int:
        return 0 if self.fence is None else self.fence.attempt

    def _check(self) -> None:
        """Raise if a newer attempt has begun, which removes what this one writes."""
        if self.fence is not None:
            self.fence.check()

    def _restored(self, saved: SavedCheckpoint) -> tf_types.Model:
        # A checkpoint goes by the objects, and not by the names of variables.
        with saved_names.with_saved_variables():
            built = model.build(self.task, self.context, self.dataset)
        with checkpoints.needed(saved.path):
            status = checkpoints.read(tf.train.Checkpoint(model=built), saved.path)
        status.assert_existing_objects_matched().expect_partial()
        return built

    def _write(self, built: tf_types.Model, folder: str) -> tuple[str, ...]:
        """Write the formats wanted; return those that could be written."""
        written = []
        for each in self.formats:
            try:
                WRITERS[each](built, self.dataset.element_spec[0], folder)
            except Exception as error:
                if _is_of_storage(error, folder) or lost_peer_error(error) or is_outage(error):
                    raise _not_written(folder, error) from error
                _LOG.warning(
                    "the model of %s cannot be exported as %s: %s. %s",
                    self.task.name,
                    each,
                    summary(error).rstrip("."),
                    _ADVICE[each],
                )
                with reached(folder, "written", what=_MODEL):
                    _remove_partial(each, folder)
            else:
                written.append(str(each))
        return tuple(written)

    def _write_own(self, built: tf_types.Model, folder: str) -> tuple[str, ...]:
        try:
            self.task.export(built, folder)
        except Exception:
            _LOG.warning(
                "export(model, path) of %s failed. All steps are made and saved: a restart repeats "
                "none of them, and calls it again",
                self.task.name,
            )
            raise
        with reached(folder, "written", what=_MODEL):
            if tf.io.gfile.listdir(folder):
                return (_CUSTOM,)
        _LOG.warning("export(model, path) of %s wrote nothing to path", self.task.name)
        return ()


_ADVICE = {
    ExportFormat.SAVED_MODEL: "Define export(model, path) in the task to write it in your own way.",
    ExportFormat.KERAS: "A class of your own needs get_config(), and one that is no layer, or a "
    "function, @tf.keras.utils.register_keras_serializable() as well; a Sequential in which a "
    "layer is adapted needs an Input before it. Or leave the format out with --export=saved_model.",
}


def _remove_partial(written: ExportFormat, folder: str) -> None:
    if written is ExportFormat.KERAS:
        if tf.io.gfile.exists(path := f"{folder}/{KERAS_FILE}"):
            tf.io.gfile.remove(path)
        return
    _remove(folder)
    tf.io.gfile.makedirs(folder)


def _replace(new: str, path: str) -> None:
    """Rename a folder; what is there is moved away first, for it cannot be deleted at once."""
    folder, _, name = path.rpartition("/")
    old = f"{folder}/.{name}.old"
    _remove(old)
    if tf.io.gfile.exists(path):
        _move(path, old)
    _move(new, path)
    _remove(old)


def _move(folder: str, to: str) -> None:
    """Rename a folder, or move its files one by one.

    A bucket that is mounted as a volume renames files, and folders perhaps not.
    """
    try:
        tf.io.gfile.rename(folder, to)
    except tf.errors.OpError:
        # The outermost last: what serves models looks for a file there.
        for within, _, files in reversed(list(tf.io.gfile.walk(folder))):
            target = f"{to}{within.removeprefix(folder)}"
            tf.io.gfile.makedirs(target)
            for name in files:
                tf.io.gfile.rename(f"{within}/{name}", f"{target}/{name}", overwrite=True)
        _remove(folder)


@contextlib.contextmanager
def _removed_if_it_fails(folder: str) -> Iterator[None]:
    """Leave no part of a version on a full volume: the next start has to write there first."""
    try:
        yield
    except Exception:
        with contextlib.suppress(tf.errors.OpError):
            _remove(folder)
        raise


def _remove(folder: str) -> None:
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.rmtree(folder)


def _is_of_storage(error: Exception, folder: str) -> bool:
    """Whether the folder is behind an error, rather than a file that the user's code reads."""
    if isinstance(error, OSError):
        file = str(error.filename or folder)
        return error.errno is not None and file.startswith(folder)
    return isinstance(error, _OF_STORAGE)


def _not_written(folder: str, error: Exception) -> CheckpointUnavailableError:
    return unavailable(folder, "written", error, what=_MODEL)
