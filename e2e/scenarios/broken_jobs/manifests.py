"""Broken jobs of which no training begins: what the cluster refuses, or cannot start."""

from typing import Any

from e2e.jobs import claim
from e2e.scenarios.broken_jobs.broken_job import BrokenJob, bring, with_container, with_pod
from e2e.scenarios.space import RESTRICTED, Space, job
from tools.cluster import ClusterError
from tools.cluster.images import image_name
from tools.waiting import eventually

_Object = dict[str, Any]

_SECONDS = 60


def _quota(**hard: str) -> _Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": hard},
    }


def _claim(storage_class: str) -> _Object:
    made = claim("data")
    made["spec"]["storageClassName"] = storage_class
    return made


def _mounting(name: str, volume: _Object) -> _Object:
    """Return a job whose training container mounts a volume."""
    mounts = [{"name": "code", "mountPath": "/code"}]
    made = with_container(name, volumeMounts=mounts)
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "code", **volume}]
    return made


def _init(name: str, command: str) -> _Object:
    """Return a job with an init container `fetch`."""
    container = {
        "name": "fetch",
        "image": image_name("trainer"),
        "command": ["python3", "-c", command],
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
        "securityContext": RESTRICTED,
    }
    made = with_pod(name, initContainers=[container])
    made["spec"]["runPolicy"] = {"backoffLimit": 0}
    return made


def _policy(space: Space, operation: str, expression: str, message: str) -> list[_Object]:
    """Return an admission policy for the pods of the namespace."""
    kind = "ValidatingAdmissionPolicy"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": space.name}}
    bodies = {
        kind: {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**rule, "operations": [operation]}]},
            "validations": [{"expression": expression, "message": message}],
        },
        f"{kind}Binding": {
            "policyName": space.name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    }
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": space.name},
            "spec": spec,
        }
        for kind, spec in bodies.items()
    ]


def _below_a_quota(space: Space, broken: BrokenJob) -> None:
    space.apply(*broken.beside)
    # Kubernetes enforces it from then on.
    eventually(lambda: space.read("quota/few").get("status", {}).get("hard"), "the quota", _SECONDS)
    space.apply(broken.manifest)


def _with_a_policy_for_labels(space: Space, broken: BrokenJob) -> None:
    expression = "'team' in object.metadata.?labels.orValue({})"
    space.apply(*_policy(space, "CREATE", expression, "pods must have the label team"))

    def is_enforced() -> bool:
        try:
            space.kubectl("run", "probe", "--image=any", "--dry-run=server")
        except ClusterError as error:
            return "label team" in str(error)
        return False

    eventually(is_enforced, "the policy", _SECONDS)
    bring(space, broken)


def _suspended_though_pods_cannot_be_deleted(space: Space, broken: BrokenJob) -> None:
    # Of the operator only: whoever removes the namespace has to be able to.
    operator = "system:serviceaccount:tftraining-system:tftraining-operator"
    expression = f"request.userInfo.username != '{operator}'"
    message = "pods are deleted during the night only"
    space.apply(*_policy(space, "DELETE", expression, message))
    bring(space, broken)
    pods = f"{broken.name}-chief-0", f"{broken.name}-ps-0", f"{broken.name}-worker-0"
    eventually(lambda: set(pods) <= set(space.pods()), "its pods", _SECONDS)
    change = '{"spec": {"runPolicy": {"suspend": true}}}'
    space.kubectl("patch", f"tftj/{broken.name}", "--type=merge", "-p", change)


WAITING = (
    BrokenJob(
        "a typo in the image",
        with_container("image", image="tftraining/trianer:0.1.0", securityContext=RESTRICTED),
        "ImagePullBackOff",
        ("image tftraining/trianer:0.1.0 cannot be pulled", "check its name and tag"),
    ),
    BrokenJob(
        "a volume of a ConfigMap that does not exist",
        _mounting("volume", {"configMap": {"name": "absent"}}),
        "ContainerCreating",
        ("ConfigMap absent",),
    ),
    BrokenJob(
        "a variable from a Secret that does not exist",
        with_container(
            "secret",
            env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "key"}}}],
        ),
        "CreateContainerConfigError",
        ('secret "absent" not found', "create Secret absent"),
    ),
    BrokenJob(
        "a PersistentVolumeClaim that does not exist",
        job("claim", checkpoint={"persistentVolumeClaim": {"claimName": "absent"}}),
        "Unschedulable",
        ('persistentvolumeclaim "absent" not found', "create PersistentVolumeClaim absent"),
    ),
    BrokenJob(
        "a PersistentVolumeClaim of a storage class that does not exist",
        job("unbound", checkpoint={"persistentVolumeClaim": {"claimName": "data"}}),
        "Unschedulable",
        ("PersistentVolumeClaim data has no volume: check its storage class",),
        beside=(_claim("fast"),),
    ),
    BrokenJob(
        "more CPU than any node has",
        with_container("cpu", resources={"requests": {"cpu": "9999"}}),
        "Unschedulable",
        ("Insufficient cpu", "request less"),
    ),
    BrokenJob(
        "a GPU where no node has one",
        with_container("gpu", resources={"limits": {"nvidia.com/gpu": 1}}),
        "Unschedulable",
        ("Insufficient nvidia.com/gpu", "request less"),
    ),
    BrokenJob(
        "a scheduler that does not exist",
        with_pod("scheduler", schedulerName="volcanoo"),
        "NotScheduled",
        ("scheduler volcanoo has not scheduled it; check spec.schedulerName",),
    ),
    BrokenJob(
        "an init container that fails",
        _init("init", "raise SystemExit('no such bucket: s3://data')"),
        "Failed",
        ("init container fetch failed: exit code 1: no such bucket: s3://data",),
    ),
    BrokenJob(
        "an init container that does not end",
        _init("hang", "import time; time.sleep(3600)"),
        "PodInitializing",
        ("waiting for init container fetch", "kubectl logs hang-"),
    ),
    BrokenJob(
        "a ResourceQuota for pods",
        job("pods"),
        "QuotaExceeded",
        ("exceeded quota: few", "requested: pods=1", "raise the quota"),
        beside=(_quota(pods="1"),),
        bring=_below_a_quota,
    ),
    BrokenJob(
        "a ResourceQuota for Services",
        job("services"),
        "QuotaExceeded",
        ("exceeded quota: few", "requested: services=1", "raise the quota"),
        beside=(_quota(services="0"),),
        bring=_below_a_quota,
    ),
    BrokenJob(
        "a namespace with the restricted Pod Security Standard, and an image of one's own",
        with_container("security", image="any:1"),
        "PodSecurity",
        ('violates PodSecurity "restricted:latest"', "must set securityContext"),
        is_restricted=True,
    ),
    BrokenJob(
        "an admission policy that asks for a label",
        job("policy"),
        "Refused",
        ("pods must have the label team",),
        bring=_with_a_policy_for_labels,
    ),
    BrokenJob(
        "an admission policy that forbids to delete pods, and a job that is suspended",
        with_pod("suspended", schedulerName="nobody"),
        "DeletionRefused",
        ("could not delete pod", "suspended-", "pods are deleted during the night only"),
        bring=_suspended_though_pods_cannot_be_deleted,
    ),
    BrokenJob(
        "a typo in the pod template",
        with_container("field", imag="x"),
        "InvalidTemplate",
        ('unknown field "spec.containers[0].imag"', "correct it in spec.template"),
    ),
    BrokenJob(
        "a quantity with a wrong unit",
        with_container("quantity", resources={"requests": {"memory": "2GB"}}),
        "InvalidTemplate",
        ("resources.requests.memory is '2GB'", "no quantity such as 2, 500m or 1.5Gi"),
    ),
    BrokenJob(
        "a variable that only the operator may set",
        with_container("variable", env=[{"name": "TF_CONFIG", "value": "{}"}]),
        "InvalidTemplate",
        ("TF_CONFIG", "remove it"),
    ),
)
"""They ask little of a machine, so all of them can wait at once."""
