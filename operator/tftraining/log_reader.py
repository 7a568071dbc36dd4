"""Reads the logs of a job's containers, at once or while they are written."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tftraining_operator.api.keys import CONTAINER, ConditionType, Role

from tftraining.cluster.cluster import Cluster
from tftraining.errors import (
    DeniedError,
    InputError,
    NotFoundError,
    TFTrainingError,
    UnreachableError,
)
from tftraining.following import PATIENCE, Patience, look, pause_after, reached
from tftraining.job import TrainingJob
from tftraining.view.log_lines import (
    Line,
    Source,
    merged,
    parse,
    slot_of,
    sort_key,
    sources,
)

_INTERVAL = 1.0
BATCH_SECONDS = 0.25
"""Lines that arrive within this time are put in order: whoever calls Follower.turn waits for it."""
_LAST_WORDS = 5.0
"""Seconds of silence after which the logs of a finished job are complete, unless one of them has an
end, as that of a container that has ended: then PATIENCE."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which logs to read."""

    selection: dict[str, Any] = field(default_factory=dict)
    """Arguments of log_lines.sources."""
    tail: int | None = None
    """Number of lines from the end of each log, None for all."""

    def sources(self, seen: TrainingJob) -> list[Source]:
        """Return the chosen logs of a job."""
        return sources(seen.pods, **self.selection)

    def unknown_pod(self, seen: TrainingJob) -> str | None:
        """Return that no pod has the chosen role and index; None if one has, or there is no pod."""
        role, index = self.selection.get("role"), self.selection.get("index")
        known = {slot for pod in seen.pods if (slot := slot_of(pod)) is not None}
        if not known or any(role in (None, r) and index in (None, i) for r, i in known):
            return None
        chosen = f"has index {index}" if role is None else f"is {role}"
        chosen += f"-{index}" if role is not None and index is not None else ""
        return f"no pod of {seen.name} {chosen}; it is {seen.why}"

    def unknown_container(self, seen: TrainingJob) -> str | None:
        """Return that no pod has the chosen container; None if one has it, or there is no pod."""
        chosen = self.selection.get("container", CONTAINER)
        known = {
            str(each.get("name"))
            for pod in seen.pods
            for kind in ("initContainers", "containers")
            for each in pod["spec"].get(kind) or []
        }
        if not known or chosen in known:
            return None
        names = ", ".join(sorted(known))
        return f"no pod of {seen.name} has a container {chosen}: choose one of {names}"


def read_once(
    cluster: Cluster,
    job: str,
    choice: Choice,
    say: Callable[[str], None] = lambda _text: None,
) -> list[Line]:
    """Return what the logs of a job have at present. Raises NotFoundError if there are none.

    `say` is called with what is missing.
    """
    seen = look(cluster, job)
    found = choice.sources(seen)
    if not found:
        raise NotFoundError(f"no logs to show: {_reason(seen, choice)}")
    return read(cluster, found, choice, say)


def _reason(seen: TrainingJob, choice: Choice) -> str:
    """Return why a job has none of the chosen logs."""
    unknown = choice.unknown_pod(seen) or choice.unknown_container(seen)
    if unknown is not None:
        return unknown
    if choice.selection.get("previous"):
        return "no container has restarted in place"
    return f"{seen.name} is {seen.why}"


def read(
    cluster: Cluster,
    found: list[Source],
    choice: Choice,
    say: Callable[[str], None] = lambda _text: None,
) -> list[Line]:
    """Return the lines of some logs, merged by time. A log that is gone has none.

    One that cannot be read, as its node does not answer or no longer has that of the run before, is
    left out, and `say` is called with its pod. Raises UnreachableError or NotFoundError if that is
    true of all.
    """
    query = {"timestamps": "true"}
    if choice.tail is not None:
        query["tailLines"] = str(choice.tail)
    previous = bool(choice.selection.get("previous"))
    if previous:
        query["previous"] = "true"
    lines: list[Line] = []
    notes: list[str] = []
    failures: list[TFTrainingError] = []
    for source in found:
        before = len(lines)
        try:
            with cluster.log(source.pod, source.container, query) as stream:
                for line in stream:
                    lines.append(parse(source, line))  # noqa: PERF401 - kept if the stream breaks
        except (InputError, NotFoundError, UnreachableError) as error:
            failures.append(error)
            if previous or isinstance(error, UnreachableError):
                notes.append(_missing(source, error, is_cut=len(lines) > before))
    if failures and not lines and len(failures) == len(found):
        raise _failure(failures)
    for text in notes:
        say(text)
    return merged(lines)


def _failure(errors: list[TFTrainingError]) -> TFTrainingError:
    """Return the error about logs of which none can be read."""
    away = [error for error in errors if isinstance(error, UnreachableError)]
    return away[-1] if away else NotFoundError(f"no logs to show: {errors[0]}")


class Follower:
    """Follows the logs of a job until it has finished, across restarts and replaced pods.

    The end of a stream is not the end of a log: the API server ends it in the same way when its own
    connection to the node breaks. A log is complete when it was read to its end after its container
    had ended; until then it is opened again, where it stopped.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        choice: Choice,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Take what to follow.

        `say` is called when the cluster is away, when it is back, and with what cannot be read.
        """
        self._cluster, self._job, self._choice, self._say = cluster, job, choice, say
        self._patience = Patience()
        self._away = False
        self._has_pods = False
        """Whether the job has had a pod."""
        self._ended = False
        """Whether the job has finished, or was deleted."""
        self._closed = threading.Event()
        """Set when nobody wants more lines: the readers end with their next one."""
        self._last = 0.0
        """When a line was read last, or could not yet be: what _LAST_WORDS counts from."""
        self._look_at = 0.0
        """When to look at the job again."""
        self._lines: queue.Queue[Line | TFTrainingError] = queue.Queue()
        self._readers: dict[Source, threading.Thread] = {}
        self._first: frozenset[Source] | None = None
        """The logs that there were at the first look, of which `tail` asks for the end."""
        self._listed: list[Source] = []
        """The logs that there were at the last look."""
        self._newest: dict[tuple[str, str], str] = {}
        """Time of the newest line of each container of each pod: what is older was shown."""
        self._untimed: dict[Source, str] = {}
        """Text of the last line without a time: the node says something of the log itself."""
        self._complete: set[Source] = set()
        self._was_read: set[Source] = set()
        self._unread: dict[Source, TFTrainingError] = {}
        """The logs that could not be opened the last time, and why."""
        self._told: set[Source] = set()
        """Those of them that `say` was called with."""

    def __iter__(self) -> Iterator[Line]:
        """Yield each line as soon as there is one. Raises TFTrainingError.

        Whoever leaves the loop before its end stops the reading.
        """
        try:
            while True:
                time.sleep(BATCH_SECONDS)
                lines = self.turn()
                if lines is None:
                    return
                yield from lines
        finally:
            self.close()

    def close(self) -> None:
        """Read no more: each reader ends with the next line, or when its stream breaks."""
        self._closed.set()

    def turn(self) -> list[Line] | None:
        """Return the lines since the last turn, None when the job has finished and all are read.

        Call it every BATCH_SECONDS; it waits for no line. Raises TFTrainingError.
        """
        if (began := time.monotonic()) >= self._look_at:
            self._look()
            now = time.monotonic()
            self._look_at = now + pause_after(_INTERVAL, 0.0 if self._away else now - began)
        if lines := merged(self._arrived()):
            self._last = time.monotonic()
            return lines
        self._tell_new_failures()
        if not self._is_over():
            return []
        self._tell_unread()
        return None

    def _look(self) -> None:
        """Start readers of what is new, and notice whether nothing more is to come."""
        try:
            seen = look(self._cluster, self._job)
        except (DeniedError, UnreachableError) as error:
            if self._patience.is_over:
                raise
            if not self._away:
                self._say(f"{error}; trying again for {PATIENCE / 60:.0f} minutes")
            self._away = True
            return
        except NotFoundError:
            if not self._readers:
                raise
            self._answered()
            self._listed = []
            self._end()
            return
        self._answered()
        self._listed = self._choice.sources(seen)
        if self._first is None:
            self._first = frozenset(self._listed)
        self._tell_unknown_container(seen)
        for source in self._listed:
            self._follow(source)
        if reached(seen.job, ConditionType.FINISHED):
            self._end()

    def _tell_unknown_container(self, seen: TrainingJob) -> None:
        """Say, when the job has its first pods, that they have not the container."""
        if self._has_pods or not seen.pods:
            return
        self._has_pods = True
        if (unknown := self._choice.unknown_container(seen)) is not None:
            self._say(unknown)

    def _answered(self) -> None:
        self._patience.renew()
        if self._away:
            self._say("the cluster answers again")
            self._last = time.monotonic()
        self._away = False

    def _follow(self, source: Source) -> None:
        reader = self._readers.get(source)
        if source in self._complete or (reader is not None and reader.is_alive()):
            return
        if reader is None:  # one that is opened again and again must not keep us from the end
            self._last = time.monotonic()
        reader = threading.Thread(target=self._read, args=(source,), daemon=True)
        self._readers[source] = reader
        reader.start()

    def _end(self) -> None:
        if not self._ended:
            self._last = time.monotonic()
        self._ended = True

    def _is_over(self) -> bool:
        if not self._ended or self._away:
            return False
        if self._all_read():
            return self._lines.empty()
        # Pods that outlive the job (cleanPodPolicy: None) may never end.
        limit = PATIENCE if self._reads_to_the_end() else _LAST_WORDS
        return time.monotonic() - self._last > limit

    def _reads_to_the_end(self) -> bool:
        """Tell whether the log of a container that has ended is being read: it has an end."""
        return any(
            reader.is_alive() and source not in self._unread
            for source in self._listed
            if not source.running and (reader := self._readers.get(source)) is not None
        )

    def _all_read(self) -> bool:
        reading = any(reader.is_alive() for reader in self._readers.values())
        return not reading and self._complete.issuperset(self._listed)

    def _arrived(self) -> Iterator[Line]:
        for _ in range(self._lines.qsize()):
            found = self._lines.get_nowait()
            if isinstance(found, TFTrainingError):
                raise found
            yield found

    def _read(self, source: Source) -> None:
        opened = False
        try:
            with self._cluster.log(source.pod, source.container, self._query(source)) as stream:
                opened = True
                self._was_read.add(source)
                self._unread.pop(source, None)
                self._put(source, stream)
        except (InputError, NotFoundError):
            pass  # the pod is gone, or its node cannot send the log now
        except TFTrainingError as error:
            if self._may_end(error):
                if not opened:
                    self._unread[source] = error
                return  # the next look opens it again, where it stopped
            self._lines.put(error)
        if not source.running:
            self._complete.add(source)

    def _may_end(self, error: TFTrainingError) -> bool:
        """Tell whether an error may be over soon: an API server that starts refuses everybody."""
        was_allowed = bool(self._was_read) and isinstance(error, DeniedError)
        return was_allowed or isinstance(error, UnreachableError)

    def _query(self, source: Source) -> dict[str, str]:
        query = {"timestamps": "true", "follow": "true"}
        if before := self._newest.get((source.uid, source.container)):
            query["sinceTime"] = before.partition(".")[0] + "Z"
        elif self._choice.tail is not None and source in (self._first or ()):
            # A log that begins later is new from its first line on.
            query["tailLines"] = str(self._choice.tail)
        return query

    def _put(self, source: Source, stream: Iterator[str]) -> None:
        key = (source.uid, source.container)
        before = self._newest.get(key, "")
        for text in stream:
            if self._closed.is_set():
                return
            line = parse(source, text)
            at = sort_key(line.time)
            if at and at <= before:
                continue
            if not at and self._untimed.get(source) == line.text:
                continue
            if at:
                self._newest[key] = max(at, self._newest.get(key, ""))
            else:
                self._untimed[source] = line.text
            self._lines.put(line)

    def _tell_new_failures(self) -> None:
        for source, error in list(self._unread.items()):
            if source not in self._told:
                self._told.add(source)
                self._say(f"the log of {_where(source)} cannot be read: {error}; trying again")

    def _tell_unread(self) -> None:
        """Name the logs that could not be read to their ends. Raises UnreachableError if none."""
        for source, error in list(self._unread.items()):
            if not self._was_read:
                raise error
            is_cut = (source.uid, source.container) in self._newest
            self._say(_missing(source, error, is_cut=is_cut))


def opened(
    cluster: Cluster,
    job: str,
    *,
    follow: bool = False,
    role: str | None = None,
    index: int | None = None,
    previous: bool = False,
    tail: int | None = None,
    container: str = CONTAINER,
    say: Callable[[str], None] = lambda _text: None,
) -> Follower | list[Line]:
    """Return the lines of a job's logs, or with `follow` what follows them.

    Arguments and errors are those of TFTrainingClient.logs.
    """
    if follow and previous:
        raise InputError("logs: what ended before (previous) cannot be followed: omit follow")
    selection = {
        "role": _role(role),
        "index": index,
        "container": container,
        "previous": previous,
    }
    choice = Choice(selection, tail)
    if follow:
        return Follower(cluster, job, choice, say)
    return read_once(cluster, job, choice, say)


def _role(given: str | None) -> Role | None:
    try:
        return Role(given) if given is not None else None
    except ValueError as error:
        raise InputError(f"role: {given!r} must be one of {', '.join(Role)}") from error


def _missing(source: Source, error: TFTrainingError, *, is_cut: bool) -> str:
    return f"the log of {_where(source)} is {'cut off' if is_cut else 'missing'}: {error}"


def _where(source: Source) -> str:
    return f"{source.pod} on node {source.node}" if source.node else source.pod
