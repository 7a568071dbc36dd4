"""Every name that crosses a process: group, kind, labels, environment, ports, reasons."""

from enum import StrEnum

from tftraining_operator.api.reasons import Reason

GROUP = "tftraining.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "TFTrainingJob"
PLURAL = "tftrainingjobs"
SINGULAR = "tftrainingjob"
SHORT_NAME = "tftj"

MANAGED_BY = f"{GROUP}/operator"
"""spec.managedBy and spec.runPolicy.managedBy of the jobs that this operator runs."""

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""spec.managedBy of the jobs that Kueue gives to another cluster, where this operator runs them."""

CONTAINER = "tensorflow"
"""The one container that trains; only it gets TF_CONFIG, ports, probes and volumes."""

CLUSTER_PORT = 2222
CLUSTER_PORT_NAME = "cluster"
"""TensorFlow's gRPC port, the same on every pod."""

PROGRESS_PORT = 8080
PROGRESS_PORT_NAME = "progress"

# Labels: written by the operator on every pod and service of a job, read by selectors and store.
LABEL_JOB = f"{GROUP}/job"
LABEL_JOB_UID = f"{GROUP}/job-uid"
LABEL_BUCKET = f"{GROUP}/bucket"
FIELD_BUCKET = "status.bucket"
"""The field of a job that says what that label says of all that it owns."""
"""A hash of the job's namespace and name, by which a shard selects what is of its jobs."""
LABEL_ROLE = f"{GROUP}/role"
LABEL_INDEX = f"{GROUP}/index"
LABEL_ATTEMPT = f"{GROUP}/attempt"
"""The job's attempt in which the pod was created; a chief of an older attempt is stale."""
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_MANAGED_BY_VALUE = "tftraining-operator"

ANNOTATION_WORKERS = f"{GROUP}/workers"
"""Which workers the pod's TF_CONFIG names, such as 4 or 0,2,3; a chief with others is stale."""

ANNOTATION_GANG = f"{GROUP}/gang"
"""The group that the pod was created in; absent from a pod that is scheduled by itself."""

ANNOTATION_WORKLOAD = f"{GROUP}/workload"
"""uid of the Workload that Kueue had admitted when the pod was created; absent without a queue."""

ANNOTATION_SPEC = f"{GROUP}/spec"
"""Generation of the job when the pod was created, and a hash of what it was made of; a pod of
another spec is ended before new ones are created. Absent from what an older operator made."""

LABEL_SHAPE = f"{GROUP}/shape"
"""What the spec of a Workload was made of: the API server adds defaults to the spec itself."""

LABEL_GENERATION = f"{GROUP}/generation"
"""Generation of the job of which its Workload was made."""

LABEL_EXTENSION = f"{GROUP}/extension"
"""Number of a Workload that asks only for workers that a job gets while it trains."""

# Annotations that autoscalers of nodes read; a template may set others.
ANNOTATION_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
ANNOTATION_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

# Labels of a job that Kueue's users know from its other kinds of jobs.
LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
LABEL_WORKLOAD_PRIORITY = "kueue.x-k8s.io/priority-class"

PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
"""Of a job that MultiKueue has brought from another cluster: the Workload that came before it. A
label up to Kueue 0.17, an annotation since 0.18."""

REJECTED_STATES = (
    Reason.INVALID_SPEC.value,
    Reason.INVALID_TEMPLATE.value,
    Reason.SCHEDULER_UNAVAILABLE.value,
)
"""status.state of a job that is refused until its spec is corrected; also Accepted's reason."""


class Role(StrEnum):
    """TensorFlow's task types, in the order in which pods are created."""

    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    EVALUATOR = "evaluator"


class ConditionType(StrEnum):
    """Conditions of a job. Names are API: never renamed."""

    ACCEPTED = "Accepted"
    ADMITTED = "Admitted"
    PODS_READY = "PodsReady"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    STALLED = "Stalled"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    FINISHED = "Finished"
    ISOLATED = "Isolated"
    PROTECTED = "Protected"
