"""Imports only the parts of TensorFlow that its server needs; called by server.py.

A server runs TensorFlow's C++ only, but `import tensorflow` imports all of its Python, and Keras:
150 MB of memory and 3 s of CPU time in each process, five times what the server itself takes. So
the package's own __init__ is left out, which Python knows no other way to do than to put an empty
package in its place. Where TensorFlow would load libraries besides (plug-ins for devices), or does
not look like the version that this was made for, it is imported as usual.
"""

import importlib
import importlib.util
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOG = logging.getLogger(__name__)
_NAME = "tensorflow"
# Variables by which the package's __init__ is told to load more than itself.
_LOAD_MORE = ("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "TF_USE_MODULAR_FILESYSTEM")


@dataclass(frozen=True, slots=True)
class ServerLibrary:
    """What a server is made of; tensorflow ships no types."""

    Server: Any
    ClusterSpec: Any
    ConfigProto: Any
    OpError: Any


def load() -> ServerLibrary:
    """Import it."""
    spec = importlib.util.find_spec(_NAME)
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    if spec is None or folder is None or _NAME in sys.modules or _loads_more(folder):
        return _whole()
    bare = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = bare
    try:
        return _parts()
    except (ImportError, AttributeError) as error:
        _LOG.info("importing all of TensorFlow: %s", error)
        del sys.modules[_NAME]
        return _whole()


def _loads_more(folder: Path) -> bool:
    libraries = (folder / "core/kernels", folder.parent / "tensorflow-plugins")
    return any(each.exists() for each in libraries) or any(map(os.environ.get, _LOAD_MORE))


def _parts() -> ServerLibrary:
    # As the package's __init__ does, for C++ asks for it.
    os.environ["TF2_BEHAVIOR"] = "1"
    _module("tensorflow.python.tf2").enable()
    server_lib = _module("tensorflow.python.training.server_lib")
    return ServerLibrary(
        Server=server_lib.Server,
        ClusterSpec=server_lib.ClusterSpec,
        ConfigProto=_module("tensorflow.core.protobuf.config_pb2").ConfigProto,
        OpError=_module("tensorflow.python.framework.errors_impl").OpError,
    )


def _whole() -> ServerLibrary:
    tf = _module(_NAME)
    return ServerLibrary(
        Server=tf.distribute.Server,
        ClusterSpec=tf.train.ClusterSpec,
        ConfigProto=tf.compat.v1.ConfigProto,
        OpError=tf.errors.OpError,
    )


def _module(name: str) -> Any:  # noqa: ANN401 -- TensorFlow ships no types
    return importlib.import_module(name)
