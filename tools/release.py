"""What .github/workflows/release.yaml makes of a tag, beside what its own steps do.

`check` refuses a tag that is not the version that stands everywhere, `notes` prints its part of the
changelog, `chart` writes the chart and install.yaml with the images of the release, `push` gives
it to a registry. tools/supply_chain.py calls the last two as well.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHART = Path("charts/tftraining-operator")

_VERSIONS = {
    Path("pyproject.toml"): r'(?m)^version = "(.+)"$',
    Path("operator/tftraining_operator/__init__.py"): r'(?m)^__version__ = "(.+)"$',
    Path("trainer_image/tftrainer/__init__.py"): r'(?m)^__version__ = "(.+)"$',
    Path("trainer_image/pyproject.toml"): r'(?m)^version = "(.+)"$',
    CHART / "Chart.yaml": r'(?m)^(?:version|appVersion): "?([^"\n]+)"?$',
}
"""Where the version of a release stands, and how."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SECTION = re.compile(r"(?m)^## ")
MOST_NOTES = 125_000
"""Characters of a release's notes, as GitHub takes them."""


class ReleaseError(Exception):
    """A release cannot be made of this checkout; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the release."""

    repository: str
    digest: str

    def __post_init__(self) -> None:
        if _DIGEST.fullmatch(self.digest) is None:
            raise ReleaseError(f"{self.digest!r} is no digest such as sha256:0123…")

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}"


def check(tag: str, root: Path = Path()) -> str:
    """Return the version that a tag names. Raises ReleaseError if another one stands anywhere."""
    version = tag.removeprefix("v")
    if not tag.startswith("v") or not version:
        raise ReleaseError(f"the tag is {tag!r}; it must be v and the version, such as v0.1.0")
    found = {path: re.findall(how, (root / path).read_text()) for path, how in _VERSIONS.items()}
    wrong = [
        f"{path} says {', '.join(each)}" for path, each in found.items() if set(each) != {version}
    ]
    if wrong:
        raise ReleaseError(f"the tag is {tag}, but {'; '.join(wrong)}")
    if not (text := notes(version, root)):
        raise ReleaseError(f"CHANGELOG.md has no section '## {version}': rename Unreleased")
    if len(text) > MOST_NOTES:
        raise ReleaseError(
            f"CHANGELOG.md has {len(text):,} characters in the section '## {version}', and GitHub"
            f" takes {MOST_NOTES:,} as a release's notes: shorten it"
        )
    return version


def notes(version: str, root: Path = Path()) -> str:
    """Return the section of a version in the changelog, "" if it has none."""
    for section in _SECTION.split((root / "CHANGELOG.md").read_text())[1:]:
        title, _, text = section.partition("\n")
        if title.split()[:1] == [version]:
            return text.strip()
    return ""


def write_chart(target: Path, operator: Image, trainer: Image, *, source: Path = CHART) -> None:
    """Write a copy of the chart whose default images are these. Raises ReleaseError."""
    shutil.copytree(source, target)
    _replace(
        target / "values.yaml",
        {
            r"(?m)^(  repository: )tftraining/operator$": rf"\g<1>{operator.repository}",
            r'(?m)^(  digest: )""$': rf'\g<1>"{operator.digest}"',
            r'(?m)^(trainerImage: )""$': rf'\g<1>"{trainer}"',
        },
    )
    _replace(
        target / "Chart.yaml",
        {
            r"(?m)^(      image: )tftraining/operator:.+$": rf"\g<1>{operator}",
            r"(?m)^(      image: )tftraining/trainer:.+$": rf"\g<1>{trainer}",
        },
    )


def _replace(path: Path, changes: Mapping[str, str]) -> None:
    text = path.read_text()
    for pattern, new in changes.items():
        text, count = re.subn(pattern, new, text)
        if count != 1:
            raise ReleaseError(f"{path}: {count} places match {pattern}, instead of one")
    path.write_text(text)


def package(registry: str, operator: str, trainer: str, out: Path) -> Path:
    """Write install.yaml and the packaged chart with images by digest; return the package.

    Raises ReleaseError.
    """
    # The rest of this module needs nothing but Python.
    from tools import chart_readme, install_manifest  # noqa: PLC0415

    chart = out / CHART.name
    images = Image(f"{registry}/operator", operator), Image(f"{registry}/trainer", trainer)
    write_chart(chart, *images)
    (chart / "README.md").write_text(chart_readme.rendered(chart))
    (out / "install.yaml").write_text(install_manifest.rendered(chart))
    said = _helm("package", chart, "--destination", out)
    shutil.rmtree(chart)
    return Path(said.strip().rpartition(" ")[2])


def push(chart: Path, repository: str, *, plain_http: bool = False) -> str:
    """Push a packaged chart to a repository; return its digest. Raises ReleaseError."""
    said = _helm("push", chart, f"oci://{repository}", *["--plain-http"] * plain_http)
    return digest_in(said)


def digest_in(text: str) -> str:
    """Return the last digest that a program printed. Raises ReleaseError if there is none."""
    found = _DIGEST.findall(text)
    if not found:
        raise ReleaseError(f"no digest such as sha256:0123… in: {text.strip()}")
    return str(found[-1])


def _helm(*arguments: str | Path) -> str:
    from tools.cluster.binaries import binary  # noqa: PLC0415

    # Helm writes what it pushed to stderr.
    done = subprocess.run(
        [binary("helm"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseError(f"helm {arguments[0]} failed: {done.stdout.strip()}")
    return done.stdout


def main() -> int:
    """Do what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("check", "refuse a tag that does not fit"), ("notes", "print what is new")):
        commands.add_parser(name, help=text).add_argument("tag")
    chart = commands.add_parser("chart", help="write chart and install.yaml")
    chart.add_argument("--registry", required=True, help="such as registry.example.com/tftraining")
    chart.add_argument("--operator", required=True, help="digest of the operator's image")
    chart.add_argument("--trainer", required=True, help="digest of the trainer's image")
    chart.add_argument("--out", required=True, type=Path, help="folder for the files")
    pushed = commands.add_parser("push", help="push a packaged chart, and print its digest")
    pushed.add_argument("package", type=Path)
    pushed.add_argument(
        "--to", required=True, help="such as registry.example.com/tftraining/charts"
    )
    arguments = parser.parse_args()
    try:
        if arguments.command == "chart":
            package(arguments.registry, arguments.operator, arguments.trainer, arguments.out)
        elif arguments.command == "push":
            sys.stdout.write(f"{push(arguments.package, arguments.to)}\n")
        else:
            version = check(arguments.tag)
            sys.stdout.write(f"{version if arguments.command == 'check' else notes(version)}\n")
    except ReleaseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
