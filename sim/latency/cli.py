"""``npu latency``: measures the paths between what depends on each other."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from hw.config import PRESETS

from ..board.config import BoardConfig
from ..console import InputError, check_writable, complain, err, out, progress
from ..engines import choose
from ..jobs import Row
from ..link import open as open_simulation
from ..options import Engine, Json
from .measure import measure
from .picture import check_format, picture, write_picture
from .report import print_sheet, rows

__all__ = ["latency"]

ROUNDS, FEW = 10, 1
"""Rounds by default, and where each takes minutes."""


def latency(
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Sizes of the NPU: {', '.join(PRESETS)}; otherwise small, with pysim tiny.",
        ),
    ] = None,
    engine: Engine = "auto",
    device_latency: Annotated[
        int, typer.Option("--latency", metavar="CYCLES", help="Latency of device memory.")
    ] = BoardConfig.device_latency,
    host_latency: Annotated[
        int, typer.Option(metavar="CYCLES", help="Latency of host memory, where streams lie.")
    ] = BoardConfig.host_latency,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Rounds; otherwise {ROUNDS}, with pysim {FEW}."),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of what is random: moments, streams, sizes.")
    ] = 1,
    loads: Annotated[
        bool | None,
        typer.Option(help="Also the long runs, overlap and load; otherwise not with pysim."),
    ] = None,
    json_file: Json = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw histograms into this file, .svg or .png."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("-d", metavar="DIR", help="Folder for waveform, figures and picture."),
    ] = None,
) -> None:
    """Measure how soon a task starts after what it depends on, and how well tasks overlap.

    Every sample is taken from the device's own timestamps and counters and from the waveform, and
    both must agree in every cycle. Memories have full bandwidth.
    """
    slow = choose(engine).name == "pysim"
    if preset is None:
        preset = "tiny" if slow else "small"
    if rounds is None:
        rounds = FEW if slow else ROUNDS
    if loads is None:
        loads = not slow
    if rounds < 1:
        raise InputError(f"--rounds is {rounds}; it must be at least 1")
    if folder is not None and not folder.is_dir():
        raise InputError(f"cannot write into {folder}: it is no folder; create it first")
    check_format(plot)
    for path in (json_file, plot):
        check_writable(path)
    board = BoardConfig(
        device_latency=device_latency, host_latency=host_latency, host_interval=1
    )
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        vcd = place / "latency.vcd"
        check_writable(vcd)
        with err.status(f"building {preset} …"):
            transport = open_simulation(preset, board=board, engine=engine, record=False)
        stack.enter_context(closing(transport))
        with progress("measuring", rounds, transport) as step:
            sheet, differences = measure(
                transport, vcd, rounds=rounds, seed=seed, loads=loads, progress=step
            )
    settings = [
        Row("preset", preset), Row("engine", transport.engine.name, note=transport.choice.why),
        Row("latency of device memory", device_latency, "cycles"),
        Row("latency of host memory", host_latency, "cycles"),
        Row("rounds", rounds), Row("seed", seed),
    ]  # fmt: skip
    title = (
        f"{preset}, {transport.engine.name}; device memory {device_latency}, "
        f"host memory {host_latency} cycles"
    )
    out.print(title, markup=False, soft_wrap=True)
    out.print()
    print_sheet(sheet, differences, transport.config, out)
    figures = [*settings, *rows(sheet, differences)]
    text = json.dumps([row.as_dict() for row in figures], indent=1, ensure_ascii=False) + "\n"
    drawing = picture(sheet, title)
    if json_file is not None:
        json_file.write_text(text, encoding="utf-8")
    if plot is not None:
        write_picture(drawing, plot)
    if folder is not None:
        (folder / "latency.json").write_text(text, encoding="utf-8")
        (folder / "latency.svg").write_text(drawing, encoding="utf-8")
        out.print(f"\nwaveform, figures and picture: {folder}", markup=False, soft_wrap=True)
    if missed := [row.name for row in figures if not row.met]:
        complain(f"target missed: {'; '.join(missed)}")
        raise typer.Exit(1)
