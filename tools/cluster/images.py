"""Builds the operator's and the trainer's image, only if their inputs changed.

The build context holds what the Dockerfiles expect: the files beside the Dockerfile, the lock file
as requirements.lock, and its packages in wheels/.
"""

import contextlib
import os
import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import engine as engines
from tools.cluster.cache import IGNORED, cache_dir, digest, locked, scratch
from tools.cluster.debian import RELEASE, root_filesystem
from tools.cluster.engine import Engine
from tools.cluster.shell import ClusterError, NoClusterError, Say
from tools.cluster.wheels import PYTHON, wheelhouse

ROOT = Path(__file__).parents[2]

_PYTHON_PACKAGES = ("usr-is-merged", "python3", "python3-venv", "ca-certificates")
_INPUTS = "tftraining.inputs"
_PULL_SECONDS = 180
_BASE = re.compile(r"(?m)^ARG PYTHON_IMAGE=(\S+)$")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The inputs of one of the project's images."""

    folder: Path
    lock: Path
    flavor: str = ""
    """The build argument FLAVOR, if the Dockerfile has it."""


RECIPES = {
    "operator": Recipe(ROOT / "operator", ROOT / "requirements/operator.lock"),
    "trainer": Recipe(ROOT / "trainer_image", ROOT / "requirements/trainer.lock"),
}
GPU = Recipe(ROOT / "trainer_image", ROOT / "requirements/trainer-gpu.lock", flavor="gpu")


def public_base(recipe: Recipe) -> str:
    """Return the base that a Dockerfile names."""
    (base,) = _BASE.findall((recipe.folder / "Dockerfile").read_text())
    return str(base)


TRAINER_LIMIT = 1_100_000_000
"""Maximum size of the trainer's image in bytes, unpacked."""


def image_name(name: str) -> str:
    """Return an image's name, tagged with the project's version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return f"tftraining/{name}:{project['version']}"


def image_bytes(engine: Engine, image: str) -> int:
    """Return an image's size in bytes, unpacked. Raises ClusterError if it does not exist."""
    return int(engine.docker("image", "inspect", "--format", "{{.Size}}", image))


def build_images(*names: str, say: Say = print) -> list[str]:
    """Build the images named, or all, unless they are up to date; return their full names."""
    engine = engines.engine(say)
    base = python_image(engine, say)
    return [_build(engine, RECIPES[name], image_name(name), base, say) for name in names or RECIPES]


def build_gpu_image(say: Say = print) -> str:
    """Build the trainer's image for GPUs unless it is up to date; return its full name."""
    engine = engines.engine(say)
    return _build(engine, GPU, image_name("trainer-gpu"), python_image(engine, say), say)


def build_operator_from(checkout: Path, tag: str, say: Say = print) -> str:
    """Build the operator's image from another checkout of the project; return its name."""
    engine = engines.engine(say)
    recipe = Recipe(checkout / "operator", checkout / "requirements/operator.lock")
    return _build(engine, recipe, f"tftraining/operator:{tag}", python_image(engine, say), say)


def _build(engine: Engine, recipe: Recipe, image: str, base: str, say: Say) -> str:
    key = digest(recipe.folder, recipe.lock, base, recipe.flavor)
    if _label(engine, image) == key:
        return image
    before = engine.docker("images", "--quiet", "--no-trunc", image).split()
    wheels = wheelhouse(recipe.lock, say)
    say(f"building {image}")
    work = f"image-{image.replace('/', '-').replace(':', '-')}"
    with locked(cache_dir() / "locks" / work), scratch(work) as folder:
        context = folder / "context"
        shutil.copytree(recipe.folder, context, ignore=shutil.ignore_patterns(*IGNORED))
        shutil.copyfile(recipe.lock, context / "requirements.lock")
        _open_to_all(context)
        # Hard links, because the trainer's wheels are half a gigabyte.
        shutil.copytree(wheels, context / "wheels", copy_function=os.link)
        flavor = ("--build-arg", f"FLAVOR={recipe.flavor}") if recipe.flavor else ()
        engine.docker(
            *("build", "--build-arg", f"PYTHON_IMAGE={base}", "--label", f"{_INPUTS}={key}"),
            *flavor,
            *("--tag", image, context),
        )
    for older in before:
        # Removes only the layers of the older image; fails while a container uses it.
        with contextlib.suppress(ClusterError):
            engine.docker("rmi", older)
    return image


def _open_to_all(folder: Path) -> None:
    """Let everybody read a folder: pods do not run as root, and a checkout may have umask 077."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)


def _label(engine: Engine, image: str) -> str:
    template = f'{{{{index .Config.Labels "{_INPUTS}"}}}}'
    try:
        return engine.docker("image", "inspect", "--format", template, image).strip()
    except ClusterError:
        return ""


def python_image(engine: Engine, say: Say) -> str:
    """Return the base of both images: the public one, or one built from Debian's Python."""
    own = f"tftraining/python:{PYTHON}-{digest(RELEASE, *_PYTHON_PACKAGES)[:12]}"
    public = public_base(RECIPES["operator"])
    for image in (own, public):
        if engine.has_image(image):
            return image
    say("pulling the public Python image")
    try:
        engine.docker("pull", "--quiet", public, timeout=_PULL_SECONDS)
    except ClusterError:
        say("the pull failed: building the base image from Debian packages")
    else:
        return public
    if engine.machine.why_no_engine:
        raise NoClusterError("cannot pull the base image, and building one requires root on Debian")
    tar = root_filesystem("python", _PYTHON_PACKAGES, say)
    engine.docker("import", "--change", 'CMD ["python3"]', tar, own)
    return own
