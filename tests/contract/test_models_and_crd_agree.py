"""What the models accept a real API server accepts, and what they refuse it refuses.

Both are asked the same: tables of edges, and specs that hypothesis makes up and breaks. Where both
accept, what the server would store is what the models hold; where rules refuse, they are the same
rules with the same words. Server-side dry runs with strict field validation, so nothing is stored.
"""

from __future__ import annotations

import copy
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tftraining_operator.api import keys
from tftraining_operator.api.rules import problems
from tftraining_operator.api.transitions import update_problems
from tftraining_operator.api.types import Spec, parse_spec

from tests.unit.api import edges
from tests.unit.api.cases import BROKEN, CHANGES, Broken, Change
from tests.unit.api.strategies import broken_specs, changed_specs, specs, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from tftraining_operator.api.problems import Problem

    from tests.apiserver import ApiServer, Response

JOBS = f"/apis/{keys.API_VERSION}/namespaces/default/{keys.PLURAL}"

# The same examples each time: a failure in CI is a failure at home.
FEW = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)

pytestmark = pytest.mark.usefixtures("crd")


def a_job(name: str, spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def create(apiserver: ApiServer) -> Callable[[str, Any], Response]:
    """Ask the server to create a job, without storing it."""

    def ask(name: str, spec: Any) -> Response:
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        return apiserver.request("POST", JOBS, a_job(name, spec), query=query)

    return ask


@pytest.fixture(scope="module")
def update(apiserver: ApiServer) -> Callable[[Any, Any, str], Response]:
    """Store a job in a state, ask the server to change it, without storing the change."""

    def ask(old: Any, new: Any, state: str) -> Response:
        job = a_job(f"job-{secrets.token_hex(4)}", old)
        path = f"{JOBS}/{job['metadata']['name']}"
        stored = apiserver.request("POST", JOBS, job)
        assert stored.ok, stored.message
        if state:
            told = stored.body | {"status": {"state": state}}
            stored = apiserver.request("PUT", f"{path}/status", told)
            assert stored.ok, stored.message
        changed = stored.body | {"spec": copy.deepcopy(new)}
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        return apiserver.request("PUT", path, changed, query=query)

    return ask


def parsed(spec: Any) -> Spec | None:
    try:
        return parse_spec(spec)
    except ValidationError:
        return None


def agree(name: str, spec: Any, answer: Response) -> None:
    """Assert that the server's answer to a create is the models' own."""
    model = parsed(spec)
    if model is None:
        assert not answer.ok, f"the server alone accepts {spec}"
        return
    expected = problems(name, model)
    assert answer.ok == (not expected), f"{expected or 'the models accept'}: {answer.message}"
    if expected:
        assert_told(answer, expected)
    else:
        assert_stored(answer, model)


def assert_told(answer: Response, expected: list[Problem]) -> None:
    """Assert that the server tells the same problems, in the same words, each at its field."""
    causes = answer.body["details"]["causes"]
    words = sorted(cause["message"].removeprefix("Invalid value: ") for cause in causes)
    assert words == sorted(problem.message for problem in expected)
    paths = {c["field"] for c in causes if c["field"] != "<nil>"}
    assert paths == {p.path for p in expected if not p.path.startswith("metadata")}


def assert_stored(answer: Response, model: Spec) -> None:
    """Assert that the server would store what the models hold, with every default."""
    stored = answer.body["spec"]
    assert parse_spec(stored) == model
    assert stored == without_nulls_of(stored, model)


def without_nulls_of(stored: Any, model: Spec) -> Any:
    """Dump the model as JSON; an undeclared null in a template stays where the server has one."""
    return _prune(model.model_dump(mode="json", by_alias=True), stored)


def _prune(dumped: Any, stored: Any) -> Any:
    if isinstance(dumped, dict) and isinstance(stored, dict):
        return {
            key: _prune(value, stored.get(key))
            for key, value in dumped.items()
            if value is not None or key in stored
        }
    if isinstance(dumped, list) and isinstance(stored, list) and len(dumped) == len(stored):
        return [_prune(*pair) for pair in zip(dumped, stored, strict=True)]
    return dumped


@pytest.mark.parametrize("spec", edges.ACCEPTED.values(), ids=edges.ACCEPTED.keys())
def test_both_accept(create: Callable[[str, Any], Response], spec: Any) -> None:
    answer = create("mnist", spec)
    assert answer.ok, answer.message
    agree("mnist", spec, answer)


@pytest.mark.parametrize("spec", edges.REFUSED.values(), ids=edges.REFUSED.keys())
def test_both_refuse(create: Callable[[str, Any], Response], spec: Any) -> None:
    answer = create("mnist", spec)
    assert not answer.ok
    agree("mnist", spec, answer)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.why)
def test_the_server_refuses_with_the_same_one_rule(
    create: Callable[[str, Any], Response], case: Broken
) -> None:
    answer = create(case.name, case.spec)
    assert not answer.ok
    agree(case.name, case.spec, answer)


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.why)
def test_the_server_allows_or_refuses_the_same_change(
    update: Callable[[Any, Any, str], Response], case: Change
) -> None:
    answer = update(case.old, case.new, case.state)
    assert answer.ok == (not case.field), answer.message
    if case.field:
        old, new = parse_spec(case.old), parse_spec(case.new)
        assert_told(answer, update_problems(old, new, state=case.state))


@FEW
@given(spec=specs())
def test_both_hold_the_same_of_any_spec_of_the_right_types(
    create: Callable[[str, Any], Response], spec: Any
) -> None:
    assert parsed(spec) is not None
    agree("mnist", spec, create("mnist", spec))


@FEW
@given(spec=broken_specs())
def test_both_judge_a_damaged_spec_alike(create: Callable[[str, Any], Response], spec: Any) -> None:
    agree("mnist", spec, create("mnist", spec))


@FEW
@given(pair=changed_specs(), state=states())
def test_both_judge_a_change_alike(
    update: Callable[[Any, Any, str], Response], pair: tuple[Any, Any], state: str
) -> None:
    old, new = pair
    answer = update(old, new, state)
    model = parsed(new)
    if model is None:
        assert not answer.ok
        return
    expected = problems("mnist", model) + update_problems(parse_spec(old), model, state=state)
    assert answer.ok == (not expected), f"{expected or 'the models accept'}: {answer.message}"
    if expected:
        assert_told(answer, expected)


@FEW
@given(name=st.from_regex(r"[a-zA-Z0-9.-]{1,60}", fullmatch=True))
def test_both_judge_a_name_alike(create: Callable[[str, Any], Response], name: str) -> None:
    spec = edges.ACCEPTED["the smallest spec"]
    answer = create(name, spec)
    assert answer.ok == (not problems(name, parse_spec(spec))), answer.message
