"""A job's TensorBoard logs, shown by `tftj tensorboard` while it trains and after its end."""

import json
import re
import urllib.error
import urllib.request

import yaml

from e2e.jobs import endless, tasks
from e2e.scenarios.board import board
from e2e.scenarios.space import CLAIM, Space
from tools.waiting import eventually

_CHECKPOINT = {"persistentVolumeClaim": {"claimName": "mnist"}}


def _get(address: str) -> object:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - our own
            return json.loads(answer.read())
    except (urllib.error.URLError, OSError):
        return None


def _runs(address: str, *wanted: str) -> None:
    """Wait until TensorBoard shows these roles, with a loss of each."""

    def found() -> bool:
        tags = _get(f"{address}/data/plugin/scalars/tags")
        return isinstance(tags, dict) and all(
            any(re.search("loss", tag) for tag in tags.get(role, {})) for role in wanted
        )

    eventually(found, f"TensorBoard shows {', '.join(wanted)}", 180)


def _is_gone(space: Space) -> bool:
    return not [name for name in space.pods() if "tensorboard" in name]


def test_logs_are_shown_while_the_job_trains_and_afterwards(space: Space) -> None:
    trained = endless("mnist", "--checkpoint-seconds=2", evaluator={}, checkpoint=_CHECKPOINT)
    space.apply(tasks(), yaml.safe_load(CLAIM), trained)
    space.wait_for("Running")
    with board(space) as address:
        _runs(address, "chief", "evaluator")
        (pod,) = (p for p in space.read("pods")["items"] if "tensorboard" in p["metadata"]["name"])
        chief = space.read("pod/mnist-chief-0")
        assert pod["spec"]["nodeName"] == chief["spec"]["nodeName"]
    eventually(lambda: _is_gone(space), "its pod is deleted", 30)

    ended = json.dumps({"spec": {"runPolicy": {"activeDeadlineSeconds": 1}}})
    space.kubectl("patch", "tftj/mnist", "--type=merge", "-p", ended)
    space.wait_for("Finished")
    with board(space) as address:
        _runs(address, "chief", "evaluator")
    eventually(lambda: _is_gone(space), "its pod is deleted", 30)
