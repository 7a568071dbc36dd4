"""`tftj convert`: reads jobs from files or the cluster, writes converted ones and a report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from tftraining import manifest
from tftraining.cli import console
from tftraining.cli.convert.directions import Direction
from tftraining.cli.convert.documents import Converted, convert_text, dumped
from tftraining.cli.convert.findings import Level, is_whole
from tftraining.cluster.cluster import Cluster
from tftraining.errors import ExitCode, InputError, NotFoundError
from tftraining.sources import path_of

_COLOURS = {Level.NOTE: "dim", Level.DIFFERS: "cyan", Level.LOST: "yellow", Level.REFUSED: "red"}
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Source:
    """One text to convert."""

    label: str
    """What messages call it."""
    text: str
    target: Path
    """Where it goes below a folder for the output."""
    file: Path | None = None
    """Where it was read, None for standard input and the cluster."""


def from_files(paths: Sequence[str]) -> Iterator[Source]:
    """Yield the files that are named, and those of the folders. Raises InputError."""
    for given in paths:
        path = path_of(given)
        if not path.is_dir():
            name = "stdin.yaml" if given == manifest.STDIN else path.name
            file = None if given == manifest.STDIN else path
            yield Source(given, manifest.read(given), Path(name), file)
            continue
        found = [each for each in sorted(path.rglob("*")) if each.suffix in _SUFFIXES]
        if not found:
            raise InputError(f"{given}: the folder has no YAML files")
        for each in found:
            yield Source(str(each), manifest.read(str(each)), each.relative_to(path), each)


def from_cluster(cluster: Cluster, names: Sequence[str], direction: Direction) -> Iterator[Source]:
    """Yield the jobs of the namespace, or those that are named. Raises NotFoundError."""
    kind, version = direction.kind, direction.version
    path = f"/apis/{version}/namespaces/{cluster.namespace}/{direction.plural}"
    found = cluster.read(path)
    if found is None:
        raise NotFoundError(f"the cluster has no {kind} of {version}")
    jobs = {job["metadata"]["name"]: job for job in found["items"]}
    missing = [name for name in names if name not in jobs]
    if missing:
        known = ", ".join(sorted(jobs)) or "none"
        raise NotFoundError(
            f"no {kind} {', '.join(missing)} in namespace {cluster.namespace} (found: {known})"
        )
    for name in names or sorted(jobs):
        job = {"apiVersion": version, "kind": kind, **jobs[name]}
        yield Source(f"{kind} {name}", dumped([job]), Path(f"{name}.yaml"))


def convert(
    sources: Sequence[Source], folder: Path | None, direction: Direction, *, quiet: bool
) -> ExitCode:
    """Convert, write and report. Raises InputError.

    Returns FAILED if something could not be carried over.
    """
    if folder is not None:
        _check_targets(sources, folder)
    whole, jobs, texts = True, 0, []
    for source in sources:
        converted = convert_text(source.text, source.label, direction)
        jobs += len(converted.conversions)
        whole = _report(source.label, converted, quiet=quiet) and whole
        text = converted.text if converted.conversions else source.text
        if not text.strip():
            continue
        if folder is None:
            texts.append(text)
        else:
            _write(text, folder / source.target, source, converted)
    if folder is None:
        body = "---\n".join(text if text.endswith("\n") else f"{text}\n" for text in texts)
        console.document(body)
    if not jobs:
        console.note(f"no {direction.kind} found; nothing was changed")
    return ExitCode.SUCCEEDED if whole else ExitCode.FAILED


def _check_targets(sources: Sequence[Source], folder: Path) -> None:
    """Refuse what is no folder, and two sources for the same file. Raises InputError."""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"--output: {folder} is a file: name a folder, or redirect standard output to the file"
        )
    labels: dict[Path, str] = {}
    for source in sources:
        if (other := labels.get(source.target)) is not None:
            raise InputError(
                f"{other} and {source.label} would both be written to {folder / source.target}:"
                " rename one of them, or write them into two folders"
            )
        labels[source.target] = source.label


def _write(text: str, target: Path, source: Source, converted: Converted) -> None:
    """Write a converted file. Raises InputError."""
    left_out = [each.name for each in converted.conversions if each.job is None]
    is_own = source.file is not None and target.exists() and target.samefile(source.file)
    if left_out and is_own:
        raise InputError(
            f"{target}: {', '.join(left_out)} cannot be converted, and would be lost with the file"
            " that was read: write into another folder"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error


def _report(label: str, converted: Converted, *, quiet: bool) -> bool:
    """Print the findings of a file; tell whether everything could be carried over."""
    err = console.err()
    whole = True
    for each in converted.conversions:
        good = is_whole(each.findings)
        whole = whole and good
        verdict = "converted" if good else "converted in part"
        verdict = verdict if each.job is not None else "not converted"
        err.print(Text.assemble((f"{label}: {each.name}: {verdict}", "bold")), soft_wrap=True)
        for finding in each.findings:
            if quiet and finding.level is Level.NOTE:
                continue
            err.print(
                Text.assemble(
                    (f"  {finding.level:8}", _COLOURS[finding.level]),
                    f"{finding.path}: {finding.text}",
                ),
                soft_wrap=True,
            )
    return whole
