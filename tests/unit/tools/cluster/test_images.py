"""What the project's images are built on."""

from __future__ import annotations

import re

from tools.cluster.debian import RELEASE
from tools.cluster.images import GPU, RECIPES, Recipe, public_base
from tools.cluster.wheels import PYTHON


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
