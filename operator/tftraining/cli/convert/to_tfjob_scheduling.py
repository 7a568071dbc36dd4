"""spec.scheduling of a TFTrainingJob as runPolicy.schedulingPolicy of a TFJob.

A queue of Kueue is a label of the TFJob (kueue.py). The priority class is in the templates as well
(to_tfjob_templates.py): schedulingPolicy is that of a gang only.
"""

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api.keys import Role
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.gang import needed, scheduling
from tftraining_operator.core.job import Job

from tftraining.cli.convert.findings import Finding, Level
from tftraining.cli.convert.tfjob_api import LABEL_JOB, gang_scheduler

_PATH = "spec.scheduling"


def scheduling_policy(job: Job, findings: list[Finding]) -> CommentedMap:
    """Return the schedulingPolicy, empty if nothing asks for it."""
    given, made = scheduling(job), CommentedMap()
    if (name := gang_scheduler(given.gang)) is not None:
        made["minAvailable"] = sum(needed(job, role) for role in Role)
        text = (
            f"needs a training operator that was started with --gang-scheduler-name={name}, which"
            " makes a gang of every job, its evaluator included"
        )
        findings.append(Finding(Level.DIFFERS, f"{_PATH}.gang", text))
    elif given.gang is not Gang.NONE:
        text = (
            "the training operator makes no gang by Kubernetes' own scheduler: pods are scheduled"
            " one by one; for gangs by another one, set PodGroup or Volcano"
        )
        lost = given.gang is Gang.IN_TREE
        findings.append(Finding(Level.LOST if lost else Level.DIFFERS, f"{_PATH}.gang", text))
    if given.gang is Gang.VOLCANO and given.queue is not None:
        made["queue"] = given.queue
    if given.priority_class_name is not None:
        made["priorityClass"] = given.priority_class_name
    if given.elastic:
        findings.append(
            Finding(Level.LOST, f"{_PATH}.elastic", "left out: Kueue takes a TFJob whole")
        )
    if given.topology is not None:
        text = (
            "left out: add podAffinity or topologySpreadConstraints for the label"
            f" {LABEL_JOB} to the templates"
        )
        findings.append(Finding(Level.LOST, f"{_PATH}.topology", text))
    return made
