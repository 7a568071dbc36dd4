"""The metadata of a job of either kind, without what an API server adds."""

from collections.abc import Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap

from tftraining.cli.convert import checks, nodes
from tftraining.cli.convert.findings import Finding, Level

_KEPT = ("name", "generateName", "namespace", "labels", "annotations")
_SET_BY_SERVER = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def shown_name(raw: Mapping[str, Any]) -> str:
    """Return what messages call an object."""
    given = raw.get("metadata")
    given = given if isinstance(given, Mapping) else {}
    return str(given.get("name") or given.get("generateName") or "without a name")


def kept(given: Mapping[str, Any], findings: list[Finding]) -> CommentedMap:
    """Return the metadata that a user writes. Raises RefusedError."""
    made = nodes.like(given)
    for key in _KEPT:
        if key in given:
            made[key] = nodes.copied(given[key])
    annotations = checks.part(made, "annotations", "metadata.")
    if _LAST_APPLIED in annotations:
        del annotations[_LAST_APPLIED]
        if not annotations:
            del made["annotations"]
    findings += [
        Finding(Level.LOST, f"metadata.{key}", "left out")
        for key in sorted(set(given) - set(_KEPT) - _SET_BY_SERVER)
    ]
    return made
