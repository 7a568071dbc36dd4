"""What the API server has judged it is not asked again, unless it could say something else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tftraining_operator.api.keys import Role
from tftraining_operator.core import desired
from tftraining_operator.core.job import parse_job
from tftraining_operator.core.template_shape import shape
from tftraining_operator.reconcile.judgements import REMEMBERED, Judgements

from tests.unit.builders import IMAGE, Raw, a_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.builders import JobBuilder

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def sample(job: JobBuilder | None = None) -> Raw:
    parsed = parse_job((job or a_job().with_workers(2)).raw, NOW)
    return desired.pod(parsed, Role.WORKER, 1, 0, IMAGE)


def a_search(number: int) -> JobBuilder:
    """One of the jobs that differ in a parameter."""
    variables = [{"name": "LR", "value": f"0.{number}"}]
    job = a_job().with_workers(2).named(f"search-{number}")
    return job.with_container(args=[f"--rate=0.{number}"], env=variables)


def test_the_jobs_of_a_search_have_one_shape() -> None:
    assert shape(sample(a_search(1))) == shape(sample(a_search(2)))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: pod["metadata"].update(namespace="other"), id="namespace"),
        pytest.param(lambda pod: pod["metadata"]["labels"].update({"a b": "c"}), id="label"),
        pytest.param(lambda pod: pod["metadata"].update(annotations=[]), id="annotations"),
        pytest.param(lambda pod: pod["spec"].update(nodeSelectr={}), id="unknown field"),
        pytest.param(lambda pod: container(pod).update(image=" "), id="image"),
        pytest.param(lambda pod: container(pod).update(args=[1]), id="arguments that are no text"),
        pytest.param(lambda pod: container(pod)["env"][0].update(value=1), id="number as variable"),
        pytest.param(lambda pod: container(pod)["env"][0].update(name="-"), id="variable's name"),
        pytest.param(lambda pod: container(pod)["env"].pop(), id="one variable fewer"),
        pytest.param(
            lambda pod: container(pod).update(env="none"), id="variables that are no list"
        ),
        pytest.param(lambda pod: pod["spec"].update(containers=["a"]), id="container"),
        pytest.param(lambda pod: pod["spec"].update(initContainers=[{"name": "a"}]), id="another"),
    ],
)
def test_what_validation_looks_at_is_part_of_the_shape(change: Callable[[Raw], Any]) -> None:
    changed = sample()
    change(changed)
    assert shape(changed) != shape(sample())


def container(pod: Raw) -> Raw:
    found: Raw = pod["spec"]["containers"][0]
    return found


def test_what_was_accepted_is_not_asked_again_for_a_while() -> None:
    judgements = Judgements()
    assert judgements.unknown([sample()], NOW) == [sample()]
    assert judgements.unknown([sample()], NOW) == [sample()], "it was not accepted yet"
    judgements.accept(sample(), NOW)
    assert judgements.unknown([sample()], NOW + REMEMBERED) == []
    late = NOW + REMEMBERED + timedelta(seconds=1)
    assert judgements.unknown([sample()], late) == [sample()]


def test_only_so_many_are_remembered() -> None:
    judgements = Judgements()
    for number in range(1001):
        judgements.accept(sample(a_job().with_workers(2).with_container(image=f"i{number}")), NOW)
    first, last = (sample(a_job().with_workers(2).with_container(image=i)) for i in ("i0", "i1000"))
    assert judgements.unknown([first, last], NOW) == [first]
