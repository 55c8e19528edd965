"""What the bench's measurements are compared with: ratios and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .measure import Measured, Preset, Spread

__all__ = ["Figure", "figures"]


@dataclass(frozen=True)
class Figure:
    """A figure with a target."""

    preset: str
    name: str
    value: float
    unit: str
    least: bool
    """The value must be at least the limit; otherwise at most."""
    must: float | None = None
    want: float | None = None

    @property
    def met(self) -> bool:
        return self.must is None or self._keeps(self.must)

    @property
    def wanted(self) -> bool:
        """It is as good as was wished, beyond what it must be."""
        return self.want is None or self._keeps(self.want)

    def _keeps(self, limit: float) -> bool:
        return self.value >= limit if self.least else self.value <= limit

    def as_dict(self) -> dict[str, Any]:
        return {
            "preset": self.preset, "figure": self.name, "value": self.value, "unit": self.unit,
            "must": self.must, "want": self.want, "met": self.met,
        }  # fmt: skip


@dataclass(frozen=True)
class _Target:
    name: str
    measure: Callable[[Mapping[str, Measured]], float | None]
    least: bool
    must: Mapping[str, float]
    want: Mapping[str, float] | None = None
    unit: str = "×"


def _quotient(above: Spread | None, below: Spread | None) -> float | None:
    return above.median / below.median if above and below else None


def _over_verilator(engines: Mapping[str, Measured]) -> float | None:
    return _quotient(engines["compiled"].speed, engines["verilator"].speed)


def _over_pysim(engines: Mapping[str, Measured]) -> float | None:
    return _quotient(engines["compiled"].busy, engines["amaranth"].busy)


def _build(engines: Mapping[str, Measured]) -> float | None:
    return engines["compiled"].build["cpu"] / engines["verilator"].build["cpu"]


def _warm(engines: Mapping[str, Measured]) -> float | None:
    return engines["compiled"].warm["seconds"]


def _idle(engines: Mapping[str, Measured]) -> float | None:
    return _quotient(engines["compiled"].idle, engines["compiled"].busy)


def _recording(engines: Mapping[str, Measured]) -> float | None:
    return _quotient(engines["compiled"].recording, engines["verilator"].recording)


def _access(engines: Mapping[str, Measured]) -> float | None:
    access = engines["compiled"].access
    return access.median * 1e6 if access else None


def _all(value: float) -> dict[str, float]:
    return dict.fromkeys(("small", "base", "large"), value)


TARGETS = (
    _Target("speed, compiled ÷ Verilator", _over_verilator, True,
            {"small": 2, "base": 4, "large": 8}, {"small": 3, "base": 6, "large": 12}),
    _Target("speed, compiled ÷ pysim", _over_pysim, True,
            {"small": 8000, "base": 20000, "large": 30000}),
    _Target("build from nothing, compiled ÷ Verilator", _build, False, _all(0.5)),
    _Target("start with a warm cache", _warm, False, {"small": 1, "base": 1, "large": 2}, unit="s"),
    _Target("speed, idle ÷ busy", _idle, True, {"small": 10, "base": 20, "large": 20}),
    _Target("speed with waveform, compiled ÷ Verilator", _recording, True, _all(1)),
    _Target("register access from Python", _access, False, {"small": 5}, unit="µs"),
)  # fmt: skip


def figures(preset: Preset) -> Iterator[Figure]:
    """Figures that can be had of what was measured."""
    engines = {name: each for name, each in preset.engines.items() if not each.missing}
    for target in TARGETS:
        try:
            value = target.measure(engines)
        except KeyError:
            continue
        if value is not None:
            want = (target.want or {}).get(preset.name)
            yield Figure(
                preset.name, target.name, value, target.unit, target.least,
                target.must.get(preset.name), want,
            )  # fmt: skip
