"""What the image's build takes out of a virtual environment, on real libraries."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def prune() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prune", ROOT / "trainer_image/prune.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment with a real package in it, and beside it what the image must not have."""
    site = tmp_path / "lib/python3.11/site-packages"
    shutil.copytree(Path(h5py.__file__).parent, site / "h5py")
    shutil.copytree(Path(h5py.__file__).parents[1] / "h5py.libs", site / "h5py.libs")
    for name in (
        "../../../bin/python3",
        "../../../bin/pip3.11",
        "pip/__init__.py",
        "pip-1.dist-info/RECORD",
        "distutils-precedence.pth",
        "tensorflow/__init__.py",
        "tensorflow/include/tensorflow/core/public/session.h",
        "numpy/_core/include/numpy/arrayobject.h",
        "keras/src/ops/numpy.py",
        "keras/src/ops/numpy_test.py",
        "keras/src/ops/__pycache__/numpy.cpython-311.pyc",
        "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
        "nvidia/cuda_runtime/include/cuda_fp16.h",
    ):
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def test_what_compiles_installs_and_tests_is_gone_and_sources_stay(
    prune: ModuleType, venv: Path
) -> None:
    prune.prune(venv)

    left = {str(path.relative_to(venv)) for path in venv.rglob("*") if path.is_file()}
    site = "lib/python3.11/site-packages"
    others = {name for name in left if not name.startswith(f"{site}/h5py")}
    assert others == {
        "bin/python3",
        f"{site}/tensorflow/__init__.py",
        f"{site}/keras/src/ops/numpy.py",
        f"{site}/nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
        f"{site}/nvidia/cuda_runtime/include/cuda_fp16.h",
    }
    assert f"{site}/h5py/__init__.py" in left
    assert not [name for name in left if "/tests/" in name]


def test_a_pruned_library_is_smaller_and_works(prune: ModuleType, venv: Path) -> None:
    site = venv / "lib/python3.11/site-packages"
    before = sum(path.stat().st_size for path in site.rglob("*.so*"))

    prune.prune(venv)

    assert sum(path.stat().st_size for path in site.rglob("*.so*")) < before
    script = (
        "import sys, h5py; assert h5py.__file__.startswith(sys.argv[1]), h5py.__file__\n"
        "h5py.File(sys.argv[2], 'w')['x'] = [1, 2]; print(list(h5py.File(sys.argv[2])['x']))"
    )
    numpy = str(Path(np.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script, str(site), str(venv / "file.h5")],
        env={"PYTHONPATH": f"{site}:{numpy}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1" in done.stdout, done.stderr


def test_a_library_that_another_place_links_to_stays_whole(
    prune: ModuleType, tmp_path: Path
) -> None:
    library = next((Path(h5py.__file__).parents[1] / "h5py.libs").glob("libhdf5-*"))
    cached, linked = tmp_path / "cached.so", tmp_path / "linked.so"
    shutil.copyfile(library, cached)
    with cached.open("ab") as file:
        file.write(bytes(100))
    linked.hardlink_to(cached)

    prune.cut_symbols(linked)

    assert cached.stat().st_size == library.stat().st_size + 100
    assert linked.stat().st_size < library.stat().st_size + 100
