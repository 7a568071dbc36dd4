"""What servers say of each other, and what the chief makes of it."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from tftrainer.config.cluster import Cluster, Member, Role, Task
from tftrainer.peering.peers import Failure
from tftrainer.runtime import process
from tftrainer.runtime.progress import Cause

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer.parameter_server.server_links import LinkWatch, broken_link  # noqa: E402

CHIEF = Task(Role.CHIEF, 0)
TASKS = [CHIEF, Task(Role.WORKER, 0), Task(Role.WORKER, 1), Task(Role.PS, 0)]
CLUSTER = Cluster(CHIEF, tuple(Member(task, f"job-{task}.job.ns.svc:2222") for task in TASKS))
NAME = "errors resolving job-worker-1.job.ns.svc:2222: [Name or service not known]"


def called(task: str, method: str = "WorkerService/RecvTensor") -> str:
    quoted = r"\nAdditional GRPC error information from remote target /job:ps/replica:0/task:7"
    return (
        f"Additional GRPC error information from remote target /job:{task} while calling "
        f'/tensorflow.{method}:\n:UNKNOWN:Error received from peer {{grpc_message:"{quoted}"}}'
    )


def unavailable(*calls: str) -> tf.errors.OpError:
    lines = [NAME, *(called(each) for each in calls)]
    return tf.errors.UnavailableError(None, None, "\n".join(lines))


W0, W1, PS = (
    "worker/replica:0/task:0",
    "worker/replica:0/task:1",
    "ps/replica:0/task:0/device:CPU:0",
)
PS_TO_WORKER = unavailable(W1, PS, W1)


def wrapped(original: Exception) -> Exception:
    error = Exception("Input has an error")
    error.original_exception = original  # type: ignore[attr-defined] -- as the coordinator does
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(PS_TO_WORKER, "ps-0 cannot reach worker-1", id="a ps calls a worker"),
        pytest.param(wrapped(PS_TO_WORKER), "ps-0 cannot reach worker-1", id="for its input"),
        pytest.param(unavailable(PS, W0), "worker-0 cannot reach ps-0", id="a worker calls a ps"),
        pytest.param(unavailable(W1), None, id="the chief calls a worker"),
        pytest.param(unavailable(PS), None, id="the chief calls a ps"),
        pytest.param(unavailable(), None, id="nobody is named"),
        pytest.param(unavailable("worker/replica:0/task:9", PS), None, id="an unknown one"),
        pytest.param(
            tf.errors.AbortedError(
                None, None, f"Unable to find a context_id\n{called(PS)}\n{called(W1)}"
            ),
            None,
            id="a ps lost what it had",
        ),
        pytest.param(ValueError(str(PS_TO_WORKER)), None, id="an error of the user's"),
    ],
)
def test_who_could_not_reach_whom(error: Exception, said: str | None) -> None:
    link = broken_link(error, CLUSTER)

    assert (str(link) if link else None) == said


class Chief:
    """A watch whose time stands still but for its pauses, and who is unreachable for it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked: list[str] = []
        self.lost: set[str] = set()
        self.watch = LinkWatch(CLUSTER, self.probe, self.wait, lambda: self.now)

    def probe(self, member: Member) -> Failure | None:
        self.asked.append(member.name)
        return Failure(Cause.REFUSED, "connection refused") if member.name in self.lost else None

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def rest(self) -> float:
        """How long the worker rests that has met an error."""
        began = self.now
        while self.watch.rests():
            pass
        return round(self.now - began, 3)


@pytest.fixture
def chief() -> Chief:
    return Chief()


def test_whom_the_chief_reaches_is_not_lost_and_is_tried_ever_less_often(chief: Chief) -> None:
    pauses = [chief.rest() for _ in range(6) if chief.watch.passes(PS_TO_WORKER)]

    assert pauses == [1, 2, 4, 8, 8, 8]
    assert set(chief.asked) == {"worker-1"}


def test_a_link_that_was_whole_for_a_minute_is_tried_soon_again(chief: Chief) -> None:
    assert all(chief.watch.passes(PS_TO_WORKER) for _ in range(3))
    chief.now += 61
    assert not chief.watch.rests()
    assert chief.watch.passes(PS_TO_WORKER)

    assert chief.rest() == 1


def test_each_link_has_pauses_of_its_own(chief: Chief) -> None:
    assert chief.watch.passes(PS_TO_WORKER)
    assert chief.rest() == 1
    assert chief.watch.passes(unavailable(PS, W0))
    assert chief.rest() == 1


def test_a_worker_rests_alone(chief: Chief) -> None:
    assert chief.watch.passes(PS_TO_WORKER)

    with ThreadPoolExecutor() as another:
        assert not another.submit(chief.watch.rests).result()
    assert chief.watch.rests()


def test_who_does_not_answer_the_chief_either_may_be_lost(chief: Chief) -> None:
    chief.lost = {"worker-1"}

    assert not chief.watch.passes(PS_TO_WORKER)
    assert not chief.watch.rests()


def test_what_is_no_link_is_nobody_to_ask(chief: Chief) -> None:
    assert not chief.watch.passes(unavailable(PS))
    assert chief.asked == []
