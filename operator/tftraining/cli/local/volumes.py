"""Maps each volume of a pod to a folder of this computer. Only `populate` writes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from tftraining_operator.core.podtemplate import CHECKPOINT_VOLUME, SCRATCH_VOLUME

from tftraining.errors import InputError
from tftraining.manifest import Files, Manifest

_Object = dict[str, Any]

_SPLIT_BY_A_SHELL = re.compile(r"[^\w@%+=:,./-]")
_ALL_PERMISSIONS = 0o777
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume as a folder."""

    folder: Path
    files: Files = field(default_factory=dict)
    """Files to write into it before the pod starts, by relative path."""
    is_created: bool = True
    """Whether the run creates the folder; otherwise it must exist."""
    modes: Mapping[str, int] = field(default_factory=dict)
    """Permissions of files, by relative path; those of the user's umask for all others."""
    link: Path | None = None
    """A path to a folder whose own path has spaces or the like: commands have it unquoted."""

    @property
    def path(self) -> Path:
        """Where a pod finds the folder."""
        return self.link or self.folder


@dataclass(frozen=True, slots=True)
class Mount:
    """The path at which a container expects a volume, and its folder."""

    path: str
    folder: Path


def volumes(
    pod: _Object,
    folder: Path,
    manifest: Manifest,
    *,
    checkpoints: Path | None,
    folders: Mapping[str, Path],
) -> dict[str, Volume]:
    """Return a pod's volumes by name. Raises InputError for those that only a cluster has.

    `folder` is the pod's own; `folders` are those that the user chose, by the volume's name.
    """
    found: dict[str, Volume] = {}
    for volume in pod["spec"].get("volumes") or []:
        name = str(volume.get("name"))
        if not _NAME.fullmatch(name):
            raise InputError(
                f"volume {name}: rename it: a name has lower-case letters, digits and - only"
            )
        if name == CHECKPOINT_VOLUME and checkpoints is not None:
            found[name] = Volume(checkpoints)
        elif name == SCRATCH_VOLUME:
            # Added by the operator for a read-only root file system; /tmp is writable here.
            continue
        elif name in folders:
            found[name] = Volume(folders[name], is_created=False)
        else:
            found[name] = _volume(name, volume, folder / name, manifest)
    return {name: _linked(volume, folder / name) for name, volume in found.items()}


def mounts(container: _Object, known: Mapping[str, Volume]) -> list[Mount]:
    """Return a container's mounts, the longest path first. Raises InputError."""
    found = []
    for mount in container.get("volumeMounts") or []:
        path, volume = str(mount.get("mountPath")).rstrip("/"), known.get(mount.get("name"))
        if volume is not None and path:
            found.append(Mount(path, volume.path / _sub_path(mount)))
    return sorted(found, key=lambda mount: len(mount.path), reverse=True)


def populate(volume: Volume, mounted: Sequence[Mount] = ()) -> None:
    """Create a volume's folder and files, and what is mounted of it. Raises OSError."""
    if volume.is_created:
        volume.folder.mkdir(parents=True, exist_ok=True)
        for name, content in volume.files.items():
            path = volume.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if name in volume.modes:
                path.chmod(volume.modes[name])
    if volume.link is not None:
        volume.link.symlink_to(volume.folder)
    for mount in mounted:
        is_missing = mount.folder.is_relative_to(volume.path) and not mount.folder.exists()
        if volume.is_created and is_missing:
            mount.folder.mkdir(parents=True)


def _volume(name: str, volume: _Object, folder: Path, manifest: Manifest) -> Volume:
    for kind, field_name, key, known in (
        ("ConfigMap", "configMap", "name", manifest.config_maps),
        ("Secret", "secret", "secretName", manifest.secrets),
    ):
        if not isinstance(source := volume.get(field_name), dict):
            continue
        wanted = str(source.get(key))
        _check_paths(f"volume {name}: {field_name}", source)
        if wanted in known:
            files = _selected(name, source, known[wanted])
            return Volume(folder, files, modes=_modes(name, source, files))
        if source.get("optional"):
            return Volume(folder)
        raise InputError(
            f"volume {name}: {kind} {wanted} is not in the file: add it to the file, or name a"
            f" folder with --volume {name}=FOLDER"
        )
    if "emptyDir" in volume:
        return Volume(folder)
    if isinstance(path := (volume.get("hostPath") or {}).get("path"), str):
        return Volume(Path(path), is_created=False)
    kinds = ", ".join(key for key in volume if key != "name") or "nothing"
    raise InputError(
        f"volume {name}: not available on this computer ({kinds}): name a folder with"
        f" --volume {name}=FOLDER"
    )


def _selected(name: str, source: _Object, files: Files) -> Files:
    items = source.get("items")
    if not items:
        return files
    missing = [str(item.get("key")) for item in items if item.get("key") not in files]
    if missing and not source.get("optional"):
        raise InputError(f"volume {name}: has no key {missing[0]}; it has {', '.join(files)}")
    return {str(item.get("path")): files[item["key"]] for item in items if item.get("key") in files}


def _check_paths(where: str, source: _Object) -> None:
    """Raise InputError for an item that would be written elsewhere, as Kubernetes refuses it."""
    for index, item in enumerate(source.get("items") or []):
        given = item.get("path")
        path = PurePosixPath(given if given and isinstance(given, str) else "/")
        if path.is_absolute() or ".." in path.parts or str(path).startswith(".."):
            raise InputError(
                f"{where}.items[{index}].path must be a path below the volume, such as"
                f" {item.get('key')}, without ..; not {given!r}"
            )


def _modes(name: str, source: _Object, files: Files) -> dict[str, int]:
    modes = dict.fromkeys(files, _mode(name, source, "defaultMode"))
    for item in source.get("items") or []:
        own = _mode(name, item, "mode")
        if own is not None:
            modes[str(item.get("path"))] = own
    return {path: mode for path, mode in modes.items() if mode is not None}


def _mode(name: str, source: _Object, field_name: str) -> int | None:
    mode = source.get(field_name)
    if mode is None or (isinstance(mode, int) and 0 <= mode <= _ALL_PERMISSIONS):
        return mode
    raise InputError(f"volume {name}: {field_name} must be a number from 0 to 0777, not {mode!r}")


def _sub_path(mount: _Object) -> str:
    name = mount.get("name")
    if mount.get("subPathExpr"):
        raise InputError(
            f"volume {name}: subPathExpr is not available on this computer: use subPath"
        )
    path = PurePosixPath(mount.get("subPath") or "")
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"volume {name}: subPath {path} must be a path below it, without ..")
    return str(path)


def _linked(volume: Volume, link: Path) -> Volume:
    if _SPLIT_BY_A_SHELL.search(str(volume.folder)) is None or volume.folder == link:
        return volume
    return replace(volume, link=link)
