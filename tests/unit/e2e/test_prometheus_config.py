"""How what the chart renders for the Prometheus operator becomes Prometheus' configuration."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.prometheus_config import from_node, scrape_configs, shortened, through_api_server

ALERTS = Path(__file__).parents[3] / "charts/tftraining-operator/files/alerts.yaml"
ACCESS = through_api_server(8001)

SERVICES: dict[str, Any] = {
    "kind": "ServiceMonitor",
    "metadata": {"name": "operator", "namespace": "system"},
    "spec": {
        "selector": {"matchLabels": {"app.kubernetes.io/name": "operator"}},
        "endpoints": [
            {"port": "metrics", "path": "/metrics", "interval": "2s", "honorLabels": True}
        ],
    },
}
PODS: dict[str, Any] = {
    "kind": "PodMonitor",
    "metadata": {"name": "jobs", "namespace": "system"},
    "spec": {
        "namespaceSelector": {"any": True},
        "selector": {
            "matchExpressions": [
                {"key": "tftraining.dev/job", "operator": "Exists"},
                {"key": "tftraining.dev/role", "operator": "In", "values": ["chief", "evaluator"]},
            ]
        },
        "podMetricsEndpoints": [
            {
                "port": "progress",
                "path": "/metrics",
                "interval": "30s",
                "relabelings": [
                    {
                        "sourceLabels": ["__meta_kubernetes_pod_label_tftraining_dev_job"],
                        "targetLabel": "training_job",
                    }
                ],
            }
        ],
    },
}


def relabeled(config: dict[str, Any], labels: dict[str, str]) -> dict[str, str] | None:
    """Return a target's labels as Prometheus makes them from those that were discovered."""
    labels = {"__metrics_path__": config["metrics_path"], **labels}
    for rule in config["relabel_configs"]:
        value = ";".join(labels.get(name, "") for name in rule.get("source_labels", ()))
        found = re.fullmatch(rule.get("regex", "(.*)"), value)
        action = rule.get("action", "replace")
        if (action == "keep" and not found) or (action == "drop" and found):
            return None
        if action == "replace" and found:
            template = re.sub(r"\$\{?(\d)\}?", r"\\\1", rule.get("replacement", "$1"))
            labels[rule["target_label"]] = found.expand(template)
    kept = {name: value for name, value in labels.items() if not name.startswith("__meta")}
    return {name: value for name, value in kept.items() if value}


def target(**meta: str) -> dict[str, str]:
    discovered = {f"__meta_kubernetes_{name}": value for name, value in meta.items()}
    return {"__address__": "198.19.128.7:8080", **discovered}


CHIEF = {
    "namespace": "red",
    "pod_name": "mnist-chief-0",
    "pod_phase": "Running",
    "pod_container_name": "tensorflow",
    "pod_container_port_name": "progress",
    "pod_label_tftraining_dev_job": "mnist",
    "pod_labelpresent_tftraining_dev_job": "true",
    "pod_label_tftraining_dev_role": "chief",
}


def test_a_pod_gets_the_labels_of_a_podmonitor_and_is_reached_through_the_api_server() -> None:
    (config,) = scrape_configs([PODS], ACCESS)
    assert config["scrape_interval"] == "30s"
    assert config["honor_labels"] is False
    assert "namespaces" not in config["kubernetes_sd_configs"][0]
    assert relabeled(config, target(**CHIEF)) == {
        "__address__": "127.0.0.1:8001",
        "__metrics_path__": "/api/v1/namespaces/red/pods/mnist-chief-0:8080/proxy/metrics",
        "instance": "198.19.128.7:8080",
        "namespace": "red",
        "pod": "mnist-chief-0",
        "container": "tensorflow",
        "job": "system/jobs",
        "endpoint": "progress",
        "training_job": "mnist",
    }


def test_on_a_node_a_pod_is_reached_at_its_own_address() -> None:
    (config,) = scrape_configs([PODS], from_node("/etc/kubeconfig"))
    (discovery,) = config["kubernetes_sd_configs"]
    assert discovery == {"role": "pod", "kubeconfig_file": "/etc/kubeconfig"}
    labels = relabeled(config, target(**CHIEF))
    assert labels is not None
    assert labels["__address__"] == "198.19.128.7:8080"
    assert labels["__metrics_path__"] == "/metrics"
    assert (labels["namespace"], labels["pod"]) == ("red", "mnist-chief-0")
    assert labels["training_job"] == "mnist"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"pod_phase": "Succeeded"}, id="it has ended"),
        pytest.param({"pod_label_tftraining_dev_role": "worker"}, id="its label has another value"),
        pytest.param({"pod_labelpresent_tftraining_dev_job": ""}, id="it lacks a label"),
        pytest.param({"pod_container_port_name": "grpc"}, id="it is another port"),
    ],
)
def test_a_pod_is_not_scraped_if(change: dict[str, str]) -> None:
    (config,) = scrape_configs([PODS], ACCESS)
    assert relabeled(config, target(**CHIEF | change)) is None


def test_the_pods_of_a_service_get_the_labels_of_a_servicemonitor() -> None:
    (config,) = scrape_configs([SERVICES], ACCESS)
    assert config["honor_labels"] is True
    assert config["kubernetes_sd_configs"][0]["namespaces"] == {"names": ["system"]}
    pod = {
        "namespace": "system",
        "service_name": "operator-metrics",
        "service_label_app_kubernetes_io_name": "operator",
        "endpointslice_port_name": "metrics",
        "pod_name": "operator-1",
        "pod_container_name": "operator",
    }
    assert relabeled(config, target(**pod)) == {
        "__address__": "127.0.0.1:8001",
        "__metrics_path__": "/api/v1/namespaces/system/pods/operator-1:8080/proxy/metrics",
        "instance": "198.19.128.7:8080",
        "namespace": "system",
        "service": "operator-metrics",
        "pod": "operator-1",
        "container": "operator",
        "job": "operator-metrics",
        "endpoint": "metrics",
    }
    assert (
        relabeled(config, target(**pod | {"service_label_app_kubernetes_io_name": "another"}))
        is None
    )


def test_a_field_that_is_not_translated_is_refused() -> None:
    changed = copy.deepcopy(PODS)
    changed["spec"]["podMetricsEndpoints"][0]["sampleLimit"] = 5
    with pytest.raises(ValueError, match="PodMonitor jobs: sampleLimit is not translated"):
        scrape_configs([changed], ACCESS)


def test_shortened_alerts_fire_in_seconds_and_are_otherwise_the_same() -> None:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    short = [rule for group in shortened(groups, 2) for rule in group["rules"]]
    assert {rule["for"] for rule in short} == {"2s"}
    changed = {
        new["alert"]: new["expr"]
        for old, new in zip(rules, short, strict=True)
        if new != {**old, "for": "2s"}
    }
    assert changed == {
        f"TFTrainingJob{alert}": (
            "max by (namespace, training_job) "
            f'(tftraining_job_waiting_seconds{{reason="{reason}"}}) > 0'
        )
        for alert, reason in (
            ("Stalled", "Stalled"),
            ("Queued", "Queued"),
            ("StuckStarting", "Starting"),
            ("Interrupted", "Interrupted"),
        )
    }
