"""Timestamps as Kubernetes writes them: RFC 3339, UTC, whole seconds."""

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Format an aware datetime, such as 2026-01-02T03:04:05Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> datetime:
    """Parse a timestamp of Kubernetes' or ours; UTC where it names no zone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def bounded(text: str | None, created: str | None, now: datetime) -> str | None:
    """Return a time of an object as far as it can be true: after its creation and not after `now`.

    Nodes have clocks of their own; `created` is by the API server's, `now` by the operator's.
    """
    if text is None:
        return None
    moment = parse(text)
    if moment > now:
        return rfc3339(now)
    return created if created and moment < parse(created) <= now else text


def seconds_since(text: str | None, now: datetime) -> float:
    """Return the seconds from `text` to `now`; 0 without a text."""
    return (now - parse(text)).total_seconds() if text else 0.0
