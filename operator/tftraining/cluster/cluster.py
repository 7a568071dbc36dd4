"""The calls that the commands make: jobs, their pods and events, logs, and whatever is submitted.

Built on a connection with two methods, so that tests can give it another one.
"""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from tftraining_operator.api.keys import API_VERSION, KIND, LABEL_JOB_UID, PLURAL, Role
from tftraining_operator.core import raw_pod

from tftraining.errors import ForbiddenError, InputError, NotFoundError, TFTrainingError

_Object = dict[str, Any]

FIELD_MANAGER = "tftj"
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_NO_KIND = "the cluster has no TFTrainingJobs: install the operator's chart (tftj doctor)"
_TASK = re.compile(rf"-({'|'.join(Role)})-(\d+)")
"""What a pod's name has after that of its job; volumes of its own begin with its name."""


def _whole(found: _Object) -> _Object:
    return found


class Execution(Protocol):
    """A program that runs in a container."""

    def write(self, data: bytes) -> None:
        """Write to its standard input. Raises UnreachableError."""

    def read(self) -> bytes:
        """Return the next part of its standard output, b"" at the end. Raises TFTrainingError."""


class Calls(Protocol):
    """What a connection can do."""

    namespace: str

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: _Object | None = None,
        content_type: str = "application/json",
    ) -> _Object:
        """Make one call and return the object of its answer."""

    def lines(self, path: str, query: Mapping[str, str]) -> AbstractContextManager[Iterator[str]]:
        """Open a stream of lines."""

    def execute(
        self, pod: str, container: str, command: Sequence[str]
    ) -> AbstractContextManager[Execution]:
        """Run a program in a container until the block ends."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One namespace of a cluster; all calls raise TFTrainingError."""

    calls: Calls

    @property
    def namespace(self) -> str:
        """The namespace of all calls."""
        return self.calls.namespace

    def jobs(self, *, selector: str = "", everywhere: bool = False) -> list[_Object]:
        """Return the jobs of the namespace, or of all."""
        query = {"labelSelector": selector} if selector else {}
        path = f"/apis/{API_VERSION}/{PLURAL}" if everywhere else self._jobs()
        try:
            found = self.calls.call("GET", path, query=query)
        except NotFoundError as error:
            raise NotFoundError(_NO_KIND) from error
        items: list[_Object] = found["items"]
        return sorted(items, key=lambda job: (_namespace(job), _name(job)))

    def job(self, name: str) -> _Object:
        """Return one job. Raises NotFoundError, which suggests the nearest name."""
        try:
            return self.calls.call("GET", self._job(name))
        except NotFoundError as error:
            raise NotFoundError(self._no_job(name)) from error

    def find_job(self, name: str) -> _Object | None:
        """Return one job, None if there is none."""
        try:
            return self.calls.call("GET", self._job(name))
        except NotFoundError:
            return None

    def pods(self, job: _Object, keep: Callable[[_Object], _Object] = _whole) -> list[_Object]:
        """Return a job's pods, or what is to be kept of them."""
        query = {"labelSelector": f"{LABEL_JOB_UID}={job['metadata']['uid']}"}
        found = pages(self.calls, self._core("pods"), query)
        return [keep(each) for page in found for each in page["items"]]

    def claims(self, pods: Sequence[_Object]) -> list[_Object]:
        """Return the PersistentVolumeClaims of pods without a node, as far as they may be read."""
        waiting = [pod for pod in pods if not (pod.get("spec") or {}).get("nodeName")]
        found = []
        for name in sorted({name for pod in waiting for name in raw_pod.claims(pod)}):
            with contextlib.suppress(TFTrainingError):
                found.append(self.calls.call("GET", self._core("persistentvolumeclaims", name)))
        return found

    def events(self, job: _Object, keep: Callable[[_Object], _Object] = _whole) -> list[_Object]:
        """Return the events of a job and of the objects whose names begin with its name.

        They are of the older API, whose form every cluster serves; newest last. For who may not
        read them there are none: they only add to what job and pods say.
        """
        name, found = _name(job), pages(self.calls, self._core("events"))
        own: list[_Object] = []
        with contextlib.suppress(ForbiddenError):
            for page in found:
                own.extend(keep(each) for each in page["items"] if _is_about(each, name))
        return sorted(own, key=event_time)

    def patch_job(self, name: str, patch: _Object) -> _Object:
        """Merge a patch into a job."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        try:
            return self.calls.call(
                "PATCH", self._job(name), query=query, body=patch, content_type=_MERGE
            )
        except NotFoundError as error:
            raise NotFoundError(self._no_job(name)) from error

    def create_job(self, manifest: _Object, *, dry_run: bool = False) -> _Object:
        """Create a job, or ask the API server whether it would. Raises AlreadyExistsError."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        try:
            return self.calls.call("POST", self._jobs(), query=query, body=manifest)
        except NotFoundError as error:
            if self.read(f"/apis/{API_VERSION}") is not None:
                raise  # there is no such namespace
            raise NotFoundError(_NO_KIND) from error

    def delete_job(self, name: str, *, foreground: bool = False, dry_run: bool = False) -> None:
        """Delete a job; in the foreground, it is gone only after its pods.

        A dry run only asks the API server whether it would.
        """
        options: _Object = {"propagationPolicy": "Foreground" if foreground else "Background"}
        if dry_run:
            # Not in the query, which is not read where there is a body.
            options["dryRun"] = ["All"]
        try:
            self.calls.call("DELETE", self._job(name), body=options)
        except NotFoundError as error:
            raise NotFoundError(self._no_job(name)) from error

    def pod(self, name: str) -> _Object:
        """Return a pod. Raises NotFoundError."""
        return self.calls.call("GET", self._core("pods", name))

    def create_pod(self, manifest: _Object) -> _Object:
        """Create a pod."""
        query = {"fieldManager": FIELD_MANAGER}
        return self.calls.call("POST", self._core("pods"), query=query, body=manifest)

    def execute(
        self, pod: str, container: str, command: Sequence[str]
    ) -> AbstractContextManager[Execution]:
        """Run a program in a container until the block ends."""
        return self.calls.execute(pod, container, command)

    def delete_pod(self, pod: _Object) -> None:
        """Delete a pod if it is still the same one."""
        body = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        self.calls.call("DELETE", self._core("pods", _name(pod)), body=body)

    def apply(self, manifest: _Object, *, dry_run: bool = False) -> _Object:
        """Create or update an object of any kind (server-side apply)."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "force": "true"}
        if dry_run:
            query["dryRun"] = "All"
        path = self._path_of(manifest)
        return self.calls.call("PATCH", path, query=query, body=manifest, content_type=_APPLY)

    def config_map(self, name: str) -> _Object | None:
        """Return a ConfigMap, None if there is none, or none that may be read."""
        try:
            return self.calls.call("GET", self._core("configmaps", name))
        except (NotFoundError, ForbiddenError):
            return None

    def config_maps(self, owner_uid: str) -> list[_Object]:
        """Return the ConfigMaps that an object owns."""
        found = self.calls.call("GET", self._core("configmaps"))["items"]
        return [each for each in found if _is_owned(each, owner_uid)]

    def set_owners(self, config_map: str, owners: list[_Object]) -> None:
        """Replace the owners of a ConfigMap."""
        body = {"metadata": {"ownerReferences": owners or None}}
        query = {"fieldManager": FIELD_MANAGER}
        path = self._core("configmaps", config_map)
        self.calls.call("PATCH", path, query=query, body=body, content_type=_MERGE)

    def log(
        self, pod: str, container: str, query: Mapping[str, str]
    ) -> AbstractContextManager[Iterator[str]]:
        """Open the log of a container; `query` has the options of the API."""
        return self.calls.lines(self._core("pods", pod, "log"), {"container": container, **query})

    def read(self, path: str) -> _Object | None:
        """Return whatever the API serves at a path, None if it serves nothing."""
        try:
            return self.calls.call("GET", path)
        except NotFoundError:
            return None

    def may(self, verb: str, group: str, resource: str) -> bool:
        """Tell whether the user may do something in the namespace."""
        resource, _, subresource = resource.partition("/")
        attributes = {
            "namespace": self.namespace,
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self.calls.call("POST", path, body=review)
        return bool(answer["status"]["allowed"])

    def _no_job(self, name: str) -> str:
        text = f"no job {name} in namespace {self.namespace}"
        try:
            names = [_name(job) for job in self.jobs()]
        except ForbiddenError:
            return text
        for job in names:
            if name.startswith(job) and (task := _TASK.fullmatch(name, len(job))) is not None:
                its_log = f"tftj logs {job} --role {task[1]} --index {task[2]}"
                return f"{text}; that is a pod of job {job}: {its_log} shows its log"
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            return f"{text}; did you mean {near[0]}?"
        if names:
            return f"{text}; tftj list shows those that exist"
        return f"{text}, which has no jobs; -n chooses another one, tftj list -A shows all"

    def _path_of(self, manifest: _Object) -> str:
        """Return the path of an object of any kind. Raises InputError."""
        version, kind = str(manifest.get("apiVersion")), manifest.get("kind")
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            served = self.calls.call("GET", base)["resources"]
        except NotFoundError as error:
            raise InputError(f"{kind}: the cluster does not serve {version}") from error
        found = next((r for r in served if r["kind"] == kind and "/" not in r["name"]), None)
        if found is None:
            raise InputError(f"the cluster has no kind {kind} in {version}")
        given = manifest["metadata"].get("namespace") or self.namespace
        where = f"/namespaces/{quote(given)}" if found["namespaced"] else ""
        return f"{base}{where}/{found['name']}/{quote(_name(manifest))}"

    def _jobs(self) -> str:
        return f"/apis/{API_VERSION}/namespaces/{quote(self.namespace)}/{PLURAL}"

    def _job(self, name: str) -> str:
        if name in ("", ".", ".."):
            # Its path would be that of all jobs, also for a DELETE.
            raise InputError(f"{name!r} cannot be the name of a job")
        return f"{self._jobs()}/{quote(name, safe='')}"

    def _core(self, *parts: str) -> str:
        tail = "/".join(quote(part, safe="") for part in parts)
        return f"/api/v1/namespaces/{quote(self.namespace)}/{tail}"


def pages(
    calls: Calls, path: str, query: Mapping[str, str] | None = None, *, size: int = 500
) -> Iterator[_Object]:
    """Yield a list in parts: thousands of objects at once need hundreds of megabytes."""
    rest = {"limit": str(size)}
    while True:
        page = calls.call("GET", path, query={**(query or {}), **rest})
        yield page
        rest["continue"] = (page.get("metadata") or {}).get("continue") or ""
        if not rest["continue"]:
            return


def event_time(event: _Object) -> str:
    """Return when an event last happened, in RFC 3339; "" if it does not say."""
    series = event.get("series") or {}
    found: str | None = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return found or ""


def _is_about(event: _Object, job: str) -> bool:
    about = event.get("involvedObject") or {}
    named = str(about.get("name") or "")
    if about.get("kind") == KIND:
        return named == job
    if not named.startswith(job):
        return False
    # A job may be named like the pod of another one: of train, train-worker-8-chief-0 is none.
    matches = _TASK.fullmatch if about.get("kind") == "Pod" else _TASK.match
    return named == job or matches(named, len(job)) is not None


def _is_owned(found: _Object, uid: str) -> bool:
    owners = found["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == uid for owner in owners)


def _name(found: _Object) -> str:
    return str((found.get("metadata") or {}).get("name") or "")


def _namespace(found: _Object) -> str:
    return str((found.get("metadata") or {}).get("namespace") or "")
