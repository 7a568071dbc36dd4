"""The chart's alerts, evaluated by Prometheus' own engine (promtool) on series of our making."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import yaml

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

RULES = ROOT / "charts/tftraining-operator/files/alerts.yaml"
TESTS = ROOT / "tests/integration/alerts.yaml"


def run(promtool: Path, *arguments: str) -> None:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_rules(promtool: Path) -> None:
    run(promtool, "check", "rules", "--lint-fatal", str(RULES))


def test_alerts_fire_when_they_should_and_not_before(promtool: Path) -> None:
    run(promtool, "test", "rules", str(TESTS))


def test_every_alert_fires_in_a_test_and_is_silent_in_a_healthy_installation() -> None:
    alerts = {
        rule["alert"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
    }
    healthy, *others = yaml.safe_load(TESTS.read_text())["tests"]
    assert {each["alertname"] for each in healthy["alert_rule_test"]} == alerts
    fired = {
        each["alertname"]
        for test in others
        for each in test["alert_rule_test"]
        if each.get("exp_alerts")
    }
    assert fired == alerts
