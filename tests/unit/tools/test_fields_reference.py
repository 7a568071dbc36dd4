"""The reference of fields has a row for each, in the CRD's words."""

from __future__ import annotations

import re

from tftraining_operator.api.rules import RULES
from tftraining_operator.api.transitions import TRANSITIONS

from tools.fields_reference import rendered, rows

SCHEMA = {
    "properties": {
        "mode": {"type": "string", "enum": ["A", "B"], "default": "A", "description": "One | two."},
        "template": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"spec": {"type": "object"}},
        },
        "items": {
            "type": "array",
            "description": "Some\nlines.",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    }
}


def test_every_field_has_a_row_but_those_of_kubernetes_own() -> None:
    assert list(rows(SCHEMA, "spec")) == [
        ("`spec.mode`", "`A`, `B`", '`"A"`', "One \\| two."),
        ("`spec.template`", "object", "", ""),
        ("`spec.items`", "array of objects", "", "Some lines."),
        ("`spec.items[].name`", "string", "", ""),
    ]


def test_the_page_has_the_rules_that_the_api_server_tells() -> None:
    page = rendered()
    assert "- `spec.ps`: strategy ParameterServer needs parameter servers: " in page
    for rule in (*RULES, *TRANSITIONS):
        (line,) = re.findall(rf"^- (.*): {re.escape(rule.message)}$", page, re.MULTILINE)
        assert f"`{rule.field}`" in line
