"""restartPolicy of the roles and runPolicy of a TFTrainingJob, for a TFJob."""

from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api.keys import MULTIKUEUE, Role
from tftraining_operator.api.types import RestartPolicy, RunPolicy, Strategy
from tftraining_operator.core.job import Job

from tftraining.cli.convert import nodes
from tftraining.cli.convert.findings import Finding, Level
from tftraining.cli.convert.tfjob_api import PERMANENT, REPLICA_TYPES

_DEFAULTS = RunPolicy()
_PATH = "spec.runPolicy"


def run_policy(job: Job, given: Mapping[str, Any] | None, findings: list[Finding]) -> CommentedMap:
    """Return the fields that a TFJob has as well, with the defaults that differ written out."""
    policy = job.spec.run_policy
    written: dict[str, Any] = {
        "cleanPodPolicy": policy.clean_pod_policy.value,
        "backoffLimit": policy.backoff_limit,
        "activeDeadlineSeconds": policy.active_deadline_seconds,
        "ttlSecondsAfterFinished": policy.ttl_seconds_after_finished,
        "suspend": policy.suspend or None,
        "managedBy": MULTIKUEUE if job.dispatched else None,
    }
    written = {key: value for key, value in written.items() if value is not None}
    made = nodes.like(given or {}, set(written))
    for key in [*(key for key in given or {} if key in written), *written]:
        made[key] = written[key]  # in their order, as a comment belongs to the key before it
    findings += [*_of_limits(policy), *_of_deadlines(job, policy)]
    if (other := job.spec.other_manager) is not None:
        field, manager = other
        text = (
            f"left out: {manager} manages TFTrainingJobs and not TFJobs, so the training operator"
            " runs the job"
        )
        findings.append(Finding(Level.LOST, field, text))
    return made


def restart_policy(job: Job, role: Role) -> str:
    """Return the restartPolicy of a role, which has the same words in a TFJob."""
    given = job.spec.role(role)
    return (given.restart_policy if given is not None else RestartPolicy.EXIT_CODE).value


def of_restarts(job: Job) -> Iterator[Finding]:
    """Yield what the restart policies of the roles mean there."""
    roles = [role for role in REPLICA_TYPES if job.spec.replicas(role)]
    by_code = [r for r in roles if restart_policy(job, r) == RestartPolicy.EXIT_CODE]
    if by_code:
        yield Finding(
            Level.DIFFERS,
            ", ".join(f"spec.{role.value}.restartPolicy" for role in by_code),
            "ExitCode: there, 1 to 127 fail the job, and 128 to 255 restart the pod without limit;"
            f" here, only {PERMANENT} fail it. So a chief that lost a parameter server (75)"
            " or a peer (69) fails the job: OnFailure restarts it",
        )
    together = job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED
    if together and any(restart_policy(job, role) != RestartPolicy.NEVER for role in roles):
        yield Finding(
            Level.DIFFERS,
            "spec.worker.restartPolicy",
            "there, each pod is restarted by itself; here, all of them restart together from their"
            " checkpoint, counted once",
        )


def _of_limits(policy: RunPolicy) -> Iterator[Finding]:
    yield Finding(
        Level.DIFFERS,
        f"{_PATH}.backoffLimit",
        "there, it counts restarts in place of the containers of all pods, and none under"
        " ExitCode; here, restarts of the chief, which wait 0, 10, 20 … 300 s",
    )
    if policy.active_deadline_seconds is not None:
        yield Finding(
            Level.DIFFERS,
            f"{_PATH}.activeDeadlineSeconds",
            "there, it begins anew when the job is resumed, and may take effect late",
        )
    if policy.suspend:
        yield Finding(
            Level.DIFFERS,
            f"{_PATH}.suspend",
            "there, all pods are deleted at once; here, the chief saves a checkpoint first",
        )


def _of_deadlines(job: Job, policy: RunPolicy) -> Iterator[Finding]:
    """Yield what the training operator has no field for: lost where the job sets it."""
    texts = {
        "startup_deadline_seconds": "a job whose pods cannot start waits without limit",
        "recovery_deadline_seconds": "an interrupted training waits without limit",
        "stall_timeout_seconds": "a chief that makes no step is not restarted",
    }
    if job.spec.replicas(Role.EVALUATOR):
        texts["evaluator_grace_seconds"] = "the evaluator ends with the job"
    fields = RunPolicy.model_fields
    for name, text in texts.items():
        value, default = getattr(policy, name), getattr(_DEFAULTS, name)
        path = f"{_PATH}.{fields[name].alias}"
        if value != default:
            yield Finding(Level.LOST, path, f"left out: there, {text}")
        elif default is not None:
            yield Finding(Level.DIFFERS, path, f"there, {text}; here, the default is {default} s")
    if policy.stop_on_repeated_failure is not False:
        yield Finding(
            Level.LOST if policy.stop_on_repeated_failure else Level.DIFFERS,
            f"{_PATH}.stopOnRepeatedFailure",
            "there, the same exception at the same step is retried up to backoffLimit",
        )
