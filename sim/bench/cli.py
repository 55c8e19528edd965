"""``npu bench``: measures the simulators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hw.config import NpuConfig

from ..console import InputError, check_writable, err, out
from ..options import Json
from .measure import Settings, engines, measure
from .report import as_json, picture, print_report

__all__ = ["bench"]

bench = typer.Typer(help="Measure.")


@bench.callback()
def group() -> None:
    """Measure."""


@bench.command("sim")
def sim(
    preset: Annotated[
        str, typer.Option(metavar="NAMES", help="Sizes of the NPU, with commas between.")
    ] = "small,base,large",
    engine: Annotated[
        str | None,
        typer.Option("--engines", "--peers", metavar="NAMES",
                     help="Engines and peers, with commas between; otherwise all that there are."),
    ] = None,
    rounds: Annotated[int, typer.Option(metavar="N", help="Rounds, interleaved.")] = 5,
    cycles: Annotated[
        int, typer.Option(metavar="N", help="Length of the window that pysim is measured in.")
    ] = 2000,
    size: Annotated[
        int, typer.Option(metavar="N", help="Rows and columns of the matrices.")
    ] = 256,
    json_file: Json = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the speeds into this SVG file.")
    ] = None,
) -> None:  # fmt: skip
    """Measure engines and other simulators side by side, on the same NPU and workload.

    Other simulators are built first, which takes minutes; what is built is kept for the next time.
    """
    settings = Settings(
        presets=tuple(preset.split(",")), engines=tuple(engine.split(",")) if engine else (),
        rounds=rounds, cycles=cycles, size=size,
    )  # fmt: skip
    for name in settings.presets:
        NpuConfig.preset(name)
    known = engines()
    for name in settings.engines:
        if name not in known:
            raise InputError(f"no engine is called {name!r}; choose of {', '.join(known)}")
    for option, value in (("rounds", rounds), ("cycles", cycles), ("size", size)):
        if value < 1:
            raise InputError(f"--{option} is {value}; it must be at least 1")
    check_writable(json_file)
    check_writable(plot)
    with err.status("") as status:
        results = measure(settings, status.update)
    print_report(results, out)
    if json_file is not None:
        text = json.dumps(as_json(results, settings), indent=1, ensure_ascii=False)
        json_file.write_text(text + "\n", encoding="utf-8")
    if plot is not None:
        plot.write_text(picture(results), encoding="utf-8")
