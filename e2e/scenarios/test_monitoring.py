"""What a real Prometheus makes of the operator and a job: targets, dashboards and alerts."""

import re

import pytest

from e2e.install import RELEASE
from e2e.jobs import endless, stalled, tasks
from e2e.prometheus import SCRAPE_SECONDS, Prometheus
from e2e.scenarios.space import Space, job_without_node
from tools.dashboards.grafana import Dashboard
from tools.dashboards.panels import DASHBOARDS
from tools.waiting import eventually

_STUCK, _STALLED = "TFTrainingJobStuckStarting", "TFTrainingJobStalled"


@pytest.mark.long
def test_prometheus_scrapes_operator_and_chief_fills_the_dashboards_and_alerts(
    space: Space, prometheus_server: Prometheus
) -> None:
    server = prometheus_server
    trained = endless("mnist", "--checkpoint-seconds=1")
    space.apply(tasks(), trained, job_without_node("stuck"), stalled())
    space.wait_for("Running")
    expect_targets(server, space)
    # The first end of a job in its namespace.
    space.apply(job_without_node("late", runPolicy={"startupDeadlineSeconds": 1}))
    ended = f'increase(tftraining_jobs_finished_total{{namespace="{space.name}"}}[1m])'
    eventually(lambda: sum(server.numbers(ended)) > 0, "the end of a job is an increase", 30)

    def fires(alert: str, job: str) -> bool:
        labels = [(each["namespace"], each["training_job"]) for each in server.firing(alert)]
        return (space.name, job) in labels

    eventually(lambda: fires(_STUCK, "stuck"), f"{_STUCK} fires", 90)
    for dashboard in DASHBOARDS:
        expect_data(server, dashboard, {"namespace": space.name, "training_job": "mnist"})
    # A minute without a step is a stall, and the operator names who waits for another minute.
    eventually(lambda: fires(_STALLED, "stalled"), f"{_STALLED} fires", 150)
    assert not fires(_STALLED, "mnist")
    space.kubectl("delete", "tftj/stuck", "tftj/stalled")
    eventually(
        lambda: not fires(_STUCK, "stuck") and not fires(_STALLED, "stalled"),
        "both are resolved",
        30,
    )


def expect_targets(server: Prometheus, space: Space) -> None:
    """Wait until both replicas of the operator and the chief are scraped, and steps are seen."""
    operator = f'up{{service="{RELEASE}-operator-metrics"}}'
    eventually(lambda: server.numbers(operator) == [1, 1], "both replicas are up", 60)
    chief = f'{{namespace="{space.name}", training_job="mnist", role="chief"}}'
    eventually(lambda: server.numbers(f"up{chief}") == [1], "the chief is up", 60)
    step = f"tftraining_step{chief}"
    first = eventually(lambda: server.numbers(f"{step} > 0"), "a step is seen", 60)
    eventually(lambda: server.numbers(step) > first, "more steps are seen", 60)


def expect_data(server: Prometheus, dashboard: Dashboard, variables: dict[str, str]) -> None:
    """Wait until each query of a dashboard has found a number, with these values to choose from."""
    choices = {
        (name, label, _asked(series, variables))
        for name, query in dashboard.variables
        for series, label in re.findall(r"^label_values\((.+), (\w+)\)$", query)
    }
    assert len(choices) == len(dashboard.variables)
    missing = {
        _asked(query.expr, variables) for panel in dashboard.panels for query in panel.queries
    }

    def can_be_chosen(name: str, label: str, series: str) -> bool:
        return variables[name] in {each.labels[label] for each in server.query(series)}

    def all_have_data() -> bool:
        # One by one: after a scrape that took too long a series has no number for a moment.
        choices.difference_update({each for each in choices if can_be_chosen(*each)})
        missing.difference_update({each for each in missing if server.numbers(each)})
        return not (choices or missing)

    try:
        eventually(all_have_data, f"all panels of {dashboard.title} have data", 30)
    except AssertionError as error:
        raise AssertionError(f"{error}; these have none: {missing}, {choices}") from error


def _asked(expression: str, variables: dict[str, str]) -> str:
    """Return a query as Grafana asks it."""
    asked = expression.replace("$__rate_interval", f"{4 * SCRAPE_SECONDS}s")
    return re.sub(r"\$(\w+)", lambda found: variables[found[1]], asked)
