"""Writes the termination message of the container; called by supervisor.leave and reporting."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LOG = logging.getLogger(__name__)
# Kubernetes keeps no more of it.
_LIMIT_BYTES = 4096


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """On success: write the last /progress document as compact JSON.

    Metrics are left out until it fits, the last of the alphabet first: the status of a job keeps
    the first. Nobody could read a part of a document, so none is written.
    """
    metrics = sorted(document.get("metrics", {}).items())
    while len(text := _compact({**document, "metrics": dict(metrics)})) > _LIMIT_BYTES and metrics:
        metrics.pop()
    if len(text) <= _LIMIT_BYTES:
        _write(path, text)


def write_cause(path: Path, cause: str) -> None:
    """On failure: write the cause as plain text."""
    _write(path, cause)


def _compact(document: Mapping[str, Any]) -> str:
    """Return JSON, in which every character is one byte."""
    return json.dumps(document, separators=(",", ":"))


def _write(path: Path, text: str) -> None:
    # Only the kubelet makes this file: where there is none (a laptop), none is left behind.
    if path.parent == Path("/dev") and not path.exists():
        return
    try:
        path.write_bytes(text.encode()[:_LIMIT_BYTES])
    except OSError as error:
        _LOG.debug("termination log %s not written: %s", path, error)
