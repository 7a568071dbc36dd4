"""Checks style, types, layers, generated files, chart, workflow and documentation (`make lint`)."""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tools.cluster.binaries import binary
from tools.cluster.shell import ClusterError

ROOT = Path(__file__).parents[1]
BIN = ROOT / ".venv/bin"
CHART = "charts/tftraining-operator"
BENCH_TASKS = "bench/training/tasks"

console = Console(highlight=False)


def checks() -> Mapping[str, list[str]]:
    """Return every check's command by its name."""
    helm, actionlint = str(binary("helm")), str(binary("actionlint"))
    return {
        "ruff check": [f"{BIN}/ruff", "check", "."],
        "ruff format": [f"{BIN}/ruff", "format", "--check", "."],
        "mypy, operator, tools, e2e and bench": [f"{BIN}/mypy"],
        "mypy, trainer": _trainer_mypy("trainer_image"),
        "mypy, trainer programs of bench and e2e": [
            *_trainer_mypy(f"trainer_image:{BENCH_TASKS}:."),
            *("--explicit-package-bases", "bench/classics", BENCH_TASKS),
            *(f"bench/training/{name}.py" for name in ("evaluate", "plain", "stock")),
            *("bench/data/seen.py", "bench/data/task.py"),
            *("bench/recommender/plain.py", "bench/recommender/clicks.py"),
            *("e2e/scenarios/tfjobs/scripts", "trainer_image/list_metrics.py"),
        ],
        "import-linter": ["env", "PYTHONPATH=operator:trainer_image:.", f"{BIN}/lint-imports"],
        "generated files": [sys.executable, "-m", "tftraining_operator.api.crd", "--check", "."],
        "chart README": [sys.executable, "-m", "tools.chart_readme", "--check"],
        "operator's rights": [sys.executable, "-m", "tools.operator_rights", "--check"],
        "install manifest": [sys.executable, "-m", "tools.install_manifest", "--check"],
        "dashboards": [sys.executable, "-m", "tools.dashboards", "--check"],
        "reference of fields": [sys.executable, "-m", "tools.fields_reference", "--check"],
        "documentation": [sys.executable, "-m", "tools.site", "--check"],
        "helm lint": [helm, "lint", "--strict", CHART],
        "yamllint": [f"{BIN}/yamllint", "--strict", "examples", ".github"],
        "actionlint": [actionlint],
        "zizmor": [f"{BIN}/zizmor", "--offline", "--quiet", ".github"],
    }


def _trainer_mypy(path: str) -> list[str]:
    """Return mypy's command for code that runs in the trainer's environment."""
    return [
        *("env", f"MYPYPATH={path}", f"{BIN}/mypy"),
        *("--config-file", "trainer_image/pyproject.toml"),
        *("--python-executable", ".venv-trainer/bin/python"),
    ]


def main() -> int:
    """Run every check, also after one failed; return the exit code."""
    failed = []
    try:
        wanted = checks()
    except ClusterError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        return 1
    for name, command in wanted.items():
        began = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        good = done.returncode == 0
        mark = "[green]ok[/]" if good else "[red]failed[/]"
        console.print(f"{mark:16} {name} [dim]({time.monotonic() - began:.1f} s)[/]")
        if not good:
            failed.append(name)
            sys.stdout.write(done.stdout + done.stderr)
    console.print(f"{len(wanted) - len(failed)} checks passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
