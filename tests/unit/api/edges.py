"""Specs at the edges of the schema: one table for the models and for a real API server."""

from __future__ import annotations

from typing import Any

from tests.unit.api.cases import CLAIM, REMOVE, TEMPLATE, a_spec


def _containers(*containers: Any) -> dict[str, Any]:
    return a_spec(template={"spec": {"containers": list(containers)}})


def _init_containers(given: Any) -> dict[str, Any]:
    return a_spec(template={"spec": {"containers": [_MAIN], "initContainers": given}})


def _labels(**labels: Any) -> dict[str, Any]:
    return a_spec(template=TEMPLATE | {"metadata": {"labels": labels}})


_MAIN: dict[str, Any] = {"name": "tensorflow"}

ACCEPTED: dict[str, Any] = {
    "the smallest spec": {"template": TEMPLATE, "worker": {}, "ps": {}},
    "null for a field without default": a_spec(checkpoint=None),
    "null for a field with a default": a_spec(runPolicy_backoffLimit=None),
    "null for an object with a default": a_spec(runPolicy=None, chief=None),
    "null for an enum with a default": a_spec(strategy=None),
    "an integral float": a_spec(runPolicy_backoffLimit=2.0),
    "the largest number of replicas": a_spec(worker_replicas=1000),
    "a ttl of 0": a_spec(runPolicy_ttlSecondsAfterFinished=0),
    "the longest deadline": a_spec(runPolicy_activeDeadlineSeconds=2**31 - 1),
    "a cleanPodPolicy of null's name": a_spec(runPolicy_cleanPodPolicy="None"),
    "an evaluator that is switched off": a_spec(evaluator_replicas=0),
    "a ps that is switched off": a_spec(strategy="MultiWorkerMirrored", ps_replicas=0),
    "an empty role template": a_spec(ps_template={}),
    "parameter servers that mount the claim": a_spec(checkpoint=CLAIM, ps_mountCheckpoint=True),
    "parameter servers that mount no bucket": a_spec(
        checkpoint_uri="gs://bucket", ps_mountCheckpoint=False
    ),
    "no shared template but one for each role": a_spec(
        template=REMOVE,
        chief_template=TEMPLATE,
        worker_template=TEMPLATE,
        ps_template=TEMPLATE,
    ),
    **{
        f"a checkpoint at {uri}": a_spec(checkpoint_uri=uri)
        for uri in (
            *("gs://bucket", "gs://bucket/", "gs://bucket/a/é\U0001f9e0", "s3://bucket/mnist"),
            *("az://account/container/mnist", "hdfs:///user/mnist", "hdfs://name:8020/mnist"),
            *("viewfs://cluster/mnist", "gs://bucket/$(POD_NAME)"),
        )
    },
    **{
        f"a job managed by {name}": a_spec(runPolicy_managedBy=name)
        for name in ("kueue.x-k8s.io/multikueue", "a/b", "example.com/Queue/1:a~b")
    },
    "a job for MultiKueue": a_spec(managedBy="kueue.x-k8s.io/multikueue"),
    "an emptyDir": a_spec(checkpoint_emptyDir={}),
    "a path of 1024 letters beyond the BMP": a_spec(
        checkpoint=CLAIM | {"path": "/" + "\U0001f9e0" * 1023}
    ),
    "unknown fields in the template": _containers(_MAIN | {"resources": {"limits": {"cpu": 1}}}),
    "an unknown field of null in the template": _containers(_MAIN | {"command": None}),
    "a known field of null in the template": _containers(_MAIN | {"image": None}),
    "a container name of 63 letters": _containers(_MAIN, {"name": "a" * 63}),
    "32 containers": _containers(_MAIN, *({"name": f"c{i}"} for i in range(31))),
    "32 init containers": _init_containers([{"name": f"c{i}"} for i in range(32)]),
    "initContainers of null": _init_containers(None),
    "env that names a variable twice": _containers(_MAIN | {"env": [{"name": "A"}, {"name": "A"}]}),
    "env of null": _containers(_MAIN | {"env": None}),
    "a label": _labels(team="vision"),
    "a label that is null": _labels(team=None),
    "an unknown field of the template's metadata": a_spec(
        template=TEMPLATE | {"metadata": {"finalizers": []}}
    ),
}

REFUSED: dict[str, Any] = {
    "an empty spec": {},
    "a spec that is null": None,
    "a spec that is a list": [],
    "a typo in a role": a_spec(wroker={}),
    "a typo in a role's field": a_spec(worker_replcas=2),
    "a typo whose value is null": a_spec(worker_replcas=None),
    "a typo in runPolicy": a_spec(runPolicy_backOffLimit=2),
    "a Python name": a_spec() | {"run_policy": {}},
    "null for a required field": a_spec(checkpoint_persistentVolumeClaim={"claimName": None}),
    "a number in quotes": a_spec(worker_replicas="2"),
    "an integral float that a rule reads": a_spec(worker_replicas=2.0),
    "a fraction that no rule reads": a_spec(runPolicy_backoffLimit=2.5),
    "a fraction": a_spec(worker_replicas=1.5),
    "true as a number": a_spec(worker_replicas=True),
    "a number of replicas that is too large": a_spec(worker_replicas=1001),
    "a negative number of replicas": a_spec(worker_replicas=-1),
    "a number beyond 64 bits": a_spec(runPolicy_backoffLimit=2**70),
    "a number beyond every float": a_spec(runPolicy_backoffLimit=10**400),
    "a deadline of 0": a_spec(runPolicy_activeDeadlineSeconds=0),
    "a negative ttl": a_spec(runPolicy_ttlSecondsAfterFinished=-1),
    "a deadline beyond 32 bits": a_spec(runPolicy_activeDeadlineSeconds=2**31),
    "a boolean in quotes": a_spec(runPolicy_suspend="true"),
    "a mount in the worker": a_spec(checkpoint=CLAIM, worker_mountCheckpoint=True),
    "a boolean as a number": a_spec(runPolicy_suspend=1),
    "a strategy in lower case": a_spec(strategy="mirrored"),
    "an empty strategy": a_spec(strategy=""),
    "an empty managedBy": a_spec(runPolicy_managedBy=""),
    "a role that is a number": a_spec(worker=2),
    "a role that is a list": a_spec(worker=[{"replicas": 2}]),
    "a template that is a list": a_spec(template=[TEMPLATE]),
    "an emptyDir of null": a_spec(checkpoint_emptyDir=None),
    "an emptyDir with fields": a_spec(checkpoint_emptyDir={"medium": "Memory"}),
    "a claim with a namespace": a_spec(
        checkpoint_persistentVolumeClaim={"claimName": "mnist", "namespace": "other"}
    ),
    "a claim without a name": a_spec(checkpoint_persistentVolumeClaim={}),
    "a claim with an empty name": a_spec(checkpoint_persistentVolumeClaim={"claimName": ""}),
    "a checkpoint path that is the root": a_spec(checkpoint=CLAIM | {"path": "/"}),
    "a relative checkpoint path": a_spec(checkpoint=CLAIM | {"path": "data"}),
    "a path of 1025 letters": a_spec(checkpoint=CLAIM | {"path": "/" + "a" * 1024}),
    "an image that is a number": _containers(_MAIN | {"image": 1}),
    "two containers of one name": _containers(_MAIN, _MAIN),
    "a container without a name": _containers(_MAIN, {"image": "busybox"}),
    "a container whose name is null": _containers(_MAIN, {"name": None}),
    "a container that is null": _containers(_MAIN, None),
    "a container name of 64 letters": _containers(_MAIN, {"name": "a" * 64}),
    "33 containers": _containers(_MAIN, *({"name": f"c{i}"} for i in range(32))),
    "33 init containers": _init_containers([{"name": f"c{i}"} for i in range(33)]),
    "initContainers that are a map": _init_containers({"name": "fetch"}),
    "env with a null": _containers(_MAIN | {"env": [None]}),
    "env that is a map": _containers(_MAIN | {"env": {"A": "1"}}),
    "env without a name": _containers(_MAIN | {"env": [{"value": "1"}]}),
    "a label that is a number": _labels(team=1),
}
