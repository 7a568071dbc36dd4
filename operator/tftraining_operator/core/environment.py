"""The variables that the operator sets, as tests/contract/environment.json tables them."""

from collections.abc import Mapping

from tftraining_operator.api import keys
from tftraining_operator.api.keys import Role
from tftraining_operator.core.job import Job
from tftraining_operator.core.roles import traits
from tftraining_operator.core.tfconfig import NAME, cluster_workers, tf_config_json

PREFIX = "TFTRAINING_"
ATTEMPT = f"{PREFIX}ATTEMPT"
CHECKPOINT_DIR = f"{PREFIX}CHECKPOINT_DIR"
CLUSTER_WORKERS = f"{PREFIX}CLUSTER_WORKERS"
JOB = f"{PREFIX}JOB"
JOB_UID = f"{PREFIX}JOB_UID"
PROGRESS_PORT = f"{PREFIX}PROGRESS_PORT"
RESUME_FROM = f"{PREFIX}RESUME_FROM"
TF_CONFIG = NAME

# Without keepalive a lost node hangs training for ever; with it, that or a process that hangs is
# seen in 20 to 30 s. Not sooner: a ps on a busy machine may be silent for seconds, and is lost if
# its connection is (docs/adr/024-a-silent-server-has-20-seconds.md).
# Without the DNS option the new address of a recreated pod is looked up only after 30 s; without
# the last one, it is asked for at the old address for 20 s before.
GRPC_OPTIONS = (
    "grpc.keepalive_time_ms=10000,"
    "grpc.keepalive_timeout_ms=20000,"
    "grpc.http2.ping_timeout_ms=20000,"
    "grpc.dns_min_time_between_resolutions_ms=1000,"
    "grpc.min_reconnect_backoff_ms=5000"
)

SAME_IN_ALL_PODS: Mapping[str, str] = {
    "GRPC_FAIL_FAST": "use_caller",
    "TF_GRPC_DEFAULT_OPTIONS": GRPC_OPTIONS,
}
"""Variables with one value in every pod of every job, by name."""


def environment(job: Job, role: Role, index: int, attempt: int) -> dict[str, str]:
    """Return the variables of one pod's container `tensorflow`, by name.

    Raises TfConfigTooLargeError.
    """
    variables = {
        TF_CONFIG: tf_config_json(job, role, index),
        **SAME_IN_ALL_PODS,
        JOB: job.name,
        JOB_UID: job.uid,
        "TFTRAINING_STRATEGY": job.spec.strategy.value,
        ATTEMPT: str(attempt),
        "TFTRAINING_WORKERS": str(job.desired(Role.WORKER)),
    }
    found = traits(job.spec.strategy, role)
    if (directory := checkpoint_directory(job)) and found.mounts_checkpoint:
        variables[CHECKPOINT_DIR] = directory
    if found.drives_attempt and (origin := resume_from(job)) is not None:
        variables[RESUME_FROM] = origin
    if found.decides_success and (step := promised_step(job)) is not None:
        variables["TFTRAINING_CHECKPOINT_STEP"] = str(step)
    if found.drives_attempt:
        variables[CLUSTER_WORKERS] = cluster_workers(job, role, index)
    if found.reports_progress:
        variables[PROGRESS_PORT] = str(keys.PROGRESS_PORT)
    return variables


def is_reserved(name: str) -> bool:
    """Tell whether a user's template may not set this variable."""
    return name in _RESERVED or name.startswith(PREFIX)


def promised_step(job: Job) -> int | None:
    """Return the step that a new chief has to find; an emptyDir goes with its pod, so none."""
    saved, checkpoint = job.status.last_checkpoint, job.spec.checkpoint
    if saved is None or checkpoint is None or checkpoint.empty_dir is not None:
        return None
    return saved.step


def checkpoint_directory(job: Job) -> str | None:
    """Return where the job keeps checkpoints, as its containers see it."""
    checkpoint = job.spec.checkpoint
    if checkpoint is None:
        return None
    return checkpoint.uri or checkpoint.path


def resume_from(job: Job) -> str | None:
    """Return the earlier training that the job starts from, if it names one."""
    checkpoint = job.spec.checkpoint
    return checkpoint.resume_from if checkpoint is not None else None


_RESERVED = frozenset({TF_CONFIG, *SAME_IN_ALL_PODS})
