"""The bench's results as tables, JSON and a picture."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table

from ..engine.keys import cpu
from .figures import figures
from .measure import Measured, Preset, Settings, Spread

__all__ = ["as_json", "picture", "print_report"]

def print_report(presets: Sequence[Preset], console: Console) -> None:
    """A table of engines for each preset, then the figures that have targets."""
    for preset in presets:
        console.print(_engines(preset))
        for engine in preset.engines.values():
            if engine.missing:
                console.print(f"{engine.title}: {engine.missing}", markup=False)
        console.print()
    rows = [figure for preset in presets for figure in figures(preset)]
    if not rows:
        return
    table = Table(title="Figures", title_justify="left", box=None, pad_edge=False)
    for name in ("figure", "preset", "value", "", "target", "wanted"):
        table.add_column(name, justify="right" if name in ("value", "target", "wanted") else "left")
    for figure in rows:
        sign = "≥" if figure.least else "≤"
        limits = [
            "" if limit is None else f"{sign} {limit:,g}" for limit in (figure.must, figure.want)
        ]
        must = limits[0] if figure.met else f"[red]{limits[0]}, missed[/]"
        table.add_row(
            figure.name, figure.preset, _number(figure.value), figure.unit, must, limits[1]
        )
    console.print(table)


def _engines(preset: Preset) -> Table:
    workload = preset.workload
    first, last = workload.kernels
    title = (
        f"[bold]{preset.name}[/]: GEMM {workload.size}³ with copies and events, "
        f"{workload.cycles:,} cycles;\narray used {workload.utilisation(workload.cycles):.0%}, in "
        f"kernels {workload.utilisation(last - first):.0%}; speeds: cycles per CPU second"
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("engine")
    for name in (
        "whole", "busy", "idle", "waveform", "build s", "start s", "access µs", "MB",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for engine in preset.engines.values():
        if not engine.missing:
            table.add_row(engine.title, *_cells(engine))
    return table


def _cells(engine: Measured) -> Iterator[str]:
    for spread in (engine.speed, engine.busy, engine.idle, engine.recording):
        yield "" if spread is None else _spread(spread)
    yield f"{engine.build['cpu']:.1f}" if engine.build else ""
    yield f"{engine.warm['seconds']:.2f}" if engine.warm else ""
    yield "" if engine.access is None else _number(engine.access.median * 1e6)
    yield f"{engine.memory / 1e6:,.0f}"


def _spread(spread: Spread) -> str:
    reach = (max(spread.values) - min(spread.values)) / spread.median / 2
    return f"{_number(spread.median)} [dim]±{reach:.0%}[/]"


def _number(value: float) -> str:
    """Three digits that count, with thousands apart."""
    if value >= 1000:
        step = 10.0 ** (math.floor(math.log10(value)) - 2)
        return f"{round(value / step) * step:,.0f}"
    return f"{value:.3g}"


def as_json(presets: Sequence[Preset], settings: Settings) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        "machine": {"platform": platform.platform(), "python": platform.python_version(),
                    "cpu": _cpu_name()},
        "rounds": settings.rounds,
        "presets": [preset.as_dict() for preset in presets],
        "figures": [figure.as_dict() for preset in presets for figure in figures(preset)],
    }  # fmt: skip


def _cpu_name() -> str:
    lines = (line.partition(":") for line in cpu().splitlines())
    names = [value.strip() for key, _, value in lines if key.strip() == "model name"]
    return names[0] if names else platform.machine()


COLOURS = ("#9aa5b1", "#c3cbd4", "#d1495b", "#2e6f95", "#7fb2d0", "#e0a458")
WIDTH, BAR, GAP, LEFT, TOP = 820, 18, 26, 230, 64


def picture(presets: Sequence[Preset]) -> str:
    """Speeds as bars on a logarithmic axis, as SVG."""
    bars: list[tuple[str, list[tuple[str, float, str]]]] = []
    for preset in presets:
        rows = []
        for number, engine in enumerate(preset.engines.values()):
            spread = engine.speed or engine.busy
            if spread is not None:
                rows.append((engine.title, spread.median, COLOURS[number % len(COLOURS)]))
        bars.append((preset.name, rows))
    speeds = [speed for _, rows in bars for _, speed, _ in rows]
    low = 10.0 ** math.floor(math.log10(min(speeds)))
    high = 10.0 ** math.ceil(math.log10(max(speeds)) + 0.05)
    room = WIDTH - LEFT - 90

    def place(speed: float) -> float:
        return LEFT + room * math.log(speed / low) / math.log(high / low)

    body = []
    y = TOP
    for name, rows in bars:
        body.append(_text(16, y + 13, f"<tspan font-weight='bold'>{escape(name)}</tspan>"))
        for title, speed, colour in rows:
            right = place(speed)
            body.append(
                f"<rect x='{LEFT}' y='{y}' width='{right - LEFT:.1f}' height='{BAR - 4}' "
                f"fill='{colour}'/>"
            )
            body.append(_text(LEFT - 8, y + 11, escape(title), anchor="end"))
            body.append(_text(right + 6, y + 11, _number(speed)))
            y += BAR
        y += GAP
    grid = []
    decade = low
    while decade <= high * 1.001:
        x = place(decade)
        grid.append(f"<path d='M{x:.1f} {TOP - 8}V{y - GAP + 4}' stroke='#e4e7eb'/>")
        grid.append(_text(x, TOP - 14, f"{decade:,.0f}", anchor="middle"))
        decade *= 10
    head = _text(16, 24, "Simulated cycles per CPU second (engines in Python: within kernels)")
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{y}' "
        f"viewBox='0 0 {WIDTH} {y}' font-family='sans-serif' font-size='12' fill='#1f2933'>\n"
        "<rect width='100%' height='100%' fill='white'/>\n"
        + "\n".join([head, *grid, *body]) + "\n</svg>\n"
    )  # fmt: skip


def _text(x: float, y: float, content: str, *, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y}' text-anchor='{anchor}'>{content}</text>"
