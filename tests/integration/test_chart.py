"""The Helm chart: what it renders, and what a real API server makes of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tftraining_operator.api import crd

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.apiserver import ApiServer

    Helm = Callable[..., str]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/tftraining-operator"
RELEASE = "tftraining"
NAMESPACE = "tftraining-system"
FULLNAME = "tftraining-operator"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def run_helm(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Run helm, away from the user's own settings; raises with what it said."""
    home = tmp_path_factory.mktemp("helm")

    def run(*arguments: str, kubeconfig: Path | None = None) -> str:
        environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
        if kubeconfig:
            environment["KUBECONFIG"] = str(kubeconfig)
        done = subprocess.run(
            [helm, *arguments], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def render(run_helm: Helm) -> Callable[..., list[Object]]:
    def objects(*values: str) -> list[Object]:
        sets = [word for value in values for word in ("--set", value)]
        text = run_helm("template", RELEASE, str(CHART), "-n", NAMESPACE, *sets)
        return [each for each in yaml.safe_load_all(text) if each]

    return objects


def only(objects: list[Object], kind: str, name: str = FULLNAME) -> Object:
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def container(objects: list[Object]) -> Object:
    found: Object = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


def environment(objects: list[Object]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(objects)["env"]}


RIGHTS = {
    ("tftraining.dev", "tftrainingjobs"): {"get", "list", "watch", "delete"},
    ("tftraining.dev", "tftrainingjobs/status"): {"patch"},
    ("tftraining.dev", "tftrainingjobs/finalizers"): {"update"},
    ("", "pods"): {"get", "list", "watch", "create", "delete"},
    ("", "services"): {"get", "list", "watch", "create", "delete"},
    ("events.k8s.io", "events"): {"create", "patch"},
}


def rights(role: Object) -> dict[tuple[str, str], set[str]]:
    assert all(set(rule) == {"apiGroups", "resources", "verbs"} for rule in role["rules"])
    return {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_it_passes_a_strict_lint(run_helm: Helm) -> None:
    assert "0 chart(s) failed" in run_helm("lint", "--strict", str(CHART))


def test_the_operator_has_these_rights_and_no_others(
    render: Callable[..., list[Object]],
) -> None:
    objects = render()
    assert rights(only(objects, "ClusterRole")) == RIGHTS
    assert not [o for o in objects if o["kind"] in {"Role", "RoleBinding"}]
    binding = only(objects, "ClusterRoleBinding")
    account = {"kind": "ServiceAccount", "name": FULLNAME, "namespace": NAMESPACE}
    assert binding["roleRef"]["name"] == FULLNAME
    assert binding["subjects"] == [account]


def test_with_watched_namespaces_it_has_them_there_alone(
    render: Callable[..., list[Object]],
) -> None:
    objects = render("watchNamespaces={red,blue}", "rbac.aggregate=false")
    assert not [o for o in objects if o["kind"].startswith("ClusterRole")]
    roles = [o for o in objects if o["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["red", "blue"]
    assert [rights(role) for role in roles] == [RIGHTS, RIGHTS]
    bindings = [o for o in objects if o["kind"] == "RoleBinding"]
    assert [b["metadata"]["namespace"] for b in bindings] == ["red", "blue"]
    assert {b["subjects"][0]["namespace"] for b in bindings} == {NAMESPACE}
    assert environment(objects)["TFTRAINING_NAMESPACES"] == "red,blue"


def test_users_may_read_and_write_jobs_by_the_clusters_own_roles(
    render: Callable[..., list[Object]],
) -> None:
    objects = render()
    viewer = only(objects, "ClusterRole", f"{FULLNAME}-viewer")
    editor = only(objects, "ClusterRole", f"{FULLNAME}-editor")
    assert {v for verbs in rights(viewer).values() for v in verbs} == {"get", "list", "watch"}
    assert ("tftraining.dev", "tftrainingjobs/status") not in rights(editor)
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in editor["metadata"]["labels"]
    everything = {**rights(viewer), **rights(editor)}
    assert {group for group, _ in everything} == {"tftraining.dev"}


def test_the_definition_is_the_generated_one_and_kept_on_uninstall(
    render: Callable[..., list[Object]],
) -> None:
    expected = crd.crd()
    expected["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    assert only(render(), "CustomResourceDefinition", crd.NAME) == expected


def test_the_definition_can_go_with_the_release_or_be_left_out(
    render: Callable[..., list[Object]],
) -> None:
    assert only(render("crds.keep=false"), "CustomResourceDefinition", crd.NAME) == crd.crd()
    assert "CustomResourceDefinition" not in {o["kind"] for o in render("crds.enabled=false")}


def test_the_definitions_text_is_not_touched(run_helm: Helm) -> None:
    text = run_helm("template", RELEASE, str(CHART), "--set", "crds.keep=false")
    assert crd.render() in text


def test_the_operator_runs_once_and_gives_way_before_it_comes_back(
    render: Callable[..., list[Object]],
) -> None:
    spec = only(render(), "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_images_follow_the_version_a_tag_or_a_digest(
    render: Callable[..., list[Object]],
) -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container(render())["image"] == f"tftraining/operator:{version}"
    assert environment(render())["TFTRAINING_TRAINER_IMAGE"] == f"tftraining/trainer:{version}"
    assert container(render("image.tag=x"))["image"] == "tftraining/operator:x"
    digest = f"sha256:{'0' * 64}"
    assert container(render(f"image.digest={digest}"))["image"] == f"tftraining/operator@{digest}"
    assert environment(render("trainerImage=a/b:c"))["TFTRAINING_TRAINER_IMAGE"] == "a/b:c"


def test_probes_ask_the_port_that_is_open(render: Callable[..., list[Object]]) -> None:
    found = container(render())
    assert found["ports"] == [{"name": "health", "containerPort": 8080, "protocol": "TCP"}]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert found[probe]["httpGet"] == {"path": "/healthz", "port": "health"}


@pytest.mark.parametrize(
    "value",
    ["replicas=2", "image.tga=x", "log.level=loud", "watchNamespaces={Red}", "crds.keep=perhaps"],
)
def test_a_wrong_value_is_refused(run_helm: Helm, value: str) -> None:
    with pytest.raises(AssertionError, match="don't meet the specifications of the schema"):
        run_helm("template", RELEASE, str(CHART), "--set", value)


def test_values_and_their_schema_name_the_same() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)
    for name, value in values.items():
        properties = schema["properties"][name].get("properties")
        if properties:
            assert set(properties) == set(value), name


@pytest.fixture(scope="module")
def server(own_apiserver: ApiServer) -> ApiServer:
    """An API server with the namespace that the operator goes to, and another."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    for name, labels in {NAMESPACE: restricted, "red": {}, "blue": {}}.items():
        metadata = {"name": name, "labels": labels}
        own_apiserver.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return own_apiserver


def test_a_restricted_namespace_takes_the_operators_pod(
    server: ApiServer, render: Callable[..., list[Object]]
) -> None:
    template = only(render(), "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod"} | template
    pod["metadata"] |= {"name": "operator", "namespace": NAMESPACE}
    server.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


@pytest.mark.parametrize(
    "values", [(), ("watchNamespaces={red,blue}", "imagePullSecrets[0].name=registry")]
)
def test_the_server_takes_all_that_is_rendered(
    server: ApiServer, render: Callable[..., list[Object]], values: tuple[str, ...]
) -> None:
    objects = {"apiVersion": "v1", "kind": "List", "items": render(*values)}
    server.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps(objects),
    )


def left(server: ApiServer) -> str:
    return server.kubectl(
        *("get", "all,secrets,configmaps,serviceaccounts,roles,rolebindings"),
        *("--all-namespaces", "--ignore-not-found", "-o", "name"),
        *("-l", f"app.kubernetes.io/instance={RELEASE}"),
    ) + server.kubectl(
        *("get", "clusterroles,clusterrolebindings", "-o", "name"),
        *("-l", f"app.kubernetes.io/instance={RELEASE}"),
    )


def test_install_upgrade_and_uninstall_leave_nothing_but_the_jobs(
    server: ApiServer, run_helm: Helm
) -> None:
    def helm(*arguments: str) -> str:
        return run_helm(*arguments, "-n", NAMESPACE, kubeconfig=server.kubeconfig)

    told = helm("install", RELEASE, str(CHART))
    assert "kubectl get tftj -w" in told
    server.wait_for_crd(crd.NAME)
    server.kubectl("create", "-n", "red", "-f", str(ROOT / "examples/minimal.yaml"))

    account = f"system:serviceaccount:{NAMESPACE}:{FULLNAME}"
    assert may(server, account, "create", "pods", "red")
    assert may(server, account, "patch", "tftrainingjobs.tftraining.dev/status", "red")
    for verb, what in (
        ("get", "secrets"),
        ("create", "pods/exec"),
        ("update", "tftrainingjobs.tftraining.dev"),
        ("list", "namespaces"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
    ):
        assert not may(server, account, verb, what, "red"), f"may {verb} {what}"

    helm("upgrade", RELEASE, str(CHART), "--set", "watchNamespaces={red}")
    assert may(server, account, "create", "pods", "red")
    assert not may(server, account, "create", "pods", "blue")

    helm("uninstall", RELEASE)
    assert left(server).split() == []
    assert "minimal" in server.kubectl("get", "tftj", "-n", "red", "-o", "name")

    helm("install", RELEASE, str(CHART), "--set", "crds.keep=false")
    helm("uninstall", RELEASE)
    assert server.kubectl("get", "crd", crd.NAME, "--ignore-not-found") == ""
    assert left(server).split() == []


def may(server: ApiServer, account: str, verb: str, what: str, namespace: str) -> bool:
    """Ask the server whether an account has a right."""
    resource, _, subresource = what.partition("/")
    name, _, group = resource.partition(".")
    attributes = {"verb": verb, "group": group, "resource": name}
    attributes |= {"subresource": subresource, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "resourceAttributes": attributes},
    }
    answer = server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer.ok, answer.message
    allowed: bool = answer.body["status"]["allowed"]
    return allowed
