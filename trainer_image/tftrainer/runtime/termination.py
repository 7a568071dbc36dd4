"""Writes the termination message of the container; called by supervisor.leave."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LOG = logging.getLogger(__name__)
# Kubernetes keeps no more of it.
_LIMIT_BYTES = 4096


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """On success: write the last /progress document as compact JSON."""
    _write(path, json.dumps(document, separators=(",", ":")))


def write_cause(path: Path, cause: str) -> None:
    """On failure: write the cause as plain text."""
    _write(path, cause)


def _write(path: Path, text: str) -> None:
    # Only the kubelet makes this file: where there is none (a laptop), none is left behind.
    if path.parent == Path("/dev") and not path.exists():
        return
    try:
        path.write_bytes(text.encode()[:_LIMIT_BYTES])
    except OSError as error:
        _LOG.debug("termination log %s not written: %s", path, error)
