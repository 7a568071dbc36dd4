"""The wrapper of runc removes the missing capability from the right file."""

import json
import os
from pathlib import Path

import pytest

from tools.cluster import oci_runtime
from tools.cluster.oci_runtime import MISSING, spec_file, without_missing


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ["--root", "/r", "create", "--bundle", "/b", "id"], "/b/config.json", id="create"
        ),
        pytest.param(["run", "--bundle=/b", "id"], "/b/config.json", id="an option with equals"),
        pytest.param(["create", "id"], "./config.json", id="the current folder by default"),
        pytest.param(["exec", "--process", "/p.json", "id"], "/p.json", id="exec"),
        pytest.param(["exec", "-p", "/p.json", "id"], "/p.json", id="exec, short option"),
        pytest.param(["exec", "id", "sh"], None, id="exec without a file"),
        pytest.param(["delete", "--force", "id"], None, id="any other command"),
    ],
)
def test_the_file_with_the_capabilities_is_found(
    arguments: list[str], expected: str | None
) -> None:
    assert spec_file(arguments) == expected


def test_the_capability_is_removed_from_every_list_of_a_container() -> None:
    capabilities = {"bounding": ["CAP_CHOWN", MISSING], "effective": [MISSING]}
    spec = {"process": {"args": ["sh"], "capabilities": capabilities}, "root": {"path": "/"}}

    assert without_missing(spec) == {
        "process": {
            "args": ["sh"],
            "capabilities": {"bounding": ["CAP_CHOWN"], "effective": []},
        },
        "root": {"path": "/"},
    }


def test_the_capability_is_removed_from_a_single_process() -> None:
    spec = {"args": ["sh"], "capabilities": {"ambient": [MISSING, "CAP_KILL"]}}

    assert without_missing(spec) == {"args": ["sh"], "capabilities": {"ambient": ["CAP_KILL"]}}


def test_a_process_without_capabilities_is_unchanged() -> None:
    assert without_missing({"args": ["sh"]}) == {"args": ["sh"]}


def test_the_wrapper_changes_the_file_then_runs_runc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: became.append((path, words)))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"process": {"capabilities": {"bounding": [MISSING]}}}))
    arguments = ["create", "--bundle", str(tmp_path), "id"]

    oci_runtime.main("/bin/runc", arguments)

    assert json.loads(config.read_text()) == {"process": {"capabilities": {"bounding": []}}}
    assert became == [("/bin/runc", ["/bin/runc", *arguments])]
