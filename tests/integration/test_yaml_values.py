"""tftj finds the values in a file that kubectl finds."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import yaml
from tftraining.yaml_values import Loader

from tests.unit.cli.yaml_strings import AMBIGUOUS, PLAIN

if TYPE_CHECKING:
    from tests.apiserver import ApiServer

_COUNT = 3000
_SIGNS = "0123456789" * 3 + "+-._:eExXoObBnNyY"
_NO_JSON = (".inf", "-.INF", "+.Inf", ".nan", ".NaN", "<<")
"""What kubectl refuses, and the sign of a merge."""


def test_a_scalar_without_quotes_is_what_kubectl_takes_it_for(apiserver: ApiServer) -> None:
    dice = random.Random(1)  # noqa: S311 - for numbers
    made = ("".join(dice.choices(_SIGNS, k=dice.randint(1, 7))) for _ in range(_COUNT))
    known = [text for text in (*AMBIGUOUS, *PLAIN) if text and text not in _NO_JSON]
    # Those of which YAML makes no scalar by itself, such as "- " and "a: b".
    given = [text for text in [*known, *made] if not text.endswith(":") and text not in ("-", "?")]
    lines = ["apiVersion: example.com/v1", "kind: Scalars", "metadata: {name: scalars}"]
    text = "\n".join([*lines, "values:", *(f"- {each}" for each in given), ""])
    arguments = ("annotate", "--local", "--filename=-", "a=b", "--output=json")
    read = json.loads(apiserver.kubectl(*arguments, stdin=text))["values"]
    (ours,) = yaml.load_all(text, Loader)
    differ = [
        (text, theirs, own)
        for text, theirs, own in zip(given, read, ours["values"], strict=True)
        if (type(theirs), theirs) != (type(own), own)
    ]
    assert differ == []


def test_a_key_is_the_text_that_kubectl_takes_it_for(apiserver: ApiServer) -> None:
    keys = ("1", "017", "1e3", "1.5", "y", "Off", "1:30", "2001-01-01", "0x1F", "a")
    lines = ["apiVersion: example.com/v1", "kind: Keys", "metadata: {name: keys}", "values:"]
    text = "\n".join([*lines, *(f"  {key}: {at}" for at, key in enumerate(keys)), ""])
    arguments = ("annotate", "--local", "--filename=-", "a=b", "--output=json")
    read = json.loads(apiserver.kubectl(*arguments, stdin=text))["values"]
    (ours,) = yaml.load_all(text, Loader)
    assert ours["values"] == read
