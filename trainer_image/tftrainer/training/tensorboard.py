"""Writes scalars for TensorBoard to logs/<role>; used by recorder and evaluator.

Not by tf.summary: that runs operations, and the first of each kind waits for all servers that
TensorFlow knows, one that hangs too. Workers and ps have no volume, so the chief writes the scalars
of workers.

A thread of its own writes. Nothing depends on these files: where they cannot be written, or not in
time, training goes on without them.
"""

import logging
import time
from collections import deque
from collections.abc import Mapping
from threading import Event, Thread
from typing import IO, Any

import tensorflow as tf

from tftrainer.training import event_files

_LOG = logging.getLogger(__name__)
CHIEF = "chief"
EVALUATOR = "evaluator"
_FLUSH_SECONDS = 1.0
# An object store gets the whole file anew each time.
_REMOTE_FLUSH_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
# What is older is dropped where a volume hangs.
_MOST_WAITING = 10_000


class Logs:
    """The event files beside the checkpoints; writes nothing if there is no directory."""

    def __init__(self, checkpoint_dir: str | None) -> None:
        self._directory = f"{checkpoint_dir}/logs" if checkpoint_dir else None
        is_remote = "://" in (checkpoint_dir or "")
        self._flush_seconds = _REMOTE_FLUSH_SECONDS if is_remote else _FLUSH_SECONDS
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=_MOST_WAITING)
        self._files: dict[str, IO[bytes]] = {}
        self._has_warned = False
        self._closing = Event()
        self._thread: Thread | None = None
        plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        self._metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin)

    def write(self, role: str, step: int, values: Mapping[str, float]) -> None:
        """Have one role's values of one step written soon; its files begin with the first."""
        if self._directory is None or not values:
            return
        scalars = [self._scalar(name, value) for name, value in values.items()]
        summary = tf.compat.v1.Summary(value=scalars)
        event = tf.compat.v1.Event(wall_time=time.time(), step=step, summary=summary)
        self._waiting.append((role, event_files.record(event)))
        if self._thread is None:
            run = (self._directory,)
            self._thread = Thread(target=self._run, args=run, name="tensorboard", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Have the rest written, which is waited for 5 s at most."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _scalar(self, name: str, value: float) -> Any:  # noqa: ANN401
        tensor = tf.make_tensor_proto(value, tf.float32)
        return tf.compat.v1.Summary.Value(tag=name, metadata=self._metadata, tensor=tensor)

    def _run(self, directory: str) -> None:
        is_last = False
        while not is_last:
            is_last = self._closing.wait(self._flush_seconds)
            try:
                self._flush(directory)
                if is_last:
                    for file in self._files.values():
                        file.close()
            except (tf.errors.OpError, OSError) as error:
                self._warn(directory, error)

    def _flush(self, directory: str) -> None:
        while self._waiting:
            role, record = self._waiting.popleft()
            if role not in self._files:
                self._files[role] = event_files.begun(f"{directory}/{role}")
            self._files[role].write(record)
        for file in self._files.values():
            file.flush()

    def _warn(self, directory: str, error: Exception) -> None:
        if not self._has_warned:
            _LOG.warning(
                "%s cannot be written: %s. Training continues; what is missing there, TensorBoard "
                "does not show",
                directory,
                error,
            )
            self._has_warned = True
