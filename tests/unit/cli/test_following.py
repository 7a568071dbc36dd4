"""Following a job, and its logs, while the API server, pods and containers come and go."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tftraining import following, log_reader
from tftraining.cli import durations
from tftraining.client import TFTrainingClient
from tftraining.cluster.cluster import Cluster
from tftraining.errors import (
    ForbiddenError,
    InputError,
    NotFoundError,
    TFTrainingError,
    TimedOutError,
    UnauthorizedError,
    UnreachableError,
)
from tftraining.following import follow, reached
from tftraining_operator.api import keys
from tftraining_operator.api.keys import ConditionType, Role

from tests.unit.builders import JobBuilder, PodBuilder, Raw, a_condition, a_job, a_pod, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tftraining.view.log_lines import Line


@dataclass
class Scripted:
    """A connection whose job and pods the test sets, and whose logs are lists of lines."""

    answers: list[Raw | Exception]
    """What GET of the job answers, one after the other; the last one for ever."""
    pods: list[PodBuilder] = field(default_factory=list)
    logs: dict[tuple[str, str], list[str | Exception]] = field(default_factory=dict)
    """Lines of a pod's log by its name and its sinceTime."""
    refusals: list[Exception] = field(default_factory=list)
    """What the first requests for a log raise, one after the other."""
    requested: list[str] = field(default_factory=list)
    """The pods whose logs were asked for."""
    opened: threading.Event = field(default_factory=threading.Event)
    namespace: str = "default"

    def call(self, _method: str, path: str, **_given: Any) -> Raw:
        if path.endswith("/pods"):
            return {"items": [pod.raw for pod in self.pods]}
        if path.endswith("/tftrainingjobs"):
            return {"items": [a_job().raw, a_job().named("resnet").raw]}
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        pod = path.split("/")[-2]
        self.requested.append(pod)
        if self.refusals:
            raise self.refusals.pop(0)
        found = self.logs.get((pod, query.get("sinceTime", "")))
        if found is None:
            raise NotFoundError(f"no log of {pod} since {query.get('sinceTime')}")

        def read() -> Iterator[str]:
            for line in found:
                if isinstance(line, Exception):
                    raise line
                yield line

        self.opened.set()
        yield read()


def finished(*, well: bool) -> JobBuilder:
    kind = ConditionType.SUCCEEDED if well else ConditionType.FAILED
    return a_job().with_status(
        a_condition(kind),
        a_condition(ConditionType.FINISHED),
        completion_time=stamp(),
        observed_generation=1,
    )


RUNNING = a_job().with_status(a_condition(ConditionType.RUNNING), observed_generation=1)
RUNNING.raw["metadata"]["resourceVersion"] = "5"


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def followed(calls: Scripted, *, timeout: float | None = None) -> tuple[bool, int]:
    """Whether the job succeeded, and how often it was shown."""
    time, shown = Time(), []
    seen = follow(
        Cluster(calls),
        "mnist",
        ConditionType.FINISHED,
        shown.append,
        timeout=timeout,
        clock=time,
        sleep=time.sleep,
    )
    return seen.succeeded, len(shown)


@pytest.mark.parametrize("well", [True, False])
def test_the_result_is_that_of_the_job(*, well: bool) -> None:
    assert followed(Scripted([RUNNING.raw, finished(well=well).raw])) == (well, 2)


def test_an_api_server_that_is_away_for_a_while_is_waited_for() -> None:
    away = [UnreachableError("away")] * 50
    assert followed(Scripted([RUNNING.raw, *away, finished(well=True).raw])) == (True, 2)


def test_one_that_stays_away_ends_it() -> None:
    with pytest.raises(UnreachableError):
        followed(Scripted([RUNNING.raw, UnreachableError("away")]))


def test_one_that_never_answered_ends_it_at_once() -> None:
    with pytest.raises(UnreachableError):
        followed(Scripted([UnreachableError("away"), finished(well=True).raw]))


def test_time_runs_out_with_the_code_for_it() -> None:
    with pytest.raises(TimedOutError, match="mnist is not finished after 60 s") as timed_out:
        followed(Scripted([RUNNING.raw]), timeout=60)
    assert timed_out.value.code == 2


def test_a_job_that_is_deleted_and_one_that_replaces_it_are_told_apart() -> None:
    with pytest.raises(NotFoundError):
        followed(Scripted([RUNNING.raw, NotFoundError("gone")]))
    other = finished(well=True).named("mnist", uid="uid-2")
    with pytest.raises(NotFoundError, match="created again"):
        followed(Scripted([RUNNING.raw, other.raw]))


def test_a_misspelt_job_is_answered_with_the_nearest_one() -> None:
    calls = Scripted([NotFoundError("no")])
    with pytest.raises(NotFoundError, match="did you mean resnet"):
        Cluster(calls).job("rsnet")
    with pytest.raises(NotFoundError, match="tftj list shows those that exist"):
        Cluster(calls).job("bert")
    told = "that is a pod of job resnet: tftj logs resnet --role worker --index 12 shows its log"
    with pytest.raises(NotFoundError, match=f"^no job resnet-worker-12 in .*; {told}$"):
        Cluster(calls).job("resnet-worker-12")


def test_a_condition_of_an_older_spec_is_not_what_was_waited_for() -> None:
    stale = a_job().with_status(a_condition(ConditionType.RUNNING), observed_generation=1)
    stale.raw["metadata"]["generation"] = 2
    assert reached(RUNNING.build(), ConditionType.RUNNING)
    assert not reached(stale.build(), ConditionType.RUNNING)
    assert reached(finished(well=False).build(), ConditionType.RUNNING), "it never will be"


@pytest.mark.parametrize("goal", [ConditionType.RUNNING, ConditionType.PODS_READY])
def test_the_generation_of_a_job_in_another_cluster_is_its_own(goal: ConditionType) -> None:
    # As MultiKueue copies it: the job there is created again whenever it is resumed or scaled.
    job = a_job().with_spec(managedBy=keys.MULTIKUEUE)
    job = job.with_status(a_condition(goal), observed_generation=1)
    job.raw["metadata"]["generation"] = 3
    assert reached(job.build(), goal)


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400)]
)
def test_durations_have_units(text: str, expected: float) -> None:
    assert durations.seconds("--timeout", text) == expected


def test_what_is_no_duration_is_refused() -> None:
    with pytest.raises(InputError, match="--timeout: soon is no duration"):
        durations.seconds("--timeout", "soon")


def run(
    calls: Scripted,
    after: Callable[[Line], None] = lambda _line: None,
    say: Callable[[str], None] = lambda _text: None,
) -> list[str]:
    """Follow the logs to their end; `after` acts when a line was shown."""
    shown: list[str] = []
    follower = log_reader.Follower(Cluster(calls), "mnist", log_reader.Choice(), say)

    def show(line: Line) -> None:
        shown.append(f"{line.source.label}: {line.text}")
        after(line)

    for line in follower:
        show(line)
    return shown


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_INTERVAL", 0.05), ("BATCH_SECONDS", 0.05), ("_LAST_WORDS", 0.3)):
        monkeypatch.setattr(log_reader, name, value)


def test_logs_are_followed_across_a_restart_in_place_and_a_replaced_pod() -> None:
    job = RUNNING.build()
    calls = Scripted([RUNNING.raw], pods=[a_pod(job, Role.CHIEF).running()])
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05.5Z first"]

    def go_on(line: Line) -> None:
        if line.text == "first":
            calls.pods = [a_pod(job, Role.CHIEF).restarted_in_place(1)]
            again = ["2026-01-02T03:04:05.5Z first", "2026-01-02T03:04:06Z restarted"]
            calls.logs["mnist-chief-0", "2026-01-02T03:04:05Z"] = again
        elif line.text == "restarted":
            replaced = a_pod(job, Role.CHIEF).running()
            replaced.raw["metadata"]["uid"] = "another"
            calls.pods = [replaced]
            calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:07Z replaced"]
        else:
            calls.answers = [finished(well=True).raw]

    assert run(calls, go_on) == ["chief-0: first", "chief-0: restarted", "chief-0: replaced"]


def test_a_broken_stream_goes_on_where_it_broke() -> None:
    job = RUNNING.build()
    calls = Scripted([RUNNING.raw], pods=[a_pod(job, Role.CHIEF).running()])
    broken = UnreachableError("broken")
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05.5Z first", broken]
    rest = ["2026-01-02T03:04:05.5Z first", "2026-01-02T03:04:05.6Z second"]
    calls.logs["mnist-chief-0", "2026-01-02T03:04:05Z"] = rest

    def end(line: Line) -> None:
        if line.text == "second":
            calls.answers = [finished(well=True).raw]

    assert run(calls, end) == ["chief-0: first", "chief-0: second"]


def test_a_stream_that_ends_while_the_container_runs_is_opened_again() -> None:
    # As the API server ends one whose connection to the kubelet broke: without an error.
    job = RUNNING.build()
    calls = Scripted([RUNNING.raw], pods=[a_pod(job, Role.WORKER).running()])
    calls.logs["mnist-worker-0", ""] = ["2026-01-02T03:04:05.5Z first"]
    rest = ["2026-01-02T03:04:05.5Z first", "2026-01-02T03:04:09Z second"]
    calls.logs["mnist-worker-0", "2026-01-02T03:04:05Z"] = rest

    def end(line: Line) -> None:
        if line.text == "second":
            calls.answers = [finished(well=True).raw]

    assert run(calls, end) == ["worker-0: first", "worker-0: second"]


def test_a_log_that_the_node_cannot_send_yet_is_asked_for_again() -> None:
    # As the kubelet answers about an empty log if it cannot watch the file.
    refusal = InputError("failed to create fsnotify watcher: too many open files")
    job = RUNNING.build()
    calls = Scripted([RUNNING.raw], [a_pod(job, Role.PS).running()], refusals=[refusal])
    calls.logs["mnist-ps-0", ""] = ["2026-01-02T03:04:05Z first"]

    def end(_line: Line) -> None:
        calls.answers = [finished(well=True).raw]

    assert run(calls, end) == ["ps-0: first"]


def test_what_a_container_wrote_last_is_read_though_its_stream_ended_early() -> None:
    ended = finished(well=True)
    pod = a_pod(ended.build(), Role.CHIEF).running()
    calls = Scripted([RUNNING.raw], pods=[pod])
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05.5Z first"]

    def end(line: Line) -> None:
        if line.text == "first":
            last = ["2026-01-02T03:04:05.5Z first", "2026-01-02T03:04:06Z last"]
            calls.logs["mnist-chief-0", "2026-01-02T03:04:05Z"] = last
            calls.pods = [a_pod(ended.build(), Role.CHIEF).exited(0)]
            calls.answers = [ended.raw]

    assert run(calls, end) == ["chief-0: first", "chief-0: last"]


def test_the_log_of_a_container_that_has_ended_is_read_once() -> None:
    job = RUNNING.build()
    ended = a_pod(job, Role.WORKER).exited(1)
    calls = Scripted([RUNNING.raw] * 5 + [finished(well=True).raw], pods=[ended])
    calls.logs["mnist-worker-0", ""] = ["2026-01-02T03:04:05Z error"]
    assert run(calls) == ["worker-0: error"]
    assert calls.requested == ["mnist-worker-0"]


def test_what_the_node_says_of_a_log_without_a_time_is_shown_once() -> None:
    job = RUNNING.build()
    calls = Scripted([RUNNING.raw], pods=[a_pod(job, Role.PS).running()])
    error = "failed to watch file: too many open files"
    calls.logs["mnist-ps-0", ""] = ["2026-01-02T03:04:05Z first", error]
    calls.logs["mnist-ps-0", "2026-01-02T03:04:05Z"] = ["2026-01-02T03:04:05Z first", error]

    def end(line: Line) -> None:
        if line.text == error:
            calls.answers = [RUNNING.raw] * 4 + [finished(well=True).raw]

    assert run(calls, end) == ["ps-0: first", f"ps-0: {error}"]
    assert len(calls.requested) > 1


def test_logs_that_may_not_be_read_end_it_with_the_reason() -> None:
    job = RUNNING.build()
    forbidden = TFTrainingError("pods mnist-ps-0 is forbidden: you may not get pods/log")
    calls = Scripted([RUNNING.raw], [a_pod(job, Role.PS).running()], refusals=[forbidden])
    with pytest.raises(TFTrainingError, match="may not get pods/log"):
        run(calls)


def test_following_ends_though_a_pod_outlives_the_job() -> None:
    released = threading.Event()

    class Endless(Scripted):
        @contextlib.contextmanager
        def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:  # noqa: ARG002
            def read() -> Iterator[str]:
                yield "2026-01-02T03:04:05Z first"
                released.wait()

            yield read()

    job = finished(well=True)
    calls = Endless([job.raw], pods=[a_pod(job.build(), Role.PS).running()])
    assert run(calls) == ["ps-0: first"]
    released.set()


def test_the_log_of_a_pod_that_ran_between_two_looks_is_waited_for() -> None:
    # The job had no pod for longer than a finished job's logs may be silent.
    job = finished(well=False)

    class Late(Scripted):
        def call(self, _method: str, path: str, **given: Any) -> Raw:
            answer = super().call(_method, path, **given)
            if answer is job.raw:
                self.pods = [a_pod(job.build(), Role.CHIEF).exited(1)]
            return answer

        @contextlib.contextmanager
        def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
            time.sleep(2 * log_reader.BATCH_SECONDS)
            with super().lines(path, query) as found:
                yield found

    calls = Late([RUNNING.raw] * 10 + [job.raw])
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z error"]
    assert run(calls) == ["chief-0: error"]


def test_a_job_that_is_deleted_during_an_outage_ends_the_logs() -> None:
    pods = [a_pod(RUNNING.build(), Role.CHIEF).running()]
    calls = Scripted([RUNNING.raw, UnreachableError("away"), NotFoundError("gone")], pods)
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z first"]
    assert run(calls) == ["chief-0: first"]


def test_an_outage_after_the_end_does_not_end_the_logs() -> None:
    job, away = finished(well=True), UnreachableError("away")
    pods = [a_pod(job.build(), Role.CHIEF).exited(0)]
    calls = Scripted([job.raw, *[away] * 12, job.raw], pods, refusals=[away])
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z last"]
    said: list[str] = []
    assert run(calls, say=said.append) == ["chief-0: last"]
    about_the_cluster = [text for text in said if "the log of" not in text]
    assert about_the_cluster == ["away; trying again for 5 minutes", "the cluster answers again"]


def test_logs_of_a_cluster_that_never_answered_end_at_once() -> None:
    with pytest.raises(UnreachableError):
        run(Scripted([UnreachableError("away")]))


def test_logs_are_followed_through_an_outage_that_is_told_once() -> None:
    job = RUNNING.build()
    away = [UnreachableError("cannot reach the cluster")] * 3
    calls = Scripted([RUNNING.raw, *away, RUNNING.raw], [a_pod(job, Role.CHIEF).running()])
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z first"]
    rest = ["2026-01-02T03:04:05Z first", "2026-01-02T03:04:06Z second"]
    calls.logs["mnist-chief-0", "2026-01-02T03:04:05Z"] = rest
    said: list[str] = []

    def end(line: Line) -> None:
        if line.text == "second" and len(calls.answers) == 1:
            calls.answers = [finished(well=True).raw]

    def say(text: str) -> None:
        said.append(text)
        if text == "the cluster answers again":
            calls.answers = [finished(well=True).raw]

    assert run(calls, end, say) == ["chief-0: first", "chief-0: second"]
    assert said == [
        "cannot reach the cluster; trying again for 5 minutes",
        "the cluster answers again",
    ]


def test_an_outage_that_stays_ends_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PATIENCE", 0.1)
    calls = Scripted([RUNNING.raw, UnreachableError("away")])
    with pytest.raises(UnreachableError):
        run(calls)


def test_the_logs_of_a_job_that_does_not_exist_are_not_found() -> None:
    with pytest.raises(NotFoundError):
        run(Scripted([NotFoundError("no")]))


def test_logs_that_are_read_at_once_are_merged_by_time() -> None:
    job = RUNNING.build()
    pods = [a_pod(job, role).running() for role in (Role.CHIEF, Role.PS, Role.WORKER)]
    calls = Scripted([RUNNING.raw], pods=pods)
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:06Z second"]
    calls.logs["mnist-ps-0", ""] = ["2026-01-02T03:04:05Z first"]
    choice = log_reader.Choice()
    cluster = Cluster(calls)
    found = log_reader.sources([pod.raw for pod in pods])
    texts = [line.text for line in log_reader.read(cluster, found, choice)]
    assert texts == ["first", "second"], "a log that is gone has no lines"


NO_NODE = UnreachableError("the API server cannot answer now: dial tcp 10.0.0.7:10250: i/o timeout")


class Unread(Scripted):
    """The node of the chief does not answer."""

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        if "mnist-chief-0" in path:
            self.refusals = [NO_NODE]
        with super().lines(path, query) as found:
            yield found


def test_the_log_of_a_node_that_does_not_answer_is_left_out_and_named() -> None:
    job = RUNNING.build()
    lost = a_pod(job, Role.CHIEF).running()
    lost.raw["spec"]["nodeName"] = "node-7"
    pods = [lost, a_pod(job, Role.PS).running(), a_pod(job, Role.WORKER).running()]
    calls = Scripted([RUNNING.raw], pods=pods, refusals=[NO_NODE])
    calls.logs["mnist-ps-0", ""] = ["2026-01-02T03:04:05Z first"]
    calls.logs["mnist-worker-0", ""] = ["2026-01-02T03:04:06Z second", UnreachableError("broke")]
    said: list[str] = []
    lines = log_reader.read_once(Cluster(calls), "mnist", log_reader.Choice(), said.append)
    assert [line.text for line in lines] == ["first", "second"]
    assert said == [
        f"the log of mnist-chief-0 on node node-7 is missing: {NO_NODE}",
        "the log of mnist-worker-0 on node node-1 is cut off: broke",
    ]


def test_logs_of_which_none_can_be_read_are_an_error() -> None:
    job = RUNNING.build()
    pods = [a_pod(job, role).running() for role in (Role.CHIEF, Role.PS)]
    calls = Scripted([RUNNING.raw], pods=pods, refusals=[NO_NODE, NotFoundError("gone")])
    with pytest.raises(UnreachableError, match="dial tcp"):
        log_reader.read_once(Cluster(calls), "mnist", log_reader.Choice())


def test_a_log_that_cannot_be_followed_is_told_at_once_and_at_the_end() -> None:
    job = finished(well=True)
    lost = a_pod(job.build(), Role.CHIEF).running()
    lost.raw["spec"]["nodeName"] = "node-7"
    calls = Unread([RUNNING.raw] * 5 + [job.raw], [lost, a_pod(job.build(), Role.PS).exited(0)])
    calls.logs["mnist-ps-0", ""] = ["2026-01-02T03:04:05Z first"]
    said: list[str] = []
    assert run(calls, say=said.append) == ["ps-0: first"]
    assert said == [
        f"the log of mnist-chief-0 on node node-7 cannot be read: {NO_NODE}; trying again",
        f"the log of mnist-chief-0 on node node-7 is missing: {NO_NODE}",
    ]
    assert calls.requested.count("mnist-chief-0") > 1


def test_a_log_that_can_be_read_after_all_is_told_only_once() -> None:
    job = finished(well=True)
    pods = [a_pod(job.build(), Role.CHIEF).exited(0)]
    calls = Scripted([RUNNING.raw] * 5 + [job.raw], pods, refusals=[NO_NODE, NO_NODE])
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z first"]
    said: list[str] = []
    assert run(calls, say=said.append) == ["chief-0: first"]
    assert said == [
        f"the log of mnist-chief-0 on node node-1 cannot be read: {NO_NODE}; trying again"
    ]


def test_a_stream_that_breaks_and_is_opened_again_is_no_news() -> None:
    job = finished(well=True)
    pods = [a_pod(job.build(), Role.CHIEF).exited(0)]
    calls = Scripted([RUNNING.raw] * 3 + [job.raw], pods)
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z first", UnreachableError("broke")]
    calls.logs["mnist-chief-0", "2026-01-02T03:04:05Z"] = ["2026-01-02T03:04:06Z second"]
    said: list[str] = []
    assert run(calls, say=said.append) == ["chief-0: first", "chief-0: second"]
    assert said == []


def test_logs_of_which_none_can_be_followed_are_an_error() -> None:
    job = finished(well=True)
    calls = Unread([job.raw], [a_pod(job.build(), Role.CHIEF).exited(0)])
    with pytest.raises(UnreachableError, match="dial tcp"):
        run(calls)


@dataclass
class Asked(Scripted):
    """It keeps what it was asked of each log."""

    queries: list[dict[str, str]] = field(default_factory=list)

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        self.queries.append({"pod": path.split("/")[-2], **query})
        with super().lines(path, query) as found:
            yield found


def test_the_beginning_of_a_log_that_begins_later_is_not_cut_off() -> None:
    job = RUNNING.build()
    calls = Asked([RUNNING.raw], pods=[a_pod(job, Role.CHIEF).running()])
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z first"]
    calls.logs["mnist-worker-0", ""] = ["2026-01-02T03:04:06Z second"]
    for line in log_reader.Follower(Cluster(calls), "mnist", log_reader.Choice(tail=1)):
        if line.text == "first":
            calls.pods = [a_pod(job, Role.WORKER).running()]
        else:
            calls.answers = [finished(well=True).raw]
    tails = {
        each["pod"]: each.get("tailLines") for each in calls.queries if "sinceTime" not in each
    }
    assert tails == {"mnist-chief-0": "1", "mnist-worker-0": None}


@dataclass
class Writing(Scripted):
    """The chief writes lines without end."""

    written: int = 0

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        assert path
        assert query

        def read() -> Iterator[str]:
            for number in range(1_000_000):
                self.written += 1
                time.sleep(0.001)
                yield f"2026-01-02T03:04:05.{number:09}Z line"

        yield read()


def test_who_leaves_the_logs_leaves_no_reader_behind() -> None:
    calls = Writing([RUNNING.raw], pods=[a_pod(RUNNING.build(), Role.CHIEF).running()])
    before = threading.active_count()
    for _line in TFTrainingClient(cluster=Cluster(calls)).logs("mnist", follow=True):
        break
    end = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before, f"it still reads: {calls.written} lines"


def test_logs_before_a_restart_that_are_gone_are_told() -> None:
    job = RUNNING.build()
    gone = InputError('previous terminated container "tensorflow" in pod "x" not found')
    pods = [a_pod(job, role).restarted_in_place(1) for role in (Role.PS, Role.WORKER)]
    calls = Scripted([RUNNING.raw], pods=pods, refusals=[gone])
    calls.logs["mnist-ps-0", ""] = ["2026-01-02T03:04:05Z first"]
    said: list[str] = []
    before = log_reader.Choice({"previous": True})
    (line,) = log_reader.read_once(Cluster(calls), "mnist", before, said.append)
    assert line.text == "first"
    assert said == [f"the log of mnist-worker-0 on node node-1 is missing: {gone}"]
    calls.refusals = [gone, gone]
    with pytest.raises(NotFoundError, match='no logs to show: previous terminated container "tens'):
        log_reader.read_once(Cluster(calls), "mnist", before)


def test_a_container_that_no_pod_has_is_named() -> None:
    calls = Scripted([RUNNING.raw], pods=[a_pod(RUNNING.build(), Role.CHIEF).running()])
    told = "no pod of mnist has a container sidecar: choose one of tensorflow"
    other = log_reader.Choice({"container": "sidecar"})
    with pytest.raises(NotFoundError, match=f"no logs to show: {told}"):
        log_reader.read_once(Cluster(calls), "mnist", other)
    calls.answers = [RUNNING.raw, RUNNING.raw, finished(well=True).raw]
    said: list[str] = []
    assert list(log_reader.Follower(Cluster(calls), "mnist", other, said.append)) == []
    assert said == [told]


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"role": Role.EVALUATOR}, "no pod of mnist is evaluator; it is Starting"),
        ({"role": Role.PS, "index": 3}, "no pod of mnist is ps-3; it is Starting"),
        ({"index": 3}, "no pod of mnist has index 3; it is Starting"),
    ],
)
def test_a_pod_that_is_not_there_is_named(chosen: dict[str, Any], told: str) -> None:
    pods = [a_pod(RUNNING.build(), role).running() for role in (Role.PS, Role.CHIEF)]
    with pytest.raises(NotFoundError, match=f"no logs to show: {told}$"):
        log_reader.read_once(
            Cluster(Scripted([RUNNING.raw], pods)), "mnist", log_reader.Choice(chosen)
        )


def test_a_log_is_opened_again_where_it_stopped_also_on_a_node_in_another_zone() -> None:
    """containerd writes the time of its node's zone, and the kubelet passes it on."""
    job = finished(well=True)
    calls = Scripted([RUNNING.raw] * 3 + [job.raw], [a_pod(job.build(), Role.CHIEF).exited(0)])
    first, second = "2026-01-02T05:04:05.100000000+02:00", "2026-01-02T05:04:05.200000000+02:00"
    calls.logs["mnist-chief-0", ""] = [f"{first} first", UnreachableError("broke")]
    calls.logs["mnist-chief-0", "2026-01-02T03:04:05Z"] = [f"{first} first", f"{second} second"]
    assert run(calls) == ["chief-0: first", "chief-0: second"]


UNKNOWN = UnauthorizedError("Unauthorized")
FORBIDDEN = ForbiddenError('tftrainingjobs "mnist" is forbidden: User "jane" cannot get it')


@pytest.mark.parametrize("refusal", [FORBIDDEN, UNKNOWN], ids=["forbidden", "unknown"])
def test_an_api_server_that_starts_and_refuses_everybody_is_waited_for(
    refusal: TFTrainingError,
) -> None:
    """Until it has read the roles, or the keys of whoever has signed the tokens (OIDC)."""
    away = [UnreachableError("away"), refusal, refusal]
    assert followed(Scripted([RUNNING.raw, *away, finished(well=True).raw])) == (True, 2)


def test_a_right_that_one_never_had_or_has_lost_for_long_ends_it() -> None:
    for refusal in (FORBIDDEN, UNKNOWN):
        with pytest.raises(type(refusal)):
            followed(Scripted([refusal, RUNNING.raw]))
        with pytest.raises(type(refusal)):
            followed(Scripted([RUNNING.raw, refusal]))


@dataclass
class Starting(Scripted):
    """An API server that forbids so many times to open a log again."""

    forbidden: int = 0
    refusal: TFTrainingError = FORBIDDEN

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        if "sinceTime" in query and self.forbidden:
            self.forbidden -= 1
            raise self.refusal
        with super().lines(path, query) as found:
            yield found


@pytest.mark.parametrize("refusal", [FORBIDDEN, UNKNOWN], ids=["forbidden", "unknown"])
@pytest.mark.parametrize("forbidden", [0, 2], ids=["jobs", "jobs and logs"])
def test_logs_are_followed_though_an_api_server_that_starts_refuses_everybody(
    forbidden: int, refusal: TFTrainingError
) -> None:
    job = finished(well=True)
    answers = [RUNNING.raw, refusal, refusal, *[RUNNING.raw] * 4, job.raw]
    pods = [a_pod(job.build(), Role.CHIEF).exited(0)]
    calls = Starting(answers, pods, forbidden=forbidden, refusal=refusal)
    calls.logs["mnist-chief-0", ""] = ["2026-01-02T03:04:05Z first", UnreachableError("broke")]
    rest = ["2026-01-02T03:04:05Z first", "2026-01-02T03:04:06Z second"]
    calls.logs["mnist-chief-0", "2026-01-02T03:04:05Z"] = [*rest]
    said: list[str] = []
    assert run(calls, say=said.append) == ["chief-0: first", "chief-0: second"]
    assert said[:2] == [f"{refusal}; trying again for 5 minutes", "the cluster answers again"]
    assert len(said) == 2 + bool(forbidden)


def test_a_job_that_takes_long_to_read_is_looked_at_less_often() -> None:
    """A thousand workers have 46 MB of pods: who waits must not keep the API server busy."""
    clock, slept = Time(), []

    class Large(Scripted):
        def call(self, method: str, path: str, **given: Any) -> Raw:
            clock.now += 2.0 if path.endswith("/pods") else 0.0
            return super().call(method, path, **given)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.sleep(seconds)

    answers = [RUNNING.raw, UnreachableError("away"), RUNNING.raw, finished(well=True).raw]
    cluster = Cluster(Large(answers))
    follow(cluster, "mnist", ConditionType.FINISHED, lambda _seen: None, clock=clock, sleep=sleep)
    assert slept == [8.0, following.INTERVAL, 8.0]


def test_the_time_of_a_job_that_takes_long_to_read_is_over_when_it_is_over() -> None:
    clock = Time()

    class Large(Scripted):
        def call(self, method: str, path: str, **given: Any) -> Raw:
            clock.now += 2.0 if path.endswith("/pods") else 0.0
            return super().call(method, path, **given)

    with pytest.raises(TimedOutError, match="not finished after 5 s"):
        follow(
            Cluster(Large([RUNNING.raw])),
            "mnist",
            ConditionType.FINISHED,
            lambda _seen: None,
            timeout=5,
            clock=clock,
            sleep=clock.sleep,
        )
    assert clock.now == 7.0, "with one last look"


def test_the_logs_of_a_job_that_takes_long_to_read_look_at_it_less_often() -> None:
    looks: list[float] = []

    class Large(Scripted):
        def call(self, method: str, path: str, **given: Any) -> Raw:
            if path.endswith("/pods"):
                looks.append(time.monotonic())
                time.sleep(0.1)
            return super().call(method, path, **given)

    run(Large([RUNNING.raw, RUNNING.raw, finished(well=True).raw]))
    assert min(later - earlier for earlier, later in itertools.pairwise(looks)) >= 0.5


def test_the_end_of_a_log_that_comes_slowly_is_waited_for_when_the_job_has_finished() -> None:
    """Of a container that has ended, the log has an end, and a loaded node sends it late."""
    job = finished(well=False)

    class Slow(Scripted):
        @contextlib.contextmanager
        def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
            assert path
            assert query

            def read() -> Iterator[str]:
                yield "2026-01-02T03:04:05Z first"
                time.sleep(3 * log_reader._LAST_WORDS)
                yield "2026-01-02T03:04:06Z the cause"

            yield read()

    calls = Slow([job.raw], [a_pod(job.build(), Role.CHIEF).exited(1)])
    assert run(calls) == ["chief-0: first", "chief-0: the cause"]


@dataclass
class Deleted(Scripted):
    """What a watch of the jobs tells of one that is gone."""

    told: list[Raw] = field(default_factory=list)
    watched: list[Mapping[str, str]] = field(default_factory=list)

    @contextlib.contextmanager
    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Iterator[str]]:
        assert path.endswith("/namespaces/default/tftrainingjobs")
        self.watched.append(query)
        yield map(json.dumps, self.told)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created again"])
@pytest.mark.parametrize("well", [True, False])
def test_the_end_of_a_job_that_is_deleted_at_once_counts(*, well: bool, again: bool) -> None:
    """With ttlSecondsAfterFinished: 0 it is gone before the next look."""
    ended, other = finished(well=well).raw, a_job().named("mnist", uid="uid-2").raw
    events = [("MODIFIED", ended), ("DELETED", other), ("DELETED", ended), ("ADDED", other)]
    told = [{"type": kind, "object": job} for kind, job in events]
    calls = Deleted([RUNNING.raw, other if again else NotFoundError("gone")], told=told)
    assert followed(calls) == (well, 2)
    (query,) = calls.watched
    assert (query["resourceVersion"], query["fieldSelector"]) == ("5", "metadata.name=mnist")


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([], id="the API server says nothing"),
        pytest.param([{"type": "DELETED", "object": RUNNING.raw}], id="it had not ended"),
        pytest.param([{"type": "ERROR", "object": {"code": 410}}], id="it has forgotten it"),
    ],
)
def test_a_job_that_is_deleted_before_its_end_is_not_found(told: list[Raw]) -> None:
    with pytest.raises(NotFoundError, match=r"^job mnist was deleted$"):
        followed(Deleted([RUNNING.raw, NotFoundError("gone")], told=told))
