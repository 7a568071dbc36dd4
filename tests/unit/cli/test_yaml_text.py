"""Strings are strings to every parser of the YAML that is printed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tftraining import sources
from tftraining.cli import output
from tftraining.cli.convert import documents
from tftraining.cli.output_format import OutputFormat
from tftraining.submission import Plan

from tests.unit.cli.yaml_strings import AMBIGUOUS, PLAIN, SIGNS

if TYPE_CHECKING:
    from collections.abc import Callable

WRITERS: dict[str, Callable[[Any], str]] = {
    "submit --dry-run": lambda document: sources.as_yaml(Plan(document)),
    "get -o yaml": lambda document: output.dumped(document, OutputFormat.YAML),
    "convert": lambda document: documents.dumped([document]),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@writers
@pytest.mark.parametrize("text", AMBIGUOUS)
def test_what_some_parser_reads_as_something_else_is_quoted(
    write: Callable[[Any], str], text: str
) -> None:
    assert write({"value": text}) in (f"value: '{text}'\n", f'value: "{text}"\n')
    written = write({text: "value"})
    assert f"'{text}'" in written or f'"{text}"' in written


@writers
@pytest.mark.parametrize("text", PLAIN)
def test_all_other_text_is_not(write: Callable[[Any], str], text: str) -> None:
    assert write({"value": text}) == f"value: {text}\n"


@writers
@given(text=st.text() | st.text(SIGNS))
@example("#!/bin/sh\n  echo\n")
@example(" \n a\n\n")
def test_strings_come_back(write: Callable[[Any], str], text: str) -> None:
    document = {"value": text, "list": [text], "keys": {text: "x"}}
    written = write(document)
    assert yaml.safe_load(written) == document
    assert YAML(typ="safe", pure=True).load(io.StringIO(written)) == document
