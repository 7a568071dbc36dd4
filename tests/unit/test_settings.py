"""The operator's own settings, and what it says when one cannot be used."""

from __future__ import annotations

import pytest
from tftraining_operator.controller.settings import Settings, SettingsError


def test_without_an_environment_the_defaults_hold() -> None:
    assert Settings.from_environment({}) == Settings()


def test_settings_are_read_from_the_environment() -> None:
    found = Settings.from_environment(
        {
            "TFTRAINING_NAMESPACES": "team-a, team-b,",
            "TFTRAINING_TRAINER_IMAGE": "my/trainer:2",
            "TFTRAINING_LOG_LEVEL": "debug",
            "TFTRAINING_LOG_FORMAT": "json",
            "TFTRAINING_PROGRESS_SECONDS": "0.5",
            "TFTRAINING_RESYNC_SECONDS": "60",
            "TFTRAINING_WORKERS": "4",
            "TFTRAINING_METRICS_PORT": "9090",
            "TFTRAINING_LEASE_NAMESPACE": "here",
            "TFTRAINING_LEASE_NAME": "one-of-us",
            "TFTRAINING_LEASE_IDENTITY": "me",
            "TFTRAINING_LEASE_SECONDS": "30",
        }
    )
    lease = (found.lease_namespace, found.lease_name, found.lease_identity, found.lease_seconds)
    assert lease == ("here", "one-of-us", "me", 30)
    assert found.metrics_port == 9090
    assert found.namespaces == ("team-a", "team-b")
    assert (found.trainer_image, found.log_level, found.log_format) == (
        "my/trainer:2",
        "debug",
        "json",
    )
    assert (found.progress_seconds, found.resync_seconds, found.workers) == (0.5, 60, 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("LOG_LEVEL", "loud", id="a level that is none"),
        pytest.param("LOG_FORMAT", "xml", id="a format that is none"),
        pytest.param("PROGRESS_SECONDS", "often", id="a word for a number"),
        pytest.param("PROGRESS_SECONDS", "30", id="reports older than they may be"),
        pytest.param("RESYNC_SECONDS", "0", id="zero"),
        pytest.param("PROGRESS_SECONDS", "nan", id="no number"),
        pytest.param("RESYNC_SECONDS", "inf", id="without end"),
        pytest.param("WORKERS", "-1", id="less than none"),
        pytest.param("WORKERS", "0.5", id="half a worker"),
        pytest.param("METRICS_PORT", "65536", id="a port that is none"),
        pytest.param("LEASE_SECONDS", "0", id="a lease that is over when it begins"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"TFTRAINING_{name} is '{value}'"):
        Settings.from_environment({f"TFTRAINING_{name}": value})
