"""Removes from a virtual environment what training never reads; run once, when the image is built.

Sources stay, because AutoGraph reads them, and so does Keras 3, because a task that imports it by
mistake shall get the trainer's message. Nothing stays that compiles or installs: packages are added
by a build of one's own (docs/guide/user-code.md). usage: prune.py VENV
"""

import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

_PACKAGES = (
    "clang",  # a dependency that only a code generator needs
    "pip",
    "setuptools",  # asked for by TensorFlow, imported by nothing
    "wheel",
)
_DISTRIBUTIONS = ("libclang", "pip", "setuptools", "wheel")
_FOLDERS = (
    "_distutils_hack",  # of setuptools, as the file below is
    "tensorflow/include",  # for compiling operations in C++
    "tensorflow/tools/pip_package",
    "tensorflow/xla_aot_runtime_src",
)
_FILES = (
    "distutils-precedence.pth",
    # Operations that libtensorflow_cc.so has registered already; nothing loads it.
    "tensorflow/compiler/tf2xla/ops/_xla_ops.so",
    "tensorflow/compiler/mlir/stablehlo/stablehlo_extension.so",  # for quantization tools
)
_PROGRAMS = ("pip*", "wheel*")
# Compilers that run in training (XLA's, nvrtc) read it, with headers and more of their own.
_AS_IT_IS = "nvidia"
_TESTED = ("h5py", "numpy", "opt_einsum")
_ENDINGS = ("_test.py", ".a", ".c", ".cc", ".cpp", ".f", ".h", ".hpp", ".pxd", ".pyi", ".pyx")

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_ELF64_LITTLE = b"\x7fELF\x02\x01"


def prune(venv: Path) -> None:
    """Prune a virtual environment."""
    for site in venv.glob("lib/python3.*/site-packages"):
        _prune(site)
    for pattern in _PROGRAMS:
        for program in (venv / "bin").glob(pattern):
            program.unlink()


def _prune(site: Path) -> None:
    for name in (*_PACKAGES, *_FOLDERS):
        shutil.rmtree(site / name, ignore_errors=True)
    for name in _FILES:
        (site / name).unlink(missing_ok=True)
    for path in _unwanted(site):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for path in site.rglob("*.so*"):
        if path.is_file() and not path.is_symlink() and not _stays(path, site):
            cut_symbols(path)


def cut_symbols(path: Path) -> None:
    """Cut off what follows the last byte that the loader maps: symbol tables and section headers.

    What `strip` does, for libraries whose tables stand at the end, as a linker leaves them; it is
    205 MB of TensorFlow's 788. Dynamic symbols are mapped, and stay.
    """
    with path.open("rb") as file:
        header = file.read(_ELF_HEADER.size)
        if not header.startswith(_ELF64_LITTLE):
            return
        fields = list(_ELF_HEADER.unpack(header))
        offset, size, count = fields[5], fields[9], fields[10]
        end = offset + size * count
        for index in range(count):
            file.seek(offset + size * index)
            program = _PROGRAM_HEADER.unpack(file.read(_PROGRAM_HEADER.size))
            end = max(end, program[2] + program[5])
        if end >= path.stat().st_size:
            return
        # No section headers: where they begin, their number, and which one holds their names.
        fields[6] = fields[12] = fields[13] = 0
        # A new file, for the old one may be a hard link into a package manager's cache.
        cut = path.with_name(f"{path.name}.cut")
        with cut.open("wb") as target:
            file.seek(0)
            shutil.copyfileobj(file, target, length=1 << 24)
            target.truncate(end)
            target.seek(0)
            target.write(_ELF_HEADER.pack(*fields))
    shutil.copymode(path, cut)
    cut.replace(path)


def _stays(path: Path, site: Path) -> bool:
    return path.is_relative_to(site / _AS_IT_IS)


def _unwanted(site: Path) -> Iterator[Path]:
    for package in _TESTED:
        yield from (p for p in sorted((site / package).rglob("tests")) if p.is_dir())
    ends = (p for p in site.rglob("*") if p.name.endswith(_ENDINGS) and p.is_file())
    yield from (path for path in ends if not _stays(path, site))
    yield from sorted(site.rglob("__pycache__"))
    yield from (path for name in _DISTRIBUTIONS for path in site.glob(f"{name}-*.dist-info"))


if __name__ == "__main__":
    prune(Path(sys.argv[1]))
