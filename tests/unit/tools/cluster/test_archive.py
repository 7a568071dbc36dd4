"""Image archives hold what docker and containerd read."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from tools.cluster import archive


@pytest.fixture
def written(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("a program")
    (root / "bin" / "tool").chmod(0o755)
    (root / "bin" / "link").symlink_to("tool")
    out = tmp_path / "image.tar"
    archive.write(out, "localhost/tool:1", root, entrypoint=["/bin/tool"])
    return out


def _json(path: Path, name: str) -> object:
    with tarfile.open(path) as tar:
        member = tar.extractfile(name)
        assert member is not None
        return json.load(member)


def test_the_manifest_names_the_image_its_config_and_its_layer(written: Path) -> None:
    [entry] = _json(written, "manifest.json")  # type: ignore[misc]

    assert entry["RepoTags"] == ["localhost/tool:1"]
    assert entry["Layers"] == ["layer.tar"]


def test_the_config_digests_the_layer_and_names_the_entrypoint(written: Path) -> None:
    [entry] = _json(written, "manifest.json")  # type: ignore[misc]
    config = _json(written, entry["Config"])
    with tarfile.open(written) as tar:
        layer = tar.extractfile("layer.tar")
        assert layer is not None
        digest = hashlib.sha256(layer.read()).hexdigest()

    assert isinstance(config, dict)
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert config["config"]["Entrypoint"] == ["/bin/tool"]
    assert config["architecture"] == "amd64"


def test_the_layer_keeps_modes_and_links_and_belongs_to_root(written: Path) -> None:
    with tarfile.open(written) as tar, tarfile.open(fileobj=tar.extractfile("layer.tar")) as layer:
        members = {member.name: member for member in layer}

    assert set(members) == {"bin", "bin/tool", "bin/link"}
    assert members["bin/tool"].mode == 0o755
    assert members["bin/link"].linkname == "tool"
    assert {(member.uid, member.uname, member.mtime) for member in members.values()} == {(0, "", 0)}


def test_the_same_folder_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar"
    archive.write(again, "localhost/tool:1", tmp_path / "root", entrypoint=["/bin/tool"])

    assert again.read_bytes() == written.read_bytes()


def test_everybody_can_read_what_was_built_with_a_strict_umask(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True, mode=0o700)
    (root / "bin/tool").touch(mode=0o700)
    (root / "bin/text").touch(mode=0o600)
    archive.write(tmp_path / "image.tar", "localhost/tool:1", root)

    with (
        tarfile.open(tmp_path / "image.tar") as tar,
        tarfile.open(fileobj=tar.extractfile("layer.tar")) as layer,
    ):
        modes = {member.name: member.mode for member in layer}

    assert modes == {"bin": 0o755, "bin/tool": 0o755, "bin/text": 0o644}
