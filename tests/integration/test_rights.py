"""The operator with the chart's rights and no others, read from the API server's audit log.

A life of jobs needs every right that the chart grants; one that no request needs fails the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.apiserver import PROGRAMS, ApiServer, KubectlError, running
from tests.conftest import KUBERNETES, ROOT, program_or_skip
from tests.integration.accounts import kubeconfig_of
from tests.integration.gangs import (
    COSCHEDULING,
    IN_TREE,
    IN_TREE_FLAGS,
    VOLCANO,
    groups,
    needs_in_tree,
    priority,
    serve_groups,
    suspend,
)
from tests.integration.jobs import Namespace, manifest
from tests.integration.process import Operator
from tests.integration.rights_page import (
    ACCOUNT,
    NAMESPACE,
    PAGE,
    USER,
    install_rights,
    page,
    rendered,
)
from tests.kueue import Kueue, installed
from tools.ports import free_port
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# One job after the other, on an API server of its own.
pytestmark = pytest.mark.timeout(240)

POLICY = "mnist-isolation"
BUDGET = "mnist-budget"
ALL = ("mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1")

CHECKED_BY_ADMISSION = {("tftraining.dev", "tftrainingjobs/finalizers", "update")}
"""Rights without a request of their own: OwnerReferencesPermissionEnforcement asks for them when
a pod is created, and this server has that plugin."""

DISABLED = {"scheduling.x-k8s.io", "scheduling.volcano.sh", "kueue.x-k8s.io"}
"""API groups of schedulers and queues that the chart's values do not enable: the operator looks for
them."""

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Audited:
    """An API server that the chart's roles are installed in, and its audit log."""

    server: ApiServer
    log: Path
    roles: list[_Object]
    kubeconfig: Path
    """Of the operator's ServiceAccount."""

    def granted(self) -> set[Right]:
        """Return what the roles grant."""
        return _granted(self.roles)

    def requests(self, user: str = USER) -> list[_Object]:
        """Return the operator's requests to resources, or another user's, in their order."""
        lines = self.log.read_text().splitlines()
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [
            event for event in events if event["user"]["username"] == user and "objectRef" in event
        ]

    def used(self, user: str = USER) -> set[Right]:
        """Return the rights that were needed for a request, and there."""
        found = self.requests(user)
        return {_right(each) for each in found if each["responseStatus"]["code"] != 403}

    @contextlib.contextmanager
    def enabled(self, helm: Path, scheduler: str) -> Iterator[set[Right]]:
        """Grant what the chart does with a scheduler enabled; yield what it grants beside."""
        roles = install_rights(self.server, helm, f"--set=scheduling.{scheduler}=true")
        try:
            yield _granted(roles) - self.granted()
        finally:
            self.server.apply(*self.roles)

    def refused(self, user: str = USER) -> list[Right]:
        """Return what was refused for want of a right."""
        found = self.requests(user)
        return [_right(each) for each in found if each["responseStatus"]["code"] == 403]


def _granted(roles: list[_Object]) -> set[Right]:
    return {
        (group, resource, verb)
        for role in roles
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _right(event: _Object) -> Right:
    reference = event["objectRef"]
    parts = (reference["resource"], reference.get("subresource"))
    return reference.get("apiGroup", ""), "/".join(filter(None, parts)), event["verb"]


@pytest.fixture(scope="module")
def audited(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audit")
    policy = folder / "policy.yaml"
    rules = {"omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **rules}))
    programs = {name: program_or_skip(name) for name in PROGRAMS}
    flags = (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder}/log",
        "--audit-log-mode=blocking-strict",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        *IN_TREE_FLAGS,
    )
    with running(programs, *flags) as server:
        server.serve_crd(ROOT / "crds")
        roles = install_rights(server, helm)
        account = kubeconfig_of(server, NAMESPACE, ACCOUNT, folder / "kubeconfig")
        yield Audited(server, folder / "log", roles, account)


@pytest.fixture
def operator(audited: Audited, tmp_path: Path) -> Iterator[Operator]:
    """The operator as its ServiceAccount, with a lease, not started yet."""
    settings = {
        "TFTRAINING_LEASE_NAMESPACE": NAMESPACE,
        "TFTRAINING_LEASE_SECONDS": "5",
        "TFTRAINING_GROUPS_SECONDS": "1",
        "TFTRAINING_RESYNC_SECONDS": "5",
        "TFTRAINING_POD_NAMESPACE": NAMESPACE,
        "TFTRAINING_POD_LABELS": "app.kubernetes.io/name=tftraining-operator",
    }
    found = Operator(audited.kubeconfig, tmp_path / "log", settings)
    yield found
    found.stop()


def _space(server: ApiServer, name: str) -> Namespace:
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return Namespace(server, name)


def _policy(space: Namespace) -> _Object:
    path = f"/apis/networking.k8s.io/v1/namespaces/{space.name}/networkpolicies/{POLICY}"
    return space.server.request("GET", path).body


def _budget(space: Namespace) -> _Object:
    path = f"/apis/policy/v1/namespaces/{space.name}/poddisruptionbudgets/{BUDGET}"
    return space.server.request("GET", path).body


def _uids(space: Namespace) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in space.pods().items()}


@pytest.mark.skipif(KUBERNETES != "", reason="the guide has the list of another Kubernetes")
def test_the_guide_prints_what_kubectl_lists_of_the_operators_rights(audited: Audited) -> None:
    assert PAGE.read_text() == page(audited.server), "run `make manifests`"


@needs_in_tree
def test_the_lives_of_jobs_need_every_right_of_the_chart_and_no_other(
    audited: Audited, operator: Operator
) -> None:
    space = _space(audited.server, "lives")
    operator.start()
    gang = {"gang": "None"}
    space.apply(
        manifest(
            runPolicy={"ttlSecondsAfterFinished": 0},
            scheduling=gang,
            disruption={"budget": "Essential"},
        )
    )
    space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")
    pods = _uids(space)

    it_repairs_the_network_policy(space)
    it_opens_and_isolates(space)
    it_repairs_the_budget_and_takes_it_back(space)
    it_replaces_a_service_that_selects_others(audited, space)
    assert _uids(space) == pods, "no pod was touched"
    it_ends_the_servers_of_another_job(audited, space)
    it_reads_what_lost_its_labels(audited, space)
    it_forms_a_gang(audited, space, "InTree", IN_TREE)
    space.kubectl("scale", "tftj/mnist", "--replicas=1")
    eventually(lambda: "mnist-worker-1" not in space.pods(), "a worker is taken away")
    chief = pods["mnist-chief-0"]
    eventually(lambda: _uids(space).get("mnist-chief-0", chief) != chief, "another chief")
    space.end("mnist-chief-0", 0)
    eventually(lambda: not space.job().get("metadata", {}).get("name"), "the job is deleted")
    operator.stop()

    assert {right[0] for right in audited.refused()} <= DISABLED, "nothing else is asked in vain"
    unused = audited.granted() - audited.used() - CHECKED_BY_ADMISSION
    assert unused == set(), "take these out of the chart's rules"


def it_ends_the_servers_of_another_job(audited: Audited, space: Namespace) -> None:
    """End a chief: the job's servers are deleted by one call."""
    space.apply(manifest("short", scheduling={"gang": "None"}))
    eventually(lambda: "short-chief-0" in space.pods(), "the pods of another job")
    space.end("short-chief-0", 0)
    deletes = ("", "pods", "deletecollection")
    eventually(lambda: deletes in audited.used(), "its servers are deleted")


def it_reads_what_lost_its_labels(audited: Audited, space: Namespace) -> None:
    """Take the labels of one object of each kind: only reading it tells whose it is."""
    children = ("service/mnist", f"networkpolicy/{POLICY}", f"poddisruptionbudget/{BUDGET}")
    for each in (*children, "pod/mnist-worker-0"):
        _unlabel(space, each)
    kinds = {("", "services"), ("", "pods"), ("networking.k8s.io", "networkpolicies")}
    kinds |= {("policy", "poddisruptionbudgets")}
    wanted = {(*kind, "get") for kind in kinds}
    eventually(lambda: wanted <= audited.used(), "objects without labels are read", 45)


def it_forms_a_gang(audited: Audited, space: Namespace, gang: str, resource: str) -> None:
    """Form one, take the labels of its group, and suspend the job."""
    plural, _, group = resource.split(".", 2)
    space.apply(manifest("gang", scheduling={"gang": gang}))
    eventually(lambda: "gang-chief-0" in space.pods(), "the pods of the gang")
    (name,) = groups(space, resource)
    _unlabel(space, f"{resource}/{name}")
    eventually(lambda: (group, plural, "get") in audited.used(), "the group is read", 45)
    suspend(space, "gang")
    eventually(lambda: (group, plural, "delete") in audited.used(), "the group is deleted")


def _unlabel(space: Namespace, what: str) -> None:
    space.kubectl("label", what, "tftraining.dev/job-", "tftraining.dev/job-uid-")


def it_repairs_the_network_policy(space: Namespace) -> None:
    """Edit and delete it: it is as before within the time of a watch."""
    first = _policy(space)
    everybody = json.dumps({"spec": {"ingress": [{}]}})
    space.kubectl("patch", "networkpolicy", POLICY, "--type=merge", "-p", everybody)
    eventually(lambda: _policy(space)["spec"] == first["spec"], "the edit is undone")
    assert _policy(space)["metadata"]["uid"] == first["metadata"]["uid"]
    space.kubectl("delete", "networkpolicy", POLICY)
    eventually(lambda: _policy(space).get("spec") == first["spec"], "it is made again")


def it_repairs_the_budget_and_takes_it_back(space: Namespace) -> None:
    """Edit it and delete it, and change spec.disruption while the job runs."""
    first = _budget(space)
    nobody = json.dumps({"spec": {"minAvailable": 0}})
    space.kubectl("patch", "poddisruptionbudget", BUDGET, "--type=merge", "-p", nobody)
    eventually(lambda: _budget(space)["spec"] == first["spec"], "the edit is undone")
    assert _budget(space)["metadata"]["uid"] == first["metadata"]["uid"]
    space.kubectl("delete", "poddisruptionbudget", BUDGET)
    eventually(lambda: _budget(space).get("spec") == first["spec"], "it is made again")
    for budget, there in (("None", False), ("Essential", True)):
        change = json.dumps({"spec": {"disruption": {"budget": budget}}})
        space.kubectl("patch", "tftj", "mnist", "--type=merge", "-p", change)
        eventually(lambda: ("spec" in _budget(space)) is there, f"{budget}", 10)  # noqa: B023


def it_replaces_a_service_that_selects_others(audited: Audited, space: Namespace) -> None:
    """Change the selector: the service is deleted and made again."""
    others = json.dumps({"spec": {"selector": {"app": "other"}}})
    space.kubectl("patch", "service", "mnist", "--type=merge", "-p", others)
    eventually(lambda: ("", "services", "delete") in audited.used(), "the service is deleted")
    eventually(lambda: space.services() == ["mnist"], "it is made again")


def it_opens_and_isolates(space: Namespace) -> None:
    """Change spec.network while the job runs."""
    for policy, there in (("Open", False), ("Isolated", True)):
        change = json.dumps({"spec": {"network": {"policy": policy}}})
        space.kubectl("patch", "tftj", "mnist", "--type=merge", "-p", change)
        eventually(lambda: ("spec" in _policy(space)) is there, f"{policy}", 10)  # noqa: B023


@pytest.mark.parametrize(("gang", "resource"), [("PodGroup", COSCHEDULING), ("Volcano", VOLCANO)])
def test_a_gang_needs_every_right_for_its_scheduler(
    audited: Audited, operator: Operator, helm: Path, gang: str, resource: str
) -> None:
    serve_groups(audited.server, resource)
    space = _space(audited.server, f"gang-of-{gang.lower()}")
    with audited.enabled(helm, gang[0].lower() + gang[1:]) as rights:
        operator.start()
        it_forms_a_gang(audited, space, gang, resource)
        assert _unneeded(audited, rights) == set(), "take these out of the chart's rules"
        operator.stop()


@pytest.fixture(scope="module")
def kueue(audited: Audited) -> Iterator[Kueue]:
    found = installed(audited.server, program_or_skip("kueue"))
    found.start()
    yield found
    found.stop()


def test_jobs_in_queues_need_every_right_for_kueue(
    audited: Audited, operator: Operator, helm: Path, kueue: Kueue
) -> None:
    space = _space(audited.server, "queues")
    kueue.queue("queues", space.name)
    kueue.priority("urgent", 100)
    audited.server.apply(priority("high", 10))

    with audited.enabled(helm, "kueue") as rights:
        operator.start()
        first_job = _queued("first")
        first_job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
        space.apply(first_job)
        space.wait_for("Admitted", name="first", seconds=60)
        space.apply(_queued("second", priorityClassName="test-high"))
        space.apply(_queued("third"))
        for job in ("second", "third"):
            space.wait_for("Admitted", "False", name=job)
        space.kubectl("scale", "tftj/third", "--replicas=2")
        first = kueue.workload(space.name, "first")["metadata"]["name"]
        _unlabel(space, f"workloads.v1beta2.kueue.x-k8s.io/{first}")
        kueue.set_active(space.name, first, active=False)
        suspend(space, "third")
        assert _unneeded(audited, rights) == set(), "take these out of the chart's rules"
        operator.stop()


def _queued(name: str, **pods: str) -> _Object:
    """A job of three pods with 2 CPUs each: the queue has room for one."""
    container = {"name": "tensorflow", "image": "any", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"containers": [container], **pods}}
    found = manifest(name, template=template, worker={"replicas": 1})
    found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queues"}
    return found


def _unneeded(audited: Audited, rights: set[Right]) -> set[Right]:
    """Wait until every one of the rights was needed; return which were not."""
    assert rights, "the chart grants something"
    with contextlib.suppress(AssertionError):
        eventually(lambda: rights <= audited.used(), "every right is needed", 45)
    return rights - audited.used()


def test_without_the_rights_of_newer_charts_jobs_train_and_say_so(
    audited: Audited, operator: Operator
) -> None:
    (role,) = (each for each in audited.roles if each["kind"] == "ClusterRole")
    newer = (["networkpolicies"], ["poddisruptionbudgets"], ["leases"])
    rules = [rule for rule in role["rules"] if rule["resources"] not in newer]
    assert {each["resources"][0] for each in role["rules"] if each not in rules} == {
        name for (name,) in newer
    }
    audited.server.apply({**role, "rules": rules})
    try:
        space = _space(audited.server, "unisolated")
        operator.start()
        space.apply(manifest(disruption={"budget": "Essential"}))
        space.apply(manifest("asks", network={"policy": "Isolated"}))
        space.wait_for_pods(*ALL)
        space.run_all()
        space.wait_for("Running")
        for kind in ("Isolated", "Protected"):
            found = space.condition(kind)
            assert (found["status"], found["reason"]) == ("False", "Refused")
            assert "upgrade its chart" in found["message"]
        for kind in ("NetworkPolicy", "PodDisruptionBudget"):
            assert operator.logged().count(f"jobs get no {kind}") == 1
        assert operator.logged().count("cannot claim namespace unisolated") == 1
        assert "Traceback" not in operator.logged()
        assert space.status("asks")["state"] == "Refused"
        pods = _uids(space)
    finally:
        audited.server.apply(role)
    # It notices by itself, without a restart.
    began = time.monotonic()
    space.wait_for("Isolated")
    space.wait_for("Protected")
    assert time.monotonic() - began < 20
    eventually(lambda: "asks-chief-0" in space.pods(), "the job that asks for it has pods")
    assert pods.items() <= _uids(space).items()


def test_the_web_page_needs_every_right_that_it_has(
    audited: Audited, operator: Operator, helm: Path, tmp_path: Path
) -> None:
    shown = rendered(helm, "--set=web.enabled=true", "--show-only=templates/web.yaml")
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    audited.server.apply(*(each for each in shown if each["kind"] in kinds))
    account = f"{ACCOUNT}-web"
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    kubeconfig = kubeconfig_of(audited.server, NAMESPACE, account, tmp_path / "kubeconfig")
    space = _space(audited.server, "looked-at")
    operator.start()
    space.apply(manifest(checkpoint={"persistentVolumeClaim": {"claimName": "data"}}))
    space.wait_for_pods(*ALL)

    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tftraining.web"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "operator"),
            "KUBECONFIG": str(kubeconfig),
            "TFTRAINING_WEB_PORT": str(port),
        },
    )
    try:
        url = f"http://127.0.0.1:{port}/jobs/looked-at/mnist"
        eventually(lambda: "mnist-worker-1" in _text(url), "the page shows the pods")
        assert "cannot be read" not in _text(url)
    finally:
        process.terminate()
        assert process.wait(20) == 0
    assert audited.refused(user) == []
    assert audited.used(user) == _granted(shown)


def _text(url: str) -> str:
    with contextlib.suppress(URLError), urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
        return str(answer.read().decode())
    return ""


def test_the_sample_policies_forbid_what_they_say_and_let_the_operator_work(
    audited: Audited, operator: Operator
) -> None:
    server = audited.server
    space, home = _space(server, "ruled"), Namespace(server, NAMESPACE)
    account = {"serviceAccountName": ACCOUNT}
    thief = manifest(worker={"template": {"spec": {"containers": [], **account}}})
    for older in (space, home):
        older.apply({**thief, "metadata": {"name": "older"}})
    for path in sorted((ROOT / "examples/policies").glob("*.yaml")):
        server.kubectl("apply", "-f", str(path))
    server.kubectl("label", "namespace", "ruled", "tftraining.example.com/isolated=required")
    isolated = {"network": {"policy": "Isolated"}}
    # A policy is in force some seconds after it is made.
    eventually(
        lambda: "set spec.network.policy to Isolated" in _refusal(space, manifest()),
        "a job that is not isolated is refused",
    )
    eventually(
        lambda: "labels that begin with tftraining.dev/" in _refusal(space, _pod("dials")),
        "a pod with the labels of a job is refused",
    )
    eventually(
        lambda: f"the ServiceAccount {ACCOUNT} is the operator's" in _refusal(home, thief),
        "a job with the operator's ServiceAccount is refused",
    )
    assert _refusal(home, manifest()) == ""
    assert _refusal(space, manifest(**isolated, template=thief["spec"]["template"])) == ""
    for older in (space, home):
        _delete_with_its_pods(older, "older")

    operator.start()
    space.apply(manifest(**isolated))
    space.wait_for_pods(*ALL)
    space.run_all()
    space.wait_for("Running")
    for label in ("tftraining.dev/job-uid-", "tftraining.dev/role=chief"):
        with pytest.raises(KubectlError, match="do not set or remove them"):
            space.kubectl("label", "--overwrite", "pod/mnist-worker-0", label)
    space.kubectl("label", "pod/mnist-worker-0", "team=vision")


def _delete_with_its_pods(space: Namespace, job: str) -> None:
    """Delete a job in the foreground, as Argo CD does, with the garbage collector's part in it."""
    space.kubectl("delete", "tftj", job, "--cascade=foreground", "--wait=false")
    assert space.job(job)["metadata"]["finalizers"] == ["foregroundDeletion"]
    # Once the pods are gone.
    ended = json.dumps({"metadata": {"finalizers": None}})
    space.kubectl("patch", "tftj", job, "--type=merge", f"--patch={ended}")
    assert space.job(job)["reason"] == "NotFound"


def _pod(name: str) -> _Object:
    containers = [{"name": "x", "image": "x"}]
    metadata = {"name": name, "labels": {"tftraining.dev/job-uid": "any"}}
    spec = {"containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _refusal(space: Namespace, body: _Object) -> str:
    """Try an object as a user; return why the server refuses it, "" if it does not."""
    try:
        space.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
    except KubectlError as error:
        return str(error)
    return ""
