"""How long what was lost took to come back, read out of a recording. Pure.

Four shares: the operator's (from the loss that the API shows to the deletion of what is left, and
from its end to the request for a new pod), the removal in between, which is the kubelet's, the
pod's start (to the running container) and TensorFlow's (to the first steps, or to being ready).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.recording import Change, Sample, first_steps_after


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from a fault until all was well, None for a share that was not seen."""

    total: float | None
    operator: float | None = None
    removal: float | None = None
    pod_start: float | None = None
    tensorflow: float | None = None
    standstill: float | None = None
    """The longest time without a new step."""


def recovery(
    name: str,
    changes: Sequence[Change],
    samples: Sequence[Sample],
    *,
    steps_stop: bool,
    at: float,
    end: float,
) -> Recovery:
    """Follow the pod of this name from the fault (at) to when all was known to be well (end).

    Where steps stop with it, new steps are what counts, else that the pod is ready again.
    """
    seen = [change for change in changes if change.name == name and at <= change.at <= end]
    gone = next((c.at for c in seen if c.ended), None)
    after = [c for c in seen if gone is not None and c.at >= gone]
    # Until the kubelet says otherwise, it starts the process again itself.
    failed = next((c.at for c in after if c.in_restart_backoff and not c.leaving), gone)
    deleted = next((c.at for c in after if c.leaving), None)
    removed = next((c.at for c in after if c.kind == "DELETED"), None)
    requested = next((c.at for c in after if c.kind == "ADDED"), None)
    since = requested if requested is not None else gone
    started = next((c.at for c in seen if since and c.at > since and c.started), None)
    if started is None:
        over = None
    elif steps_stop:
        over = first_steps_after([*samples], started)
    else:
        over = next((c.at for c in seen if c.at >= started and c.ready), None)
    return Recovery(
        total=_span(at, over),
        operator=_sum(_span(failed, deleted), _span(removed, requested)),
        removal=_span(deleted, removed),
        pod_start=_span(since, started),
        tensorflow=_span(started, over),
        standstill=standstill(samples, at, end),
    )


def standstill(samples: Sequence[Sample], at: float, end: float) -> float:
    """Return the longest time between two new steps of those in a span of time."""
    longest, last = 0.0, None
    for sample in samples:
        if sample.at > end:
            break
        if last is not None and (sample.chief, sample.step) == (last.chief, last.step):
            continue
        if last is not None and sample.at >= at:
            longest = max(longest, sample.at - max(last.at, at))
        last = sample
    return longest


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value that this share of them does not exceed, None of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _sum(one: float | None, other: float | None) -> float | None:
    return one + other if one is not None and other is not None else None


def _span(start: float | None, end: float | None) -> float | None:
    return end - start if start is not None and end is not None else None
