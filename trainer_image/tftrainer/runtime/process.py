"""Prepares the process before TensorFlow is imported: environment, logging, garbage collection."""

import gc
import logging
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

_ALWAYS = {
    # Keras 3 cannot train under ParameterServer or MultiWorkerMirrored.
    "TF_USE_LEGACY_KERAS": "1",
}
_UNLESS_SET = {
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "GRPC_FAIL_FAST": "use_caller",
    # Else the first process on a GPU takes all of its memory, also where it is shared.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    # The operator sets the same: without it a lost node is never noticed, a process that hangs
    # only after 60 s, and a new address late. A ps on a busy machine may be silent for seconds.
    "TF_GRPC_DEFAULT_OPTIONS": "grpc.keepalive_time_ms=10000,grpc.keepalive_timeout_ms=20000,"
    "grpc.http2.ping_timeout_ms=20000,grpc.dns_min_time_between_resolutions_ms=1000,"
    "grpc.min_reconnect_backoff_ms=5000",
}


def prepare(variables: MutableMapping[str, str]) -> None:
    """Set what TensorFlow reads when it is imported."""
    variables.update(_ALWAYS)
    for name, value in _UNLESS_SET.items():
        variables.setdefault(name, value)


def configure_logging() -> None:
    """Log one line per message to standard error."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    for chatty in ("absl", "tensorflow"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Import in it what stays: nothing looks for garbage meanwhile, nor in what was made, ever.

    TensorFlow's modules are half a million objects, and to look through them again and again while
    they become more is a fifth of the CPU time that their import takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
