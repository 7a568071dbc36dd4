"""What the pages say of names, links, fields and commands is true."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tftraining.view import table
from tftraining_operator.api.crd import schema
from tftraining_operator.api.reasons import Reason

from tools.cluster.binaries import OTHER_KUBERNETES, SOURCES, version
from tools.site import links

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)```.*?^ *```$", re.DOTALL | re.MULTILINE)
_FIRST_CELL = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def pages() -> list[Path]:
    folders = [at for at in ROOT.iterdir() if at.is_dir() and not at.name.startswith(".")]
    found = [page for folder in folders for page in folder.rglob("*.md")]
    own = (page for page in found if page.relative_to(ROOT).parts[0] != "shared")
    return sorted([*ROOT.glob("*.md"), *own])


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = _FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> Iterator[str]:
    for target in links(page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            yield target


@pytest.mark.parametrize("page", pages(), ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](#a-title) [b](#b) [c](missing.md) [d](page.md#a-title)\n")
    assert list(broken_links(page)) == ["#b", "missing.md"]


def test_every_reason_stands_in_the_table_and_no_other() -> None:
    found = _FIRST_CELL.findall((ROOT / "docs/reasons.md").read_text())
    assert sorted(found) == sorted(reason.value for reason in Reason)


SCHEMA: dict[str, Any] = schema()


def _is_field(path: str) -> bool:
    """Tell whether a path such as status.lastFailure.role leads through the CRD."""
    node = SCHEMA
    for part in path.split("."):
        node = node.get("items", node)
        if "properties" not in node:
            # What lies below is Kubernetes' own, such as the rest of a pod template.
            return bool(node.get("x-kubernetes-preserve-unknown-fields"))
        if part not in node["properties"]:
            return False
        node = node["properties"][part]
    return True


@pytest.mark.parametrize(
    "page", [page for page in pages() if not page.name.startswith("CHANGELOG")], ids=name
)
def test_fields_that_a_page_names_exist(page: Path) -> None:
    found = re.findall(r"`((?:spec|status)\.[a-zA-Z.]+[a-zA-Z])`", page.read_text())
    assert [path for path in found if not _is_field(path)] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_source_files_that_a_page_names_exist(page: Path) -> None:
    packages = (ROOT / "operator/tftraining_operator", ROOT / "operator/tftraining")
    bases = (ROOT, ROOT / "operator", *packages, ROOT / "trainer_image", page.parent)
    named = re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|json))`", page.read_text())
    assert [path for path in named if not any((base / path).exists() for base in bases)] == []


def test_every_policy_stands_in_the_table() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    found = re.findall(r"^\| `(\w+\.py)` \|", page, re.MULTILINE)
    policies = (ROOT / "operator/tftraining_operator/core/policies").glob("[a-z]*.py")
    assert sorted(found) == sorted(policy.name for policy in policies)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^ {4}|`)make ([a-z0-9-]+)", page.read_text(), re.MULTILINE)
    assert set(named) <= targets


def test_the_readme_names_the_versions_that_are_tested() -> None:
    readme = (ROOT / "README.md").read_text()
    programs = (ROOT / "tools/cluster/programs/kubernetes/go.mod").read_text()
    image = (ROOT / "tools/cluster/node_image.py").read_text()
    trainer = (ROOT / "requirements/trainer.lock").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    chart = (ROOT / "charts/tftraining-operator/Chart.yaml").read_text()
    kubernetes, node, tensorflow, python, oldest = (
        re.findall(pattern, text)[0]
        for pattern, text in (
            (r"k8s\.io/kubernetes v([\d.]+)", programs),
            (r"kindest/node:v([\d.]+)", image),
            (r"(?m)^tensorflow-cpu==([\d.]+)", trainer),
            (r'requires-python = ">=([\d.]+)"', project),
            (r'kubeVersion: ">=(\d+\.\d+)', chart),
        )
    )
    workflow = (ROOT / ".github/workflows/ci.yaml").read_text()
    former = " and ".join(re.findall(r"kindest/node:v([\d.]+)", workflow))
    others = "; ".join(
        f"{version(f'kubernetes-{minor}', 'k8s.io/kubernetes').removeprefix('v')} by"
        f" `make test-integration KUBERNETES={minor}`"
        for minor in OTHER_KUBERNETES
    )
    nodes = f"CI is set up for kind's public node images {node}, {former}"
    tested = f"{kubernetes}; {others}; {nodes}"
    assert f"| Kubernetes | {oldest} | {tested}, and has not run yet |" in readme
    first, *between, last = re.findall(r'target: test-unit, python: "([\d.]+)"', workflow)
    also = f"{first}; CI is set up for unit tests with {', '.join(between)} and {last} too"
    assert f"| Python of `tftj`, client and operator | {python} | {also} |" in readme
    other = (ROOT / "requirements/trainer-test-2.20.lock").read_text()
    before = re.findall(r"(?m)^tensorflow-cpu==([\d.]+)", other)[0]
    assert f"| {tensorflow}; {before} by `make test-trainer TENSORFLOW=2.20` |" in readme


@pytest.mark.parametrize(
    ("program", "module", "row", "page"),
    [
        ("kueue", "sigs.k8s.io/kueue", "| Kueue, if used | 0.15 | {} |", "kueue"),
        (
            "coscheduling",
            "sigs.k8s.io/scheduler-plugins",
            "of its PodGroup | {} |",
            "scheduling",
        ),
        (
            "volcano-scheduler",
            "volcano.sh/volcano",
            "Volcano, if used for gangs | v1beta1 of its PodGroup | {} |",
            "scheduling",
        ),
    ],
)
def test_the_readme_names_the_versions_of_schedulers(
    program: str, module: str, row: str, page: str
) -> None:
    found = version(SOURCES[program].family, module).removeprefix("v")
    assert row.format(found) in (ROOT / "README.md").read_text()
    assert found in (ROOT / f"docs/guide/{page}.md").read_text()


def _given_reasons(tree: ast.AST) -> Iterator[str]:
    """Yield the words that a module itself gives as a reason."""
    for node in ast.walk(tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            given += [each.value for each in node.keywords if each.arg == "reason"]
            if isinstance(node.func, ast.Name) and node.func.id == "Cause":
                given += node.args[:1]
        elif isinstance(node, ast.Assign) and "reason" in {ast.unparse(t) for t in node.targets}:
            given.append(node.value)
        for part in (part for expression in given for part in ast.walk(expression)):
            if isinstance(part, ast.Constant) and re.match("[A-Z]", str(part.value)):
                yield str(part.value)


def test_a_reason_that_is_not_kubernetes_own_is_of_the_enum() -> None:
    core = ROOT / "operator/tftraining_operator/core"
    found = {
        word for at in core.rglob("*.py") for word in _given_reasons(ast.parse(at.read_text()))
    }
    assert found == {
        *("ContainerCreating", "Failed", "PodInitializing", "Succeeded"),
        *("ErrImagePull", "ImagePullBackOff", "Unschedulable"),
    }, "Kubernetes' and Kueue's words"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_table_of_jobs_has_the_columns_of_kubectl(page: Path) -> None:
    columns = [[c.title for c in table.COLUMNS if wide or not c.wide] for wide in (False, True)]
    shown = re.findall(r"^NAME +STATE +WORKERS .*$", page.read_text(), re.MULTILINE)
    assert [header for header in shown if header.split() not in columns] == []


def test_every_setting_of_the_operator_stands_on_the_page_about_its_installation() -> None:
    settings = (ROOT / "operator/tftraining_operator/controller/settings.py").read_text()
    names = set(re.findall(r"TFTRAINING_[A-Z_]*[A-Z]\b", settings))
    page = (ROOT / "docs/guide/install.md").read_text()
    assert {each for each in names if f"`{each}`" not in page} == set()
