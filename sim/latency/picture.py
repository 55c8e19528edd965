"""Histograms of what was measured, as a picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from ..console import InputError
from .report import short
from .sheet import Measure, Sheet

__all__ = ["Scale", "check_format", "picture", "write_picture"]

PANELS = 3
"""Histograms beside each other."""
WIDTH, HEIGHT = 270, 112
"""Of the place of a histogram."""
MARGIN, HEAD, TITLE = 16, 40, 28
SIDE, TOP, BOTTOM = 4, 38, 20
"""Around the bars, within the place."""
FEWEST, MOST = 6, 24
"""Places for bars in a histogram."""
BAR, LINE, MISSED, GREY = "#2e6f95", "#9aa5b1", "#d1495b", "#616e7c"


class Scale:
    """The places for bars: from `low` on, `step` wide each. Values are in hundredths, exactly.

    It reaches to the target where that is near.
    """

    def __init__(self, measure: Measure) -> None:
        values = [_hundredths(value) for value in measure.values]
        unit = 1 if measure.unit == "×" else 100
        self._unit = "" if measure.unit == "cycles" else measure.unit
        low, high = min(values), max(values)
        self.step = unit * max(1, -(-(high - low + unit) // (unit * (MOST - 2))))
        self.low = 0 if high < MOST // 2 * unit else max(0, low - self.step)
        if measure.unit == "%":
            self.low = min(self.low, (101 - FEWEST) * unit)
        self.count = min(MOST, max(FEWEST, (high - self.low) // self.step + 1))
        self.limit: float | None = None
        if measure.target is not None:
            edge = _hundredths(measure.target.limit) + (0 if measure.target.least else unit)
            place = (edge - self.low) / self.step
            if 0 <= place <= MOST:
                self.limit = place
                self.count = max(self.count, math.ceil(place))
        self.bars = Counter((value - self.low) // self.step for value in values)

    def label(self, place: int) -> str:
        """The least value of a place."""
        return short((self.low + place * self.step) / 100) + self._unit


def picture(sheet: Sheet, title: str) -> str:
    """A histogram for each measure, under the heading of its group, as SVG."""
    body = [_text(MARGIN, 24, title, weight="bold", size=14)]
    y = HEAD
    for group, measures in groupby(sheet.measures.values(), key=lambda measure: measure.group):
        body.append(_text(MARGIN, y + 18, group, weight="bold"))
        y += TITLE
        for number, measure in enumerate(members := list(measures)):
            row, column = divmod(number, PANELS)
            body += _panel(measure, MARGIN + column * WIDTH, y + row * HEIGHT)
        y += -(-len(members) // PANELS) * HEIGHT
    width = 2 * MARGIN + PANELS * WIDTH
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{y}' "
        f"viewBox='0 0 {width} {y}' font-family='sans-serif' font-size='12' fill='#1f2933'>\n"
        "<rect width='100%' height='100%' fill='white'/>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _panel(measure: Measure, x: int, y: int) -> Iterator[str]:
    scale = Scale(measure)
    width = (WIDTH - 2 * SIDE - MARGIN) / scale.count
    base, room = y + HEIGHT - BOTTOM, HEIGHT - TOP - BOTTOM
    left, right = x + SIDE, x + WIDTH - MARGIN
    yield _text(left, y + 12, measure.name)
    if measure.target is not None:
        colour = GREY if measure.met else MISSED
        yield _text(right, y + 12, f"target {measure.target}", anchor="end", colour=colour)
    most = max(scale.bars.values())
    for place, count in sorted(scale.bars.items()):
        high = room * count / most
        yield (
            f"<rect x='{left + place * width + 1:.1f}' y='{base - high:.1f}' "
            f"width='{width - 2:.1f}' height='{high:.1f}' fill='{BAR}'/>"
        )
        if width >= 16:
            middle = left + (place + 0.5) * width
            yield _text(middle, base - high - 4, str(count), anchor="middle", colour=GREY, size=10)
    yield f"<path d='M{left} {base}H{left + scale.count * width:.1f}' stroke='{LINE}'/>"
    if scale.limit is not None:
        at = left + scale.limit * width
        yield (
            f"<path d='M{at:.1f} {y + TOP - 14}V{base + 4}' stroke='{MISSED}' "
            "stroke-dasharray='4 3'/>"
        )
    every = max(1, -(-scale.count // 8))
    for place in range(0, scale.count, every):
        middle = left + (place + 0.5) * width
        yield _text(middle, base + 13, scale.label(place), anchor="middle", colour=GREY, size=10)


def _hundredths(value: float) -> int:
    return round(100 * value)


def _text(
    x: float, y: float, content: str, *,
    anchor: str = "start", colour: str = "", weight: str = "", size: int = 0,
) -> str:  # fmt: skip
    style = "".join(
        f" {name}='{value}'"
        for name, value in (("fill", colour), ("font-weight", weight), ("font-size", size))
        if value
    )
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'{style}>{escape(content)}</text>"


def check_format(path: Path | None) -> None:
    """Before anything is measured: the picture can be written in that format."""
    if path is None or path.suffix == ".svg":
        return
    if path.suffix != ".png":
        raise InputError(f"cannot draw {path}: its name must end with .svg or .png")
    _converter(path)


def write_picture(svg: str, path: Path) -> None:
    """Writes the picture in the format that the name of the file says."""
    if path.suffix == ".png":
        _converter(path)(bytestring=svg.encode(), write_to=str(path), scale=2)
    else:
        path.write_text(svg, encoding="utf-8")


def _converter(path: Path) -> Callable[..., Any]:
    try:
        convert: Callable[..., Any] = import_module("cairosvg").svg2png
    except (ImportError, OSError):  # the latter without the library cairo
        raise InputError(
            f"cannot draw {path}: PNG needs cairosvg; pip install cairosvg, or name an .svg file"
        ) from None
    return convert
