"""What a release is made of."""

from __future__ import annotations

import re
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tools.cluster import binaries
from tools.cluster.binaries import SOURCES
from tools.release import (
    CHART,
    MOST_NOTES,
    Image,
    ReleaseError,
    check,
    digest_in,
    notes,
    write_chart,
)

VERSIONED = (
    "pyproject.toml",
    "operator/tftraining_operator/__init__.py",
    "trainer_image/tftrainer/__init__.py",
    "trainer_image/pyproject.toml",
    "charts/tftraining-operator/Chart.yaml",
)
OPERATOR = Image("registry.example.com/tftraining/operator", f"sha256:{'1' * 64}")
TRAINER = Image("registry.example.com/tftraining/trainer", f"sha256:{'2' * 64}")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of the project that a version stands in, at their version."""
    for name in VERSIONED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, tmp_path / name)
    version = yaml.safe_load((tmp_path / VERSIONED[-1]).read_text())["version"]
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## Unreleased\n\n## {version} (2026-12-01)\n\n- New.\n\n"
        f"### Fixed\n\n- Old.\n\n## {version}-rc.1\n\n- Earlier.\n"
    )
    return tmp_path


def version_of(checkout: Path) -> str:
    return str(yaml.safe_load((checkout / VERSIONED[-1]).read_text())["version"])


def test_a_tag_is_the_version_that_stands_everywhere(checkout: Path) -> None:
    version = version_of(checkout)
    assert check(f"v{version}", checkout) == version


@pytest.mark.parametrize("tag", ["", "v", "0.1.0", "release-1"])
def test_a_tag_of_another_form_is_refused(checkout: Path, tag: str) -> None:
    with pytest.raises(ReleaseError, match="must be v and the version"):
        check(tag, checkout)


@pytest.mark.parametrize("name", VERSIONED)
def test_a_file_with_another_version_is_named(checkout: Path, name: str) -> None:
    version, path = version_of(checkout), checkout / name
    path.write_text(path.read_text().replace(version, "9.9.9"))
    with pytest.raises(ReleaseError, match=rf"{name} says 9\.9\.9"):
        check(f"v{version}", checkout)


def test_a_chart_that_tells_of_another_operator_is_named(checkout: Path) -> None:
    version, path = version_of(checkout), checkout / CHART / "Chart.yaml"
    told = f'appVersion: "{version}"'
    assert told in path.read_text()
    path.write_text(path.read_text().replace(told, 'appVersion: "9.9.9"'))
    with pytest.raises(ReleaseError, match=rf"Chart.yaml says {re.escape(version)}, 9\.9\.9"):
        check(f"v{version}", checkout)


def test_the_notes_are_the_section_of_the_version_alone(checkout: Path) -> None:
    version = version_of(checkout)
    assert notes(version, checkout) == "- New.\n\n### Fixed\n\n- Old."
    assert notes(f"{version}-rc.1", checkout) == "- Earlier."


def test_a_version_that_the_changelog_does_not_have_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- New.\n")
    with pytest.raises(ReleaseError, match="rename Unreleased"):
        check(f"v{version_of(checkout)}", checkout)


def test_notes_that_a_release_cannot_have_are_refused_before_anything_is_published(
    checkout: Path,
) -> None:
    version, path = version_of(checkout), checkout / "CHANGELOG.md"
    path.write_text(f"## {version}\n\n- {'x' * MOST_NOTES}\n")
    with pytest.raises(ReleaseError, match=rf"125,002 characters in the section '## {version}'"):
        check(f"v{version}", checkout)


def test_what_is_unreleased_can_be_the_notes_of_a_release() -> None:
    assert 0 < len(notes("Unreleased")) < MOST_NOTES


def test_the_chart_of_a_release_has_its_images_by_digest(tmp_path: Path) -> None:
    write_chart(tmp_path / "chart", OPERATOR, TRAINER)
    values = yaml.safe_load((tmp_path / "chart/values.yaml").read_text())
    before = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["image"] == before["image"] | {
        "repository": OPERATOR.repository,
        "digest": OPERATOR.digest,
    }
    assert values["trainerImage"] == str(TRAINER)
    changed = {key for key, value in values.items() if before[key] != value}
    assert changed == {"image", "trainerImage"}
    chart = yaml.safe_load((tmp_path / "chart/Chart.yaml").read_text())
    told = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert [each["image"] for each in told] == [str(OPERATOR), str(TRAINER)]


def test_an_action_is_pinned_to_one_commit_in_all_workflows() -> None:
    pinned: dict[str, set[str]] = {}
    for workflow in Path(".github/workflows").glob("*.yaml"):
        for name, commit in re.findall(r"uses: ([\w/.-]+)@(.+)", workflow.read_text()):
            pinned.setdefault(name, set()).add(commit)
    assert pinned
    assert {name: commits for name, commits in pinned.items() if len(commits) > 1} == {}
    assert all(
        re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", commit)
        for commits in pinned.values()
        for commit in commits
    )


def test_what_a_release_publishes_is_none_of_the_logs_of_its_tests() -> None:
    """A suite that failed at first leaves its logs, also when it is run again and succeeds."""
    folder = Path(".github/workflows")
    logs = [re.sub(r"\$\{\{.*?\}\}", "x", name) for name in artifacts(folder / "ci.yaml", "upload")]
    assert logs
    wanted = artifacts(folder / "release.yaml", "download")
    assert wanted
    assert not [log for log in logs if any(fnmatch(log, each) for each in wanted)]
    made = artifacts(folder / "release.yaml", "upload")
    assert all(any(fnmatch(each, want) for want in wanted) for each in made)


def artifacts(workflow: Path, way: str) -> list[str]:
    """Return the names, or patterns of names, of what a workflow uploads or downloads."""
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    steps = [step for job in jobs for step in job.get("steps", ())]
    found = [s.get("with", {}) for s in steps if f"{way}-artifact@" in s.get("uses", "")]
    # With neither, all of a run are downloaded.
    return [each.get("name") or each.get("pattern") or "*" for each in found]


@pytest.mark.parametrize(
    ("action", "setting", "program"),
    [
        ("sigstore/cosign-installer", "cosign-release", "cosign"),
        ("anchore/sbom-action", "syft-version", "syft"),
    ],
)
def test_a_release_is_signed_and_listed_by_the_programs_that_are_tried_here(
    action: str, setting: str, program: str
) -> None:
    text = Path(".github/workflows/release.yaml").read_text()
    uses = text.count(f"uses: {action}@")
    found = re.findall(rf"{setting}: (\S+)", text)
    source = SOURCES[program]
    assert found == [binaries.version(source.family, source.module)] * uses != []


def test_the_last_digest_that_a_program_prints_is_meant() -> None:
    printed = f"layer sha256:{'1' * 64}\nDigest: sha256:{'2' * 64}\n"
    assert digest_in(printed) == f"sha256:{'2' * 64}"
    with pytest.raises(ReleaseError, match="unauthorized"):
        digest_in("unauthorized")


def test_what_is_no_digest_is_refused() -> None:
    with pytest.raises(ReleaseError, match="no digest"):
        Image("registry.example.com/operator", "latest")
