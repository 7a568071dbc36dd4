from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tftraining_operator.api.problems import Problem, from_error
from tftraining_operator.api.types import parse_spec

from tests.unit.api.cases import CLAIM, TEMPLATE, a_container, a_spec


def told(spec: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        parse_spec(spec)
    return [str(problem) for problem in from_error(caught.value)]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        pytest.param(
            a_spec(worker_replcas=2),
            "spec.worker.replcas: unknown field; did you mean replicas?",
            id="a typo names the field that was meant",
        ),
        pytest.param(
            a_spec(runPolicy={"back_off_limit": 2}),
            "spec.runPolicy.back_off_limit: unknown field; did you mean backoffLimit?",
            id="underscores and case do not hide what was meant",
        ),
        pytest.param(
            a_spec(checkpoint=CLAIM | {"zzz": 1}),
            "spec.checkpoint.zzz: unknown field; known fields are"
            " persistentVolumeClaim, uri, emptyDir, path, resumeFrom",
            id="a field like no other lists what there is",
        ),
        pytest.param(
            a_spec(checkpoint_emptyDir={"medium": "Memory"}),
            "spec.checkpoint.emptyDir.medium: unknown field; this object has no fields",
            id="an object without fields says so",
        ),
        pytest.param(
            a_spec(worker_replicas="2"),
            "spec.worker.replicas: must be an integer: write 2 without quotes",
            id="a quoted number is to be unquoted",
        ),
        pytest.param(
            a_spec(worker_replicas="many"),
            'spec.worker.replicas: must be an integer, not "many"',
            id="a word is no number",
        ),
        pytest.param(
            a_spec(worker_replicas=1.5),
            "spec.worker.replicas: must be an integer, not 1.5",
            id="a fraction is no integer",
        ),
        pytest.param(
            a_spec(worker_replicas=-1),
            "spec.worker.replicas: must be at least 0, not -1",
            id="a bound is told from below",
        ),
        pytest.param(
            a_spec(worker_replicas=1001),
            "spec.worker.replicas: must be at most 1000, not 1001",
            id="a bound is told from above",
        ),
        pytest.param(
            a_spec(runPolicy_backoffLimit=10**400),
            f"spec.runPolicy.backoffLimit: must be at most 1000, not 1{'0' * 39}...",
            id="a long value is shortened",
        ),
        pytest.param(
            a_spec(runPolicy_suspend="yes"),
            "spec.runPolicy.suspend: must be true or false: write true without quotes",
            id="YAML 1.1's booleans are named",
        ),
        pytest.param(
            a_spec(runPolicy_suspend=1),
            "spec.runPolicy.suspend: must be true or false, not 1",
            id="a number is no boolean",
        ),
        pytest.param(
            a_spec(strategy="parameterserver"),
            "spec.strategy: must be one of ParameterServer, MultiWorkerMirrored, Mirrored,"
            ' not "parameterserver"; did you mean ParameterServer?',
            id="an enum lists its values and guesses one",
        ),
        pytest.param(
            a_spec(strategy="TPU"),
            "spec.strategy: must be one of ParameterServer, MultiWorkerMirrored, Mirrored,"
            ' not "TPU"',
            id="an enum does not guess wildly",
        ),
        pytest.param(
            a_spec(worker=3),
            "spec.worker: must be an object, not 3",
            id="a role is an object",
        ),
        pytest.param(
            a_spec(template={"spec": {"containers": TEMPLATE}}),
            "spec.template.spec.containers: must be a list, not an object",
            id="containers are a list",
        ),
        pytest.param(
            a_spec(template={"spec": {"containers": [{"image": "busybox"}]}}),
            "spec.template.spec.containers[0].name: is required",
            id="a missing field is named with its index",
        ),
        pytest.param(
            a_spec(template=a_container(image=7)),
            'spec.template.spec.containers[0].image: must be a string: write "7" in quotes',
            id="an unquoted string is to be quoted",
        ),
        pytest.param(
            a_spec(template={"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
            "spec.template.spec.containers: name must be unique; given more than once: a",
            id="a name given twice is named",
        ),
        pytest.param(
            a_spec(template={"spec": {"initContainers": [{"name": "a"}] * 33}}),
            "spec.template.spec.initContainers: has 33 items; the maximum is 32",
            id="the number of init containers is limited as that of containers",
        ),
        pytest.param(
            a_spec(template={"spec": {"initContainers": ["a"]}}),
            'spec.template.spec.initContainers[0]: must be an object, not "a"',
            id="an init container is an object",
        ),
        pytest.param(
            a_spec(checkpoint_persistentVolumeClaim={"claimName": ""}),
            "spec.checkpoint.persistentVolumeClaim.claimName: must not be empty",
            id="an empty name is refused in words",
        ),
        pytest.param(
            a_spec(checkpoint=CLAIM | {"path": "data"}),
            'spec.checkpoint.path: "data" does not match ^/.+',
            id="a pattern is shown",
        ),
        pytest.param(
            a_spec(runPolicy_managedBy="x" * 64),
            "spec.runPolicy.managedBy: has 64 characters; the maximum is 63",
            id="a long string is counted",
        ),
        pytest.param(None, "spec: must be an object, not null", id="no spec at all"),
    ],
)
def test_an_error_tells_the_author_what_to_write(spec: Any, sentence: str) -> None:
    assert told(spec) == [sentence]


def test_all_errors_are_told_at_once() -> None:
    assert len(told(a_spec(worker_replcas=2, strategy="TPU", chief=1))) == 3


def test_a_problem_reads_as_path_and_sentence() -> None:
    assert str(Problem("spec.ps", "needs replicas")) == "spec.ps: needs replicas"
