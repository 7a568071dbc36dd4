"""Every reason that the operator itself gives: of conditions, failures, restarts and events.

Reasons that the cluster gives (OOMKilled, ImagePullBackOff, Unschedulable and the like) are passed
on as they are and stand in no list. docs/reasons.md is the table for users.
"""

from enum import StrEnum


class Reason(StrEnum):
    """One CamelCase word for machines. Names are API: never renamed."""

    # Accepted
    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"
    INVALID_TEMPLATE = "InvalidTemplate"
    NAME_CONFLICT = "NameConflict"
    SCHEDULER_UNAVAILABLE = "SchedulerUnavailable"
    UNSUPPORTED = "UnsupportedByThisVersion"

    # Admitted
    ADMITTED = "Admitted"
    INADMISSIBLE = "Inadmissible"
    NOT_ADMITTED = "NotAdmitted"
    NOT_QUEUED = "NotQueued"
    WORKLOAD_DELETED = "WorkloadDeleted"

    # PodsReady
    ALL_READY = "AllReady"
    STARTING = "Starting"
    QUEUED = "Queued"
    POD_REPLACED = "PodReplaced"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_SECURITY = "PodSecurity"
    REFUSED = "Refused"
    INVALID_POD = "InvalidPod"
    FLAVOR_UNREADABLE = "FlavorUnreadable"
    DELETION_REFUSED = "DeletionRefused"

    # Failures of pods, and what keeps them from running, where Kubernetes has no word
    EXIT_CODE = "ExitCode"
    CONTAINER_FAILED = "ContainerFailed"
    INIT_CONTAINER_FAILED = "InitContainerFailed"
    NOT_SCHEDULED = "NotScheduled"

    # Running
    TRAINING = "Training"
    CHIEF_NOT_READY = "ChiefNotReady"
    SERVERS_UNREACHABLE = "ServersUnreachable"
    NO_WORKERS = "NoWorkersAvailable"
    EVALUATING = "Evaluating"

    # Stalled
    NO_NEW_STEP = "NoNewStep"
    NO_REPORT = "NoReport"
    STEPS_COMPLETED = "StepsCompleted"

    # Isolated
    ISOLATED = "Isolated"
    OPEN = "Open"

    # Protected
    PROTECTED = "Protected"
    UNPROTECTED = "Unprotected"

    # Suspended
    SUSPENDED = "Suspended"
    NOT_SUSPENDED = "NotSuspended"

    # Restarting: why an attempt ended
    NOT_RESTARTING = "NotRestarting"
    CHIEF_FAILED = "ChiefFailed"
    WORKER_FAILED = "WorkerFailed"
    PEERS_UNAVAILABLE = "PeersUnavailable"
    CHECKPOINT_UNAVAILABLE = "CheckpointUnavailable"
    PARAMETER_SERVER_LOST = "ParameterServerLost"
    STALLED = "Stalled"
    DISRUPTED = "Disrupted"
    NODE_LOST = "NodeLost"
    CHIEF_LOST = "ChiefLost"
    SCALED = "Scaled"
    WORKER_EXCLUDED = "WorkerExcluded"
    WORKER_REJOINED = "WorkerRejoined"

    # Succeeded, Failed, Finished
    NOT_FINISHED = "NotFinished"
    CHIEF_SUCCEEDED = "ChiefSucceeded"
    NOT_EVALUATED = "NotEvaluated"
    PERMANENT_FAILURE = "PermanentFailure"
    DIVERGED = "Diverged"
    POD_FAILED = "PodFailed"
    REPEATED_FAILURE = "RepeatedFailure"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    STARTUP_DEADLINE_EXCEEDED = "StartupDeadlineExceeded"
    RECOVERY_DEADLINE_EXCEEDED = "RecoveryDeadlineExceeded"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    # Events beside those above
    CREATED = "Created"
    REPLACING = "Replacing"
    GANG_SCHEDULED = "GangScheduled"
    PODS_READY = "PodsReady"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    RESUMED = "Resumed"
    RESUMED_FROM_CHECKPOINT = "ResumedFromCheckpoint"
    STATUS_REPAIRED = "StatusRepaired"
