"""Timestamps as Kubernetes writes them: RFC 3339, UTC, whole seconds."""

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Format an aware datetime, such as 2026-01-02T03:04:05Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> datetime:
    """Parse a timestamp of Kubernetes' or ours; UTC where it names no zone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def seconds_since(text: str | None, now: datetime) -> float:
    """Return the seconds from `text` to `now`; 0 without a text."""
    return (now - parse(text)).total_seconds() if text else 0.0
