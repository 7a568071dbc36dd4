"""The variables that the operator sets, as tests/contract/environment.json tables them."""

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Strategy
from tftraining_operator.core.job import Job
from tftraining_operator.core.tfconfig import tf_config_json

# Without keepalive a lost node hangs training for ever; with it, it is seen in 6 to 10 s.
# Without the DNS option the new address of a recreated pod is looked up only after 30 s.
GRPC_OPTIONS = (
    "grpc.keepalive_time_ms=10000,"
    "grpc.keepalive_timeout_ms=5000,"
    "grpc.dns_min_time_between_resolutions_ms=1000"
)


def environment(job: Job, role: Role, index: int, attempt: int) -> dict[str, str]:
    """Return the variables of one pod's container `tensorflow`, by name."""
    variables = {
        "TF_CONFIG": tf_config_json(job.name, job.namespace, job.spec, role, index),
        "GRPC_FAIL_FAST": "use_caller",
        "TF_GRPC_DEFAULT_OPTIONS": GRPC_OPTIONS,
        "TFTRAINING_JOB": job.name,
        "TFTRAINING_JOB_UID": job.uid,
        "TFTRAINING_STRATEGY": job.spec.strategy.value,
        "TFTRAINING_ATTEMPT": str(attempt),
        "TFTRAINING_WORKERS": str(job.desired(Role.WORKER)),
    }
    if (directory := checkpoint_directory(job)) and mounts_checkpoint(job, role):
        variables["TFTRAINING_CHECKPOINT_DIR"] = directory
    if reports_progress(role):
        variables["TFTRAINING_PROGRESS_PORT"] = str(keys.PROGRESS_PORT)
    return variables


def is_reserved(name: str) -> bool:
    """Tell whether a user's template may not set this variable."""
    return name in _RESERVED or name.startswith("TFTRAINING_")


def reports_progress(role: Role) -> bool:
    """Tell whether pods of this role serve /progress."""
    return role in (Role.CHIEF, Role.EVALUATOR)


def mounts_checkpoint(job: Job, role: Role) -> bool:
    """Tell whether a role reads or writes checkpoints itself.

    Under ParameterServer the chief writes for all; a mirrored worker writes its own backup.
    """
    if role is Role.WORKER:
        return job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED
    return role is not Role.PS


def checkpoint_directory(job: Job) -> str | None:
    """Return where the job keeps checkpoints, as its containers see it."""
    checkpoint = job.spec.checkpoint
    if checkpoint is None:
        return None
    return checkpoint.uri or checkpoint.path


_RESERVED = frozenset({"TF_CONFIG", "GRPC_FAIL_FAST", "TF_GRPC_DEFAULT_OPTIONS"})
