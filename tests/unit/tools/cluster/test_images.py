"""What the project's images are built on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tools.cluster import images
from tools.cluster.debian import RELEASE
from tools.cluster.engine import Engine
from tools.cluster.images import GPU, RECIPES, Recipe, public_base
from tools.cluster.machine import look
from tools.cluster.wheels import PYTHON

if TYPE_CHECKING:
    import pytest


def test_both_images_have_the_same_base_by_its_digest() -> None:
    (base,) = {public_base(recipe) for recipe in RECIPES.values()}
    assert re.fullmatch(rf"python:{PYTHON}-slim-{RELEASE}@sha256:[0-9a-f]{{64}}", base)


def test_the_image_for_gpus_holds_the_same_packages_and_cuda() -> None:
    def packages(recipe: Recipe) -> dict[str, str]:
        return dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", recipe.lock.read_text()))

    cpu, gpu = packages(RECIPES["trainer"]), packages(GPU)
    cuda = {name for name in gpu if name.startswith("nvidia-")}
    assert "nvidia-cudnn-cu12" in cuda
    assert cpu.pop("tensorflow-cpu") == gpu["tensorflow"]
    assert {name: gpu[name] for name in gpu.keys() - cuda} == cpu
    assert "AS gpu" in (GPU.folder / "Dockerfile").read_text()


def test_pods_can_read_what_is_built_from_a_checkout_with_a_strict_umask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, lock, wheels = tmp_path / "operator", tmp_path / "lock", tmp_path / "wheels"
    (folder / "package").mkdir(parents=True, mode=0o700)
    (folder / "package/module.py").touch(mode=0o600)
    (folder / "package/tool").touch(mode=0o700)
    lock.touch(mode=0o600)
    wheels.mkdir()
    modes: dict[str, int] = {}

    def docker(_engine: Engine, verb: str, *rest: object) -> str:
        if verb == "build":
            context = Path(str(rest[-1]))
            modes.update(
                (str(path.relative_to(context)), path.stat().st_mode & 0o777)
                for path in (context, *context.rglob("*"))
                if path != context / "wheels"
            )
        return ""

    monkeypatch.setenv("TFTRAINING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Engine, "docker", docker)
    monkeypatch.setattr(images, "wheelhouse", lambda *_: wheels)
    engine = Engine({}, ours=True, machine=look())

    images._build(engine, Recipe(folder, lock), "operator:1", "base", lambda _: None)

    assert modes == {
        ".": 0o755,
        "package": 0o755,
        "package/module.py": 0o644,
        "package/tool": 0o755,
        "requirements.lock": 0o644,
    }
