"""What pods request together."""

from __future__ import annotations

from typing import Any

import pytest
from tftraining_operator.core.resources import total_requests

Raw = dict[str, Any]


def a_container(**resources: Any) -> Raw:
    return {"name": "any", "resources": resources}


def a_spec(*containers: Raw, **fields: Any) -> Raw:
    return {"containers": list(containers), **fields}


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        pytest.param([a_spec({"name": "any"})], {}, id="nothing"),
        pytest.param(
            [a_spec(a_container(requests={"cpu": "500m"}))] * 3, {"cpu": "1500m"}, id="pods add up"
        ),
        pytest.param(
            [a_spec(a_container(requests={"cpu": 1}), a_container(requests={"cpu": "1.5"}))],
            {"cpu": "2500m"},
            id="containers add up",
        ),
        pytest.param(
            [a_spec(a_container(limits={"nvidia.com/gpu": 2, "cpu": 4}, requests={"cpu": 1}))],
            {"cpu": "1", "nvidia.com/gpu": "2"},
            id="a limit without a request is one",
        ),
        pytest.param(
            [a_spec(a_container(requests={"memory": "1Gi"}))] * 2,
            {"memory": "2147483648"},
            id="binary suffixes",
        ),
        pytest.param(
            [a_spec(a_container(requests={"memory": amount})) for amount in ("1k", "1M", "1e3")],
            {"memory": "1002000"},
            id="decimal suffixes and exponents",
        ),
        pytest.param([a_spec(a_container(requests={"cpu": "1u"}))], {"cpu": "1m"}, id="rounded up"),
        pytest.param(
            [
                a_spec(
                    a_container(requests={"cpu": 1}),
                    initContainers=[a_container(requests={"cpu": 3, "memory": 5})],
                )
            ],
            {"cpu": "3", "memory": "5"},
            id="an init container that is larger",
        ),
        pytest.param(
            [
                a_spec(
                    a_container(requests={"cpu": 2}),
                    initContainers=[
                        a_container(requests={"cpu": 1}) | {"restartPolicy": "Always"},
                        a_container(requests={"cpu": 2}),
                    ],
                )
            ],
            {"cpu": "3"},
            id="a sidecar runs beside both",
        ),
        pytest.param(
            [
                a_spec(
                    a_container(requests={"cpu": 1}),
                    initContainers=[
                        a_container(requests={"cpu": 5}),
                        a_container(requests={"cpu": 1, "gpu": 1}) | {"restartPolicy": "Always"},
                        a_container(requests={"memory": 5}),
                    ],
                )
            ],
            {"cpu": "5", "gpu": "1", "memory": "5"},
            id="an init container does not run beside a later sidecar",
        ),
        pytest.param(
            [a_spec(a_container(requests={"cpu": 1}), overhead={"cpu": "250m"})],
            {"cpu": "1250m"},
            id="the overhead of a runtime class",
        ),
        pytest.param(
            [
                a_spec(
                    a_container(requests={"cpu": 1}),
                    overhead={"cpu": "250m"},
                    resources={"requests": {"cpu": 4}, "limits": {"cpu": 8, "memory": "1Gi"}},
                )
            ],
            {"cpu": "4250m", "memory": "1073741824"},
            id="what a pod requests as a whole",
        ),
        pytest.param(
            [a_spec(a_container(requests={"cpu": 1}), resources={"limits": {"cpu": 8}})],
            {"cpu": "1"},
            id="the limit of a whole pod in which a container requests",
        ),
    ],
)
def test_requests_of(specs: list[Raw], expected: dict[str, str]) -> None:
    assert total_requests((spec, 1) for spec in specs) == expected


def test_equal_pods_add_up() -> None:
    spec = a_spec(a_container(requests={"cpu": "500m"}))
    assert total_requests([(spec, 3), (a_spec(a_container(requests={"cpu": 1})), 2)]) == {
        "cpu": "3500m"
    }
