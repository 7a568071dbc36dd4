"""kubectl finds the same strings in what tftj prints."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from tftraining import yaml_text
from tftraining.cli.convert import documents

from tests.unit.cli.yaml_strings import AMBIGUOUS, PLAIN, SIGNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.apiserver import ApiServer

_COUNT = 3000


@pytest.mark.parametrize("write", [yaml_text.dumped, documents.dumped], ids=["PyYAML", "ruamel"])
def test_kubectl_reads_the_same_strings(
    apiserver: ApiServer, write: Callable[[list[Any]], str]
) -> None:
    dice = random.Random(1)  # noqa: S311 - for strings
    made = ("".join(dice.choices(SIGNS, k=dice.randint(1, 9))) for _ in range(_COUNT))
    strings = [*AMBIGUOUS, *PLAIN, *made]
    # Of a kind that it does not know, so that it compares nothing with a schema.
    document = {
        "apiVersion": "example.com/v1",
        "kind": "Strings",
        "metadata": {"name": "strings"},
        "values": strings,
        "keys": dict.fromkeys(strings, "x"),
    }
    arguments = ("annotate", "--local", "--filename=-", "a=b", "--output=json")
    read = json.loads(apiserver.kubectl(*arguments, stdin=write([document])))
    assert read["values"] == document["values"]
    assert read["keys"] == document["keys"]
