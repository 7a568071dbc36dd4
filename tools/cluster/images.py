"""Builds the project's two images, again only when something that goes into them changed.

A build's context holds what the Dockerfiles count on: the files beside the Dockerfile, the lock
file as requirements.lock, and its packages in wheels/.
"""

import contextlib
import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import engine as engines
from tools.cluster.cache import NO_SOURCES, cache_dir, digest, locked, scratch
from tools.cluster.debian import RELEASE, root_filesystem
from tools.cluster.engine import Engine
from tools.cluster.shell import ClusterError, Say
from tools.cluster.wheels import PYTHON, wheelhouse

ROOT = Path(__file__).parents[2]
PUBLIC_PYTHON = f"python:{PYTHON}-slim-{RELEASE}"

_PYTHON_PACKAGES = ("usr-is-merged", "python3", "python3-venv", "ca-certificates")
_INPUTS = "tftraining.inputs"
_PULL_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Recipe:
    """Where one of the project's images comes from."""

    folder: Path
    lock: Path


RECIPES = {
    "operator": Recipe(ROOT / "operator", ROOT / "requirements/operator.lock"),
    "trainer": Recipe(ROOT / "trainer_image", ROOT / "requirements/trainer.lock"),
}


TRAINER_LIMIT = 1_100_000_000
"""What the trainer's image may have, in bytes, unpacked."""


def image_name(name: str) -> str:
    """Name an image with the project's version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return f"tftraining/{name}:{project['version']}"


def image_bytes(engine: Engine, image: str) -> int:
    """Return how large an image is, unpacked. Raises ClusterError if there is none."""
    return int(engine.docker("image", "inspect", "--format", "{{.Size}}", image))


def build_images(*names: str, say: Say = print) -> list[str]:
    """Build some of the images, or all, where they are not up to date; return their names."""
    engine = engines.engine(say)
    base = _python_image(engine, say)
    return [_build(engine, RECIPES[name], image_name(name), base, say) for name in names or RECIPES]


def build_operator_from(checkout: Path, tag: str, say: Say = print) -> str:
    """Build the operator's image from another checkout of the project; return its name."""
    engine = engines.engine(say)
    recipe = Recipe(checkout / "operator", checkout / "requirements/operator.lock")
    return _build(engine, recipe, f"tftraining/operator:{tag}", _python_image(engine, say), say)


def _build(engine: Engine, recipe: Recipe, image: str, base: str, say: Say) -> str:
    key = digest(recipe.folder, recipe.lock, base)
    if _label(engine, image) == key:
        return image
    before = engine.docker("images", "--quiet", "--no-trunc", image).split()
    wheels = wheelhouse(recipe.lock, say)
    say(f"building {image}")
    work = f"image-{image.replace('/', '-').replace(':', '-')}"
    with locked(cache_dir() / "locks" / work), scratch(work) as folder:
        context = folder / "context"
        shutil.copytree(recipe.folder, context, ignore=shutil.ignore_patterns(*NO_SOURCES))
        shutil.copyfile(recipe.lock, context / "requirements.lock")
        # Links, because the trainer's wheels are half a gigabyte.
        shutil.copytree(wheels, context / "wheels", copy_function=os.link)
        engine.docker(
            *("build", "--build-arg", f"PYTHON_IMAGE={base}", "--label", f"{_INPUTS}={key}"),
            *("--tag", image, context),
        )
    for older in before:
        # Of the image before only its own layers go; while a container runs it, it stays.
        with contextlib.suppress(ClusterError):
            engine.docker("rmi", older)
    return image


def _label(engine: Engine, image: str) -> str:
    template = f'{{{{index .Config.Labels "{_INPUTS}"}}}}'
    try:
        return engine.docker("image", "inspect", "--format", template, image).strip()
    except ClusterError:
        return ""


def _python_image(engine: Engine, say: Say) -> str:
    """Name the image that both are built on: the public one, else Debian's Python."""
    own = f"tftraining/python:{PYTHON}-{digest(RELEASE, *_PYTHON_PACKAGES)[:12]}"
    for image in (own, PUBLIC_PYTHON):
        if engine.has_image(image):
            return image
    say("asking for the public Python image")
    try:
        engine.docker("pull", "--quiet", PUBLIC_PYTHON, timeout=_PULL_SECONDS)
    except ClusterError:
        say("it can't be pulled here: making one out of Debian packages")
    else:
        return PUBLIC_PYTHON
    if engine.machine.why_no_engine:
        raise ClusterError("the images' base can't be pulled, and making one needs root on Debian")
    tar = root_filesystem("python", _PYTHON_PACKAGES, say)
    engine.docker("import", "--change", 'CMD ["python3"]', tar, own)
    return own
