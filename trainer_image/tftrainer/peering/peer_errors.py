"""Recognizes errors of TensorFlow which mean that a peer, or its state for this chief, was lost."""

import tensorflow as tf

from tftrainer.runtime.outages import chain

_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
_FROM_PEER = "GRPC error information from remote target"
# From a server that was restarted so fast that no call failed, or that dropped the context of a
# chief which it did not hear of for too long.
_FORGOTTEN = ("Unable to find a context_id", "unknown device", "remote_handle")
# Of a ps that TensorFlow made anew, without its variables, while it connected to a worker again.
# So it does where the ps was restarted, or was silent for too long just then.
_NOT_KNOWN = "Resource input tensor contains an invalid device"
_UNREADABLE = "Unable to parse request"
_OF_MEMBERS = "Collective ops is aborted"
# Of TensorFlow's object stores, when they have answered with 503 for too long.
_OF_STORE = "retry attempts failed"


def lost_peer_error(error: BaseException) -> BaseException | None:
    """Return the loss that an error is or was raised from; the user's code may be in between."""
    return next(filter(means_lost_peer, chain(error)), None)


def garbled_call(error: BaseException) -> BaseException | None:
    """Return the error of a call that the server could not read, if there was one.

    Seen once, with TensorFlow 2.21: on this side it wrote bytes that are no text where the call has
    the name of a device ("contains invalid UTF-8 data when serializing"). Nothing that a user
    writes gets there.
    """
    return next(filter(_is_garbled, map(original, chain(error))), None)


def _is_garbled(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, tf.errors.InternalError) and _UNREADABLE in text and _FROM_PEER in text


def is_of_tensorflow(error: BaseException) -> bool:
    """Whether an error is TensorFlow's own, or was raised from one."""
    return any(isinstance(each, tf.errors.OpError) for each in chain(error))


def original(error: BaseException) -> BaseException:
    """Return what the coordinator wrapped, such as what went wrong with a function's input."""
    wrapped: BaseException = getattr(error, "original_exception", error)
    return wrapped


def names_peer(loss: BaseException) -> bool:
    """Whether it is certain of an error in a call, or a loss, that a peer is behind it."""
    text = str(loss)
    return _FROM_PEER in text or _OF_MEMBERS in text


def means_lost_peer(error: BaseException) -> bool:
    """Whether variables or calls of this process were lost with a peer.

    Files on storage that is unavailable may raise the same, without naming a peer.
    """
    error = original(error)
    if isinstance(error, _LOST):
        return _OF_STORE not in str(error)
    if not isinstance(error, tf.errors.InvalidArgumentError):
        return False
    text = str(error)
    return _NOT_KNOWN in text or (_FROM_PEER in text and any(words in text for words in _FORGOTTEN))
