"""What the project's images are built on."""

from __future__ import annotations

import re

from tools.cluster.debian import RELEASE
from tools.cluster.images import RECIPES, public_base
from tools.cluster.wheels import PYTHON


def test_both_images_have_the_same_base_by_its_digest() -> None:
    (base,) = {public_base(recipe) for recipe in RECIPES.values()}
    assert re.fullmatch(rf"python:{PYTHON}-slim-{RELEASE}@sha256:[0-9a-f]{{64}}", base)
