"""Which of TensorFlow's errors mean that a peer, or what it held for this chief, is gone."""

import tensorflow as tf

_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
_FROM_PEER = "GRPC error information from remote target"
# From a server that was restarted so fast that no call failed, or that dropped the context of a
# chief which it did not hear of for too long.
_FORGOTTEN = ("Unable to find a context_id", "unknown device", "remote_handle")


def loss_behind(error: BaseException) -> BaseException | None:
    """Return the loss that an error is or was raised from; user code meets it too."""
    behind: BaseException | None = error
    while behind is not None and not is_loss(behind):
        behind = behind.__cause__
    return behind


def is_loss(error: BaseException) -> bool:
    """Whether variables or calls of this process were lost with a peer."""
    # The coordinator wraps what went wrong with a function's input.
    error = getattr(error, "original_exception", error)
    if isinstance(error, _LOST):
        return True
    if not isinstance(error, tf.errors.InvalidArgumentError):
        return False
    text = str(error)
    return _FROM_PEER in text and any(words in text for words in _FORGOTTEN)
