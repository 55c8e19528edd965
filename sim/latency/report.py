"""What was measured as a table, and as rows for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from hw.config import NpuConfig

from ..jobs import Row
from .sheet import Difference, Measure, Sheet

__all__ = ["print_sheet", "rows", "short"]

SPREAD = ("min", "median", "max")
NAME, WIDTHS = 24, (6, 7, 6)
"""Width of the names of measures, and of the columns of values."""
SHOWN = 5
"""Differences that are printed one by one."""


def print_sheet(
    sheet: Sheet, differences: Sequence[Difference], config: NpuConfig, console: Console
) -> None:
    """Prints least, median and greatest values, and how many samples both sources agree on.

    A cross marks a target that is missed.
    """
    wrong = Counter(difference.measure for difference in differences)
    figures = "".join(f"{name:>{width}}" for name, width in zip(SPREAD, WIDTHS, strict=True))
    lines = [
        Text(f"{'':{NAME}}{'cycles':^{len(figures)}}{'ns':^{len(figures)}}".rstrip()),
        Text(f"{'':{NAME}}{figures}{figures}   target samples"),
    ]
    for group, measures in groupby(sheet.measures.values(), key=lambda measure: measure.group):
        lines.append(Text(group, "bold"))
        lines += [_line(measure, wrong[measure.title], config) for measure in measures]
    for difference in differences[:SHOWN]:
        lines.append(Text(str(difference), "red"))
    if len(differences) > SHOWN:
        lines.append(Text(f"… and {len(differences) - SHOWN} more", "red"))
    for line in lines:
        console.print(line, soft_wrap=True)


def _line(measure: Measure, wrong: int, config: NpuConfig) -> Text:
    line = Text(f"{f'  {measure.name}':{NAME}}{_columns(measure.spread)}")
    if measure.unit == "cycles":
        line.append(_columns([config.nanoseconds(1) * value for value in measure.spread]))
    else:
        line.append(f" {measure.unit:{sum(WIDTHS) - 1}}")
    target = "" if measure.target is None else str(measure.target)
    if not measure.met:
        target += " ✗"
    line.append(f"{target:>9}", None if measure.met else "red")
    count = len(measure.samples)
    line.append(f"{f'{count - wrong} of {count}' if wrong else count:>8}", "red" if wrong else None)
    return line


def _columns(values: Sequence[float]) -> str:
    return "".join(
        f"{short(value):>{width}}" for value, width in zip(values, WIDTHS, strict=True)
    )


def short(value: float) -> str:
    """Whole numbers as such, others with up to two decimals."""
    return f"{round(value, 2):g}" if abs(value) < 1000 else f"{value:.0f}"


def rows(sheet: Sheet, differences: Sequence[Difference]) -> Iterator[Row]:
    """Least, median and greatest value of each measure; the target is with what must keep it."""
    for measure in sheet.measures.values():
        judged = None if measure.target is None else ("min" if measure.target.least else "max")
        for name, value in zip(SPREAD, measure.spread, strict=True):
            yield Row(
                f"{measure.title}, {name}", round(value, 4), measure.unit,
                str(measure.target) if name == judged else "",
                met=measure.met or name != judged,
            )  # fmt: skip
    count = sum(len(measure.samples) for measure in sheet.measures.values())
    yield Row(
        "samples that device and waveform agree on", count - len(differences), "samples",
        f"= {count}", met=not differences,
    )  # fmt: skip
