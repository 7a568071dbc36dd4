"""The operator's own settings, from its environment."""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tftraining_operator import __version__
from tftraining_operator.api.disruption import DisruptionBudget
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.core.networking import Networking
from tftraining_operator.core.peers import InvalidPeersError, parse_peers
from tftraining_operator.core.pod_metadata import (
    InvalidMetadataError,
    PodMetadata,
    check_annotations,
    check_labels,
)

_PREFIX = "TFTRAINING_"


class SettingsError(Exception):
    """A setting cannot be used; the text names it and what it may be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one operator process."""

    namespaces: tuple[str, ...] = ()
    """Namespaces to serve; empty for all. TFTRAINING_NAMESPACES, comma separated."""
    trainer_image: str = f"tftraining/trainer:{__version__}"
    """Image of training containers that name none. TFTRAINING_TRAINER_IMAGE."""
    pod_metadata: PodMetadata = PodMetadata()  # noqa: RUF009 - frozen
    """Labels and annotations of the pods of all jobs, whose templates may set others
    (TFTRAINING_JOB_POD_LABELS and TFTRAINING_JOB_POD_ANNOTATIONS, JSON objects of strings)."""
    log_level: str = "info"
    """debug, info, warning or error. TFTRAINING_LOG_LEVEL."""
    log_format: str = "text"
    """text or json. TFTRAINING_LOG_FORMAT."""
    health: str = "http://:8080/healthz"
    """Where liveness is served, without a host at every address; readiness is at /readyz of the
    same port. TFTRAINING_HEALTH."""
    metrics_port: int = 8081
    """Port on which Prometheus finds /metrics, of every address; 0 for none.
    TFTRAINING_METRICS_PORT."""
    traces_endpoint: str = ""
    """Where OpenTelemetry traces of passes are sent, by OTLP over HTTP, such as
    http://collector:4318/v1/traces; empty for none. TFTRAINING_TRACES_ENDPOINT."""
    lease_namespace: str = ""
    """Namespace of the lease for leader election; empty to run without leader election.
    TFTRAINING_LEASE_NAMESPACE."""
    lease_name: str = "tftraining-operator"
    """Name of the lease. TFTRAINING_LEASE_NAME."""
    lease_identity: str = ""
    """Identity of this process in the lease; empty for its host name and a random suffix. It must
    be unique among running processes: a lease of its own identity is acquired without waiting.
    TFTRAINING_LEASE_IDENTITY."""
    lease_seconds: int = 15
    """Seconds until the lease of a leader that was killed expires. TFTRAINING_LEASE_SECONDS."""
    progress_seconds: float = 5.0
    """Seconds between two requests to a chief for its progress, with up to 250 jobs; at most 10, as
    a report older than 15 s proves nothing. TFTRAINING_PROGRESS_SECONDS."""
    resync_seconds: float = 300.0
    """Seconds between two listings of all objects, as a watch may miss a deletion; longer where one
    takes long, and while very many jobs wait. TFTRAINING_RESYNC_SECONDS."""
    groups_seconds: float = 15.0
    """Seconds between two listings of the schedulers' groups, which also tell whether their APIs
    exist; the same for Kueue's. TFTRAINING_GROUPS_SECONDS."""
    networking: Networking = Networking()  # noqa: RUF009 - frozen
    """Whether jobs that set no spec.network.policy are Isolated or Open
    (TFTRAINING_NETWORK_POLICY), and who may read the progress of isolated pods: the operator's own
    pods (TFTRAINING_POD_NAMESPACE and TFTRAINING_POD_LABELS, such as app=x,release=y), and further
    NetworkPolicyPeers (TFTRAINING_PROGRESS_READERS, a JSON list). Without any, every pod may."""
    disruption_budget: DisruptionBudget = DisruptionBudget.NONE
    """Which pods of jobs that set no spec.disruption.budget are protected from eviction: None or
    Essential. TFTRAINING_DISRUPTION_BUDGET."""
    workers: int = 32
    """Number of jobs that are reconciled at once, at most half of them of one namespace.
    TFTRAINING_WORKERS."""
    shards: int = 1
    """Number of shares into which all jobs are divided among several active processes, each with a
    lease of its own. All processes must agree on it. TFTRAINING_SHARDS."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the settings. Raises SettingsError."""
        default = cls()
        names = environment.get(_PREFIX + "NAMESPACES", "")
        return cls(
            namespaces=tuple(name.strip() for name in names.split(",") if name.strip()),
            trainer_image=environment.get(_PREFIX + "TRAINER_IMAGE") or default.trainer_image,
            pod_metadata=PodMetadata(
                _strings(environment, "JOB_POD_LABELS", check_labels),
                _strings(environment, "JOB_POD_ANNOTATIONS", check_annotations),
            ),
            log_level=_choice(
                environment, "LOG_LEVEL", default.log_level, ("debug", "info", "warning", "error")
            ),
            log_format=_choice(environment, "LOG_FORMAT", default.log_format, ("text", "json")),
            health=environment.get(_PREFIX + "HEALTH") or default.health,
            metrics_port=int(
                _at_least(0, environment, "METRICS_PORT", default.metrics_port, most=65535)
            ),
            traces_endpoint=_url(environment, "TRACES_ENDPOINT", default.traces_endpoint),
            lease_namespace=environment.get(_PREFIX + "LEASE_NAMESPACE") or default.lease_namespace,
            lease_name=environment.get(_PREFIX + "LEASE_NAME") or default.lease_name,
            lease_identity=environment.get(_PREFIX + "LEASE_IDENTITY") or default.lease_identity,
            lease_seconds=int(_at_least(1, environment, "LEASE_SECONDS", default.lease_seconds)),
            progress_seconds=_at_least(
                0.01, environment, "PROGRESS_SECONDS", default.progress_seconds, most=10.0
            ),
            resync_seconds=_at_least(0.1, environment, "RESYNC_SECONDS", default.resync_seconds),
            networking=_networking(environment),
            disruption_budget=DisruptionBudget(
                _choice(
                    environment,
                    "DISRUPTION_BUDGET",
                    default.disruption_budget,
                    tuple(DisruptionBudget),
                )
            ),
            groups_seconds=_at_least(0.1, environment, "GROUPS_SECONDS", default.groups_seconds),
            workers=int(_at_least(1, environment, "WORKERS", default.workers)),
            shards=_shards(environment, default.shards),
        )


def _shards(environment: Mapping[str, str], default: int) -> int:
    found = int(_at_least(1, environment, "SHARDS", default, most=64))
    if found > 1 and not environment.get(_PREFIX + "LEASE_NAMESPACE"):
        raise SettingsError(
            f"{_PREFIX}SHARDS is '{found}'; each shard needs a lease: set {_PREFIX}LEASE_NAMESPACE"
        )
    return found


def _strings(
    environment: Mapping[str, str], name: str, check: Callable[[Mapping[str, str]], None]
) -> dict[str, str]:
    text = environment.get(_PREFIX + name) or "{}"
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise SettingsError(
            f'{_PREFIX}{name} is {text!r}; it must be a JSON object of strings such as {{"a": "b"}}'
        )
    try:
        check(found)
    except InvalidMetadataError as error:
        raise SettingsError(f"{_PREFIX}{name}: {error}") from error
    return found


def _networking(environment: Mapping[str, str]) -> Networking:
    readers = _readers(environment)
    namespace = environment.get(_PREFIX + "POD_NAMESPACE")
    if namespace:
        own: dict[str, Any] = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        }
        if labels := _labels(environment.get(_PREFIX + "POD_LABELS", "")):
            own["podSelector"] = {"matchLabels": labels}
        readers = (own, *readers)
    choices = tuple(NetworkPolicy)
    default = _choice(environment, "NETWORK_POLICY", Networking().default, choices)
    return Networking(default=NetworkPolicy(default), readers=readers)


def _labels(text: str) -> dict[str, str]:
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    if not all(key and equals for key, equals, _ in pairs):
        raise SettingsError(
            f"{_PREFIX}POD_LABELS is {text!r}; it must be labels such as app=x,release=y"
        )
    return {key: value for key, _, value in pairs}


def _readers(environment: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    name = _PREFIX + "PROGRESS_READERS"
    try:
        return parse_peers(environment.get(name) or "[]", root=name)
    except InvalidPeersError as error:
        raise SettingsError(str(error)) from error


def _choice(
    environment: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]
) -> str:
    value = environment.get(_PREFIX + name) or default
    if value not in allowed:
        raise SettingsError(f"{_PREFIX}{name} is {value!r}; it may be {', '.join(allowed)}")
    return value


def _url(environment: Mapping[str, str], name: str, default: str) -> str:
    value = environment.get(_PREFIX + name) or default
    if value and not re.match(r"https?://[^/\s]", value):
        raise SettingsError(
            f"{_PREFIX}{name} is {value!r}; it must be a URL such as http://collector:4318/v1/traces"
        )
    return value


def _at_least(
    least: float,
    environment: Mapping[str, str],
    name: str,
    default: float,
    *,
    most: float = math.inf,
) -> float:
    text = environment.get(_PREFIX + name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most or value == math.inf:
        limit = f", at most {most:g}" if most < math.inf else ""
        raise SettingsError(
            f"{_PREFIX}{name} is {text!r}; it must be a number, at least {least:g}{limit}"
        )
    return value
