"""runPolicy.schedulingPolicy of a TFJob as spec.scheduling."""

from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api.scheduling import Gang

from tftraining.cli.convert import checks
from tftraining.cli.convert.findings import Finding, Level
from tftraining.cli.convert.replicas import Replica
from tftraining.cli.convert.tfjob_api import GANG_SCHEDULERS

_Map = Mapping[str, Any]

_AT = "spec.runPolicy"
_PATH = f"{_AT}.schedulingPolicy"
_KNOWN = ("minAvailable", "queue", "minResources", "priorityClass", "scheduleTimeoutSeconds")
_BY_NAME = {name: gang for gang, name in GANG_SCHEDULERS.items()}


def scheduling(
    spec: _Map, replicas: list[Replica], made: _Map, findings: list[Finding]
) -> CommentedMap:
    """Return spec.scheduling, empty if nothing asks for it; `made` is the spec so far.

    Raises RefusedError.
    """
    given = checks.part(checks.part(spec, "runPolicy", "spec."), "schedulingPolicy", f"{_AT}.")
    given = {key: value for key, value in given.items() if value not in (None, "", {})}
    found = CommentedMap()
    gang = _gang(given, replicas, findings)
    if gang is not None:
        found["gang"] = gang.value
    if queue := given.get("queue"):
        found["queue"] = queue
    if name := given.get("priorityClass"):
        templates = [each for each in _pod_specs(made) if each.get("priorityClassName")]
        if all(each["priorityClassName"] == name for each in templates):
            for each in templates:
                del each["priorityClassName"]
            found["priorityClassName"] = name
            text = "now spec.scheduling.priorityClassName, of all pods"
            findings.append(Finding(Level.NOTE, f"{_PATH}.priorityClass", text))
        else:
            # A template's own one is stronger there, and has to be the only one here.
            text = "left out: a template names another priority class"
            findings.append(Finding(Level.DIFFERS, f"{_PATH}.priorityClass", text))
    findings += _of_the_rest(given, replicas)
    return found


def _gang(given: _Map, replicas: list[Replica], findings: list[Finding]) -> Gang | None:
    """Return the gang scheduler that the TFJob names; None for that of the cluster, or for none."""
    if "queue" in given:
        text = "Volcano's queue, so spec.scheduling.gang is Volcano; Kueue's queue is a label"
        findings.append(Finding(Level.NOTE, f"{_PATH}.queue", text))
        return Gang.VOLCANO
    if "minAvailable" not in given:
        return None
    names = {_scheduler(replica) for replica in replicas}
    gang = _BY_NAME.get(names.pop()) if len(names) == 1 else None
    if gang is None:
        text = (
            "a gang by Kubernetes' own scheduler if the cluster has it (gang: Auto); for another"
            " one, set spec.scheduling.gang to PodGroup or Volcano"
        )
        findings.append(Finding(Level.DIFFERS, f"{_PATH}.minAvailable", text))
    return gang


def _of_the_rest(given: _Map, replicas: list[Replica]) -> Iterator[Finding]:
    pods = sum(replica.count for replica in replicas)
    least = given.get("minAvailable")
    if isinstance(least, int) and least < pods:
        text = (
            f"the gang is all pods without which training cannot begin, and not {least} of {pods}"
        )
        yield Finding(Level.DIFFERS, f"{_PATH}.minAvailable", text)
    if "minResources" in given:
        text = "left out: the resources of a gang are those of its pods"
        yield Finding(Level.DIFFERS, f"{_PATH}.minResources", text)
    if "scheduleTimeoutSeconds" in given:
        text = "left out: a gang waits without limit; runPolicy.activeDeadlineSeconds sets one"
        yield Finding(Level.LOST, f"{_PATH}.scheduleTimeoutSeconds", text)
    for key in sorted(set(given) - set(_KNOWN)):
        yield Finding(Level.LOST, f"{_PATH}.{key}", "unknown field; left out")


def _scheduler(replica: Replica) -> str | None:
    template = replica.raw.get("template") or {}
    name: str | None = (template.get("spec") or {}).get("schedulerName")
    return name


def _pod_specs(made: _Map) -> Iterator[Any]:
    """Yield the pod specs of a TFTrainingJob's spec."""
    for holder in (made, *(each for each in made.values() if isinstance(each, Mapping))):
        template = holder.get("template")
        if template:
            yield template["spec"]
