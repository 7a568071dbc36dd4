"""Jobs that a rule refuses, and changes of jobs: one table for the models and the API server.

tests/unit/api asserts it of the models alone, tests/contract of a real API server as well.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]

TEMPLATE: Spec = {"spec": {"containers": [{"name": "tensorflow", "args": ["--epochs=3"]}]}}
CLAIM: Spec = {"persistentVolumeClaim": {"claimName": "mnist"}}

REMOVE = object()
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def a_spec(**changes: Any) -> Spec:
    """A valid spec with changes; keys are field names, `_` stands for a dot, None is null."""
    spec: Spec = {"template": TEMPLATE, "worker": {"replicas": 2}, "ps": {"replicas": 1}}
    spec = copy.deepcopy(spec)
    for path, value in changes.items():
        *parents, last = path.split("_")
        node = spec
        for parent in parents:
            node = node.setdefault(parent, {})
        if value is REMOVE:
            node.pop(last, None)
        else:
            node[last] = copy.deepcopy(value)
    return spec


def _initialized(*containers: Any) -> Spec:
    return {"spec": {"containers": [{"name": "tensorflow"}], "initContainers": [*containers]}}


def a_container(**fields: Any) -> Spec:
    return {"spec": {"containers": [{"name": "tensorflow", **fields}]}}


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that exactly one rule refuses."""

    why: str
    field: str
    spec: Spec
    name: str = "mnist"


MIRRORED = a_spec(strategy="Mirrored", worker=REMOVE, ps=REMOVE)

BROKEN = (
    Broken("a name with a dot is no DNS label", "metadata.name", a_spec(), "mnist.v2"),
    Broken("a name that begins with a digit is no Service name", "metadata.name", a_spec(), "2nd"),
    Broken("a name of 52 characters is one too long", "metadata.name", a_spec(), "m" * 52),
    Broken("two chiefs", "spec.chief.replicas", a_spec(chief_replicas=2)),
    Broken("no chief", "spec.chief.replicas", a_spec(chief_replicas=0)),
    Broken(
        "two evaluators",
        "spec.evaluator.replicas",
        a_spec(evaluator_replicas=2, checkpoint=CLAIM),
    ),
    Broken("ParameterServer without workers", "spec.worker", a_spec(worker=REMOVE)),
    Broken("ParameterServer with zero workers", "spec.worker", a_spec(worker_replicas=0)),
    Broken("ParameterServer without ps", "spec.ps", a_spec(ps=REMOVE)),
    Broken("ParameterServer with zero ps", "spec.ps", a_spec(ps_replicas=0)),
    Broken("ps under MultiWorkerMirrored", "spec.ps", a_spec(strategy="MultiWorkerMirrored")),
    Broken("ps under Mirrored", "spec.ps", a_spec(strategy="Mirrored", worker=REMOVE)),
    Broken(
        "MultiWorkerMirrored without workers",
        "spec.worker",
        a_spec(strategy="MultiWorkerMirrored", worker=REMOVE, ps=REMOVE),
    ),
    Broken("workers under Mirrored", "spec.worker", a_spec(strategy="Mirrored", ps=REMOVE)),
    Broken(
        "fewer workers than suffice",
        "spec.worker.minReplicas",
        a_spec(worker_replicas=2, worker_minReplicas=3),
    ),
    Broken(
        "fewer workers in a gang",
        "spec.worker.minReplicas",
        a_spec(strategy="MultiWorkerMirrored", ps=REMOVE, worker_minReplicas=1),
    ),
    Broken("a checkpoint that is nowhere", "spec.checkpoint", a_spec(checkpoint={})),
    Broken(
        "a checkpoint in two places",
        "spec.checkpoint",
        a_spec(checkpoint=CLAIM | {"uri": "gs://bucket/mnist"}),
    ),
    *(
        Broken(f"a checkpoint at {uri!r}", "spec.checkpoint.uri", a_spec(checkpoint_uri=uri))
        for uri in (
            *("http://a", "foo://x", "file:///data/x", "ram://x", "GS://bucket/x", "/data/mnist"),
            *("gs://a b", "gs://bucket/a b", "gs://bucket\n/mnist", "gs://bucket/mnist\n"),
            *("gs://", "gs:///mnist", "s3:bucket", "hdfs://host", "xgs://bucket", ""),
        )
    ),
    *(
        Broken(
            f"a job managed by {name!r}",
            "spec.runPolicy.managedBy",
            a_spec(runPolicy_managedBy=name),
        )
        for name in (
            *("kueue", "example.com", "example.com/", "/queue", "a b/c", "example.com/a b"),
            *("Example.com/queue", "-a.com/queue", "a..b/queue", "example.com/queue\n", "é.com/q"),
        )
    ),
    Broken("a job given away to 'kueue'", "spec.managedBy", a_spec(managedBy="kueue")),
    Broken(
        "an elastic job without a least number of workers",
        "spec.scheduling.elastic",
        a_spec(scheduling_elastic=True),
    ),
    Broken(
        "a topology without a preference",
        "spec.scheduling.topology",
        a_spec(scheduling_topology={}),
    ),
    Broken(
        "pods both close together and apart",
        "spec.scheduling.topology",
        a_spec(scheduling_topology={"pack": "example.com/rack", "spread": "example.com/rack"}),
    ),
    *(
        Broken(f"parameter servers that mount {what}", "spec.ps.mountCheckpoint", spec)
        for what, spec in (
            ("no checkpoint", a_spec(ps_mountCheckpoint=True)),
            ("an object store", a_spec(ps_mountCheckpoint=True, checkpoint_uri="gs://bucket/a")),
            ("the chief's emptyDir", a_spec(ps_mountCheckpoint=True, checkpoint_emptyDir={})),
        )
    ),
    Broken("an evaluator without a checkpoint", "spec.checkpoint", a_spec(evaluator={})),
    Broken(
        "an evaluator that cannot read the chief's emptyDir",
        "spec.checkpoint",
        a_spec(evaluator={}, checkpoint_emptyDir={}),
    ),
    Broken(
        "a chief without a template",
        "spec.chief",
        a_spec(template=REMOVE, worker_template=TEMPLATE, ps_template=TEMPLATE),
    ),
    Broken(
        "a worker without a template",
        "spec.worker",
        a_spec(template=REMOVE, chief_template=TEMPLATE, ps_template=TEMPLATE),
    ),
    Broken(
        "a ps whose only container has another name",
        "spec.ps",
        a_spec(
            template=REMOVE,
            chief_template=TEMPLATE,
            worker_template=TEMPLATE,
            ps_template={"spec": {"containers": [{"name": "main"}]}},
        ),
    ),
    Broken(
        "an evaluator without a template",
        "spec.evaluator",
        a_spec(
            template=REMOVE,
            chief_template=TEMPLATE,
            worker_template=TEMPLATE,
            ps_template=TEMPLATE,
            evaluator={},
            checkpoint=CLAIM,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Change:
    """An update of a stored job."""

    why: str
    old: Spec
    new: Spec
    field: str = ""
    """The one field that is refused; empty for a change that is allowed."""
    state: str = ""
    """status.state of the stored job; empty before it has a status."""


_EVALUATED = a_spec(checkpoint=CLAIM, evaluator={})

CHANGES = (
    Change("nothing changes", a_spec(), a_spec()),
    Change("defaults are written out", a_spec(), a_spec(strategy="ParameterServer")),
    Change("workers are scaled", a_spec(), a_spec(worker_replicas=4)),
    Change("fewer workers suffice", a_spec(), a_spec(worker_minReplicas=1)),
    Change("the job is suspended", a_spec(), a_spec(runPolicy_suspend=True)),
    Change("a deadline is set", a_spec(), a_spec(runPolicy_activeDeadlineSeconds=60)),
    Change(
        "a template changes while suspended",
        a_spec(runPolicy_suspend=True),
        a_spec(runPolicy_suspend=True, template=a_container(args=["--epochs=4"])),
    ),
    Change(
        "a template changes as the job is resumed",
        a_spec(runPolicy_suspend=True),
        a_spec(template=a_container(args=["--epochs=4"])),
    ),
    Change("the strategy changes while suspended", a_spec(runPolicy_suspend=True), MIRRORED),
    Change(
        "another controller takes over",
        a_spec(runPolicy_suspend=True),
        a_spec(runPolicy_suspend=True, runPolicy_managedBy="example.com/other"),
        "spec.runPolicy.managedBy",
    ),
    Change(
        "a template changes as the job is suspended",
        a_spec(),
        a_spec(runPolicy_suspend=True, template=a_container(args=["--epochs=4"])),
        "spec.template",
    ),
    Change(
        "an undeclared field of the template changes",
        a_spec(template=a_container(resources={"limits": {"cpu": 1}})),
        a_spec(template=a_container(resources={"limits": {"cpu": 2}})),
        "spec.template",
    ),
    Change(
        "a command becomes args, both undeclared to the models",
        a_spec(template={"spec": {"containers": [{"name": "tensorflow", "command": ["train"]}]}}),
        a_spec(template={"spec": {"containers": [{"name": "tensorflow", "args": ["train"]}]}}),
        "spec.template",
    ),
    Change(
        "a field of an init container becomes another one",
        a_spec(template=_initialized({"name": "fetch", "restartPolicy": "Always"})),
        a_spec(template=_initialized({"name": "fetch", "stdin": True})),
        "spec.template",
    ),
    Change(
        "a declared field of the template becomes an undeclared one",
        a_spec(template=TEMPLATE | {"metadata": {}}),
        a_spec(template=TEMPLATE | {"other": {}}),
        "spec.template",
    ),
    Change(
        "the shared template is removed",
        a_spec(chief_template=TEMPLATE, worker_template=TEMPLATE, ps_template=TEMPLATE),
        a_spec(
            template=REMOVE,
            chief_template=TEMPLATE,
            worker_template=TEMPLATE,
            ps_template=TEMPLATE,
        ),
        "spec.template",
    ),
    Change(
        "the strategy changes",
        a_spec(strategy="Mirrored", worker_replicas=0, ps=REMOVE),
        a_spec(strategy="MultiWorkerMirrored", worker_replicas=1, ps=REMOVE),
        "spec.strategy",
    ),
    Change("the chief gets a template", a_spec(), a_spec(chief_template={}), "spec.chief"),
    Change(
        "the chief's restartPolicy changes",
        a_spec(),
        a_spec(chief_restartPolicy="Never"),
        "spec.chief",
    ),
    Change("the workers get a template", a_spec(), a_spec(worker_template={}), "spec.worker"),
    Change(
        "the workers' restartPolicy changes along with their number",
        a_spec(),
        a_spec(worker={"replicas": 5, "restartPolicy": "Never"}),
        "spec.worker",
    ),
    Change(
        "workers are declared, though none",
        MIRRORED,
        MIRRORED | {"worker": {"replicas": 0}},
        "spec.worker",
    ),
    Change("ps are scaled while running", a_spec(), a_spec(ps_replicas=2), "spec.ps"),
    Change(
        "the parameter servers mount the checkpoint while running",
        a_spec(checkpoint=CLAIM),
        a_spec(checkpoint=CLAIM, ps_mountCheckpoint=True),
        "spec.ps",
    ),
    Change(
        "the parameter servers mount the checkpoint while suspended",
        a_spec(checkpoint=CLAIM, runPolicy_suspend=True),
        a_spec(checkpoint=CLAIM, runPolicy_suspend=True, ps_mountCheckpoint=True),
    ),
    Change("the evaluator is removed", _EVALUATED, a_spec(checkpoint=CLAIM), "spec.evaluator"),
    Change("a checkpoint is set", a_spec(), a_spec(checkpoint=CLAIM), "spec.checkpoint"),
    Change(
        "a gang is asked for while the job runs",
        a_spec(),
        a_spec(scheduling={"gang": "InTree"}),
        "spec.scheduling",
        state="Running",
    ),
    Change(
        "a job that runs is opened",
        a_spec(network={"policy": "Isolated"}),
        a_spec(network={"policy": "Open"}),
        state="Running",
    ),
    Change(
        "a job that runs may be evicted",
        a_spec(disruption={"budget": "Essential"}),
        a_spec(disruption={"budget": "None"}),
        state="Running",
    ),
    Change(
        "a job does without the scheduler that is not available",
        a_spec(scheduling={"gang": "Volcano", "queue": "research"}),
        a_spec(scheduling={"gang": "None"}),
        state="SchedulerUnavailable",
    ),
    Change(
        "the checkpoint moves",
        a_spec(checkpoint=CLAIM),
        a_spec(checkpoint=CLAIM | {"path": "/elsewhere"}),
        "spec.checkpoint",
    ),
    Change(
        "a template is corrected that the operator refused",
        a_spec(),
        a_spec(template=a_container(args=["--epochs=4"])),
        state="InvalidTemplate",
    ),
    Change(
        "the shared template of a refused job makes way for others",
        a_spec(),
        a_spec(
            template=REMOVE,
            chief_template=TEMPLATE,
            worker_template=TEMPLATE,
            ps_template=TEMPLATE,
        ),
        state="InvalidTemplate",
    ),
    Change("all is corrected of a refused spec", _EVALUATED, MIRRORED, state="InvalidSpec"),
    Change(
        "another controller takes over a refused job",
        a_spec(),
        a_spec(runPolicy_managedBy="example.com/other"),
        "spec.runPolicy.managedBy",
        state="InvalidTemplate",
    ),
    *(
        Change(text, a_spec(**before), a_spec(**after), "spec.managedBy", state="Suspended")
        for text, before, after in (
            ("MultiKueue gets a job later", {}, {"managedBy": MULTIKUEUE}),
            ("MultiKueue loses a job", {"managedBy": MULTIKUEUE}, {}),
            ("another gets it", {"managedBy": MULTIKUEUE}, {"managedBy": "example.com/queue"}),
        )
    ),
    Change(
        "a template changes while the job runs",
        a_spec(),
        a_spec(template=a_container(args=["--epochs=4"])),
        "spec.template",
        state="Running",
    ),
    Change(
        "a template changes while the job waits for a name",
        a_spec(),
        a_spec(template=a_container(args=["--epochs=4"])),
        "spec.template",
        state="NameConflict",
    ),
)
