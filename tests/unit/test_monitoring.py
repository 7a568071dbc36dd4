"""Alerts and dashboards of the chart name metrics that exist, and the runbook names every alert."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tftraining_operator.controller.job_metrics import WAITING_SECONDS, WAITS
from tftraining_operator.controller.metrics import Metrics

from e2e.questions import QUESTIONS

ROOT = Path(__file__).parents[2]
FILES = ROOT / "charts/tftraining-operator/files"
# The tables of this page are generated from what operator and trainer serve.
PAGE = (ROOT / "docs/guide/monitoring.md").read_text()
RUNBOOK = (ROOT / "docs/runbook.md").read_text()

RULES = [
    rule
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in FILES.glob("dashboards/*.json")}

_METRIC = re.compile(r"\btftraining_\w+")
_SELECTOR = re.compile(r"(tftraining_\w+)\{([^}]*)\}")
_BY = re.compile(r"\bby \(([^)]*)\)")


def documented() -> dict[str, set[str]]:
    """Return the labels of every metric, under all names by which a query may ask for it."""
    found: dict[str, set[str]] = {}
    rows = re.findall(r"^\| `(tftraining_\w+)` \| (\w+) \| (.*?) \|", PAGE, re.MULTILINE)
    for name, kind, text in rows:
        labels = set(re.findall(r"`(\w+)`", text))
        if kind == "histogram":
            found |= {f"{name}_{part}": labels | {"le"} for part in ("bucket", "sum", "count")}
        else:
            found[name] = labels
    return found


METRICS = documented()
ADDED = {"namespace", "pod", "training_job", "role"}
"""Labels that the monitors add."""


def queries(dashboard: dict[str, Any]) -> list[str]:
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = dashboard["templating"]["list"]
    return found + [each["query"] for each in variables if each["type"] == "query"]


EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in RULES),
    *(
        pytest.param(query, id=f"{name}: {query[:60]}")
        for name, dashboard in DASHBOARDS.items()
        for query in queries(dashboard)
    ),
    *(pytest.param(query, id=query[:60]) for each in QUESTIONS for query in each.queries),
]


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_a_query_names_metrics_and_labels_that_exist(expr: str) -> None:
    names = _METRIC.findall(expr)
    assert names
    assert set(names) <= METRICS.keys()
    for name, selector in _SELECTOR.findall(expr):
        assert set(re.findall(r"(\w+)(?==)", selector)) <= METRICS[name] | ADDED, name
    labels = set().union(*(METRICS[name] for name in names)) | ADDED
    for group in _BY.findall(expr):
        assert {label.strip() for label in group.split(",")} <= labels


def test_jobs_are_added_up_over_shards() -> None:
    """Each process counts the jobs of its own ones."""
    asked = [query for each in QUESTIONS for query in each.queries]
    asked += [query for each in DASHBOARDS.values() for query in queries(each)]
    counts = {"tftraining_jobs", "tftraining_jobs_waiting"}
    found = [query for query in asked if counts & {*_METRIC.findall(query)}]
    values = [query for query in found if not query.startswith("label_values(")]
    assert values
    assert [query for query in values if not query.startswith("sum by (")] == []


def shown() -> set[str]:
    asked = " ".join(query for each in DASHBOARDS.values() for query in queries(each))
    return set(re.findall(r"\b(?:tftraining|process)_\w+", asked))


def test_every_metric_has_a_panel() -> None:
    histograms = {name for name in METRICS if name.endswith(("_sum", "_count"))}
    assert METRICS.keys() - histograms - shown() == set()


def test_what_the_client_says_of_the_process_has_a_panel_or_a_reason() -> None:
    served = {sample.name for metric in Metrics().registry.collect() for sample in metric.samples}
    (without,) = re.findall(r"`(process_\w+)` has no panel", PAGE)
    assert {name for name in served if name.startswith("process_")} - shown() == {without}


def test_panels_do_not_overlap_and_name_their_unit() -> None:
    for dashboard in DASHBOARDS.values():
        places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
        assert len(set(places)) == len(places)
        assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in dashboard["panels"])


def test_the_waits_that_alerts_select_are_those_that_exist() -> None:
    selected = {word for rule in RULES for word in re.findall(r'reason="(\w+)"', rule["expr"])}
    assert selected == set(WAITS) - {"Rejected"}, "a rejected job is its owner's affair"


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in RULES])
def test_an_alert_has_a_severity_a_summary_and_a_section_of_the_runbook(
    rule: dict[str, Any],
) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
    assert {"summary", "description"} <= rule["annotations"].keys()
    assert rule["for"]


def test_the_runbook_has_a_section_for_each_alert_and_no_other() -> None:
    sections = re.findall(r"^## (TFTraining\w+)$", RUNBOOK, re.MULTILINE)
    assert sections == [rule["alert"] for rule in RULES]


def test_the_runbook_answers_each_question() -> None:
    for question in QUESTIONS:
        assert f"**{question.text}** {question.reading}\n" in RUNBOOK
        for query in question.queries:
            assert f"\n{query}\n  " in RUNBOOK, "no answer"


def test_the_answers_show_what_went_wrong() -> None:
    situation, *answers = re.split(
        r"^\*\*", RUNBOOK.partition("<!-- end of answers")[0], flags=re.MULTILINE
    )
    (delay,) = re.findall(r"takes (\d\.\d) s\s+longer", situation)
    hurts, many, leaders, _, api, _ = answers
    waiting = re.findall(r'reason="(\w+)", training_job="(\w+)"} (\d+)', hurts)
    assert {(job, reason) for reason, job, _ in waiting} == {
        ("stuck", "Starting"),
        ("stalled", "Stalled"),
    }
    assert all(float(seconds) > WAITING_SECONDS for _, _, seconds in waiting)
    assert {*re.findall(r'reason="(\w+)"} 1$', many, re.MULTILINE)} == {"Starting", "Stalled"}
    assert re.search(r"max_over_time.*\n  \{\} 2$", leaders, re.MULTILINE), "the leader was killed"
    assert re.search(r'code="error".* 0\.\d', api)
    (slow,) = re.findall(r"api_request_duration.*\n  \{\} (\S+)$", api, re.MULTILINE)
    assert float(slow) > float(delay)


LOGS = re.compile(r"kubectl logs -n (?:N|tftraining-system)[^|`]*")


@pytest.mark.parametrize("page", ["docs/runbook.md", "docs/guide/monitoring.md"])
def test_the_operators_log_is_read_from_all_replicas_to_its_beginning(page: str) -> None:
    """Of a Deployment kubectl reads one pod, perhaps a standby; of a selection ten lines each."""
    text = " ".join((ROOT / page).read_text().split())
    searched = [each for each in LOGS.findall(text) if "--previous" not in each]
    assert searched
    for command in searched:
        assert "-l app.kubernetes.io/name=tftraining-operator" in command
        assert "--tail=-1" in command


def test_the_runbook_says_which_wait_has_no_alert() -> None:
    selected = {word for rule in RULES for word in re.findall(r'reason="(\w+)"', rule["expr"])}
    (without,) = set(WAITS) - selected
    assert f"Each reason but `{without}` has an alert below" in RUNBOOK
