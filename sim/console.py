"""What the command has in common: its consoles, progress, tables of figures, and files.

Results go to stdout; progress, on a terminal only, and errors to stderr.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from hw.regs.errors import NpuError

from .jobs import Row
from .link import SimTransport

__all__ = [
    "InputError", "check_writable", "complain", "err", "load_matrix", "out", "print_rows",
    "progress", "read",
]  # fmt: skip

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


class InputError(NpuError):
    """A file or option that the command cannot use."""


def complain(error: object) -> None:
    """One line on stderr, whatever the message holds."""
    err.print(f"npu: {' '.join(str(error).split())}", style="red", markup=False, soft_wrap=True)


class _Cycles(ProgressColumn):
    """Simulated cycles, read whenever the bar is drawn."""

    def __init__(self, transport: SimTransport) -> None:
        super().__init__()
        self._transport = transport

    def render(self, task: Any) -> Text:
        return Text(f"{self._transport.now():,} cycles", "cyan")


@contextmanager
def progress(
    text: str, total: int | None, transport: SimTransport
) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; yields a function that takes how much is done."""
    count = [] if total is None else [MofNCompleteColumn()]
    columns = [
        TextColumn("{task.description}"), BarColumn(), *count, _Cycles(transport),
        TimeElapsedColumn(),
    ]  # fmt: skip
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.update(task, completed=done)
        bar.update(task, total=total or 1, completed=total or 1)


def print_rows(rows: Sequence[Row], file: Path | None) -> None:
    """Prints what was measured, and writes it into `file` as JSON."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for justify in ("left", "right", "left", "left", "left"):
        table.add_column(justify=justify)
    for row in rows:
        value = f"{row.value:,}" if isinstance(row.value, int) else str(row.value)
        target = f"target {row.target}" if row.target else ""
        table.add_row(
            row.name, value, row.unit, f"[dim]{row.note}[/]",
            f"[dim]{target}[/]" if row.met else f"[red]{target}, missed[/]",
        )  # fmt: skip
    out.print(table)
    if file is not None:
        text = json.dumps([row.as_dict() for row in rows], indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")


def load_matrix(name: str, path: Path) -> npt.NDArray[np.int8]:
    """An int8 matrix from a .npy file, in C order."""
    start = read(path, 6)
    if start[:2] == b"PK":
        raise InputError(f"--{name} {path} is an archive; numpy.save writes a single array")
    if start != np.lib.format.MAGIC_PREFIX:
        raise InputError(f"--{name} {path} is no .npy file; write it with numpy.save")
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # numpy's reader raises whatever a damaged header leads to
        raise InputError(
            f"--{name} {path} is a damaged .npy file ({error}); write it with numpy.save"
        ) from None
    if array.dtype != np.int8:
        raise InputError(f"--{name} {path} has dtype {array.dtype}; convert it to int8")
    if array.ndim != 2 or not array.size:
        raise InputError(
            f"--{name} {path} has shape {array.shape}; two dimensions of at least 1 are needed"
        )
    return np.ascontiguousarray(array)


def read(path: Path, size: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; name a file") from None


def check_writable(path: Path | None) -> None:
    """Before anything long runs: a file can be written there."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: {path.parent} is no folder; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: permission denied; name another file")
