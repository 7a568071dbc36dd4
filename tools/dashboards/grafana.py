"""Panels and dashboards as Grafana imports them. Used by panels and __main__."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One query, and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph, or a table of what holds now."""

    title: str
    unit: str
    queries: Sequence[Query]
    kind: str = "timeseries"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[tuple[str, str]]
    """Names of variables and the queries of their values, in their order."""
    several: bool = False
    """Whether a variable may have several values at once."""


def rendered(dashboard: Dashboard) -> str:
    """Return a dashboard as Grafana imports it."""
    datasource = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    variables = [
        _variable(name, query, many=dashboard.several) for name, query in dashboard.variables
    ]
    document = {
        "uid": f"tftraining-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["tftraining"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [datasource, *variables]},
        "panels": [_panel(index, panel) for index, panel in enumerate(dashboard.panels)],
    }
    return json.dumps(document, indent=1) + "\n"


def _variable(name: str, query: str, *, many: bool) -> _Object:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": query,
        "refresh": 2,
        "includeAll": many,
        "multi": many,
        **({"allValue": ".*"} if many else {}),
    }


def _panel(index: int, panel: Panel) -> _Object:
    is_table = panel.kind == "table"
    row, column = divmod(index, _COLUMNS)
    return {
        "id": index + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _DATASOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _DATASOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                **({"instant": True, "format": "table"} if is_table else {}),
            }
            for number, query in enumerate(panel.queries)
        ],
    }
