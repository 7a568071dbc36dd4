"""The jobs of the pictures: one that trains, one that has ended, one that failed, two that wait."""

from typing import Any

from e2e.jobs import claim, paced, tasks
from e2e.scenarios.space import Space, job

_Object = dict[str, Any]

TRAINS, ENDS, FAILS = "mnist", "digits", "pets"
_TASK = """\
import tensorflow as tf

LABELS = {"cat": 0, "dog": 1}


def model():
    return tf.keras.Sequential([tf.keras.layers.Dense(2)])


def dataset(split, context):
    labels = [LABELS[name] for name in ("cat", "bird")]
    return tf.data.Dataset.from_tensors((tf.ones([2, 4]), labels))
"""


def run_to_their_end(space: Space) -> None:
    """Have a job that has ended, and one whose task has a defect."""
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FAILS}}
    space.apply(tasks(), claim(TRAINS), claim(ENDS), code | {"data": {"task.py": _TASK}})
    space.apply(paced(ENDS, epochs=1, milliseconds=0), _failing())
    for name in (ENDS, FAILS):
        space.wait_for("Finished", name=name)


def start(space: Space) -> None:
    """Start a job that trains for two minutes and more, and two that cannot."""
    training = paced(TRAINS, epochs=8, milliseconds=60, evaluator={})
    space.apply(training, _without_node(), _privileged())
    space.wait_for("Running", name=TRAINS)


def _failing() -> _Object:
    found = job(FAILS, runPolicy={"backoffLimit": 0})
    template = found["spec"]["template"]["spec"]
    template["containers"][0]["args"] = ["--task=/task/task.py"]
    template["containers"][0]["volumeMounts"] = [{"name": "task", "mountPath": "/task"}]
    template["volumes"] = [{"name": "task", "configMap": {"name": FAILS}}]
    return found


def _without_node() -> _Object:
    found = job("translate")
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "64", "memory": "300Mi"}}
    return found


def _privileged() -> _Object:
    found = job("segment")
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "registry.example.com/segment:1"  # so it gets no security context
    return found
