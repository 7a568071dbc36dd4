from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tftraining_operator.api import crd
from tftraining_operator.api.rules import RULES
from tftraining_operator.api.status import Status
from tftraining_operator.api.transitions import TRANSITIONS
from tftraining_operator.api.types import Spec, parse_spec

from tests.unit.api.cases import a_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

ROOT = Path(__file__).parents[3]
SCHEMA = crd.schema()
VERSION = crd.crd()["spec"]["versions"][0]

Schema = dict[str, Any]


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}.*")


def at(path: str) -> Schema:
    return dict(nodes(SCHEMA))[path]


def with_defaults(schema: Schema, value: Any) -> Any:
    """Do what the API server does with defaults: fill them in, then visit what was filled in."""
    if not isinstance(value, dict):
        return value
    filled = copy.deepcopy(value)
    for name, child in schema.get("properties", {}).items():
        if name not in filled and "default" in child:
            filled[name] = copy.deepcopy(child["default"])
        if name in filled:
            filled[name] = with_defaults(child, filled[name])
    return filled


ALL_NODES = dict(nodes(SCHEMA))
IN_TEMPLATES = {p: n for p, n in ALL_NODES.items() if ".template" in p}
OUR_OWN = {p: n for p, n in ALL_NODES.items() if p not in IN_TEMPLATES and p.count(".") > 1}


@pytest.mark.parametrize("copy_", crd.COPIES)
def test_the_committed_definition_is_what_the_models_make(copy_: str) -> None:
    assert (ROOT / copy_).read_text() == crd.render(), "run `make manifests`"


def test_write_writes_every_copy_and_check_finds_nothing_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crd.main(["--write", str(tmp_path)]) == 0
    assert [(tmp_path / each).read_text() for each in crd.COPIES] == [crd.render()] * 2
    assert crd.main(["--check", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("copy_", crd.COPIES)
@pytest.mark.parametrize("text", [crd.render() + "# mine\n", None], ids=["edited", "missing"])
def test_check_names_the_copy_that_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], copy_: str, text: str | None
) -> None:
    crd.main(["--write", str(tmp_path)])
    wrong = tmp_path / copy_
    if text is None:
        wrong.unlink()
    else:
        wrong.write_text(text)
    assert crd.main(["--check", str(tmp_path)]) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [str(wrong)]


def test_without_arguments_the_definition_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert crd.main([]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == crd.crd()


def test_it_is_small_enough_for_a_plain_kubectl_apply() -> None:
    assert len(crd.render()) < 100_000


@pytest.mark.parametrize(
    "given",
    [{}, a_spec(), a_spec(runPolicy={}, evaluator={}, checkpoint_uri="gs://b/c")],
    ids=["an empty spec", "a usual spec", "a spec with every object"],
)
def test_the_schema_has_the_models_defaults(given: Schema) -> None:
    dumped = parse_spec(given).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert with_defaults(SCHEMA["properties"]["spec"], given) == dumped


def test_a_nested_object_defaults_to_empty_so_that_its_own_defaults_apply() -> None:
    assert at(".spec.runPolicy")["default"] == {}
    assert at(".spec.chief")["default"] == {}
    assert "default" not in at(".spec.worker")


@pytest.mark.parametrize("path", OUR_OWN)
def test_kubectl_explain_has_a_sentence_for(path: str) -> None:
    described = OUR_OWN[path.removesuffix(".*")]
    assert described.get("description", "").strip() or path.endswith("[]")


@pytest.mark.parametrize("path", [p for p, n in IN_TEMPLATES.items() if "properties" in n])
def test_a_template_keeps_what_it_does_not_declare_at(path: str) -> None:
    assert IN_TEMPLATES[path]["x-kubernetes-preserve-unknown-fields"] is True
    assert not any("default" in child for child in IN_TEMPLATES[path]["properties"].values())


def test_our_own_objects_keep_nothing_unknown() -> None:
    assert not [p for p, n in OUR_OWN.items() if "x-kubernetes-preserve-unknown-fields" in n]


def test_a_status_keeps_what_other_versions_store_and_has_no_defaults_that_they_would_fight() -> (
    None
):
    assert at(".status")["x-kubernetes-preserve-unknown-fields"] is True
    assert not [p for p, n in OUR_OWN.items() if p.startswith(".status") and "default" in n]


def test_only_what_a_structural_schema_knows_is_said() -> None:
    said = {key for node in ALL_NODES.values() for key in node}
    assert not said & {"$ref", "$defs", "anyOf", "allOf", "oneOf", "const", "title", "examples"}
    assert not [p for p, n in ALL_NODES.items() if n.get("additionalProperties") is False]
    anything = [p for p, n in ALL_NODES.items() if n.get("type") is None]
    assert not [p for p in anything if p not in IN_TEMPLATES]


def test_a_field_may_be_named_like_a_word_of_the_schema() -> None:
    assert set(at(".status.conditions[]")["properties"]) >= {"type", "status", "reason"}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (".spec.template.spec.containers", "name"),
        (".status.conditions", "type"),
        (".status.roles", "name"),
    ],
)
def test_a_list_is_merged_by_key(path: str, key: str) -> None:
    assert at(path)["x-kubernetes-list-type"] == "map"
    assert at(path)["x-kubernetes-list-map-keys"] == [key]


def test_env_is_no_map_since_a_pod_may_name_a_variable_twice() -> None:
    assert "x-kubernetes-list-type" not in at(".spec.template.spec.containers[].env")


@pytest.mark.parametrize("rule", [*RULES, *TRANSITIONS], ids=lambda rule: rule.message[:50])
def test_a_rule_sits_on_its_node(rule: Any) -> None:
    node = at(f".{rule.node}" if rule.node else "")
    rules = {each["rule"]: each for each in node["x-kubernetes-validations"]}
    assert rules[rule.cel]["message"] == rule.message
    told_at = (f".{rule.node}" if rule.node else "") + rules[rule.cel].get("fieldPath", "")
    assert told_at == f".{rule.field}" or rule.field.startswith("metadata")


def test_no_rule_sits_on_a_default_that_could_not_pass_it() -> None:
    with_rules = [n for n in ALL_NODES.values() if "x-kubernetes-validations" in n]
    assert not [n for n in with_rules if "default" in n]


@pytest.mark.parametrize("column", VERSION["additionalPrinterColumns"], ids=lambda c: c["name"])
def test_a_column_shows_a_field_that_is_there(column: dict[str, Any]) -> None:
    if column["jsonPath"].startswith(".metadata"):
        return
    assert column["type"] == at(column["jsonPath"])["type"]


def test_the_columns_are_the_promised_ones() -> None:
    columns = VERSION["additionalPrinterColumns"]
    usual = [c["name"].upper() for c in columns if not c.get("priority")]
    wide = [c["name"].upper() for c in columns if c.get("priority")]
    assert usual == ["STATE", "WORKERS", "PS", "PROGRESS", "RESTARTS", "AGE"]
    assert wide == ["STEP", "LOSS", "ETA", "MODEL", "MESSAGE"]


def test_scale_and_selectable_fields_are_there() -> None:
    paths = [*VERSION["subresources"]["scale"].values()]
    paths += [field["jsonPath"] for field in VERSION["selectableFields"]]
    assert all(path in ALL_NODES for path in paths)


@pytest.mark.parametrize("model", [Spec, Status])
def test_models_have_no_name_that_the_api_does_not(model: type[BaseModel]) -> None:
    at_root = SCHEMA["properties"][model.__name__.lower()]["properties"]
    assert set(at_root) == {f.alias for f in model.model_fields.values()}


def test_what_a_crd_cannot_say_is_an_error_and_not_lost() -> None:
    class Odd(Spec):
        several: int | str = 1

    with pytest.raises(ValueError, match="a CRD cannot say"):
        crd.of_model(Odd)
