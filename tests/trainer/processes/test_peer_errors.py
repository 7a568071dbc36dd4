"""Which errors mean that a peer was lost, whoever they befall."""

import os

import pytest
from tftrainer.config import arguments, environment
from tftrainer.config.cluster import Cluster, Member, Role, Task
from tftrainer.config.job import Job
from tftrainer.errors import (
    BadConfigurationError,
    CheckpointUnavailableError,
    OutageError,
    ParameterServerLostError,
    PeersUnavailableError,
    TrainerError,
)
from tftrainer.runtime import process

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer import mirrored  # noqa: E402
from tftrainer.parameter_server.lost_servers import explain  # noqa: E402
from tftrainer.peering.peer_errors import garbled_call, lost_peer_error  # noqa: E402
from tftrainer.saving.checkpoints import unavailable  # noqa: E402

from tools.ports import free_port  # noqa: E402

REMOTE = "\nAdditional GRPC error information from remote target /job:ps/replica:0/task:0"


def raised_from(cause: Exception) -> Exception:
    error = BadConfigurationError("model() of mine raised")
    error.__cause__ = cause
    return error


def raised_while_handling(first: Exception) -> Exception:
    try:
        try:
            raise first
        except type(first):
            raise ValueError("cannot be built")  # noqa: B904 -- as users write it
    except ValueError as error:
        return error


def wrapped(original: Exception) -> Exception:
    error = Exception("Input has an error")
    error.original_exception = original  # type: ignore[attr-defined] -- as the coordinator does
    return error


LOST = tf.errors.UnavailableError(None, None, "ping timeout")
LOST_PS = tf.errors.UnavailableError(None, None, f"ping timeout{REMOTE}")
RETRIED = (
    "All 10 retry attempts failed. The last failure: Error executing an HTTP request: HTTP "
    "response code 503 with body '' when initiating an upload to gs://models/run/ckpt-1.index"
)
STORE_AWAY = tf.errors.AbortedError(None, None, RETRIED)
STALE = tf.errors.AbortedError(None, None, "/checkpoints/checkpoint.new; Stale file handle")
BAD_SHAPE = tf.errors.InvalidArgumentError(None, None, f"bad shape{REMOTE}")


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        pytest.param(LOST, True, id="it does not answer"),
        pytest.param(raised_from(LOST), True, id="it was lost while the user's code ran"),
        pytest.param(raised_while_handling(LOST), True, id="the user's code raised its own error"),
        pytest.param(wrapped(LOST), True, id="it was lost while an input was made"),
        pytest.param(
            tf.errors.InvalidArgumentError(None, None, f"/job:ps is an unknown device{REMOTE}"),
            True,
            id="it was restarted unnoticed",
        ),
        pytest.param(
            tf.errors.AbortedError(None, None, "Unable to find a context_id matching"),
            True,
            id="it dropped what this chief had",
        ),
        pytest.param(
            tf.errors.InvalidArgumentError(
                None,
                None,
                "Resource input tensor contains an invalid device. This might happen when the "
                "client has connected to a different cluster, or some remote workers have been "
                "restarted.",
            ),
            True,
            id="a server does not know where a variable is",
        ),
        pytest.param(STORE_AWAY, False, id="an object store is unavailable"),
        pytest.param(
            tf.errors.AbortedError(None, None, f"{RETRIED}{REMOTE}"),
            False,
            id="the same for a ps, which writes its own variables",
        ),
        pytest.param(BAD_SHAPE, False, id="an error of the model on a ps"),
        pytest.param(raised_from(BAD_SHAPE), False, id="an error of the user's code"),
        pytest.param(
            tf.errors.InvalidArgumentError(None, None, "unknown device"),
            False,
            id="one of this host",
        ),
    ],
)
def test_a_loss_is_told_from_other_errors(error: Exception, *, lost: bool) -> None:
    assert (lost_peer_error(error) is not None) is lost


def test_a_call_that_tensorflow_garbled_is_no_mistake_of_the_users() -> None:
    garbled = tf.errors.InternalError(None, None, f"Unable to parse request{REMOTE}")
    assert garbled_call(raised_from(garbled)) is garbled
    chief = Task(Role.CHIEF, 0)
    ended = explain(garbled, Cluster(chief, (Member(chief, "localhost:1"),)), building=False)
    assert isinstance(ended, PeersUnavailableError)
    assert "which no task can cause" in str(ended)
    assert garbled_call(tf.errors.InternalError(None, None, f"no such kernel{REMOTE}")) is None


def unsaved(cause: Exception) -> Exception:
    error = unavailable("/checkpoints", "written", cause)
    error.__cause__ = cause
    return error


CHIEF, PS = Task(Role.CHIEF, 0), Task(Role.PS, 0)
ALONE = (Member(CHIEF, "localhost:1"),)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        pytest.param(unsaved(STALE), None, id="a checkpoint, of a volume"),
        pytest.param(unsaved(STORE_AWAY), None, id="a checkpoint, of an object store"),
        pytest.param(unsaved(LOST_PS), ParameterServerLostError, id="a checkpoint, of a lost ps"),
        pytest.param(STALE, None, id="a callback, of a volume"),
        pytest.param(STORE_AWAY, None, id="a callback, of an object store"),
        pytest.param(LOST_PS, ParameterServerLostError, id="a step, of a lost ps"),
        pytest.param(raised_from(STALE), OutageError, id="dataset(), of a volume"),
    ],
)
def test_storage_that_fails_while_all_servers_answer_is_no_lost_server(
    error: Exception, wanted: type[TrainerError] | None
) -> None:
    ended = explain(error, Cluster(CHIEF, ALONE), building=False)
    assert ended is None if wanted is None else isinstance(ended, wanted)


@pytest.mark.parametrize("error", [unsaved(STALE), STALE, LOST])
def test_an_error_that_names_no_server_is_a_lost_ps_if_one_does_not_answer(
    error: Exception,
) -> None:
    members = (*ALONE, Member(PS, f"localhost:{free_port()}"))
    ended = explain(error, Cluster(CHIEF, members), building=False)
    assert isinstance(ended, ParameterServerLostError)
    assert "ps-0: connection refused" in str(ended)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        pytest.param(unsaved(STALE), CheckpointUnavailableError, id="storage"),
        pytest.param(
            unsaved(tf.errors.UnavailableError(None, None, "Collective ops is aborted by: ping")),
            PeersUnavailableError,
            id="a member, lost while the chief saves",
        ),
        pytest.param(
            unsaved(tf.errors.UnavailableError(None, None, f"x{REMOTE.replace('ps', 'worker')}")),
            PeersUnavailableError,
            id="one that is named",
        ),
        pytest.param(LOST, PeersUnavailableError, id="a member, lost in a step"),
    ],
)
def test_members_tell_storage_from_a_lost_member(
    monkeypatch: pytest.MonkeyPatch, error: Exception, wanted: type[TrainerError]
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(mirrored, "_train", fails)
    monkeypatch.setattr(mirrored, "_members", lambda _: ["chief-0", "worker-0"])
    job = Job(arguments.parse(["--task=m"]), environment.read({}))
    with pytest.raises(wanted):
        mirrored.train(job, None)  # type: ignore[arg-type] -- nothing is run
