"""Jobs, pods and conditions for tests, in a few words. `NOW` is the only moment there is."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from tftraining_operator.api import keys
from tftraining_operator.api.status import Condition, ConditionStatus, Status
from tftraining_operator.core import desired
from tftraining_operator.core.job import Job, parse_job
from tftraining_operator.core.observed import Observed, observe
from tftraining_operator.core.times import rfc3339

if TYPE_CHECKING:
    from tftraining_operator.api.keys import ConditionType, Role

Raw = dict[str, Any]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(days=365)
"""No status of a test is from the future."""
MUCH_LATER = NOW + timedelta(days=30)
"""When pods are seen, unless a test is about the clocks of nodes."""
IMAGE = "example.com/trainer:1"


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def stamp(seconds: float = 0) -> str:
    return rfc3339(at(seconds))


class JobBuilder:
    """A raw TFTrainingJob: one chief, one worker, one ps, our image."""

    def __init__(self) -> None:
        container = {"name": keys.CONTAINER, "args": ["--task=mnist"]}
        self.raw: Raw = {
            "apiVersion": keys.API_VERSION,
            "kind": keys.KIND,
            "metadata": {"name": "mnist", "namespace": "default", "uid": "uid-1", "generation": 1},
            "spec": {
                "template": {"spec": {"containers": [container]}},
                "worker": {"replicas": 1},
                "ps": {"replicas": 1},
            },
        }

    def named(self, name: str, *, namespace: str = "default", uid: str = "uid-1") -> Self:
        self.raw["metadata"] |= {"name": name, "namespace": namespace, "uid": uid}
        return self

    def with_label(self, name: str, value: str) -> Self:
        self.raw["metadata"].setdefault("labels", {})[name] = value
        return self

    def with_workers(self, count: int) -> Self:
        return self.with_role("worker", replicas=count)

    def with_role(self, role: str, **fields: Any) -> Self:
        self.raw["spec"].setdefault(role, {}).update(fields)
        return self

    def with_evaluator(self) -> Self:
        claim = {"persistentVolumeClaim": {"claimName": "mnist"}}
        return self.with_role("evaluator", replicas=1).with_spec(checkpoint=claim)

    def mirrored(self, *, workers: int = 0) -> Self:
        """MultiWorkerMirrored with workers, Mirrored without."""
        for role in ("worker", "ps"):
            self.raw["spec"].pop(role)
        if not workers:
            return self.with_spec(strategy="Mirrored")
        return self.with_spec(strategy="MultiWorkerMirrored").with_workers(workers)

    def with_spec(self, **fields: Any) -> Self:
        self.raw["spec"].update(copy.deepcopy(fields))
        return self

    def with_policy(self, **fields: Any) -> Self:
        return self.with_role("runPolicy", **fields)

    def with_container(self, **fields: Any) -> Self:
        self.raw["spec"]["template"]["spec"]["containers"][0].update(copy.deepcopy(fields))
        return self

    def deleting(self) -> Self:
        """One that is gone once its pods are."""
        self.raw["metadata"]["deletionTimestamp"] = stamp(30)
        return self

    def with_status(self, *conditions: Condition, **fields: Any) -> Self:
        fields = {"start_time": stamp(), **fields, "conditions": list(conditions)}
        self.raw["status"] = Status(**fields).as_dict()
        return self

    def build(self) -> Job:
        return parse_job(self.raw, LATER)


def a_job() -> JobBuilder:
    return JobBuilder()


def a_condition(
    kind: ConditionType,
    *,
    value: bool = True,
    since: float = 0,
    reason: str = "Given",
    message: str = "",
) -> Condition:
    return Condition(
        type=kind.value,
        status=ConditionStatus.TRUE if value else ConditionStatus.FALSE,
        reason=reason,
        message=message,
        last_transition_time=stamp(since),
        observed_generation=1,
    )


class PodBuilder:
    """A raw pod, as the operator made it and the kubelet went on with it."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.status: Raw = raw.setdefault("status", {"phase": "Pending"})

    def running(self, *, ready: bool = True, seconds: float = 0) -> Self:
        self.raw["spec"]["nodeName"] = "node-1"
        self.status.update(phase="Running", podIP="198.18.0.9")
        since = {"running": {"startedAt": stamp(seconds)}}
        self.status["containerStatuses"] = [self._container(state=since, ready=ready)]
        return self.condition("Ready", value=ready, lastTransitionTime=stamp(seconds))

    def exited(self, code: int, message: str = "", *, reason: str = "", seconds: float = 0) -> Self:
        word = reason or ("Error" if code else "Completed")
        ended = {"exitCode": code, "reason": word, "message": message, "finishedAt": stamp(seconds)}
        self.running(ready=False)
        self.status.update(phase="Failed" if code else "Succeeded")
        self.status["containerStatuses"] = [self._container(state={"terminated": ended})]
        return self

    def restarted_in_place(self, code: int, message: str = "", *, seconds: float = 0) -> Self:
        """Ended, and running again in the same pod."""
        self.exited(code, message, seconds=seconds)
        last = self.status["containerStatuses"][0]["state"]
        self.running()
        self.status["containerStatuses"] = [
            self._container(
                state={"running": {"startedAt": stamp(seconds)}},
                lastState=last,
                restartCount=1,
                ready=True,
            )
        ]
        return self

    def in_restart_backoff(self, *, ran: float) -> Self:
        """Killed after having run for `ran` seconds, and made to wait by the kubelet."""
        ended = {"exitCode": 137, "startedAt": stamp(), "finishedAt": stamp(ran)}
        self.raw["spec"]["nodeName"] = "node-1"
        self.waiting("CrashLoopBackOff", lastState={"terminated": ended}, restartCount=2)
        self.status.update(phase="Running")
        return self.condition("Ready", value=False)

    def with_sidecar(self, state: str = "running") -> Self:
        """A second container beside the one that trains, which keeps the pod's phase."""
        self.status["containerStatuses"].append({"name": "sidecar", "state": {state: {}}})
        self.status["phase"] = "Running"
        return self

    def waiting(self, reason: str, message: str = "", **fields: Any) -> Self:
        state = {"waiting": {"reason": reason, "message": message}}
        self.status["containerStatuses"] = [self._container(state=state, **fields)]
        return self

    def unschedulable(self, message: str = "0/3 nodes are available") -> Self:
        return self.condition("PodScheduled", value=False, reason="Unschedulable", message=message)

    def evicted(self, message: str = "The node was low on resource: memory.") -> Self:
        self.status.update(phase="Failed", reason="Evicted", message=message)
        return self.condition("Ready", value=False)

    def disrupted(self, seconds: float = 0) -> Self:
        return self.condition(
            "DisruptionTarget",
            value=True,
            reason="EvictionByEvictionAPI",
            lastTransitionTime=stamp(seconds),
        )

    def deleting(self) -> Self:
        self.raw["metadata"]["deletionTimestamp"] = stamp(30)
        return self

    def made(self, seconds: float) -> Self:
        self.raw["metadata"]["creationTimestamp"] = stamp(seconds)
        return self

    def condition(self, kind: str, *, value: bool, **fields: str) -> Self:
        others = [c for c in self.status.get("conditions", []) if c["type"] != kind]
        self.status["conditions"] = [*others, {"type": kind, "status": str(value), **fields}]
        return self

    def _container(self, **fields: Any) -> Raw:
        return {"name": keys.CONTAINER, "image": IMAGE, "restartCount": 0, "ready": False} | fields


def a_pod(job: Job, role: Role, index: int = 0, *, attempt: int | None = None) -> PodBuilder:
    raw = desired.pod(job, role, index, job.status.attempt if attempt is None else attempt, IMAGE)
    name = raw["metadata"]["name"]
    raw["metadata"] |= {"uid": f"uid-of-{name}", "resourceVersion": "1"}
    return PodBuilder(raw).made(0)


def seen(job: Job, *pods: PodBuilder, service: bool = True, now: datetime = MUCH_LATER) -> Observed:
    return observe(job, [p.raw for p in pods], [desired.service(job)] if service else [], now)
