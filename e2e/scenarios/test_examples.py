"""Every other example runs to its end as it stands; the main one has a test of its own."""

import pytest

from e2e.scenarios.space import Space, example


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("minimal", ["Succeeded", "1/1", "1/1", "100%"]),
        ("mirrored", ["Succeeded", "100%"]),
        ("multi-worker-mirrored", ["Succeeded", "2/2", "100%"]),
        ("user-code", ["Succeeded", "2/2", "1/1", "100%"]),
        ("own-script", ["Succeeded", "2/2", "1/1", "100%"]),
    ],
)
def test_it_succeeds(space: Space, name: str, columns: list[str]) -> None:
    space.apply(*example(f"{name}.yaml"))
    space.kubectl("wait", "--for=condition=Finished", f"tftj/{name}", "--timeout=240s")

    shown = space.kubectl("get", "tftj", name).splitlines()[1].split()
    assert shown[: len(columns) + 1] == [name, *columns], space.describe(name)
