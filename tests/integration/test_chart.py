"""The Helm chart: what it renders, and what a real API server makes of it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tftraining_operator.api import crd
from tftraining_operator.api.keys import Role
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.controller import claim
from tftraining_operator.controller.settings import Settings
from tftraining_operator.core import desired
from tftraining_operator.core.job import parse_job
from tftraining_operator.core.naming import lease_name
from tftraining_operator.core.pod_metadata import PodMetadata

from tests import peers
from tests.integration.charts import CHART, NAMESPACE, RELEASE, ROOT
from tools.cluster.binaries import module_dir
from tools.cluster.shell import ClusterError
from tools.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer
    from tests.integration.charts import Helm

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
FULLNAME = "tftraining-operator"
LEASE_ROLE = f"{FULLNAME}-lease"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def render(run_helm: Helm) -> Callable[..., list[Object]]:
    def objects(*values: str) -> list[Object]:
        sets = [word for value in values for word in ("--set", value)]
        text = run_helm("template", RELEASE, str(CHART), "-n", NAMESPACE, *sets)
        return [each for each in yaml.safe_load_all(text) if each]

    return objects


def only(objects: list[Object], kind: str, name: str = FULLNAME) -> Object:
    found = named(objects, kind, name)
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def is_hook(metadata: Object) -> bool:
    """Tell whether Helm makes an object for `helm test` alone."""
    return "helm.sh/hook" in metadata.get("annotations", {})


def named(objects: list[Object], kind: str, name: str) -> list[Object]:
    return [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]


def container(objects: list[Object]) -> Object:
    found: Object = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


def environment(objects: list[Object]) -> dict[str, str]:
    """Return the settings as a pod of the operator gets them, but for its own name and uid."""
    paths = fields_of_the_pod(objects)
    filled_in = {name: NAMESPACE for name, path in paths.items() if path == "metadata.namespace"}
    return filled_in | {
        each["name"]: each["value"] for each in container(objects)["env"] if "value" in each
    }


def fields_of_the_pod(objects: list[Object]) -> dict[str, str]:
    """Return the fields of the pod from which Kubernetes fills in variables."""
    return {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container(objects)["env"]
        if "valueFrom" in each
    }


RIGHTS = {
    ("tftraining.dev", "tftrainingjobs"): {"list", "watch", "delete"},
    ("tftraining.dev", "tftrainingjobs/status"): {"patch"},
    ("tftraining.dev", "tftrainingjobs/finalizers"): {"update"},
    ("", "pods"): {"get", "list", "watch", "create", "delete", "deletecollection"},
    ("", "services"): {"get", "list", "watch", "create", "delete"},
    ("networking.k8s.io", "networkpolicies"): {
        *("get", "list", "watch", "create", "update", "delete")
    },
    ("policy", "poddisruptionbudgets"): {*("get", "list", "watch", "create", "update", "delete")},
    ("events.k8s.io", "events"): {"create"},
    ("scheduling.k8s.io", "podgroups"): {"get", "list", "create", "delete"},
}


CLAIM_RULES = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [claim.LEASE],
        "verbs": ["get", "update"],
    },
]
"""The lease by which a release claims a namespace."""


def rights(role: Object) -> dict[tuple[str, str], set[str]]:
    """Return the rights of a role, without those to a namespace's lease."""
    rules = [rule for rule in role["rules"] if rule not in CLAIM_RULES]
    assert all(set(rule) == {"apiGroups", "resources", "verbs"} for rule in rules)
    return {
        (group, resource): set(rule["verbs"])
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_it_passes_a_strict_lint(run_helm: Helm) -> None:
    assert "0 chart(s) failed" in run_helm("lint", "--strict", str(CHART))


def test_the_operator_has_these_rights_and_no_others(
    render: Callable[..., list[Object]],
) -> None:
    objects = render()
    role = only(objects, "ClusterRole")
    assert rights(role) == RIGHTS
    assert [rule for rule in role["rules"] if rule in CLAIM_RULES] == CLAIM_RULES
    roles = [o["metadata"] for o in objects if o["kind"] == "Role"]
    assert [each["name"] for each in roles if not is_hook(each)] == [LEASE_ROLE]
    binding = only(objects, "ClusterRoleBinding")
    account = {"kind": "ServiceAccount", "name": FULLNAME, "namespace": NAMESPACE}
    assert binding["roleRef"]["name"] == FULLNAME
    assert binding["subjects"] == [account]


def test_it_may_use_the_schedulers_that_are_enabled(render: Callable[..., list[Object]]) -> None:
    verbs = {"get", "list", "create", "delete"}
    values = ("inTree=false", "podGroup=true", "volcano=true")
    found = rights(only(render(*(f"scheduling.{value}" for value in values)), "ClusterRole"))
    groups = {group for (group, resource), given in found.items() if given == verbs}
    assert groups == {"scheduling.x-k8s.io", "scheduling.volcano.sh"}


@pytest.mark.parametrize("values", [(), ("watchNamespaces={red}",)])
def test_it_may_use_kueue_where_that_is_enabled(
    render: Callable[..., list[Object]], values: tuple[str, ...]
) -> None:
    objects = render("scheduling.kueue=true", *values)
    by_name = {o["metadata"]["name"]: o for o in objects if o["kind"] == "ClusterRole"}
    assert rights(by_name[f"{FULLNAME}-queues"]) == {
        ("kueue.x-k8s.io", "resourceflavors"): {"get"},
        ("kueue.x-k8s.io", "workloadpriorityclasses"): {"get"},
        ("scheduling.k8s.io", "priorityclasses"): {"get", "list"},
    }
    own = by_name.get(FULLNAME) or next(
        o for o in objects if o["kind"] == "Role" and o["metadata"]["namespace"] == "red"
    )
    written = {"get", "list", "watch", "create", "patch", "delete"}
    assert rights(own)["kueue.x-k8s.io", "workloads"] == written
    assert rights(own)["kueue.x-k8s.io", "workloads/status"] == {"patch"}


def test_the_page_states_how_many_requests_its_metrics_tell_apart(
    render: Callable[..., list[Object]],
) -> None:
    objects = render(
        *(f"scheduling.{each}=true" for each in ("inTree", "podGroup", "volcano", "kueue")),
        "rbac.aggregate=false",
    )
    rules = [r for o in objects if not is_hook(o["metadata"]) for r in o.get("rules", ())]
    # Watches are not counted, and the last right is asked about by admission alone.
    pairs = {(v, each) for r in rules for each in r["resources"] for v in r["verbs"]}
    pairs = {(v, each) for v, each in pairs if v != "watch" and not each.endswith("/finalizers")}
    page = (ROOT / "docs/guide/monitoring.md").read_text()
    assert re.findall(r"at most (\d+) pairs of verb and resource", page) == [str(len(pairs))]


def test_with_watched_namespaces_it_has_them_there_alone(
    render: Callable[..., list[Object]],
) -> None:
    objects = render("watchNamespaces={red,blue}", "rbac.aggregate=false")
    assert not [o for o in objects if o["kind"].startswith("ClusterRole")]
    roles = named(objects, "Role", FULLNAME)
    assert [role["metadata"]["namespace"] for role in roles] == ["red", "blue"]
    assert [rights(role) for role in roles] == [RIGHTS, RIGHTS]
    assert all(rule in role["rules"] for role in roles for rule in CLAIM_RULES)
    bindings = named(objects, "RoleBinding", FULLNAME)
    assert [b["metadata"]["namespace"] for b in bindings] == ["red", "blue"]
    assert {b["subjects"][0]["namespace"] for b in bindings} == {NAMESPACE}
    assert environment(objects)["TFTRAINING_NAMESPACES"] == "red,blue"


def test_a_second_release_has_no_object_in_common_with_the_first(run_helm: Helm) -> None:
    def objects(release: str, *values: str) -> set[tuple[str, str, str]]:
        sets = [word for value in values for word in ("--set", value)]
        home = ("-n", f"{release}-system")
        text = run_helm("template", release, str(CHART), *home, *sets)
        found = [each for each in yaml.safe_load_all(text) if each]
        places = [each["metadata"].get("namespace", "") for each in found]
        return {
            (o["kind"], place, o["metadata"]["name"])
            for o, place in zip(found, places, strict=True)
        }

    everything = ("web.enabled=true", "metrics.dashboards.enabled=true", "scheduling.kueue=true")
    first = objects("tftraining", *everything)
    # As docs/guide/install.md says; then also for the same namespace, as by mistake.
    values = ("crds.enabled=false", "rbac.aggregate=false", *everything)
    for watched in (("watchNamespaces={red}",), ()):
        assert not first & objects("vision", *watched, *values)
    named = objects("tftraining", "watchNamespaces={red}")
    assert not named & objects("vision", "watchNamespaces={red}", *values)


@pytest.mark.parametrize(
    ("release", "override"), [("a" * 53, ""), ("a", "b" * 63)], ids=["release", "override"]
)
def test_however_long_names_are_services_have_one_that_is_possible(
    run_helm: Helm, release: str, override: str
) -> None:
    sets = ("--set", "web.enabled=true", "--set", f"fullnameOverride={override}")
    text = run_helm("template", release, str(CHART), "-n", NAMESPACE, *sets)
    objects = [each for each in yaml.safe_load_all(text) if each]
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Service"]
    web, metrics = sorted(names, key=lambda name: name.endswith("-metrics"))
    assert web.endswith("-web")
    assert metrics.endswith("-metrics")
    assert max(len(web), len(metrics)) <= 63
    assert f"{web}.{NAMESPACE}.svc," in text, "the page is asked for by this name"


@pytest.mark.parametrize("override", ["", "2024"])
def test_names_that_look_like_numbers_stay_text(run_helm: Helm, override: str) -> None:
    texts = {
        "watchNamespaces": "{2024}",
        "fullnameOverride": override,
        "serviceAccount.name": "1e3",
        "priorityClassName": "1000",
    }
    everything = monitoring("web.enabled=true", "scheduling.kueue=true", "shards=2")
    sets = [
        *(word for pair in texts.items() for word in ("--set-string", "=".join(pair))),
        *(word for value in (*everything, "crds.enabled=false") for word in ("--set", value)),
    ]
    text = run_helm("template", "123", str(CHART), "-n", "2025", *sets)
    objects = [each for each in yaml.safe_load_all(text) if each]
    found = [pair for each in objects for pair in fields(each)]
    keys = {"name", "namespace", "app.kubernetes.io/instance", "serviceAccountName"}
    keys |= {"priorityClassName", "resourceNames"}
    values = [value for key, value in found if key in keys]
    values = [each for value in values for each in (value if isinstance(value, list) else [value])]
    assert [value for value in values if not isinstance(value, str)] == []
    assert {"123", "2024", "2025", "1e3", "1000"} <= set(values)
    own = "app.kubernetes.io/name=tftraining-operator,app.kubernetes.io/instance=123"
    assert ("value", own) in found, "by these labels the operator names its own pods"


def fields(value: object) -> Iterator[tuple[str, object]]:
    """Yield every key with its value, at any depth."""
    if isinstance(value, list):
        for each in value:
            yield from fields(each)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from fields(inner)


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


def test_two_replicas_on_different_nodes_and_a_new_one_stands_by_before_an_old_one_goes(
    render: Callable[..., list[Object]],
) -> None:
    spec = only(render(), "Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    (apart,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"][preferred]
    assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert apart["podAffinityTerm"]["labelSelector"] == spec["selector"]
    assert only(render("replicas=1"), "Deployment")["spec"]["replicas"] == 1


def test_an_affinity_of_the_users_own_replaces_ours(render: Callable[..., list[Object]]) -> None:
    spec = only(render("affinity.nodeAffinity.any=thing"), "Deployment")["spec"]
    assert spec["template"]["spec"]["affinity"] == {"nodeAffinity": {"any": "thing"}}


@pytest.mark.parametrize("values", [(), ("watchNamespaces={red,blue}",)])
def test_it_may_write_one_lease_in_its_own_namespace(
    render: Callable[..., list[Object]], values: tuple[str, ...]
) -> None:
    objects = render(*values)
    role = only(objects, "Role", LEASE_ROLE)
    assert role["metadata"]["namespace"] == NAMESPACE
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert role["rules"] == [
        {**lease, "verbs": ["create"]},
        {**lease, "resourceNames": [FULLNAME], "verbs": ["get", "update"]},
    ]
    account = {"kind": "ServiceAccount", "name": FULLNAME, "namespace": NAMESPACE}
    assert only(objects, "RoleBinding", LEASE_ROLE)["subjects"] == [account]
    assert environment(objects)["TFTRAINING_LEASE_NAME"] == FULLNAME
    assert fields_of_the_pod(objects)["TFTRAINING_LEASE_NAMESPACE"] == "metadata.namespace"


def test_shards_have_leases_of_their_own_and_a_replica_each(
    render: Callable[..., list[Object]],
) -> None:
    objects = render("shards=3")
    assert only(objects, "Deployment")["spec"]["replicas"] == 3
    _, named = only(objects, "Role", LEASE_ROLE)["rules"]
    assert named["resourceNames"] == [lease_name(FULLNAME, shard) for shard in range(3)]
    assert Settings.from_environment(environment(objects)).shards == 3
    assert only(render("shards=3", "replicas=5"), "Deployment")["spec"]["replicas"] == 5
    assert only(render("shards=3", "replicas=0"), "Deployment")["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        ((), "One of its 2 replicas is active, the rest on standby. To see which:"),
        (("shards=3",), "3 replicas share the jobs in 3 shards. To see who leads each:"),
        (
            ("shards=3", "replicas=5"),
            "3 of its 5 replicas share the jobs in 3 shards, the rest is on standby. To see who",
        ),
        (("shards=3", "replicas=0"), None),
        (("replicas=1",), None),
    ],
)
def test_the_notes_say_how_many_replicas_are_active(
    run_helm: Helm, sets: tuple[str, ...], told: str | None
) -> None:
    options = [part for each in sets for part in ("--set", each)]
    arguments = ("install", RELEASE, str(CHART), "-n", NAMESPACE, "--dry-run=client", *options)
    _, _, notes = run_helm(*arguments).rpartition("NOTES:")
    assert ("replicas" in notes) is (told is not None)
    assert (told or "") in notes
    leases = "tftraining-operator tftraining-operator-1 tftraining-operator-2\n"
    assert (f"kubectl get lease -n {NAMESPACE} {leases}" in notes) is ("in 3 shards" in notes)


def test_every_pod_has_a_name_of_its_own_in_the_lease(render: Callable[..., list[Object]]) -> None:
    objects = render()
    paths = fields_of_the_pod(objects)
    assert paths.items() >= {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}.items()
    identity = environment(objects)["TFTRAINING_LEASE_IDENTITY"]
    assert identity == "$(POD_NAME)_$(POD_UID)"
    # A variable is filled in only where it stands after those that it names.
    names = [each["name"] for each in container(objects)["env"]]
    assert names.index("TFTRAINING_LEASE_IDENTITY") > names.index("POD_UID")


def test_every_setting_is_one_that_the_operator_reads(render: Callable[..., list[Object]]) -> None:
    told = environment(render("leaseSeconds=40", "metrics.port=9090"))
    read = Settings.from_environment(told)
    assert (read.lease_name, read.lease_seconds) == (FULLNAME, 40)
    assert (read.metrics_port, read.log_format) == (9090, "json")
    fields = {field.name.upper() for field in dataclasses.fields(Settings)}
    fields -= {"NETWORKING", "POD_METADATA"}
    fields |= {"JOB_POD_LABELS", "JOB_POD_ANNOTATIONS", "NETWORK_POLICY"}
    fields |= {"POD_NAMESPACE", "POD_LABELS", "PROGRESS_READERS"}
    known = {f"TFTRAINING_{field}" for field in fields}
    assert set(told) <= known


def test_the_operator_may_read_progress_by_its_own_pods_labels_and_so_may_monitoring(
    render: Callable[..., list[Object]],
) -> None:
    objects = render(MONITORING)
    assert fields_of_the_pod(objects)["TFTRAINING_POD_NAMESPACE"] == "metadata.namespace"
    told = environment(objects)
    operator, prometheus = Settings.from_environment(told).networking.readers
    namespace = {"kubernetes.io/metadata.name": NAMESPACE}
    assert operator["namespaceSelector"] == {"matchLabels": namespace}
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert operator["podSelector"]["matchLabels"].items() <= labels.items()
    assert operator["podSelector"]["matchLabels"].keys() == {
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
    }
    assert prometheus == {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    default = Settings.from_environment(told).networking.default
    assert default is NetworkPolicy.ISOLATED
    opened = environment(render("jobs.networkPolicy.default=Open"))
    assert Settings.from_environment(opened).networking.default is NetworkPolicy.OPEN


def test_the_pods_of_all_jobs_can_have_labels_and_annotations(
    render: Callable[..., list[Object]],
) -> None:
    objects = render(
        "jobs.podLabels.example\\.com/team=vision", "jobs.podAnnotations.note=two\\, words"
    )
    found = Settings.from_environment(environment(objects)).pod_metadata
    assert found.labels == {"example.com/team": "vision"}
    assert found.annotations == {"note": "two, words"}
    assert Settings.from_environment(environment(render())).pod_metadata == PodMetadata()


def test_an_annotation_of_the_pods_of_all_jobs_may_look_like_a_variable(
    render: Callable[..., list[Object]],
) -> None:
    note = "$(POD_NAME) costs $$5 and $5"
    objects = render(f"jobs.podAnnotations.note={note}")
    settings = environment(objects)
    name = "TFTRAINING_JOB_POD_ANNOTATIONS"
    settings[name] = as_kubelet_expands(settings[name], {"POD_NAME": "tftraining-operator-abc"})
    assert Settings.from_environment(settings).pod_metadata.annotations == {"note": note}


def as_kubelet_expands(text: str, known: dict[str, str]) -> str:
    """Return a variable's value as its container gets it."""

    def expanded(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else known.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", expanded, text)


def test_every_setting_of_the_operator_has_a_value(render: Callable[..., list[Object]]) -> None:
    changed = {
        "workers": (4, lambda s: s.workers),
        "progressSeconds": (2, lambda s: s.progress_seconds),
        "resyncSeconds": (60, lambda s: s.resync_seconds),
        "scheduling.listSeconds": (30, lambda s: s.groups_seconds),
        "jobs.disruptionBudget.default": ("Essential", lambda s: s.disruption_budget),
        "traces.endpoint": ("http://collector:4318/v1/traces", lambda s: s.traces_endpoint),
    }
    told = environment(render(*(f"{name}={value}" for name, (value, _) in changed.items())))
    read = Settings.from_environment(told)
    assert {name: get(read) for name, (_, get) in changed.items()} == {
        name: value for name, (value, _) in changed.items()
    }
    by_default = Settings.from_environment(environment(render()))
    for _, get in changed.values():
        assert get(by_default) == get(Settings()), "the chart's default is the operator's"
    fixed = {"TFTRAINING_HEALTH"}  # the probes of the chart ask this port
    only_where_set = {"TFTRAINING_PROGRESS_READERS"}
    known = {f"TFTRAINING_{field.name.upper()}" for field in dataclasses.fields(Settings)}
    known -= {"TFTRAINING_NETWORKING", "TFTRAINING_POD_METADATA"}
    assert known - fixed <= set(told) | only_where_set


def test_nobody_connects_to_the_operator_but_to_read_its_metrics(
    render: Callable[..., list[Object]],
) -> None:
    objects = render("networkPolicy.metricsReaders[0].podSelector.matchLabels.app=prometheus")
    spec = only(objects, "NetworkPolicy")["spec"]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert spec["policyTypes"] == ["Ingress"]
    peer = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": 8081}], "from": [peer]}]
    assert only(render("metrics.port=0"), "NetworkPolicy")["spec"]["ingress"] == []
    assert not named(render("networkPolicy.enabled=false"), "NetworkPolicy", FULLNAME)


def test_a_drain_evicts_one_replica_at_a_time(render: Callable[..., list[Object]]) -> None:
    spec = only(render(), "PodDisruptionBudget")["spec"]
    assert spec["maxUnavailable"] == 1
    labels = only(render(), "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    off = render("podDisruptionBudget.enabled=false")
    assert not named(off, "PodDisruptionBudget", FULLNAME)


def test_a_spread_constraint_selects_the_operators_pods_unless_it_says_otherwise(
    render: Callable[..., list[Object]],
) -> None:
    spread = "topologySpreadConstraints[0]"
    values = [f"{spread}.maxSkew=1", f"{spread}.topologyKey=topology.kubernetes.io/zone"]
    values.append(f"{spread}.whenUnsatisfiable=DoNotSchedule")
    for none in ((), (f"{spread}.labelSelector=null",)):
        deployment = only(render(*values, *none), "Deployment")["spec"]
        (found,) = deployment["template"]["spec"]["topologySpreadConstraints"]
        assert found["labelSelector"] == deployment["selector"]
        assert found["whenUnsatisfiable"] == "DoNotSchedule"
    own = f"{spread}.labelSelector.matchLabels.app=x"
    deployment = only(render(*values, own), "Deployment")["spec"]
    (found,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert found["labelSelector"] == {"matchLabels": {"app": "x"}}


@pytest.mark.parametrize("values", [(), ("watchNamespaces={red,blue}",)])
def test_helm_test_may_run_one_job_where_the_operator_looks(
    render: Callable[..., list[Object]], values: tuple[str, ...]
) -> None:
    name, where = f"{FULLNAME}-test", "red" if values else NAMESPACE
    objects = render(*values)
    role = only(objects, "Role", name)
    assert role["metadata"]["namespace"] == where
    jobs = {"apiGroups": ["tftraining.dev"], "resources": ["tftrainingjobs"]}
    assert role["rules"] == [
        {**jobs, "verbs": ["create"]},
        {**jobs, "resourceNames": [name], "verbs": ["get", "delete"]},
    ]
    pod = only(objects, "Pod", name)
    _, manifest, seconds = pod["spec"]["containers"][0]["args"]
    job = json.loads(manifest)
    assert (job["metadata"]["name"], job["metadata"]["namespace"]) == (name, where)
    assert parse_job({**job, "metadata": {**job["metadata"], "uid": "u"}}, datetime.now(UTC))
    assert pod["spec"]["activeDeadlineSeconds"] > int(seconds)
    hooks = {o["metadata"].get("annotations", {}).get("helm.sh/hook") for o in (role, pod)}
    assert hooks == {"test"}
    selector = only(objects, "Deployment")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod["metadata"]["labels"].items(), "it is not the operator"


def test_the_pods_of_helm_tests_job_go_where_the_operators_may(
    render: Callable[..., list[Object]],
) -> None:
    values = ("imagePullSecrets[0].name=registry", "nodeSelector.pool=cpu")
    toleration = "tolerations[0].key=reserved,tolerations[0].operator=Exists"
    pod = only(render(*values, toleration), "Pod", f"{FULLNAME}-test")["spec"]
    asked = json.loads(pod["containers"][0]["args"][1])["spec"]["template"]["spec"]
    for name in ("imagePullSecrets", "nodeSelector", "tolerations"):
        assert asked[name] == pod[name]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"pool": "cpu"}
    assert pod["tolerations"] == [{"key": "reserved", "operator": "Exists"}]


def test_without_roles_of_the_chart_there_are_none_for_helm_test_either(
    render: Callable[..., list[Object]],
) -> None:
    objects = render("rbac.create=false", "rbac.aggregate=false", "web.enabled=true")
    assert not [each for each in objects if "Role" in each["kind"]]
    pod = only(objects, "Pod", f"{FULLNAME}-test")["spec"]
    assert only(objects, "ServiceAccount", pod["serviceAccountName"])


def test_artifact_hub_is_told_of_the_images_that_are_installed(
    render: Callable[..., list[Object]],
) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    notes = {key.partition("/")[2]: value for key, value in chart["annotations"].items()}
    told = {each["name"]: each["image"] for each in yaml.safe_load(notes["images"])}
    objects = render()
    assert told == {
        "operator": container(objects)["image"],
        "trainer": environment(objects)["TFTRAINING_TRAINER_IMAGE"],
    }
    (example,) = yaml.safe_load(notes["crdsExamples"])
    assert example == yaml.safe_load((ROOT / "examples/minimal.yaml").read_text())
    (defined,) = yaml.safe_load(notes["crds"])
    assert (defined["name"], defined["version"]) == (crd.NAME, "v1alpha1")


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
    assert found["ports"] == [
        {"name": "health", "containerPort": 8080, "protocol": "TCP"},
        {"name": "metrics", "containerPort": 8081, "protocol": "TCP"},
    ]
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, path in paths.items():
        assert found[probe]["httpGet"] == {"path": path, "port": "health"}


@pytest.mark.parametrize(
    "value",
    [
        "replica=2",
        "replicas=-1",
        "leaseSeconds=0",
        "shards=0",
        "image.tga=x",
        "log.level=loud",
        "jobs.networkPolicy.default=Closed",
        "jobs.disruptionBudget.default=All",
        "jobs.podLabels.tftraining\\.dev/role=ps",
        "jobs.podLabels.app\\.kubernetes\\.io/managed-by=us",
        "jobs.podLabels.team=two words",
        "jobs.podLabels.a team=vision",
        f"jobs.podLabels.team={'x' * 64}",
        "jobs.podAnnotations.a=1",
        "jobs.podAnnotations.a note=x",
        "jobs.networkPolicy.readers[0].pods=all",
        "scheduling.slurm=true",
        "web.hosts={https://jobs.example.com}",
        "watchNamespaces={Red}",
        "crds.keep=perhaps",
        "metrics.serviceMonitor.interval=often",
        "traces.endpoint=collector:4318",
    ],
)
def test_a_wrong_value_is_refused(run_helm: Helm, value: str) -> None:
    with pytest.raises(AssertionError, match="don't meet the specifications of the schema"):
        run_helm("template", RELEASE, str(CHART), "--set", value)


@pytest.mark.parametrize(
    "name",
    [
        "replicas",
        "crds",
        "crds.keep",
        "rbac.create",
        "networkPolicy.enabled",
        "podDisruptionBudget.enabled",
        "serviceAccount.create",
        "image.repository",
        "metrics.serviceMonitor.interval",
        "log.format",
    ],
)
def test_a_value_that_is_left_blank_is_refused_and_does_not_stand_for_no(
    run_helm: Helm, name: str
) -> None:
    """As after a name and a colon in a file, with which Helm takes the default away."""
    with pytest.raises(AssertionError, match=rf"missing property '{name.rpartition('.')[2]}'"):
        run_helm("template", RELEASE, str(CHART), "--set", f"{name}=null")


@pytest.mark.parametrize("name", ["affinity", "resources", "resources.limits.memory", "image.tag"])
def test_what_may_be_nothing_may_be_left_blank(run_helm: Helm, name: str) -> None:
    assert run_helm("template", RELEASE, str(CHART), "--set", f"{name}=null")


@pytest.mark.parametrize(("peer", "_path", "_problem"), peers.REFUSED.values(), ids=peers.REFUSED)
def test_a_peer_that_the_api_server_would_refuse_is_a_wrong_value(
    run_helm: Helm, peer: peers.Peer, _path: str, _problem: str
) -> None:
    for value in ("jobs.networkPolicy.readers", "networkPolicy.metricsReaders", "web.clients"):
        wrong = f"{value}={json.dumps([peer])}"
        with pytest.raises(AssertionError, match="don't meet the specifications of the schema"):
            run_helm("template", RELEASE, str(CHART), "--set-json", wrong)


@pytest.mark.parametrize("peer", peers.TAKEN.values(), ids=peers.TAKEN)
def test_a_peer_of_a_network_policy_is_a_value(run_helm: Helm, peer: peers.Peer) -> None:
    values = ("jobs.networkPolicy.readers", "networkPolicy.metricsReaders", "web.clients")
    given = [f"{value}={json.dumps([peer])}" for value in values]
    sets = [word for value in given for word in ("--set-json", value)]
    text = run_helm("template", RELEASE, str(CHART), "--set", "web.enabled=true", *sets)
    objects = [each for each in yaml.safe_load_all(text) if each]
    for name in (FULLNAME, WEB):
        (rule,) = only(objects, "NetworkPolicy", name)["spec"]["ingress"]
        assert rule["from"] == [peer]
    assert json.loads(environment(objects)["TFTRAINING_PROGRESS_READERS"]) == [peer]


MONITORING = "jobs.networkPolicy.readers[0].namespaceSelector.matchLabels.team=monitoring"


def monitoring(*values: str) -> tuple[str, ...]:
    kinds = ("serviceMonitor", "podMonitor", "alerts", "dashboards")
    return (*(f"metrics.{kind}.enabled=true" for kind in kinds), MONITORING, *values)


def test_prometheus_finds_the_operator_by_a_service_without_an_address(
    render: Callable[..., list[Object]],
) -> None:
    objects = render(*monitoring("metrics.port=9090", "metrics.serviceMonitor.labels.release=x"))
    service = only(objects, "Service", f"{FULLNAME}-metrics")
    pod = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pod.items()
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"], service["spec"]["clusterIP"]) == (
        9090,
        "metrics",
        "None",
    )
    assert {"name": "metrics", "containerPort": 9090, "protocol": "TCP"} in container(objects)[
        "ports"
    ]
    monitor = only(objects, "ServiceMonitor")
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["honorLabels"]) == (port["name"], True)
    assert monitor["metadata"]["labels"]["release"] == "x"


def test_prometheus_finds_the_pods_that_report_progress_where_jobs_may_be(
    render: Callable[..., list[Object]],
) -> None:
    name = f"{FULLNAME}-jobs"
    spec = only(render(*monitoring()), "PodMonitor", name)["spec"]
    assert spec["namespaceSelector"] == {"any": True}
    some = only(render(*monitoring("watchNamespaces={red,blue}")), "PodMonitor", name)["spec"]
    assert some["namespaceSelector"] == {"matchNames": ["red", "blue"]}
    job = parse_job(
        {
            "metadata": {"name": "mnist", "namespace": "red", "uid": "u", "generation": 1},
            "spec": {
                "template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}},
                **{role: {"replicas": 1} for role in ("worker", "ps", "evaluator")},
                "checkpoint": {"persistentVolumeClaim": {"claimName": "x"}},
            },
        },
        datetime.now(UTC),
    )
    scraped = {
        role
        for role in Role
        if all(
            _matches(desired.pod(job, role, 0, 0, "x")["metadata"]["labels"], each)
            for each in spec["selector"]["matchExpressions"]
        )
    }
    assert scraped == {Role.CHIEF, Role.EVALUATOR}
    (endpoint,) = spec["podMetricsEndpoints"]
    for role in scraped:
        (trains,) = desired.pod(job, role, 0, 0, "x")["spec"]["containers"]
        assert endpoint["port"] in {port["name"] for port in trains["ports"]}


def _matches(labels: dict[str, str], expression: Object) -> bool:
    value = labels.get(expression["key"])
    return value is not None and value in expression.get("values", [value])


def test_alerts_and_dashboards_are_the_files_of_the_chart(
    render: Callable[..., list[Object]],
) -> None:
    objects = render(*monitoring("metrics.alerts.labels.release=x"))
    rules = only(objects, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    assert rules["metadata"]["labels"]["release"] == "x"
    for path in (CHART / "files/dashboards").glob("*.json"):
        found = only(objects, "ConfigMap", f"{FULLNAME}-dashboard-{path.stem}")
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["data"] == {f"tftraining-{path.name}": path.read_text()}


def test_the_alerts_about_the_operator_are_about_this_release(run_helm: Helm) -> None:
    sets = [word for value in monitoring() for word in ("--set", value)]
    text = run_helm("template", "vision", str(CHART), "-n", "vision-system", *sets)
    objects = [each for each in yaml.safe_load_all(text) if each]
    (rules,) = [each["spec"] for each in objects if each["kind"] == "PrometheusRule"]
    operator, jobs = rules["groups"]
    assert [each["alert"] for each in operator["rules"]] == [
        f"TFTrainingOperator{each}"
        for each in (
            "Down",
            "NoLeader",
            "ShardNotHeld",
            "NamespaceForbidden",
            "QueueOld",
            "APIErrors",
            "PassFails",
        )
    ]
    for each in operator["rules"]:
        selectors = re.findall(r"tftraining_operator_\w+(\{[^}]*\})?", each["expr"])
        assert all('namespace="vision-system"' in found for found in selectors), each["alert"]
    # A job's metrics have its own namespace.
    assert not any("-system" in each["expr"] for each in jobs["rules"])


def test_nothing_that_needs_other_definitions_is_rendered_unasked(
    render: Callable[..., list[Object]],
) -> None:
    groups = {each["apiVersion"].partition("/")[0] for each in render()}
    assert "monitoring.coreos.com" not in groups
    off = render("metrics.port=0")
    assert not [each for each in off if each["kind"] == "Service"]
    assert [port["name"] for port in container(off)["ports"]] == ["health"]


WEB = f"{FULLNAME}-web"
WEB_RIGHTS = {
    ("tftraining.dev", "tftrainingjobs"): {"list", "watch"},
    ("", "pods"): {"list"},
    ("", "events"): {"list"},
    ("", "persistentvolumeclaims"): {"get"},
}


def test_the_web_page_is_there_only_if_it_is_enabled(render: Callable[..., list[Object]]) -> None:
    assert not [each for each in render() if each["metadata"]["name"] == WEB]
    kinds = {each["kind"] for each in render("web.enabled=true") if each["metadata"]["name"] == WEB}
    everything = {"Deployment", "Service", "ServiceAccount", "NetworkPolicy"}
    assert kinds == everything | {"ClusterRole", "ClusterRoleBinding"}
    assert named(render("web.enabled=true", "rbac.create=false"), "ClusterRole", WEB) == []


def test_the_web_page_may_read_and_nothing_else(render: Callable[..., list[Object]]) -> None:
    objects = render("web.enabled=true")
    assert rights(only(objects, "ClusterRole", WEB)) == WEB_RIGHTS
    account = {"kind": "ServiceAccount", "name": WEB, "namespace": NAMESPACE}
    assert only(objects, "ClusterRoleBinding", WEB)["subjects"] == [account]
    spec = only(objects, "Deployment", WEB)["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == WEB

    objects = render("web.enabled=true", "watchNamespaces={red,blue}", "rbac.aggregate=false")
    assert not [each for each in objects if each["kind"].startswith("ClusterRole")]
    roles = named(objects, "Role", WEB)
    assert [(role["metadata"]["namespace"], rights(role)) for role in roles] == [
        ("red", WEB_RIGHTS),
        ("blue", WEB_RIGHTS),
    ]
    bindings = named(objects, "RoleBinding", WEB)
    assert [each["metadata"]["namespace"] for each in bindings] == ["red", "blue"]
    assert all(each["subjects"] == [account] for each in bindings)


def test_the_web_page_is_no_pod_of_the_operator_and_admits_whom_it_is_told(
    render: Callable[..., list[Object]],
) -> None:
    proxy = "web.clients[0].podSelector.matchLabels.app=proxy"
    objects = render("web.enabled=true", "web.hosts={jobs.example.com}", proxy)
    spec = only(objects, "Deployment", WEB)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    operator = only(objects, "Deployment")["spec"]["selector"]["matchLabels"]
    assert not operator.items() <= labels.items(), "it is not ready for leases and metrics"
    for kind in ("Service", "NetworkPolicy"):
        found = only(objects, kind, WEB)["spec"]
        selector = found.get("selector") or found["podSelector"]["matchLabels"]
        assert selector == spec["selector"]["matchLabels"]
        assert selector.items() <= labels.items()
    (rule,) = only(objects, "NetworkPolicy", WEB)["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "proxy"}}}]
    assert only(render("web.enabled=true"), "NetworkPolicy", WEB)["spec"]["ingress"] == []
    off = "networkPolicy.enabled=false"
    assert not named(render("web.enabled=true", off), "NetworkPolicy", WEB)
    assert (
        only(render("web.enabled=true", off, proxy), "NetworkPolicy", WEB)["spec"]
        == only(objects, "NetworkPolicy", WEB)["spec"]
    )
    (page,) = spec["template"]["spec"]["containers"]
    (port,) = page["ports"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]
    assert page["image"] == container(objects)["image"]
    hosts = {each["name"]: each["value"] for each in page["env"]}["TFTRAINING_WEB_HOSTS"].split(",")
    assert {"jobs.example.com", WEB, f"{WEB}.{NAMESPACE}.svc"} <= set(hosts)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ("metrics.port=0,metrics.serviceMonitor.enabled=true", "metrics: set metrics.port to ano"),
        ("metrics.port=8080", "metrics.port is 8080, on which the operator answers probes: set it"),
        ("metrics.podMonitor.enabled=true", "name its pods in jobs.networkPolicy.readers"),
    ],
)
def test_metrics_that_cannot_be_scraped_are_refused(
    run_helm: Helm, values: str, problem: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(problem)):
        run_helm("template", RELEASE, str(CHART), "--set", values)


@pytest.mark.parametrize("name", ["TFTRAINING_WORKERS", "POD_UID"])
def test_a_variable_of_the_charts_own_is_refused_beside_it(run_helm: Helm, name: str) -> None:
    """Helm loses a variable that is there twice, once it is there only once."""
    own = json.dumps([{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": name}])
    with pytest.raises(AssertionError, match=f"extraEnv: {name} is the chart's own; set the value"):
        run_helm("template", RELEASE, str(CHART), "--set-json", f"extraEnv={own}")


@pytest.mark.parametrize("enabled", [True, False])
def test_another_chart_can_have_it_under_a_condition(
    run_helm: Helm, tmp_path: Path, *, enabled: bool
) -> None:
    name = CHART.name
    shutil.copytree(CHART, tmp_path / "charts" / name)
    condition = f"{name}.enabled"
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0"}
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    dependency = {"name": name, "version": version, "condition": condition}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({**chart, "dependencies": [dependency]}))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({name: {"enabled": enabled}}))
    text = run_helm("template", RELEASE, str(tmp_path), "-n", NAMESPACE)
    objects = [each for each in yaml.safe_load_all(text) if each]
    assert bool(named(objects, "Deployment", FULLNAME)) is enabled


def test_values_and_their_schema_name_the_same() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    for of_helm in ("global", "enabled"):
        del schema["properties"][of_helm]
    compare(values, schema, schema["definitions"], "")


def compare(values: Object, schema: Object, definitions: Object, path: str) -> None:
    """Assert that an object of the values and its schema name the same, down to the last."""
    assert schema["additionalProperties"] is False, f"{path}: names that do not exist are accepted"
    assert set(schema["properties"]) == set(values), path
    needed = set()
    for name, value in values.items():
        inner = schema["properties"][name]
        while "$ref" in inner:
            inner = definitions[inner["$ref"].removeprefix("#/definitions/")]
        if "properties" in inner:
            assert isinstance(value, dict), f"{path}.{name}"
            compare(value, inner, definitions, f"{path}.{name}")
        is_free = name == "resources" or ("properties" not in inner and isinstance(value, dict))
        if value and not is_free:
            needed.add(name)
    assert set(schema.get("required", ())) == needed, f"{path}: what is left blank would mean no"


@pytest.fixture(scope="module")
def server(own_apiserver: ApiServer) -> ApiServer:
    """An API server with the namespace that the operator goes to, and another."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    for name, labels in {NAMESPACE: restricted, "red": {}, "blue": {}}.items():
        metadata = {"name": name, "labels": labels}
        own_apiserver.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return own_apiserver


@pytest.mark.parametrize("which", ["the operator", "the web page", "helm test"])
def test_a_restricted_namespace_takes_the_charts_pods(
    server: ApiServer, render: Callable[..., list[Object]], which: str
) -> None:
    objects = render("web.enabled=true")
    pod = only(objects, "Pod", f"{FULLNAME}-test")
    if which != "helm test":
        name = FULLNAME if which == "the operator" else WEB
        pod = {**pod, **only(objects, "Deployment", name)["spec"]["template"]}
    pod["metadata"] = {"name": "operator", "namespace": NAMESPACE}
    server.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_restricted_namespace_takes_the_pods_of_every_example_without_a_token(
    server: ApiServer, path: Path
) -> None:
    documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
    (raw,) = (each for each in documents if each["kind"] == "TFTrainingJob")
    raw["metadata"] |= {"namespace": NAMESPACE, "uid": "u"}
    pods = desired.samples(parse_job(raw, datetime.now(UTC)), "trainer")
    assert pods
    for pod in pods:
        answer = server.request(
            "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod, query={"dryRun": "All"}
        )
        assert answer.ok, answer.message
        assert answer.body["spec"]["automountServiceAccountToken"] is False
        assert not [v for v in answer.body["spec"].get("volumes", []) if "projected" in v]


def test_the_api_server_takes_the_network_policies_of_the_guide(server: ApiServer) -> None:
    blocks = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs/guide/security.md").read_text(), re.DOTALL
    )
    policies = [yaml.safe_load(block) for block in blocks if "kind: NetworkPolicy" in block]
    assert len(policies) == 2
    server.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": policies}),
    )
    for policy in policies:
        spec = policy["spec"]
        own_pods = {"to": [{"podSelector": spec["podSelector"]}]}
        assert own_pods in spec["egress"], "else they would not train"


@pytest.fixture(scope="module")
def monitored(server: ApiServer) -> ApiServer:
    """The API server with the Prometheus operator's definitions, from its own module."""
    module = "github.com/prometheus-operator/prometheus-operator"
    try:
        sources = module_dir("prometheus-operator", module)
    except ClusterError as error:
        pytest.skip(f"the Prometheus operator's definitions are not available: {error}")
    for plural in ("servicemonitors", "podmonitors", "prometheusrules"):
        path = sources / f"example/prometheus-operator-crd/monitoring.coreos.com_{plural}.yaml"
        server.kubectl("create", "-f", str(path))
        server.wait_for_crd(f"{plural}.monitoring.coreos.com")
    return server


def test_the_prometheus_operators_own_definitions_take_monitors_and_alerts(
    monitored: ApiServer, render: Callable[..., list[Object]]
) -> None:
    found = render(*monitoring("watchNamespaces={red,blue}"))
    kinds = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "Service")
    items = [each for each in found if each["kind"] in kinds]
    assert {each["kind"] for each in items} == set(kinds)
    monitored.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
    )


def test_a_kustomization_of_ones_own_has_its_namespace_and_its_images(
    server: ApiServer, tmp_path: Path
) -> None:
    """The one that deploy/kustomization.yaml shows."""
    shutil.copytree(ROOT / "deploy", tmp_path / "base")
    lines = (tmp_path / "base/kustomization.yaml").read_text().splitlines()
    shown = "\n".join(line.removeprefix("#   ") for line in lines if line.startswith("#   "))
    own = {**yaml.safe_load(shown), "resources": ["base"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
    objects = list(yaml.safe_load_all(server.kubectl("kustomize", str(tmp_path))))
    namespaces = {each["metadata"].get("namespace", "ml-platform") for each in objects}
    subjects = {subject["namespace"] for o in objects for subject in o.get("subjects", ())}
    assert namespaces == subjects == {"ml-platform"}
    assert NAMESPACE not in json.dumps(objects), "the operator would ask for a lease there"
    assert container(objects)["image"].startswith("registry.example.com/tftraining-operator:")
    trainer = environment(objects)["TFTRAINING_TRAINER_IMAGE"]
    assert trainer.startswith("registry.example.com/tftraining-trainer:")


def test_a_cluster_without_helm_takes_the_install_manifest(
    server: ApiServer, render: Callable[..., list[Object]]
) -> None:
    base = list(yaml.safe_load_all(server.kubectl("kustomize", str(ROOT / "deploy"))))
    file = [each for each in yaml.safe_load_all((ROOT / "deploy/install.yaml").read_text()) if each]
    named = {(each["kind"], each["metadata"]["name"]) for each in file}
    assert {(each["kind"], each["metadata"]["name"]) for each in base} == named
    rendered = {
        (each["kind"], each["metadata"]["name"])
        for each in render()
        if not is_hook(each["metadata"])
    }
    assert named - rendered == {("Namespace", NAMESPACE)}
    assert rendered <= named
    listed = {"apiVersion": "v1", "kind": "List", "items": file}
    server.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps(listed),
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


@pytest.mark.parametrize(
    ("peer", "taken"),
    [
        *(pytest.param(peer, True, id=name) for name, peer in peers.TAKEN.items()),
        *(pytest.param(peer, False, id=name) for name, (peer, _, _) in peers.REFUSED.items()),
        pytest.param(peers.OUTSIDE, False, id="an exception outside of the range"),
    ],
)
def test_the_api_server_takes_the_same_peers(
    server: ApiServer, peer: peers.Peer, *, taken: bool
) -> None:
    rule = {"from": [{"podSelector": {}}, peer]}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]}
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec}
    policy["metadata"] = {"name": "mnist-isolation", "namespace": "red"}
    answer = server.request(
        *("POST", "/apis/networking.k8s.io/v1/namespaces/red/networkpolicies", policy),
        query={"dryRun": "All", "fieldValidation": "Strict"},
    )
    assert answer.ok is taken, answer.message


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
    leases = "leases.coordination.k8s.io"
    assert may(server, account, "create", leases, NAMESPACE)
    assert may(server, account, "update", leases, NAMESPACE, name=FULLNAME)
    assert not may(server, account, "update", leases, NAMESPACE, name="kube-scheduler")
    assert may(server, account, "create", leases, "red")
    assert may(server, account, "update", leases, "red", name=claim.LEASE)
    assert not may(server, account, "update", leases, "red", name=FULLNAME)
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
    # The API server deletes the jobs first.
    eventually(
        lambda: not server.kubectl("get", "crd", crd.NAME, "--ignore-not-found"), "no CRD is left"
    )
    assert left(server).split() == []


def test_the_definition_and_the_access_of_users_can_go_to_another_release(
    server: ApiServer, run_helm: Helm
) -> None:
    def helm(command: str, release: str, *arguments: str) -> str:
        home = ("-n", f"{release}-system", *arguments)
        return run_helm(command, release, *home, kubeconfig=server.kubeconfig)

    chart, given = str(CHART), "crds.enabled={0},rbac.aggregate={0}"
    helm("install", RELEASE, chart)
    second = ("--create-namespace", "--set", "watchNamespaces={red}", "--set")
    helm("install", "vision", chart, *second, given.format("false"))
    over = ("--reset-then-reuse-values", "--take-ownership", "--set", given.format("true"))
    helm("upgrade", "vision", chart, *over)
    helm("uninstall", RELEASE)
    annotations = json.loads(server.kubectl("get", "crd", crd.NAME, "-o", "json"))["metadata"]
    assert annotations["annotations"]["meta.helm.sh/release-name"] == "vision"
    roles = server.kubectl("get", "clusterroles", "-o", "name").split()
    found = {name.rpartition("/")[2] for name in roles}
    assert {"vision-operator-viewer", "vision-operator-editor"} <= found
    assert f"{FULLNAME}-viewer" not in found
    helm("uninstall", "vision")
    server.kubectl("delete", "crd", crd.NAME)


def test_helm_test_tells_how_its_job_ended(
    server: ApiServer, render: Callable[..., list[Object]]
) -> None:
    """The program that `helm test` runs, against the API server; the test plays the operator."""
    server.serve_crd(ROOT / "crds")
    pod = only(render("watchNamespaces={red}"), "Pod", f"{FULLNAME}-test")
    program, manifest, _ = pod["spec"]["containers"][0]["args"]
    path = f"/apis/tftraining.dev/v1alpha1/namespaces/red/tftrainingjobs/{FULLNAME}-test"
    for state, code in (("Succeeded", 0), ("Failed", 1)):
        running = subprocess.Popen(
            [sys.executable, "-c", program, manifest, "30"],
            env={"KUBECONFIG": str(server.kubeconfig), "PATH": os.environ["PATH"]},
            stdout=subprocess.PIPE,
            text=True,
        )
        eventually(lambda: server.request("GET", path).ok, "the job is created")
        status = {"state": state, "message": "as told", "completionTime": "2026-01-02T03:04:05Z"}
        server.merge(f"{path}/status", {"status": status})
        said, _ = running.communicate(timeout=30)
        assert (running.returncode, said.splitlines()[-1]) == (code, f"{state}: as told")
        assert not server.request("GET", path).ok, "the job is deleted"


def may(
    server: ApiServer, account: str, verb: str, what: str, namespace: str, *, name: str = ""
) -> bool:
    """Ask the server whether an account has a right, to all objects or to one."""
    resource, _, subresource = what.partition("/")
    plural, _, group = resource.partition(".")
    attributes = {"verb": verb, "group": group, "resource": plural, "name": name}
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
