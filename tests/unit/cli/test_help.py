"""Every command explains itself, starts quickly, and is in the reference."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tftraining.cli import reference
from tftraining.cli.app import app

ROOT = Path(__file__).parents[3]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_ends_with_an_example_of_the_command(name: str) -> None:
    *_, last = COMMANDS[name].help.strip().splitlines()
    found = re.fullmatch(r"Example: `tftj (\S+) .*`", last)
    assert found is not None
    assert found[1] == name


def test_help_can_be_shown_in_every_encoding() -> None:
    """A help in Latin-1 ended as an unexpected error."""
    found = reference.reference()
    assert found.isascii(), [each for each in found if not each.isascii()]


def test_no_command_is_cut_off_in_a_terminal_of_80_columns() -> None:
    assert [
        name for name, command in COMMANDS.items() if "..." in command.get_short_help_str(61)
    ] == []


def test_no_help_imports_a_client_or_any_of_the_operator() -> None:
    code = (
        "import sys; from tftraining.cli.app import app\n"
        "for name in sys.argv[1:]:\n"
        "    try: app([*filter(None, [name]), '--help'])\n"
        "    except SystemExit: pass\n"
        "print('LOADED', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "", *COMMANDS],
        env={"PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        check=True,
    )
    shown, _, loaded = done.stdout.partition("LOADED ")
    assert shown.count("Usage: ") == 1 + len(COMMANDS)
    heavy = {"kopf", "kubernetes", "aiohttp", "asyncio", "urllib3", "yaml", "ruamel.yaml"}
    heavy |= {"numpy", "pandas", "pydantic", "requests", "rich.console", "rich.markdown"}
    assert set(loaded.split()) & heavy == set()
    ours = {each for each in loaded.split() if each.startswith(("tftraining.", "tftraining_oper"))}
    light = ("tftraining.cli", "tftraining.errors")
    assert {name for name in ours if not name.startswith(light)} == set()


def loaded_by(modules: str) -> set[str]:
    """Return all that a new process has loaded when it has imported these."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        env={"PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_command_connects_without_what_only_the_operator_and_notebooks_need() -> None:
    loaded = loaded_by("tftraining.client, tftraining.cluster.connection, tftraining.cli.output")
    assert {"IPython", "aiohttp", "kopf", "numpy", "pandas"} & loaded == set()
    models = {name for name in loaded if name.startswith("kubernetes.client.models.")}
    assert models == set()


def test_a_table_is_shown_without_the_models() -> None:
    loaded = loaded_by("tftraining.client, tftraining.cli.output")
    assert {"pydantic", "tftraining_operator.api.status"} & loaded == set()


def test_a_command_connects_without_what_only_shows_the_answer() -> None:
    loaded = loaded_by("tftraining.following, tftraining.cli.output, tftraining.cli.watching")
    assert {"rich.console", "rich.live", "rich.text"} & loaded == set()
    shown = {name for name in loaded if name.startswith("tftraining.view.")}
    assert shown == {"tftraining.view.table"}


def test_the_reference_is_what_the_program_says() -> None:
    current = reference.PAGE.read_text()
    assert reference.page(current) == current, "run `make manifests`"


def test_a_shell_can_complete_commands() -> None:
    script = subprocess.run(
        [sys.executable, "-m", "tftraining.cli", "completion", "bash"],
        env={"PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    run = f'tftj() {{ "{sys.executable}" -m tftraining.cli "$@"; }}\n'
    # What the script runs is a program, and not a function of the shell.
    script = script.replace("$( env ", "$( ")
    asked = 'COMP_WORDS=(tftj su) COMP_CWORD=1; _tftj_completion tftj; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{run}{script}\n{asked}"],
        env={"PYTHONPATH": str(ROOT / "operator"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(done.stdout.split()) == ["submit", "suspend"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_who_chooses_a_namespace_can_choose_a_context(name: str) -> None:
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert ("--namespace" in options) == ("--context" in options)
