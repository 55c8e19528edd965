"""The wheel works where there is no checkout."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sim

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which the wheel was installed."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir",
         "--wheel-dir", wheels, ROOT],
        check=True,
    )  # fmt: skip
    (wheel,) = wheels.iterdir()
    assert wheel.name == f"celosia-{sim.__version__}-py3-none-any.whl"
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    return target


@pytest.fixture
def run(installed, tmp_path):
    """Runs Python in an empty folder, with what was installed before anything else."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True,
            check=True, env={**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "80"},
        ).stdout  # fmt: skip

    return run


def test_the_wheel_holds_the_packages_and_the_weights_and_nothing_else(installed, run):
    tops = {path.name for path in installed.iterdir()}
    assert tops == {"hw", "rt", "sim", "bin", f"celosia-{sim.__version__}.dist-info"}
    files = run("-c", "import hw, rt, sim; print(*(m.__file__ for m in (hw, rt, sim)), sep='\\n')")
    assert files.split() == [
        str(installed / name / "__init__.py") for name in ("hw", "rt", "sim")
    ]
    weights = run("-c", "from rt.models import digits as d; d.DigitsNetwork.load(); "
                        "print(d.WEIGHTS_FILE)")  # fmt: skip
    assert Path(weights.strip()).is_relative_to(installed)


def test_the_installed_command_multiplies(installed, run, tmp_path):
    a = np.array([[1, -2, 3]], np.int8)
    b = np.array([[4], [5], [-128]], np.int8)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    npu = installed / "bin" / "npu"
    assert run(npu, "--version") == f"npu {sim.__version__}\n"
    out = run(npu, *"run gemm --a a.npy --b b.npy --out c.npy".split())
    assert np.load(tmp_path / "c.npy").tolist() == [[4 - 10 - 384]]
    assert "result: c.npy" in out
