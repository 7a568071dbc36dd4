"""Jobs as they are stored: by this operator, by another version, or by somebody's hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tftraining_operator.core.job import InvalidJobError, Job, parse_job

from tests.unit.api.strategies import broken_specs
from tests.unit.builders import JobBuilder, a_job, at, stamp

NEWER_SPECS: list[Any] = [
    pytest.param({"precision": "bfloat16"}, id="in spec"),
    pytest.param({"runPolicy": {"maxStepsLost": 100}}, id="in runPolicy"),
    pytest.param({"chief": {"spare": 1}}, id="in a role"),
    pytest.param(
        {"checkpoint": {"persistentVolumeClaim": {"claimName": "c", "readOnly": None}}},
        id="in a claim, as null",
    ),
]


def parsed(job: JobBuilder) -> Job:
    return parse_job(job.raw, at(60))


@pytest.mark.parametrize("fields", NEWER_SPECS)
@pytest.mark.parametrize("started", [True, False], ids=["started", "not started"])
def test_a_field_of_a_newer_version_is_ignored(fields: dict[str, Any], *, started: bool) -> None:
    job = a_job().with_spec(**fields)
    found = parsed(job.with_status() if started else job)
    assert (found.unsupported, found.repairs) == ("", ())
    assert not hasattr(found.spec, "precision")


def test_a_template_keeps_what_no_version_of_ours_knows() -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "x": 1}], "y": {"z": None}}, "v": 2}
    found = parsed(a_job().with_spec(template=template, precision="bfloat16"))
    assert found.spec.template is not None
    assert found.spec.template.as_dict() == template


UNINTELLIGIBLE: list[Any] = [
    pytest.param({"strategy": "TPU"}, "spec.strategy: must be one of", id="a value of an enum"),
    pytest.param(
        {"worker": {"replicas": "auto"}}, "spec.worker.replicas: must be an integer", id="a type"
    ),
    pytest.param({"ps": {"replicas": 0}}, "spec.ps: strategy ParameterServer needs", id="a rule"),
]


@pytest.mark.parametrize(("fields", "why"), UNINTELLIGIBLE)
def test_a_started_job_that_cannot_be_understood_is_unsupported(
    fields: dict[str, Any], why: str
) -> None:
    found = parsed(a_job().with_spec(**fields).with_status())
    assert found.unsupported.startswith(why)
    assert found.status.start_time == stamp()


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"first_running_time": stamp()}, id="it ran"),
        pytest.param({"active_seconds": 5}, id="it was started"),
        pytest.param({"attempt": 1}, id="it had a chief"),
    ],
)
def test_a_job_that_is_suspended_or_queued_counts_as_started(status: dict[str, Any]) -> None:
    found = parsed(a_job().with_spec(strategy="TPU").with_status(start_time=None, **status))
    assert found.status.start_time is None
    assert found.unsupported.startswith("spec.strategy: must be one of")


@pytest.mark.parametrize(("fields", "why"), UNINTELLIGIBLE)
def test_before_it_is_started_it_is_invalid(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidJobError, match=why):
        parsed(a_job().with_spec(**fields))


def test_of_an_unsupported_spec_the_rest_is_understood() -> None:
    job = a_job().with_spec(strategy="TPU", worker={"replicas": 3, "minReplicas": "most"})
    found = parsed(job.with_policy(backoffLimit=7).with_status())
    assert found.spec.worker is not None
    assert (found.spec.worker.replicas, found.spec.worker.min_replicas) == (3, None)
    assert found.spec.run_policy.backoff_limit == 7
    assert found.unsupported.count("spec.") == 2


def test_a_job_whose_start_time_is_garbage_counts_as_started() -> None:
    job = a_job().with_spec(strategy="TPU")
    job.raw["status"] = {"startTime": "garbage"}
    assert parsed(job).unsupported


def test_a_stored_job_need_not_obey_a_rule_for_what_is_written_anew() -> None:
    job = a_job().with_spec(checkpoint={"uri": "file:///data/x"})
    assert parsed(job).unsupported == ""
    assert parsed(job.with_status()).unsupported == ""


@given(broken_specs())
def test_whatever_the_spec_a_started_job_is_never_invalid(spec: Any) -> None:
    job = a_job().with_status()
    job.raw["spec"] = spec
    started = parsed(job)
    del job.raw["status"]
    if started.unsupported:
        with pytest.raises(InvalidJobError):
            parsed(job)
    else:
        assert parsed(job).spec == started.spec
