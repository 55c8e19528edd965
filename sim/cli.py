"""The `npu` command: parses, calls, prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
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
    Unsupported,
)
from rt.kernel.assembler import assemble, decode, disassemble

from . import __version__
from .bench.cli import bench
from .board.config import BoardConfig
from .console import (
    InputError,
    check_writable,
    complain,
    err,
    load_matrix,
    out,
    print_rows,
    progress,
    read,
)
from .engines import choose
from .jobs import Row, run_digits, run_gemm
from .latency.cli import latency
from .link import SimTransport
from .link import open as open_simulation
from .options import Engine, Json, Latency, Preset, Scope, Seed, Stall, Vcd, Window
from .timeline import Timeline, print_timeline, write_viewer_setup
from .wave import WaveError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Celosia: an open NPU, simulated cycle by cycle.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
run = typer.Typer(help="Run a job on a simulated NPU.")
app.add_typer(run, name="run")
app.add_typer(bench, name="bench")
app.command("latency")(latency)

DIGITS = 1797
"""Images that `npu run digits` has."""
FEW = 16
"""Of which it takes these where each takes a second, or megabytes."""

BAD_INPUT = (
    ConfigError, EncodingError, InputError, InvalidParameter, KernelError, MemoryExhausted,
    Unsupported, WaveError,
)  # fmt: skip
"""What the user can mend: exit status 2. Any other failure of the device is 1."""


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"npu {__version__}")
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Celosia: an open NPU, simulated cycle by cycle."""


@run.command("digits")
def digits(
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Sizes of the NPU: {', '.join(PRESETS)}; otherwise base, with pysim tiny.",
        ),
    ] = None,
    engine: Engine = "auto",
    images: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"How many, of {DIGITS}; otherwise all, but {FEW} with pysim or a waveform.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Images that one kernel takes.")] = 8,
    vcd: Vcd = None,
    window: Window = None,
    scope: Scope = None,
    latency: Latency = None,
    stall: Stall = 0,
    seed: Seed = 1,
    json_file: Json = None,
) -> None:
    """Classify handwritten digits with a quantised 64-32-10 network."""
    slow = choose(engine).name == "pysim"
    if preset is None:
        preset = "tiny" if slow else "base"
    if images is None:
        images = FEW if slow or vcd is not None else DIGITS
    if not 1 <= images <= DIGITS:
        raise InputError(f"--images is {images}; choose 1 … {DIGITS}")
    if batch < 1:
        raise InputError(f"--batch is {batch}; a kernel takes at least 1 image")
    check_writable(json_file)
    with _machine(preset, engine, vcd, window, scope, latency, stall, seed) as transport:
        with progress("classifying", images, transport) as step:
            measured = vcd if window is None and not scope else None
            report = run_digits(transport, images=images, batch=batch, vcd=measured, progress=step)
    predictions = report.run.inference.predictions
    table = Table(title="Predictions", title_justify="left", box=None, pad_edge=False)
    for name in ("images", "predicted", "label", ""):
        table.add_column(name)
    for first in range(0, min(images, 60), 10):
        part = slice(first, min(first + 10, images))
        wrong = int((~report.correct[part]).sum())
        table.add_row(
            f"{first} … {part.stop - 1}",
            " ".join(map(str, predictions[part])),
            " ".join(map(str, report.labels[part])),
            f"[red]{wrong} wrong[/]" if wrong else "",
        )
    out.print(table)
    if images > 60:
        out.print(f"(the first 60 of {images})", style="dim")
    out.print()
    _report(transport, preset, report.rows(), json_file, vcd, window, scope)


@run.command("gemm")
def gemm_command(
    a: Annotated[Path, typer.Option(metavar="FILE", help=".npy of int8, M × K.")],
    b: Annotated[Path, typer.Option(metavar="FILE", help=".npy of int8, K × N.")],
    out_file: Annotated[
        Path, typer.Option("--out", metavar="FILE", help=".npy of int32, M × N, to write.")
    ],
    preset: Preset = "tiny",
    engine: Engine = "auto",
    vcd: Vcd = None,
    window: Window = None,
    scope: Scope = None,
    latency: Latency = None,
    stall: Stall = 0,
    seed: Seed = 1,
    json_file: Json = None,
) -> None:
    """Multiply two int8 matrices."""
    left, right = load_matrix("a", a), load_matrix("b", b)
    if left.shape[1] != right.shape[0]:
        raise InputError(
            f"a is {left.shape[0]} × {left.shape[1]} and b {right.shape[0]} × {right.shape[1]}; "
            "a needs as many columns as b has rows"
        )
    check_writable(out_file)
    check_writable(json_file)
    with _machine(preset, engine, vcd, window, scope, latency, stall, seed) as transport:
        with progress("multiplying", None, transport):
            report = run_gemm(transport, left, right)
    with out_file.open("wb") as file:
        np.save(file, report.result)
    out.print(f"result: {out_file}\n", markup=False, soft_wrap=True)
    _report(transport, preset, report.rows(), json_file, vcd, window, scope)


@app.command()
def info(
    preset: Preset = "tiny",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="All formats, as Markdown.")]
    = False,
    as_c: Annotated[bool, typer.Option("--c-header", help="The same as a C header.")] = False,
    as_rdl: Annotated[bool, typer.Option("--systemrdl", help="Registers as SystemRDL.")] = False,
) -> None:
    """Show the sizes of an NPU and its register map."""
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
    registers = Table(
        title="Register map (* privileged; fields: npu info --markdown)",
        title_justify="left", box=None, pad_edge=False,
    )  # fmt: skip
    for name in ("address", "register", "bits", "access", "what"):
        registers.add_column(name, no_wrap=name != "what")
    for block in REGISTER_MAP:
        count = block.count(config)
        repeat = f" × {count}, {block.stride:#x} apart" if block.per else ""
        registers.add_row(f"{block.base:#06x}", f"[bold]{block.name}[/]{repeat}", "", "", block.doc)
        for register in block:
            registers.add_row(
                f"{block.address(register):#06x}", f"  {register.__name__}", str(register.WIDTH),
                register.ACCESS.name + ("*" if register.PRIVILEGED else ""),
                (register.__doc__ or "").splitlines()[0],
            )  # fmt: skip
    out.print(registers)


@app.command()
def asm(
    source: Annotated[Path, typer.Argument(metavar="TEXT", help="Kernel text.")],
    target: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="Kernel binary to write.")
    ],
    preset: Preset = "tiny",
) -> None:
    """Assemble a kernel text, for --preset where the text has no .fingerprint."""
    try:
        text = read(source).decode()
    except UnicodeDecodeError:
        raise InputError(f"{source} is no text; npu disasm reads binaries") from None
    binary = assemble(text, NpuConfig.preset(preset).fingerprint)
    check_writable(target)
    target.write_bytes(binary)
    header, words = decode(binary)
    out.print(
        f"{target}: {len(binary)} bytes, {len(words)} instructions, "
        f"for fingerprint {header.fingerprint:#010x}", markup=False, soft_wrap=True,
    )  # fmt: skip


@app.command()
def disasm(
    source: Annotated[Path, typer.Argument(metavar="BINARY", help="Kernel binary.")],
    target: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Text to write; otherwise it is printed."
        ),
    ] = None,
) -> None:
    """Disassemble a kernel binary; npu asm gives the very same binary back."""
    text = disassemble(read(source))
    if target is None:
        sys.stdout.write(text)
    else:
        check_writable(target)
        target.write_text(text, encoding="utf-8")


@app.command()
def wave(
    file: Annotated[Path, typer.Argument(metavar="VCD", help="What npu run recorded.")],
    gtkw: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a GTKWave setup for such recordings instead."),
    ] = None,
) -> None:
    """Show a waveform as a timeline of streams, events and engines."""
    timeline = Timeline(file)
    if gtkw is None:
        print_timeline(timeline, out)
        return
    check_writable(gtkw)
    with gtkw.open("w", encoding="utf-8") as setup:
        write_viewer_setup(timeline, setup)


@contextmanager
def _machine(
    preset: str, engine: str, vcd: Path | None, window: str | None, scope: list[str] | None,
    latency: int | None, stall: int, seed: int,
) -> Iterator[SimTransport]:  # fmt: skip
    """A simulated NPU. An older file in place of the waveform is removed."""
    if window is not None and vcd is None:
        raise InputError(f"--window {window} needs a waveform to be part of; give --vcd FILE too")
    if scope and vcd is None:
        raise InputError("--scope needs a waveform to be part of; give --vcd FILE too")
    check_writable(vcd)
    changes = {} if latency is None else {"device_latency": latency, "host_latency": latency}
    board = BoardConfig(stall=stall, seed=seed, **changes)
    with err.status(f"building {preset} …"):
        transport = open_simulation(
            preset, board=board, engine=engine, vcd=vcd, window=window, scopes=scope or (),
            record=False,
        )  # fmt: skip
    if vcd is not None:
        vcd.unlink(missing_ok=True)
    with closing(transport):
        yield transport


def _report(
    transport: SimTransport,
    preset: str,
    figures: Sequence[Row],
    file: Path | None,
    vcd: Path | None,
    window: str | None,
    scope: list[str] | None,
) -> None:
    """Prints what was measured and where it is; a missed target ends the command with 1."""
    rows = [
        Row("preset", preset),
        Row("engine", transport.engine.name, note=transport.choice.why),
        *figures,
        Row("simulated in all", transport.now(), "cycles"),
    ]
    print_rows(rows, file)
    if transport.choice.advice:
        out.print(f"\n{transport.choice.advice}", markup=False, soft_wrap=True)
    if vcd is not None:
        if not vcd.exists():
            raise InputError(
                f"--window {window} recorded nothing in {transport.now()} cycles; choose cycles "
                "below that, or a task that npu wave shows for a whole recording"
            )
        shown = "" if scope else f" (npu wave {vcd})"
        out.print(f"\nwaveform: {vcd}{shown}", markup=False, soft_wrap=True)
    if missed := [row.name for row in rows if not row.met]:
        complain(f"target missed: {'; '.join(missed)}")
        raise typer.Exit(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0: done, 1: a check or the device failed, 2: bad input.

    130 after an interrupt from the keyboard.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given in ([], ["run"]):
        given.append("--help")
    try:
        return app(given, prog_name="npu", standalone_mode=False) or 0
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = "npu" if context is None else context.command_path
        complain(f"{error.format_message().rstrip('.')}; {path} --help shows what it takes")
        return 2
    except BAD_INPUT as error:
        complain(error)
        return 2
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else error)
        return 2
    except NpuError as error:
        complain(error)
        return 1
