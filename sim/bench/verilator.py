"""The peer Verilator: Amaranth's Verilog as it is, or tidied up by Yosys first."""

from __future__ import annotations

from pathlib import Path

from .export import TOP, Exported, header
from .toolchain import NATIVE, Steps, call, compile_library, package, run_yosys

__all__ = ["build"]

AS_EXPORTED = (
    "chformal -remove; proc -nomux -norom; memory_collect; write_verilog -norename board.v"
)
"""What `amaranth.back.verilog` does, without assertions, whose texts Verilator would print."""
TUNED = f"hierarchy -top {TOP}; proc; chformal -remove; flatten; opt -full; "
PURGED = TUNED + "opt_clean -purge; write_verilog -noattr board.v"
NAMED = TUNED + "write_verilog -noattr board.v"
"""Tuned, but all signals with a name are still there for a waveform."""
OPTIONS = (
    "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "--no-timing",
    "-Wno-fatal", "-Wno-lint", "-Wno-style", "--top-module", TOP, "--prefix", "Vboard",
    "--Mdir", "obj",
)  # fmt: skip
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


def build(exported: Exported, folder: Path, steps: Steps, *, tuned: bool, trace: bool) -> Path:
    """Builds the board, as RTLIL, into a library with `native/peer.cpp`, in `folder`.

    tuned: Yosys flattens and optimises first.
    trace: it can write a waveform of everything, and is slower for it.
    """
    root = package("verilator")
    include = root / "include"
    (folder / "board.il").write_text(exported.rtlil)
    (folder / "ports.h").write_text(header(exported.ports))
    script = AS_EXPORTED if not tuned else NAMED if trace else PURGED
    with steps("yosys"):
        run_yosys(f"read_rtlil board.il; {script}", folder)
    with steps("verilator"):
        tracing = ["--trace"] if trace else []
        environment = ["env", f"VERILATOR_ROOT={root}"]
        call([*environment, root / "bin" / "verilator_bin", *OPTIONS, *tracing, "board.v"], folder)
    runtime = [include / name for name in (*RUNTIME, *(["verilated_vcd_c.cpp"] if trace else []))]
    sources = [*(folder / "obj").glob("*.cpp"), *runtime, NATIVE / "peer.cpp"]
    defines = [
        "-DVL_TIME_CONTEXT", f"-DVM_TRACE={int(trace)}", f"-DVM_TRACE_VCD={int(trace)}",
        '-DPEER="verilator.h"',
    ]  # fmt: skip
    places = (folder, folder / "obj", NATIVE, include, include / "vltstd")
    with steps("c++"):
        return compile_library(sources, folder, [*defines, *(f"-I{place}" for place in places)])
