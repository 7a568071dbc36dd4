"""Refuses checkpoint locations that this image's TensorFlow cannot use; by ownership and resume.

The CRD accepts more of them, because another image may bring TensorFlow I/O, which adds s3:// and
others. Which ones there are is known to TensorFlow alone, and only once that package is imported.
"""

import importlib
import logging

import tensorflow as tf

from tftrainer.errors import BadConfigurationError

_LOG = logging.getLogger(__name__)
_PACKAGE = "tensorflow_io"
_BEGIN_PATTERNS = "*?[\\"


def require_usable(location: str, field: str = "spec.checkpoint (--checkpoint-dir)") -> None:
    """Raise BadConfigurationError for what TensorFlow cannot write, or does not find again.

    `field` names where the location was given.
    """
    for character in location:
        if character in _BEGIN_PATTERNS:
            raise BadConfigurationError(
                f"checkpoint location {location}: TensorFlow takes {character} in it for the "
                "beginning of a pattern of names, and would not find the checkpoints there again. "
                "Use a location without."
            )
    scheme, separator, _ = location.partition("://")
    if not separator or scheme in tf.io.gfile.get_registered_schemes():
        return
    why = _import_tensorflow_io()
    known = tf.io.gfile.get_registered_schemes()
    if scheme in known:
        return
    # ram:// is the memory of this process.
    names = [f"{each}://" for each in sorted(known) if each not in ("", "file", "ram")]
    raise BadConfigurationError(
        f"checkpoint location {location}: TensorFlow {tf.__version__} in this image cannot read or "
        f"write {scheme}:// ({why}). It can use {', '.join([*names, 'and paths on a volume'])}. "
        f"Use one of these in {field}, or an image with tensorflow-io."
    )


def _import_tensorflow_io() -> str:
    """Import it if it is installed; return why that does not help, should it not."""
    try:
        importlib.import_module(_PACKAGE)
    except ModuleNotFoundError:
        return "tensorflow-io is not installed"
    except Exception as error:  # noqa: BLE001 -- one that was built for another TensorFlow
        _LOG.warning("tensorflow-io cannot be imported", exc_info=True)
        return f"tensorflow-io cannot be imported: {type(error).__name__}: {error}"
    return "nor can tensorflow-io"
