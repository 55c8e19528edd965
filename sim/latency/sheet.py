"""What is measured: points in time and amounts, each from the device and from the waveform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from ..wave import WaveError
from .recording import Recording

__all__ = ["Difference", "Measure", "Point", "Sample", "Sheet", "Target", "between"]

Raw = tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """A point in time: the cycle that the device says, and how the waveform shows it."""

    cycle: int
    find: Callable[[Recording], int]


@dataclass(frozen=True)
class Sample:
    """Cycles and amounts that the device says, and how they are found in the waveform."""

    device: Raw
    find: Callable[[Recording], Raw]


def between(first: Point, last: Point) -> Sample:
    """The sample of a time: both of its ends."""
    return Sample(
        (first.cycle, last.cycle), lambda recording: (first.find(recording), last.find(recording))
    )


@dataclass(frozen=True)
class Target:
    """What every sample must keep: at most `limit`, or with `least` at least that."""

    limit: float
    least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.limit:g}"

    def keeps(self, value: float) -> bool:
        """Whether a value is as good as it must be."""
        return value >= self.limit if self.least else value <= self.limit


class Difference(NamedTuple):
    """A sample of which the two sources say different things."""

    measure: str
    number: int
    device: Raw
    wave: Raw | str

    def __str__(self) -> str:
        return (
            f"{self.measure}, sample {self.number}: the device says {self.device}, "
            f"the waveform {self.wave}"
        )


def _length(raw: Raw) -> float:
    return raw[1] - raw[0]


@dataclass
class Measure:
    """A figure with its samples.

    Attributes
    ----------
    group, name: what it is.
    value: of a sample, from what a source says.
    """

    group: str
    name: str
    target: Target | None = None
    unit: str = "cycles"
    value: Callable[[Raw], float] = _length
    samples: list[Sample] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"

    @property
    def values(self) -> list[float]:
        """Of each sample, as the device says."""
        return [self.value(sample.device) for sample in self.samples]

    @property
    def spread(self) -> tuple[float, float, float]:
        """Least, median and greatest value."""
        return min(self.values), median(self.values), max(self.values)

    @property
    def met(self) -> bool:
        """Every sample keeps the target, if there is one."""
        return self.target is None or all(map(self.target.keeps, self.values))


class Sheet:
    """Measures, in the order in which they were first added to.

    Attributes
    ----------
    measures: by group and name.
    """

    def __init__(self) -> None:
        self.measures: dict[tuple[str, str], Measure] = {}

    def add(
        self,
        group: str,
        name: str,
        sample: Sample,
        target: Target | None = None,
        *,
        unit: str = "cycles",
        value: Callable[[Raw], float] = _length,
    ) -> None:
        """Adds a sample to a measure, which the first one makes."""
        key = group, name
        if key not in self.measures:
            self.measures[key] = Measure(group, name, target, unit, value)
        self.measures[key].samples.append(sample)

    def differences(self, recording: Recording) -> list[Difference]:
        """The samples of which device and waveform do not say the very same."""
        return [
            Difference(measure.title, number, sample.device, seen)
            for measure in self.measures.values()
            for number, sample in enumerate(measure.samples)
            if (seen := _seen(sample, recording)) != sample.device
        ]


def _seen(sample: Sample, recording: Recording) -> Raw | str:
    """What the waveform says, or why it says nothing."""
    try:
        return sample.find(recording)
    except WaveError as error:
        return str(error)
