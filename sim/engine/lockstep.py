"""Two engines side by side: after every step, all signals with a name must be equal.

`lockstep` runs a design on Amaranth's own simulator and on the compiled model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from amaranth.hdl import Fragment, Value
from amaranth.hdl._ast import SignalDict
from amaranth.hdl._ir import Design
from amaranth.hdl._mem import MemoryInstance
from amaranth.sim.pysim import PySimEngine

from hw.regs.errors import NpuError

from .drivers import Driver, drivers, names
from .model import Model
from .program import ALL, compile

__all__ = [
    "Comparison", "Difference", "ModelSide", "PysimSide", "Read", "Side", "Step", "Values",
    "lockstep",
]  # fmt: skip

Step = Mapping[Any, int]
"""Signals that are set at one instant: all of them clocks, or none."""
Read = Callable[[], int]


class Difference(NpuError, AssertionError):
    """Two engines disagree.

    Attributes
    ----------
    signal: name of the first signal that differs: all that it is made of is equal.
    step: after which step.
    expected, actual: its values.
    """

    def __init__(self, signal: str, step: str, expected: int, actual: int, why: str) -> None:
        super().__init__(f"{step}: {signal} is {actual:#x}, not {expected:#x}\n{why}")
        self.signal, self.step, self.expected, self.actual = signal, step, expected, actual


class Values(Protocol):
    """What one of the two shows."""

    def reader(self, name: str, signal: Any) -> Read | None:
        """Gives the signal's value; its sign does not matter. None: it is not kept."""
        ...

    def row(self, path: str, data: Any, index: int) -> Read | None:
        """Gives a row of a memory (Amaranth's `MemoryData`)."""
        ...

    def changed(self) -> Iterable[str] | None:
        """Names of all signals that changed since the last call; None: this is not known."""
        ...


class Side(Values, Protocol):
    """One of the two."""

    def apply(self, step: Step) -> None:
        """Sets signals at one instant and lets all that follows happen."""
        ...


class PysimSide:
    """Amaranth's own simulator."""

    def __init__(self, design: Design) -> None:
        self._engine = PySimEngine(design)
        self._engine.step_design()

    def apply(self, step: Step) -> None:
        for signal, value in step.items():
            self._engine.set_value(signal, value)
        self._engine.step_design()

    def reader(self, name: str, signal: Any) -> Read:
        state = self._engine.state
        slot = state.slots[state.get_signal(signal)]
        return lambda: slot.curr

    def row(self, path: str, data: Any, index: int) -> Read:
        state = self._engine.state
        return partial(state.slots[state.get_memory(data)].read, index)

    def changed(self) -> None:
        return None


class ModelSide:
    """A compiled design."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._memories = {id(info.data): info for info in model.program.memories}
        model.reset()

    def apply(self, step: Step) -> None:
        model = self._model
        for signal, value in step.items():
            slot = model.program.slot(signal)
            if slot is not None:
                model.set(slot, value & ((1 << len(signal)) - 1))
        model.settle()
        while model.edges():
            model.settle()

    def reader(self, name: str, signal: Any) -> Read | None:
        slot = self._model.program.slot(signal)
        return None if slot is None else partial(self._model.get, slot)

    def row(self, path: str, data: Any, index: int) -> Read | None:
        info = self._memories.get(id(data))
        return None if info is None else partial(self._model.read_memory, info, index)

    def changed(self) -> None:
        return None


class Comparison:
    """What is compared, and why it differs.

    Parameters
    ----------
    design: what is simulated, to explain a difference.
    """

    def __init__(self, design: Design, expected: Values, actual: Values) -> None:
        self._design = design
        self._sides = expected, actual
        self._names: list[str] = []
        self._masks: list[int] = []
        self._reads: tuple[list[Read], list[Read]] = [], []
        self._index = SignalDict()
        for name, signal in names(design).items():
            pair = expected.reader(name, signal), actual.reader(name, signal)
            if self._add(name, len(signal), *pair):
                self._index[signal] = len(self._names) - 1
        self._signals = {name: index for index, name in enumerate(self._names)}
        for fragment, info in design.fragments.items():
            if isinstance(fragment, MemoryInstance):
                data, path = fragment._data, ".".join(info.name[1:])
                for row in range(data.depth):
                    pair = expected.row(path, data, row), actual.row(path, data, row)
                    self._add(f"{path}[{row}]", len(Value.cast(data[row])), *pair)
        self._before: list[int] = []

    def _add(self, name: str, width: int, expected: Read | None, actual: Read | None) -> bool:
        if expected is None or actual is None:
            return False
        self._names.append(name)
        self._masks.append((1 << width) - 1)
        self._reads[0].append(expected)
        self._reads[1].append(actual)
        return True

    @property
    def names(self) -> list[str]:
        """All that is compared."""
        return self._names

    def check(self, when: str, *, full: bool = True) -> None:
        """Raises `Difference` unless values are equal now.

        All of them, or only the signals that have changed, if both sides know them.
        """
        places = range(len(self._names)) if full or not self._before else self._changed()
        masks, (one, other) = self._masks, self._reads
        right = {place: one[place]() & masks[place] for place in places}
        if any(other[place]() & masks[place] != value for place, value in right.items()):
            everything = range(len(self._names))
            raise self._difference(
                when, *([read[i]() & masks[i] for i in everything] for read in self._reads)
            )
        if not self._before:
            self._before = [0] * len(self._names)
        for place, value in right.items():
            self._before[place] = value

    def _changed(self) -> Iterable[int]:
        """Places of what has changed on either side."""
        found = [side.changed() for side in self._sides]
        places: set[int] = set()
        for changed in found:
            if changed is None:
                return range(len(self._names))
            places.update(self._signals[name] for name in changed if name in self._signals)
        return places

    def _difference(self, when: str, expected: list[int], actual: list[int]) -> Difference:
        """Of the values that differ, the one that does not come from another of them."""
        wrong = [i for i, (a, b) in enumerate(zip(expected, actual, strict=True)) if a != b]
        signals = {index: signal for signal, index in self._index.items()}
        chosen, text = wrong[0], ""
        for index in wrong:
            found = drivers(self._design, signals[index]) if index in signals else []
            reads = {
                self._index[signal]
                for driver in found
                if driver.domain == "comb"
                for signal in driver.reads
                if signal in self._index
            }
            why = self._explain(found, expected, actual)
            text = text or why
            if not reads & (set(wrong) - {index}):
                chosen, text = index, why
                break
        others = [self._names[index] for index in wrong if index != chosen]
        if others:
            text += f"\nalso different: {', '.join(others[:8])}{', ...' * (len(others) > 8)}"
        return Difference(self._names[chosen], when, expected[chosen], actual[chosen], text)

    def _explain(self, found: list[Driver], expected: list[int], actual: list[int]) -> str:
        lines = [] if found else ["driven by nothing"]
        for driver in found:
            lines.append(f"driven at {driver.place}, domain {driver.domain}, from")
            for signal in driver.reads:
                if signal not in self._index:
                    lines.append(f"    {signal.name}: not compared")
                    continue
                index = self._index[signal]
                values = f"{expected[index]:#x}"
                if expected[index] != actual[index]:
                    values += f", wrongly {actual[index]:#x}"
                if driver.domain != "comb" and self._before:
                    values = f"{self._before[index]:#x} before the step"
                lines.append(f"    {self._names[index]} = {values}")
        return "\n".join(lines)


def lockstep(
    design: Any,
    steps: Iterable[Step],
    *,
    actual: Side | None = None,
    keep: str | Iterable[Any] = ALL,
    optimise: int = 1,
) -> int:
    """Runs a design in both; gives the number of values that were compared.

    Parameters
    ----------
    design: prepared `Design` of Amaranth, or what can be elaborated.
    steps: what happens; an iterator may look at nothing but itself.
    actual: instead of the compiled model of the design.
    keep: combinational signals that are compared; all registers are. See `compile`.
    optimise: level of the C compiler.

    Raises
    ------
    Difference: at the first step after which any signal or row of a memory differs.
    """
    if not isinstance(design, Design):
        design = Fragment.get(design, None).prepare()
    expected = PysimSide(design)
    if actual is None:
        actual = ModelSide(Model(compile(design, keep=keep), optimise=optimise))
    comparison = Comparison(design, expected, actual)
    comparison.check("initially")
    count = 1
    for count, step in enumerate(steps, 2):
        expected.apply(step)
        actual.apply(step)
        comparison.check(f"step {count - 2}")
    return count * len(comparison.names)
