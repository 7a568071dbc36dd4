"""What to do about the words of scheduler, kubelet and API server, where they do not say it.

core/startup, reconcile/refusals and tftj's describe append it to what the cluster says.
"""

import re

_KINDS = {
    "configmap": "ConfigMap",
    "secret": "Secret",
    "persistentvolumeclaim": "PersistentVolumeClaim",
}
UNANSWERED = "failed calling webhook"
"""What the API server says of an admission webhook that does not answer, and has to."""
_UNANSWERED = rf"\b{UNANSWERED} "
_MISSING = re.compile(rf'\b({"|".join(_KINDS)}) "([^"]+)" not found')
_ADVICE = (
    (r"\bInsufficient \S", "request less (resources of the template), or add nodes"),
    (r"didn't match Pod's node affinity/selector", "correct nodeSelector or affinity"),
    (r"\buntolerated taint", "add a toleration for the taint, or wait for other nodes"),
    (r"\bexceeded quota: ", "raise the quota, or wait for room in it: creation is retried"),
    (_UNANSWERED, "it does not answer, and is asked again"),
    (r"\bfailed quota: .* must specify", "set these in resources of the template"),
)


def with_advice(message: str) -> str:
    """Return what the cluster says, and then what to do about it if that is known."""
    found = _advice(message)
    return f"{message.rstrip('.')}; {found}" if found else message


def deletion_advice(message: str, them: str) -> str:
    """Say what to do about what cannot be deleted, by what the API server says of it."""
    if re.search(_UNANSWERED, message):
        return "deletion is retried"
    return f"allow the operator's ServiceAccount to delete {them}: deletion is retried"


def _advice(message: str) -> str:
    if absent := _MISSING.search(message):
        return f"create {_KINDS[absent[1]]} {absent[2]}, or correct its name"
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, message)), "")
