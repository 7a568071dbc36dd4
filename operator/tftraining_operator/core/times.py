"""Timestamps as Kubernetes writes them: RFC 3339, UTC, whole seconds; and times to go."""

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Format an aware datetime, such as 2026-01-02T03:04:05Z."""
    return f"{moment.astimezone(UTC).isoformat()[:19]}Z"


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
    """Return the seconds from `text` to `now`; 0 without a text, or if a clock was set back."""
    return max(0.0, (now - parse(text)).total_seconds()) if text else 0.0


def eta_text(seconds: int) -> str:
    """Format a time to go in its two largest units, such as 2h5m."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return _two_units(days, "d", hours % 24, "h")
    if hours:
        return _two_units(hours, "h", minutes % 60, "m")
    if minutes:
        return _two_units(minutes, "m", seconds % 60, "s")
    return f"{seconds}s"


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}" + (f"{small}{small_unit}" if small else "")
