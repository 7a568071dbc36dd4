"""Pods with more than our trainer, or with another program: sidecars, plain TF_CONFIG scripts."""

from e2e.jobs import endless, tasks
from e2e.scenarios.space import RESTRICTED, Space, job
from tools.cluster.images import image_name
from tools.waiting import eventually

_STARTUP_SECONDS = 60

# As the examples of other operators do: every role asks its TF_CONFIG for the number of ps. The
# servers listen on their own port; the chief ends when it reaches all of them.
_SCRIPT = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
task, cluster = config["task"], config["cluster"]
assert len(cluster["ps"]) == 2, config
assert len(cluster["worker"]) == 1, config
if task["type"] == "chief":
    for address in cluster["ps"] + cluster["worker"]:
        host, port = address.rsplit(":", 1)
        for _ in range(300):
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        else:
            raise SystemExit("no answer from " + address)
    time.sleep(2)
else:
    port = int(cluster[task["type"]][task["index"]].rsplit(":", 1)[1])
    server = socket.create_server(("", port))
    while True:
        server.accept()[0].close()
"""


def test_a_script_that_counts_its_ps_in_every_role_runs_to_its_end(space: Space) -> None:
    made = job(ps={"replicas": 2})
    [container] = made["spec"]["template"]["spec"]["containers"]
    del container["args"]
    container["command"] = ["python3", "-c", _SCRIPT]
    space.apply(made)

    space.wait_for("Finished", seconds=120)
    status = space.status()
    assert status["state"] == "Succeeded", space.describe()
    assert status["restarts"] == 0
    assert "lastFailure" not in status


def test_a_sidecar_that_ends_before_the_chief_is_ready_changes_nothing(space: Space) -> None:
    sidecar = {
        "name": "copy-data",
        "image": image_name("trainer"),
        "command": ["python3", "-c", "pass"],
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
        "securityContext": RESTRICTED,
    }
    made = endless()
    made["spec"]["chief"] = {"template": {"spec": {"containers": [sidecar]}}}
    made["spec"]["runPolicy"] = {"startupDeadlineSeconds": _STARTUP_SECONDS}
    space.apply(tasks(), made)

    space.wait_for("Running", seconds=_STARTUP_SECONDS)
    step = eventually(lambda: (space.status().get("progress") or {}).get("step"), "a step", 60)
    eventually(lambda: space.status()["progress"]["step"] > step, "more steps", 60)
    assert space.status()["restarts"] == 0
