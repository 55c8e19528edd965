"""The `npu` command: parses, calls, prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hw.config import PRESETS, ConfigError, NpuConfig
from hw.regs.export import c_header, markdown, systemrdl
from hw.regs.registers import REGISTER_MAP
from rt.errors import (
    EncodingError,
    InvalidParameter,
    KernelError,
    MemoryExhausted,
    NpuError,
)
from rt.kernel.assembler import assemble, disassemble

from .board.config import BoardConfig
from .jobs import Row, run_digits, run_gemm
from .link import SimTransport
from .link import open as open_simulation
from .timeline import Timeline, print_timeline
from .wave import WaveError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Celosia: an open NPU, simulated cycle by cycle.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
run = typer.Typer(help="Run a job on a simulated NPU.", no_args_is_help=True)
app.add_typer(run, name="run")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

BAD_INPUT = (ConfigError, EncodingError, InvalidParameter, KernelError, MemoryExhausted, WaveError)
"""What the user can mend: exit status 2. Any other failure of the device is 1."""


class InputError(NpuError):
    """A file or option that the command cannot use."""


Preset = Annotated[str, typer.Option(help=f"Sizes of the NPU: {', '.join(PRESETS)}.")]
Engine = Annotated[str, typer.Option(help="What runs the gateware: auto or pysim.")]
Vcd = Annotated[Path | None, typer.Option(help="Record a waveform into this file.")]
Window = Annotated[
    str | None,
    typer.Option(help="Part of the run that is recorded: FIRST:STOP in cycles, or task:ID."),
]
Latency = Annotated[int | None, typer.Option(help="Cycles of latency of both memories.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]


@run.command("digits")
def digits(
    preset: Preset = "tiny",
    engine: Engine = "auto",
    images: Annotated[int, typer.Option(help="How many images.")] = 16,
    batch: Annotated[int, typer.Option(help="Images in one kernel.")] = 8,
    vcd: Vcd = None,
    no_vcd: Annotated[bool, typer.Option("--no-vcd", help="Record no waveform.")] = False,
    window: Window = None,
    latency: Latency = None,
    json_file: Json = None,
) -> None:
    """Classify handwritten digits with a quantised 64-32-10 network."""
    if images < 1 or images > 1797:
        raise InputError(f"--images is {images}; there are 1 … 1797")
    if no_vcd and (vcd is not None or window is not None):
        raise InputError("--no-vcd goes with neither --vcd nor --window; leave one out")
    if vcd is None and not no_vcd:
        vcd = Path("waves" if Path("waves").is_dir() else ".") / "digits.vcd"
    transport = _open(preset, engine, vcd, window, latency)
    with _progress("classifying", images) as step:
        measured = vcd if window is None else None
        report = run_digits(transport, images=images, batch=batch, vcd=measured, progress=step)
    predictions = report.run.inference.predictions
    table = Table(title="Predictions", title_justify="left", box=None, pad_edge=False)
    for name in ("images", "predicted", "shown", ""):
        table.add_column(name)
    for first in range(0, min(images, 64), 16):
        part = slice(first, min(first + 16, images))
        marks = "".join(" " if right else "✗" for right in report.correct[part])
        table.add_row(
            f"{first} … {part.stop - 1}",
            " ".join(map(str, predictions[part])),
            " ".join(map(str, report.labels[part])),
            f"[red]{int((~report.correct[part]).sum())} wrong[/]" if marks.strip() else "",
        )
    out.print(table)
    if images > 64:
        out.print(f"(the first 64 of {images})", style="dim")
    out.print()
    _print_rows(report.rows(), json_file)
    if vcd is not None:
        out.print(f"\nwaveform: {vcd} (npu wave {vcd}, or gtkwave with waves/npu.gtkw)")
    if not report.passed:
        err.print("npu: the device and the reference, or both latencies, differ", style="red")
        raise typer.Exit(1)


@run.command("gemm")
def gemm_command(
    a: Annotated[Path, typer.Option(help=".npy of int8, M × K.")],
    b: Annotated[Path, typer.Option(help=".npy of int8, K × N.")],
    out_file: Annotated[Path, typer.Option("--out", help=".npy of int32, M × N, to write.")],
    preset: Preset = "tiny",
    engine: Engine = "auto",
    vcd: Vcd = None,
    window: Window = None,
    latency: Latency = None,
    json_file: Json = None,
) -> None:
    """Multiply two int8 matrices."""
    left, right = _load("a", a), _load("b", b)
    if left.shape[1] != right.shape[0]:
        raise InputError(
            f"a is {left.shape[0]} × {left.shape[1]} and b {right.shape[0]} × {right.shape[1]}; "
            "a needs as many columns as b has rows"
        )
    _writable(out_file)
    transport = _open(preset, engine, vcd, window, latency)
    with _progress("multiplying", None):
        report = run_gemm(transport, left, right)
    with out_file.open("wb") as file:
        np.save(file, report.result)
    _print_rows(report.rows(), json_file)
    out.print(f"\nresult: {out_file}")
    if vcd is not None:
        out.print(f"waveform: {vcd} (npu wave {vcd})")
    if not report.exact:
        err.print("npu: the device's result differs from numpy's", style="red")
        raise typer.Exit(1)


@app.command()
def info(
    preset: Preset = "base",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="All formats, as Markdown.")]
    = False,
    as_c: Annotated[bool, typer.Option("--c-header", help="The same as a C header.")] = False,
    as_rdl: Annotated[bool, typer.Option("--systemrdl", help="Registers as SystemRDL.")] = False,
) -> None:
    """Show the configuration of an NPU and its register map."""
    config = NpuConfig.preset(preset)
    formats = [
        text
        for wanted, text in ((as_markdown, markdown), (as_c, c_header), (as_rdl, systemrdl))
        if wanted
    ]
    if len(formats) > 1:
        raise InputError("--markdown, --c-header and --systemrdl exclude each other; give one")
    if formats:
        sys.stdout.write(formats[0](config))
        return
    sizes = Table(title=f"Preset {preset}", title_justify="left", box=None, pad_edge=False)
    sizes.add_column("size")
    sizes.add_column("value", justify="right")
    for name, value in config.as_dict().items():
        sizes.add_row(name, str(value))
    for name in ("data_bytes", "burst_bytes", "word_bytes"):
        sizes.add_row(name, str(getattr(config, name)), style="dim")
    sizes.add_row("fingerprint", f"{config.fingerprint:#010x}", style="dim")
    out.print(sizes)
    out.print()
    registers = Table(title="Register map", title_justify="left", box=None, pad_edge=False)
    for name in ("address", "register", "bits", "access", "what"):
        registers.add_column(name, overflow="fold", no_wrap=name != "what")
    for block in REGISTER_MAP:
        count = block.count(config)
        repeat = f" + {block.stride:#x} × 0 … {count - 1}" if block.per else ""
        registers.add_row(f"{block.base:#06x}{repeat}", f"[bold]{block.name}[/]", "", "", block.doc)
        for register in block:
            registers.add_row(
                f"  {block.address(register):#06x}", register.__name__, str(register.WIDTH),
                register.ACCESS.name + (" privileged" if register.PRIVILEGED else ""),
                (register.__doc__ or "").splitlines()[0],
            )  # fmt: skip
    out.print(registers)


@app.command()
def asm(
    source: Annotated[Path, typer.Argument(help="Kernel text.")],
    target: Annotated[Path, typer.Option("-o", "--out", help="Kernel binary to write.")],
    preset: Preset = "tiny",
) -> None:
    """Assemble a kernel text. --preset is used where the text has no .fingerprint."""
    try:
        text = source.read_text()
    except UnicodeDecodeError:
        raise InputError(f"{source} is no text; npu disasm reads binaries") from None
    binary = assemble(text, NpuConfig.preset(preset).fingerprint)
    _writable(target).write_bytes(binary)
    out.print(f"{target}: {len(binary)} bytes, {(len(binary) - 32) // 16} instructions")


@app.command()
def disasm(
    source: Annotated[Path, typer.Argument(help="Kernel binary.")],
    target: Annotated[
        Path | None, typer.Option("-o", "--out", help="Text to write; otherwise it is printed.")
    ] = None,
) -> None:
    """Disassemble a kernel binary; npu asm gives the very same binary back."""
    text = disassemble(source.read_bytes())
    if target is None:
        sys.stdout.write(text)
    else:
        _writable(target).write_text(text)


@app.command()
def wave(
    file: Annotated[Path, typer.Argument(help="VCD file that npu run recorded.")],
) -> None:
    """Print a waveform as a timeline of streams, events and engines."""
    print_timeline(Timeline(file), out)


def _open(
    preset: str, engine: str, vcd: Path | None, window: str | None, latency: int | None
) -> SimTransport:
    board = BoardConfig()
    if latency is not None:
        board = BoardConfig(device_latency=latency, host_latency=latency)
    return open_simulation(preset, board=board, engine=engine, vcd=vcd, window=window)


def _load(name: str, path: Path) -> npt.NDArray[np.int8]:
    """An int8 matrix from a .npy file."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise InputError(f"--{name} {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise InputError(f"--{name} {path} is no .npy file; write it with numpy.save") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"--{name} {path} is an archive; numpy.save writes a single array")
    if array.dtype != np.int8:
        raise InputError(f"--{name} {path} has dtype {array.dtype}; convert it to int8")
    if array.ndim != 2 or not array.size:
        raise InputError(
            f"--{name} {path} has shape {array.shape}; two dimensions of at least 1 are needed"
        )
    return np.ascontiguousarray(array)


def _writable(path: Path) -> Path:
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"cannot write {path}: its folder must exist, and it must be no folder")
    return path


@contextmanager
def _progress(text: str, total: int | None) -> Iterator:  # type: ignore[type-arg]
    """A bar on stderr; yields a function that takes how much is done."""
    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    if total is not None:
        columns.insert(2, MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.update(task, completed=done)


def _print_rows(rows: Sequence[Row], file: Path | None) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    table.add_column(style="dim")
    for row in rows:
        target = f"target {row.target}" if row.target else ""
        table.add_row(row.name, str(row.value), row.unit, target)
    out.print(table)
    if file is not None:
        _writable(file).write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def main() -> None:
    """Runs the command. Exit status 0: done; 1: a check or the device failed; 2: bad input."""
    try:
        app()
    except (InputError, *BAD_INPUT) as error:
        _fail(error, 2)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else error, 2)
    except NpuError as error:
        _fail(error, 1)


def _fail(error: object, status: int) -> None:
    err.print(f"npu: {error}", style="red", markup=False, soft_wrap=True)
    sys.exit(status)
