"""What is published: built as wheel and source distribution, installed into a clean environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TASK = "def model(): ...\n\n\ndef dataset(split, context): ...\n"
SMALL = 1_000_000
"""Bytes that are few for a wheel."""

pytestmark = pytest.mark.timeout(240)


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env=clean(), timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def clean() -> dict[str, str]:
    """The environment without what would lead to the checkout."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, made of the unpacked source distribution, and that."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    (sdist,) = folder.glob("*.tar.gz")
    unpacked = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment that has the wheel and what it depends on."""

    folder: Path
    uv: str

    def install(self, what: str) -> None:
        """Install with the versions that the other tests have. Skips where no index answers."""
        constraint = ROOT / "requirements/dev.lock"
        python = self.folder / "bin/python"
        done = subprocess.run(
            [self.uv, "pip", "install", "--python", python, "--constraint", constraint, what],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and "ailed to fetch" in done.stderr:
            pytest.skip(f"no package index answers: {done.stderr.strip()[-300:]}")
        assert done.returncode == 0, done.stderr

    def python(self, code: str) -> str:
        return run(self.folder / "bin/python", "-c", code, cwd=self.folder).strip()

    def packages(self) -> set[str]:
        listed = run(self.uv, "pip", "list", "--format=freeze", "--python", self.folder)
        return {line.partition("==")[0] for line in listed.splitlines()}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    uv = shutil.which("uv", path=f"{ROOT}/.tools/bin:{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not available: run `make venv`")
    folder = tmp_path_factory.mktemp("environment")
    run(uv, "venv", "--quiet", "--python", sys.executable, folder)
    environment = Environment(folder, uv)
    environment.install(str(wheel))
    return environment


def test_the_wheel_has_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        headers = message_from_bytes(archive.read(metadata))
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"tftraining", "tftraining_operator", "tftrainer"}
    assert "tftraining/py.typed" in names
    assert "tftraining/web/static/page.js" in names
    assert set(headers.get_all("Provides-Extra") or []) == {"local", "operator", "traces"}
    assert wheel.stat().st_size < SMALL


def test_client_and_command_line_work_without_the_operators_process(
    installed: Environment, tmp_path: Path
) -> None:
    assert "kopf" not in installed.packages()
    imported = "from tftraining import TFTrainingClient, AsyncTFTrainingClient; print('ok')"
    assert installed.python(imported) == "ok"
    assert installed.python("import tftraining.cluster.execution; print('ok')") == "ok"
    tftj = installed.folder / "bin/tftj"
    assert run(tftj, "--version") == f"tftj {VERSION}\n"
    assert "Usage: kubectl tftj" in run(installed.folder / "bin/kubectl-tftj", "--help")
    assert installed.python("import tftraining.web.__main__; print('ok')") == "ok"
    task = tmp_path / "task.py"
    task.write_text(TASK)
    assert "kind: TFTrainingJob" in run(tftj, "submit", task, "--dry-run")


def test_the_page_says_how_much_it_brings(installed: Environment) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = len(project["dependencies"])
    others = len(installed.packages() - {project["name"]}) - direct
    text = f"depends on {direct} packages, which bring {others} more"
    assert text in (ROOT / "docs/guide/client.md").read_text()


def test_the_extra_brings_the_operators_process(installed: Environment, wheel: Path) -> None:
    installed.install(f"tftraining[operator] @ {wheel.as_uri()}")
    assert "kopf" in installed.packages()
    assert installed.python("import tftraining_operator.controller.main; print('ok')") == "ok"


def test_the_operators_image_has_the_web_page_and_no_command_line(tmp_path: Path) -> None:
    dockerfile = (ROOT / "operator/Dockerfile").read_text()
    copied = [line.split()[1:] for line in dockerfile.splitlines() if line.startswith("COPY tf")]
    for *files, target in copied:
        folder = tmp_path / Path(target).relative_to("/opt/venv/app")
        for file in files:
            source = ROOT / "operator" / file
            if source.is_dir():
                shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                folder.mkdir(exist_ok=True)
                shutil.copy(source, folder)
    lock = (ROOT / "requirements/operator.lock").read_text()
    missing = ("typer", "rich", "ruamel")
    assert not [name for name in missing if f"\n{name}" in lock]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        "import tftraining_operator.__main__, tftraining.web.__main__, tftraining.cluster.execution"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "tftraining/cli").exists()
