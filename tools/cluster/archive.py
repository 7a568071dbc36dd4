"""Writes container images of one layer, as archives that docker and containerd read."""

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_EPOCH = "1970-01-01T00:00:00Z"
_CHUNK = 1 << 20


def write(
    archive: Path,
    image: str,
    root: Path,
    *,
    entrypoint: Sequence[str] = (),
    architecture: str = "amd64",
) -> None:
    """Write the image whose whole content is a folder; the same folder gives the same bytes."""
    with tempfile.NamedTemporaryFile(dir=archive.parent) as layer:
        with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(root.iterdir()):
                tar.add(path, path.name, filter=_anonymous)
        layer.flush()
        config = _config(_digest(Path(layer.name)), entrypoint, architecture)
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [image], "Layers": ["layer.tar"]}]
        with tarfile.open(archive, "w") as tar:
            _add(tar, config_name, config)
            _add(tar, "manifest.json", json.dumps(manifest).encode())
            member = tarfile.TarInfo("layer.tar")
            member.size = layer.seek(0, io.SEEK_END)
            layer.seek(0)
            tar.addfile(member, layer)


def _config(layer_digest: str, entrypoint: Sequence[str], architecture: str) -> bytes:
    return json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "created": _EPOCH,
            "config": {
                "Env": [_PATH],
                "Entrypoint": list(entrypoint) or None,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
            "history": [{"created": _EPOCH}],
        }
    ).encode()


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    if not member.issym():
        # Pods do not run as root, and the umask of who builds it may be 077.
        member.mode = 0o755 if member.isdir() or member.mode & 0o111 else 0o644
    return member


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
