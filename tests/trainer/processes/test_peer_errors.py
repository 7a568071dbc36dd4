"""Which errors mean that a peer was lost, whoever they befall."""

import os

import pytest
from tftrainer.config.cluster import Cluster, Member, Role, Task
from tftrainer.errors import BadConfigurationError, PeersUnavailableError
from tftrainer.runtime import process

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer.parameter_server.lost_servers import explain  # noqa: E402
from tftrainer.peering.peer_errors import garbled_call, lost_peer_error  # noqa: E402

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
