"""Writes into docs/runbook.md what Prometheus answers to an on-call engineer (`make runbook`).

The answers are those of one run on a real cluster, in which things go wrong.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import fill as wrapped

from e2e.demo import say
from e2e.faults import NoNodeError, Pod
from e2e.install import NAMESPACE, installed, namespaced
from e2e.jobs import claim, paced, stalled, tasks
from e2e.platform_faults import kill_for_good, lease_holder
from e2e.prometheus import FIRE_SECONDS, Prometheus, Sample, prometheus
from e2e.questions import FAILED_REQUESTS, HURTING, QUESTIONS, SLOW_REQUESTS, Question
from e2e.scenarios.space import Space, job_without_node
from e2e.slow_api import slow_api
from tools.cluster import ClusterError, obtain
from tools.interrupts import raised
from tools.pages import fill
from tools.waiting import eventually

PAGE = Path("docs/runbook.md")
SECTION = "answers"

_TEAM = "research"
_HURT = {("stuck", "Starting"), ("stalled", "Stalled")}
"""The jobs that wait, and why."""
_API_DELAY, _API_FAILING = 0.5, 0.2
_NO_LEADER = "TFTrainingOperatorNoLeader"
_WAIT_SECONDS = 240


def main() -> int:
    """Make the run and write the page; return the exit code."""
    try:
        with raised(), obtain(say=say) as cluster, installed(cluster, say, _TEAM):
            program = cluster.tool("prometheus")
            with namespaced(cluster, _TEAM), prometheus(cluster, program) as server:
                fill(PAGE, SECTION, _answers(Space(cluster, _TEAM), server))
    except (ClusterError, NoNodeError) as error:
        say(str(error))
        return 1
    return 0


def _answers(space: Space, server: Prometheus) -> str:
    """Let things go wrong, and return what Prometheus says then."""
    _disturb(space, server)
    say("slowing the operator's requests to the API server down, and breaking some")
    with slow_api(space.cluster, seconds=_API_DELAY, failing=_API_FAILING):
        _wait(lambda: server.numbers(f"{FAILED_REQUESTS} > 0"), "requests fail")
        _wait(lambda: server.numbers(f"{SLOW_REQUESTS} > {_API_DELAY}"), "requests are slow")
        _wait(lambda: _hurting(server) == _HURT, "both jobs are named")
        return "\n\n".join([_SITUATION, *(_answer(each, server) for each in QUESTIONS)])


_SITUATION = wrapped(
    "The answers are those of one run on a real cluster (`make runbook`). In the namespace "
    f"`{_TEAM}`, each step of the job `stalled` takes ten minutes; the pods of `stuck` fit on no "
    "node; the chief of `mnist` was killed once. Then the leader was killed. At the end each "
    f"request of the operator to the API server takes {_API_DELAY} s longer, and "
    f"{_API_FAILING:.0%} of its connections break. With every `for` shortened to {FIRE_SECONDS} s "
    "and no limit for how long jobs wait, the alerts "
    "TFTrainingJobStuckStarting and TFTrainingJobStalled fired, and TFTrainingOperatorNoLeader "
    "until the standby led.",
    width=150,
)


def _disturb(space: Space, server: Prometheus) -> None:
    """Have jobs that wait and a leader that goes, and the alerts that tell of it."""
    say("starting three jobs")
    space.apply(tasks(), claim("mnist"))
    space.apply(paced(epochs=100), stalled(), job_without_node("stuck"))
    space.wait_for("Running")
    _wait(lambda: space.status().get("lastCheckpoint"), "a checkpoint is written")

    say("killing the chief of mnist")
    Pod(space.cluster, space.name, "mnist-chief-0").kill()
    _wait(lambda: space.status().get("restarts"), "the restart is counted")
    space.wait_for("Running")

    say("killing the leader")
    leader = lease_holder(space.cluster)
    kill_for_good(Pod(space.cluster, NAMESPACE, leader, container="operator"))
    for alert in (_NO_LEADER, "TFTrainingJobStuckStarting", "TFTrainingJobStalled"):
        _wait(partial(server.firing, alert), f"{alert} fires")
    _wait(lambda: not server.firing(_NO_LEADER), f"{_NO_LEADER} is resolved")


def _hurting(server: Prometheus) -> set[tuple[str, str]]:
    found = server.query(HURTING)
    return {(each.labels["training_job"], each.labels["reason"]) for each in found}


def _wait(look: Callable[[], object], what: str) -> None:
    say(f"waiting until {what}")
    eventually(look, what, _WAIT_SECONDS)


def _answer(question: Question, server: Prometheus) -> str:
    """Return a question with the output of its queries."""
    lines = []
    for query in question.queries:
        lines += [query, *(f"  {_line(sample)}" for sample in server.query(query))]
    return f"**{question.text}** {question.reading}\n\n```\n" + "\n".join(lines) + "\n```"


def _line(sample: Sample) -> str:
    labels = ", ".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{{{labels}}} {sample.value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
