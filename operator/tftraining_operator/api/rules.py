"""Rules about a job that go beyond a field's type, each as CEL and as Python.

crd.py puts the CEL into the CRD, for the API server; the operator (core/job.py) and the command
line (cli/manifest.py) run the Python. A test feeds both the same cases. Every message says what to
write instead. Rules about updates: transitions.py. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tftraining_operator.api.keys import CONTAINER, Role
from tftraining_operator.api.problems import Problem
from tftraining_operator.api.rule import Rule
from tftraining_operator.api.scheduling_rules import SCHEDULING_RULES
from tftraining_operator.api.types import PodTemplate, Spec, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAME = 63 - len(f"-{Role.EVALUATOR}-0")
"""The longest role makes the longest pod name, and a DNS label ends at 63."""

_DNS_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"

# No \s or \w: Python and the API server would not agree on letters beyond ASCII.
_URI = r"^((gs|s3|az)://[^\x00-\x20\x7f/]+|(hdfs|viewfs)://[^\x00-\x20\x7f/]*/)[^\x00-\x20\x7f]*$"

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_QUALIFIED_NAME = rf"^{_SUBDOMAIN}/[A-Za-z0-9/._~%!$&()*+,;=:-]+$"


def problems(name: str, spec: Spec, *, stored: bool = False) -> list[Problem]:
    """Return every rule that a job breaks, in the table's order; `stored` for one that exists."""
    rules = (rule for rule in RULES if not (stored and rule.on_write))
    return [Problem(rule.field, rule.message) for rule in rules if not rule.holds(name, spec)]


def _has_container(template: PodTemplate | None) -> bool:
    if template is None or template.spec is None:
        return False
    return any(container.name == CONTAINER for container in template.spec.containers or [])


def _trains(role: Role) -> Callable[[str, Spec], bool]:
    def holds(_name: str, spec: Spec) -> bool:
        given = spec.role(role)
        if given is None or spec.replicas(role) == 0:
            return True
        return _has_container(spec.template) or _has_container(given.template)

    return holds


def _container_rule(role: Role) -> Rule:
    def named(template: str) -> str:
        # has() at each step: with optional access the API server no longer sees the list's bound.
        spec = f"{template}.spec"
        return (
            f"(has({template}) && has({spec}) && has({spec}.containers)"
            f" && {spec}.containers.exists(c, c.name == '{CONTAINER}'))"
        )

    return Rule(
        node="spec",
        field=f"spec.{role}",
        cel=(
            f"!has(self.{role}) || {named('self.template')} || self.{role}.replicas == 0"
            f" || {named(f'self.{role}.template')}"
        ),
        message=(
            f"{role} has no container named {CONTAINER}: give this name to the container that"
            f" trains, in spec.template.spec.containers or spec.{role}.template.spec.containers"
        ),
        holds=_trains(role),
    )


def _one_storage(_name: str, spec: Spec) -> bool:
    at = spec.checkpoint
    if at is None:
        return True
    return [at.persistent_volume_claim, at.uri, at.empty_dir].count(None) == 2  # noqa: PLR2004


def _ps_can_mount(_name: str, spec: Spec) -> bool:
    if spec.ps is None or not spec.ps.mount_checkpoint:
        return True
    return spec.checkpoint is not None and spec.checkpoint.persistent_volume_claim is not None


def _evaluator_can_read(_name: str, spec: Spec) -> bool:
    if spec.replicas(Role.EVALUATOR) == 0:
        return True
    return spec.checkpoint is not None and spec.checkpoint.empty_dir is None


RULES: tuple[Rule, ...] = (
    Rule(
        node="",
        field="metadata.name",
        cel=f"self.metadata.name.matches('{_DNS_LABEL}')",
        message=(
            "the job's name must be a DNS label: lowercase letters, digits and -, starting with a"
            " letter and ending with a letter or digit"
        ),
        holds=lambda name, _spec: re.fullmatch(_DNS_LABEL, name) is not None,
    ),
    Rule(
        node="",
        field="metadata.name",
        cel=f"size(self.metadata.name) <= {MAX_NAME}",
        message=(
            f"the job's name can have at most {MAX_NAME} characters: pod names add up to"
            f" {63 - MAX_NAME} (-{Role.EVALUATOR}-0), and a DNS label is limited to 63"
        ),
        holds=lambda name, _spec: len(name) <= MAX_NAME,
    ),
    Rule(
        # Not on spec.chief: its default {} would have to pass before its fields have theirs.
        node="spec",
        field="spec.chief.replicas",
        cel="self.chief.replicas == 1",
        message="a job has exactly one chief: set 1 or omit replicas, and add workers instead",
        holds=lambda _name, spec: spec.chief.replicas == 1,
    ),
    Rule(
        node="spec.evaluator",
        field="spec.evaluator.replicas",
        cel="self.replicas <= 1",
        message="a job has at most one evaluator: set 1, or 0 for none",
        holds=lambda _name, spec: spec.replicas(Role.EVALUATOR) <= 1,
    ),
    Rule(
        node="spec",
        field="spec.worker",
        cel=(
            f"self.strategy != '{Strategy.PARAMETER_SERVER}'"
            " || (has(self.worker) && self.worker.replicas >= 1)"
        ),
        message="strategy ParameterServer needs workers: set spec.worker.replicas to 1 or more",
        holds=lambda _name, spec: (
            spec.strategy != Strategy.PARAMETER_SERVER or spec.replicas(Role.WORKER) >= 1
        ),
    ),
    Rule(
        node="spec",
        field="spec.ps",
        cel=(
            f"self.strategy != '{Strategy.PARAMETER_SERVER}'"
            " || (has(self.ps) && self.ps.replicas >= 1)"
        ),
        message=(
            "strategy ParameterServer needs parameter servers: set spec.ps.replicas to 1 or more,"
            " or choose strategy MultiWorkerMirrored"
        ),
        holds=lambda _name, spec: (
            spec.strategy != Strategy.PARAMETER_SERVER or spec.replicas(Role.PS) >= 1
        ),
    ),
    Rule(
        node="spec",
        field="spec.ps",
        cel=(
            f"self.strategy == '{Strategy.PARAMETER_SERVER}'"
            " || !has(self.ps) || self.ps.replicas == 0"
        ),
        message=(
            "only strategy ParameterServer has parameter servers: remove spec.ps or set"
            " spec.strategy to ParameterServer"
        ),
        holds=lambda _name, spec: (
            spec.strategy == Strategy.PARAMETER_SERVER or spec.replicas(Role.PS) == 0
        ),
    ),
    Rule(
        node="spec",
        field="spec.worker",
        cel=(
            f"self.strategy != '{Strategy.MULTI_WORKER_MIRRORED}'"
            " || (has(self.worker) && self.worker.replicas >= 1)"
        ),
        message=(
            "strategy MultiWorkerMirrored needs workers in addition to the chief: set"
            " spec.worker.replicas to 1 or more, or choose strategy Mirrored"
        ),
        holds=lambda _name, spec: (
            spec.strategy != Strategy.MULTI_WORKER_MIRRORED or spec.replicas(Role.WORKER) >= 1
        ),
    ),
    Rule(
        node="spec",
        field="spec.worker",
        cel=(
            f"self.strategy != '{Strategy.MIRRORED}'"
            " || !has(self.worker) || self.worker.replicas == 0"
        ),
        message=(
            "strategy Mirrored trains in the chief only: remove spec.worker or set spec.strategy"
            " to MultiWorkerMirrored"
        ),
        holds=lambda _name, spec: (
            spec.strategy != Strategy.MIRRORED or spec.replicas(Role.WORKER) == 0
        ),
    ),
    Rule(
        node="spec.worker",
        field="spec.worker.minReplicas",
        cel="!has(self.minReplicas) || self.minReplicas <= self.replicas",
        message="minReplicas must not exceed replicas: lower it first, or raise replicas",
        holds=lambda _name, spec: (
            spec.worker is None or (spec.worker.min_replicas or 0) <= spec.worker.replicas
        ),
    ),
    Rule(
        node="spec",
        field="spec.worker.minReplicas",
        cel=(
            f"self.strategy == '{Strategy.PARAMETER_SERVER}'"
            " || !has(self.worker) || !has(self.worker.minReplicas)"
        ),
        message=(
            "only strategy ParameterServer can continue with fewer workers: remove"
            " spec.worker.minReplicas"
        ),
        holds=lambda _name, spec: (
            spec.strategy == Strategy.PARAMETER_SERVER
            or spec.worker is None
            or spec.worker.min_replicas is None
        ),
    ),
    Rule(
        node="spec.checkpoint",
        field="spec.checkpoint",
        cel=(
            "[has(self.persistentVolumeClaim), has(self.uri), has(self.emptyDir)]"
            ".filter(given, given).size() == 1"
        ),
        message="set exactly one of persistentVolumeClaim, uri and emptyDir",
        holds=_one_storage,
    ),
    Rule(
        node="spec.checkpoint",
        field="spec.checkpoint.uri",
        cel=f"!has(self.uri) || self.uri.matches(r'{_URI}')",
        message=(
            "must be an object store location without spaces: gs://bucket/path or, if the image has"
            " tensorflow-io, s3://bucket/path, az://account/container/path, hdfs://host/path or"
            " viewfs://cluster/path; for a path on a volume, set persistentVolumeClaim and path"
        ),
        holds=lambda _name, spec: (
            spec.checkpoint is None
            or spec.checkpoint.uri is None
            or re.fullmatch(_URI, spec.checkpoint.uri) is not None
        ),
        on_write=True,
    ),
    Rule(
        node="spec",
        field="spec.ps.mountCheckpoint",
        cel=(
            "!has(self.ps) || !has(self.ps.mountCheckpoint) || !self.ps.mountCheckpoint"
            " || (has(self.checkpoint) && has(self.checkpoint.persistentVolumeClaim))"
        ),
        message=(
            "only a claim can be mounted in the parameter servers: set"
            " spec.checkpoint.persistentVolumeClaim, or remove spec.ps.mountCheckpoint; with"
            " spec.checkpoint.uri they use the object store without it"
        ),
        holds=_ps_can_mount,
    ),
    Rule(
        # Not on spec.runPolicy, for the reason that is given for the chief.
        node="spec",
        field="spec.runPolicy.managedBy",
        cel=f"self.runPolicy.managedBy.matches(r'{_QUALIFIED_NAME}')",
        message=(
            "must be a domain and a path, such as example.com/queue; omit it to let this operator"
            " run the job"
        ),
        holds=lambda _name, spec: (
            re.fullmatch(_QUALIFIED_NAME, spec.run_policy.managed_by) is not None
        ),
        on_write=True,
    ),
    Rule(
        node="spec",
        field="spec.managedBy",
        cel=f"!has(self.managedBy) || self.managedBy.matches(r'{_QUALIFIED_NAME}')",
        message=(
            "must be a domain and a path, such as kueue.x-k8s.io/multikueue; omit it to let this"
            " operator run the job"
        ),
        holds=lambda _name, spec: (
            spec.managed_by is None or re.fullmatch(_QUALIFIED_NAME, spec.managed_by) is not None
        ),
        on_write=True,
    ),
    Rule(
        node="spec",
        field="spec.checkpoint",
        cel=(
            "!has(self.evaluator) || self.evaluator.replicas == 0"
            " || (has(self.checkpoint) && !has(self.checkpoint.emptyDir))"
        ),
        message=(
            "the evaluator needs the chief's checkpoints: set spec.checkpoint.persistentVolumeClaim"
            " or spec.checkpoint.uri, or remove spec.evaluator"
        ),
        holds=_evaluator_can_read,
    ),
    *SCHEDULING_RULES,
    *(_container_rule(role) for role in (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)),
)
