"""Finds out whether each ps can write and read its own variables of a checkpoint; used by chief.

Where all can, no process ever holds more than its own variables. That takes a directory which the
chief and every ps share. Nobody promises one: without spec.ps.mountCheckpoint the chief alone
mounts the volume, and a ps would write its part to a disk of its own, under the same name. So
before anything is saved, each ps is asked to copy what the chief has written, and before anything
is restored, to read it.
"""

import contextlib
import logging
import uuid
from collections.abc import Callable, Sequence

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.cluster import Member, Role, Task
from tftrainer.errors import one_line
from tftrainer.saving import checkpoints, files

_LOG = logging.getLogger(__name__)
_CHIEF = Task(Role.CHIEF, 0).device


class ServerFiles:
    """Says which device writes and reads the variables on the ps; see checkpoints.Devices."""

    own = _CHIEF

    def __init__(self, servers: Sequence[Member]) -> None:
        """`servers` are the ps, which have to answer."""
        self._servers = servers
        self._logged = False

    def to_write(self, directory: str) -> str | None:
        """Return None if every ps writes to the directory that the chief sees, else the chief."""
        folder = f"{directory}/{checkpoints.unfinished(uuid.uuid4().hex)}"
        tf.io.gfile.makedirs(folder)
        try:
            files.replace(f"{folder}/chief", folder)
            return self._chosen(f"write to {directory}", lambda server: _copies(folder, server))
        finally:
            # Else the next start does.
            with contextlib.suppress(tf.errors.OpError):
                tf.io.gfile.rmtree(folder)

    def to_read(self, path: str) -> str | None:
        """Return None if every ps reads the checkpoint that the chief sees, else the chief."""
        index = f"{path}.index"
        with tf.io.gfile.GFile(index, "rb") as file:
            known = file.read()
        return self._chosen(f"read {path}", lambda server: _read(index, server).numpy() == known)

    def _chosen(self, what: str, can: Callable[[Member], bool]) -> str | None:
        for server in self._servers:
            try:
                # A ps that is lost refuses as well; what is done next says so.
                why = None if can(server) else "it sees other files there"
            except tf.errors.OpError as error:
                why = one_line(error)
            if why is not None:
                self._log(f"{server.name} cannot {what} ({why})")
                return _CHIEF
        return None

    def _log(self, why: str) -> None:
        if not self._logged:
            _LOG.info(
                "%s: the chief saves and restores the variables of all ps, and needs memory for "
                "them. To have each ps do it, give the ps the same access: for a claim, set "
                "spec.ps.mountCheckpoint to true",
                why,
            )
            self._logged = True


def _copies(folder: str, server: Member) -> bool:
    """Have a ps read the chief's file and write another; return whether the chief sees that."""
    copy = f"{folder}/{server.task}"
    with tf.device(server.task.device):
        tf.io.write_file(copy, _read(f"{folder}/chief", server))
    return files.read(copy) == folder


def _read(path: str, server: Member) -> tf_types.Tensor:
    with tf.device(server.task.device):
        return tf.io.read_file(path)
