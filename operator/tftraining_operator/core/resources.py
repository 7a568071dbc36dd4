"""What pods request: quantities of Kubernetes, added. For the groups of schedulers (gang.py)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from typing import Any

_Object = dict[str, Any]
_Amounts = dict[str, Decimal]

_SUFFIXES = {
    **{suffix: Decimal(1024) ** (i + 1) for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti"))},
    "Pi": Decimal(1024) ** 5,
    "Ei": Decimal(1024) ** 6,
    **{suffix: Decimal(10) ** (3 * i - 9) for i, suffix in enumerate(("n", "u", "m"))},
    **{suffix: Decimal(10) ** (3 * i + 3) for i, suffix in enumerate(("k", "M", "G", "T"))},
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
}


def total_requests(pods: Iterable[tuple[_Object, int]]) -> dict[str, str]:
    """Return what pods request together, as quantities by resource: each spec's, so many times.

    As the scheduler counts: containers together, or the largest init container if that is more;
    sidecars run beside both. A limit without a request is a request.
    """
    total: _Amounts = defaultdict(Decimal)
    for spec, count in pods:
        _add(total, {name: amount * count for name, amount in _of_pod(spec).items()})
    return {name: quantity(amount) for name, amount in sorted(total.items())}


def quantity(amount: Decimal) -> str:
    """Write an amount without an exponent, in thousandths if it is no whole number."""
    with localcontext() as context:
        context.prec = 60
        if amount == amount.to_integral_value():
            return format(amount.to_integral_value(), "f")
        thousandths = (amount * 1000).to_integral_value(rounding="ROUND_CEILING")
        return f"{thousandths:f}m"


def _of_pod(spec: _Object) -> _Amounts:
    running: _Amounts = defaultdict(Decimal)
    sidecars: _Amounts = defaultdict(Decimal)
    starting: _Amounts = defaultdict(Decimal)
    for container in spec.get("initContainers") or []:
        own = _of_container(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            continue
        # What only sidecars request, they request as well when all containers run.
        for name, amount in own.items():
            starting[name] = max(starting[name], amount + sidecars[name])
    for container in spec.get("containers") or []:
        _add(running, _of_container(container))
    _add(running, sidecars)
    found = {name: max(running[name], starting[name]) for name in {*running, *starting}}
    whole = spec.get("resources") or {}
    # A limit of the pod as a whole is a request only of what none of its containers requests.
    found = _amounts(whole.get("limits") or {}) | found | _amounts(whole.get("requests") or {})
    _add(found, _amounts(spec.get("overhead") or {}))
    return found


def _of_container(container: _Object) -> _Amounts:
    given = container.get("resources") or {}
    return _amounts((given.get("limits") or {}) | (given.get("requests") or {}))


def _amounts(quantities: Mapping[str, object]) -> _Amounts:
    return {name: _amount(str(quantity)) for name, quantity in quantities.items()}


def _amount(quantity: str) -> Decimal:
    for length in (2, 1):
        if (factor := _SUFFIXES.get(quantity[-length:])) is not None:
            return Decimal(quantity[:-length]) * factor
    return Decimal(quantity)


def _add(total: _Amounts, more: Mapping[str, Decimal]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount
