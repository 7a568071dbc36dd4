"""Prometheus' configuration from what the chart renders for the Prometheus operator. Pure.

Targets get the labels that the Prometheus operator gives, because queries depend on them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_Object = dict[str, Any]

_META = "__meta_kubernetes_"
_ENDPOINT_FIELDS = {"port", "path", "interval", "honorLabels", "relabelings"}
_RELABELING_FIELDS = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
_WAITING_LIMIT = re.compile(r"(tftraining_job_waiting_seconds\{.*\}\)) > \d+")


@dataclass(frozen=True, slots=True)
class Access:
    """How Prometheus finds its targets and connects to them."""

    discovery: Mapping[str, Any]
    """Where the API server is, in the words of kubernetes_sd_configs."""
    relabelings: tuple[_Object, ...] = ()
    """What becomes of a target's address."""


def through_api_server(port: int) -> Access:
    """Have pods scraped by the API server's proxy, from outside of the cluster's network.

    The API server answers on this port of loopback without credentials. The address of a pod stays
    in its label `instance`.
    """
    path = [
        *(f"{_META}namespace", f"{_META}pod_name"),
        *("__address__", "__metrics_path__"),
    ]
    return Access(
        {"api_server": f"http://127.0.0.1:{port}"},
        (
            # Else the API server's own metrics would be scraped of a target whose pod is unknown.
            {"action": "keep", **_of("pod_name"), "regex": ".+"},
            {"source_labels": ["__address__"], "target_label": "instance"},
            {
                "source_labels": path,
                "regex": r"(.+);(.+);.+:(\d+);(.+)",
                "target_label": "__metrics_path__",
                "replacement": "/api/v1/namespaces/${1}/pods/${2}:${3}/proxy${4}",
            },
            {"target_label": "__address__", "replacement": f"127.0.0.1:{port}"},
        ),
    )


def from_node(kubeconfig: str) -> Access:
    """Have pods scraped at their own addresses, by a Prometheus on a node with this kubeconfig."""
    return Access({"kubeconfig_file": kubeconfig})


def scrape_configs(monitors: Iterable[_Object], access: Access) -> list[_Object]:
    """Return what Prometheus reads as scrape_configs, one for each endpoint of each monitor.

    `monitors` are ServiceMonitors and PodMonitors. Raises ValueError for a field that is not
    translated.
    """
    return [
        _scrape_config(monitor, number, endpoint, access)
        for monitor in monitors
        for number, endpoint in enumerate(
            monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
        )
    ]


def shortened(groups: Iterable[_Object], seconds: int) -> list[_Object]:
    """Return groups of rules whose alerts fire so many seconds after what they tell of began.

    A job counts as waiting as soon as the operator says so, which it does after a minute.
    """
    return [
        {**group, "rules": [_shortened(r, seconds) for r in group["rules"]]} for group in groups
    ]


def _shortened(rule: _Object, seconds: int) -> _Object:
    return {**rule, "for": f"{seconds}s", "expr": _WAITING_LIMIT.sub(r"\1 > 0", rule["expr"])}


def _scrape_config(monitor: _Object, number: int, endpoint: _Object, access: Access) -> _Object:
    metadata, spec = monitor["metadata"], monitor["spec"]
    namespace, name = metadata["namespace"], metadata["name"]
    _refuse_unknown(f"{monitor['kind']} {name}", endpoint, _ENDPOINT_FIELDS)
    of_services = monitor["kind"] == "ServiceMonitor"
    labels = _service_labels if of_services else _pod_labels
    watched = _namespaces(spec.get("namespaceSelector", {}), namespace)
    kind = "serviceMonitor" if of_services else "podMonitor"
    return {
        "job_name": f"{kind}/{namespace}/{name}/{number}",
        "honor_labels": endpoint.get("honorLabels", False),
        "scrape_interval": endpoint["interval"],
        "metrics_path": endpoint["path"],
        "kubernetes_sd_configs": [
            {
                "role": "endpointslice" if of_services else "pod",
                **access.discovery,
                **({"namespaces": {"names": watched}} if watched else {}),
            }
        ],
        "relabel_configs": [
            {"action": "drop", **_of("pod_phase"), "regex": "Failed|Succeeded"},
            *_selected("service" if of_services else "pod", spec["selector"]),
            *labels(endpoint["port"], f"{namespace}/{name}"),
            {"target_label": "endpoint", "replacement": endpoint["port"]},
            *(_relabeling(name, each) for each in endpoint.get("relabelings", ())),
            *access.relabelings,
        ],
    }


def _namespaces(selector: Mapping[str, Any], own: str) -> list[str]:
    """Return the namespaces that a monitor selects, [] for all."""
    return [] if selector.get("any") else selector.get("matchNames", [own])


def _selected(kind: str, selector: Mapping[str, Any]) -> Iterable[_Object]:
    """Keep the objects that a label selector matches."""
    wanted = {label: [value] for label, value in selector.get("matchLabels", {}).items()}
    present = []
    for each in selector.get("matchExpressions", ()):
        if each["operator"] == "In":
            wanted[each["key"]] = each["values"]
        elif each["operator"] == "Exists":
            present.append(each["key"])
        else:
            raise ValueError(f"the operator {each['operator']} of a selector is not translated")
    for label, values in wanted.items():
        pattern = "|".join(map(re.escape, values))
        yield {"action": "keep", **_of(f"{kind}_label_{_word(label)}"), "regex": pattern}
    for label in present:
        yield {"action": "keep", **_of(f"{kind}_labelpresent_{_word(label)}"), "regex": "true"}


def _service_labels(port: str, _monitor: str) -> Iterable[_Object]:
    yield {"action": "keep", **_of("endpointslice_port_name"), "regex": re.escape(port)}
    yield {**_of("namespace"), "target_label": "namespace"}
    yield {**_of("service_name"), "target_label": "service"}
    yield {**_of("service_name"), "target_label": "job"}
    yield {**_of("pod_name"), "target_label": "pod"}
    yield {**_of("pod_container_name"), "target_label": "container"}


def _pod_labels(port: str, monitor: str) -> Iterable[_Object]:
    yield {"action": "keep", **_of("pod_container_port_name"), "regex": re.escape(port)}
    yield {**_of("namespace"), "target_label": "namespace"}
    yield {"target_label": "job", "replacement": monitor}
    yield {**_of("pod_name"), "target_label": "pod"}
    yield {**_of("pod_container_name"), "target_label": "container"}


def _relabeling(monitor: str, relabeling: Mapping[str, Any]) -> _Object:
    _refuse_unknown(monitor, relabeling, _RELABELING_FIELDS)
    return {_RELABELING_FIELDS[field]: value for field, value in relabeling.items()}


def _of(source: str) -> _Object:
    return {"source_labels": [f"{_META}{source}"]}


def _word(label: str) -> str:
    return re.sub(r"\W", "_", label)


def _refuse_unknown(where: str, found: Iterable[str], known: Iterable[str]) -> None:
    if unknown := sorted({*found} - {*known}):
        raise ValueError(f"{where}: {', '.join(unknown)} is not translated")
