"""Says in each record of the log which job it is about, as fields of JSON beside the message.

The fields belong to the task (asyncio), so whatever logs within a pass need not know of them. Their
values are the API server's, which bounds and checks them; text of tenants is in messages alone.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tftraining_operator.reconcile.store import JobKey

_about: ContextVar[Mapping[str, object]] = ContextVar("about", default={})  # noqa: B039 - read only


class JobFields(logging.Filter):
    """Adds the fields to each record, and the name of its logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; let all pass."""
        record.logger = record.name
        for name, value in _about.get().items():
            setattr(record, name, value)
        return True


def add_job_fields() -> None:
    """Have all handlers of the root logger write the fields."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(JobFields())


def begin_job(key: JobKey, raw: Mapping[str, Any] | None) -> None:
    """Name a job in all that this task logs from now on; `raw` is the job if it still exists."""
    _about.set(job_fields(key, raw))


def job_fields(key: JobKey, raw: Mapping[str, Any] | None) -> dict[str, str | int]:
    """Return the fields that name a job; `raw` is the job if it still exists."""
    fields: dict[str, str | int] = {"namespace": key.namespace, "job": key.name}
    if raw is not None:
        fields["uid"] = raw["metadata"]["uid"]
        fields["attempt"] = (raw.get("status") or {}).get("attempt", 0)
    return fields


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Add fields to all that is logged inside."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)
