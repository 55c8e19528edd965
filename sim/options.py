"""Options that several jobs of the command take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hw.config import PRESETS

from .board.config import BoardConfig
from .engines import ENGINES

__all__ = ["Engine", "Json", "Latency", "Preset", "Scope", "Seed", "Stall", "Vcd", "Window"]

Preset = Annotated[
    str, typer.Option(metavar="NAME", help=f"Sizes of the NPU: {', '.join(PRESETS)}.")
]
Engine = Annotated[
    str, typer.Option(metavar="NAME", help=f"What runs the gateware: {', '.join(ENGINES)}.")
]
Vcd = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Record a waveform into this file.")
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="PART", help="Record only this part of the run: FIRST:STOP in cycles, or task:ID."
    ),
]
Scope = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Record only signals in this scope, such as npu.core0; repeatable."
    ),
]
Latency = Annotated[
    int | None,
    typer.Option(
        metavar="CYCLES",
        help=f"Latency of both memories; otherwise {BoardConfig.device_latency} of the device's "
        f"and {BoardConfig.host_latency} of the host's.",
    ),
]
Stall = Annotated[
    int,
    typer.Option(
        metavar="N", help="How often, out of 256, memories hold back a handshake for a cycle."
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of what is random: the stalls.")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures to this file.")
]
