"""What Amaranth's simulator sees of a compiled design: its signals and memories as slots.

Signals and memories that the design does not have live in Python, as in Amaranth's own engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from amaranth.hdl import Shape
from amaranth.hdl._ast import SignalSet
from amaranth.hdl._ir import Design
from amaranth.hdl._mem import MemoryInstance
from amaranth.hdl._xfrm import LHSMaskCollector
from amaranth.sim._base import BaseEngineState, BaseMemoryState, BaseSignalState
from amaranth.sim._pyrtl import pin_blame
from amaranth.sim.pysim import _PyMemoryState, _PySignalState, _PyTimeline, _run_wakers

from .changes import Changes
from .model import Model

__all__ = ["SimulatorState"]

Waker = Callable[..., Any]


def _extend(bits: int, width: int, signed: bool) -> int:
    """The number that `width` bits stand for."""
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


class _Signal(BaseSignalState):  # type: ignore[misc]
    """A signal of the design. What is set is queued and takes effect at the next commit."""

    __slots__ = ("_get", "_last", "_mask", "_next", "_set", "_signed", "_slot", "_state",
                 "_width", "is_comb", "signal", "wakers")  # fmt: skip

    def __init__(self, state: SimulatorState, signal: Any, slot: Any, is_comb: bool) -> None:
        self._state = state
        self._get, self._set = state.model.get, state.model.set
        self._slot = slot
        self._width = len(signal)
        self._signed = signal.shape().signed
        self.signal = signal
        self.is_comb = is_comb
        self.reset()

    def reset(self) -> None:
        self.wakers: list[Waker] = []
        self._next: int | None = None
        self._mask = 0

    @property
    def curr(self) -> int:
        if not self._state.started:
            initial: int = self.signal.init
            return initial
        bits = self._get(self._slot)
        return _extend(bits, self._width, True) if self._signed else bits

    @property
    def next(self) -> int:
        return self.curr if self._next is None else self._next

    def update(self, value: int, mask: int = ~0) -> None:
        before = self.next
        value = (before & ~mask) | (value & mask)
        if value != before:
            self._next = value
            self._mask |= value ^ before
            self._state.pending.add(self)

    def commit(self) -> bool:
        """Sets only the bits that were changed: a register's others may just have taken an edge."""
        value, mask = self._next, self._mask & ((1 << self._width) - 1)
        assert value is not None
        self._next = None
        self._mask = 0
        before = self._get(self._slot)
        after = (before & ~mask) | (value & mask)
        self._set(self._slot, after)
        return bool(after != before)

    def add_waker(self, waker: Waker) -> None:
        if not self.wakers:
            self._last = self.curr
            self._state.watched[self] = None
        self.wakers.append(waker)

    def notify(self) -> bool:
        """Calls those that wait for a change if there was one since the last call."""
        last, self._last = self._last, self.curr
        if last == self._last:
            return False
        _run_wakers(self.wakers, last, self._last)
        if not self.wakers:
            del self._state.watched[self]
        return True


class _Memory(BaseMemoryState):  # type: ignore[misc]
    """A memory of the design. What is written is queued and takes effect at the next commit."""

    __slots__ = ("_info", "_model", "_pending", "_queue", "_signed", "memory")

    def __init__(self, state: SimulatorState, info: Any) -> None:
        self._model = state.model
        self._pending = state.pending
        self._info = info
        self._signed = Shape.cast(info.data.shape).signed
        self.memory = info.data
        self.reset()

    def reset(self) -> None:
        self._queue: dict[int, tuple[int, int]] = {}

    def read(self, addr: int) -> int:
        if addr not in range(self._info.depth):
            return 0
        return _extend(self._model.read_memory(self._info, addr), self._info.width, self._signed)

    def write(self, addr: int, value: int, mask: int | None = None) -> None:
        if addr not in range(self._info.depth):
            return
        full = (1 << self._info.width) - 1
        mask = full if mask is None else mask & full
        old, written = self._queue.get(addr, (0, 0))
        self._queue[addr] = (old & ~mask) | (value & mask), written | mask
        self._pending.add(self)

    def commit(self) -> bool:
        changed = False
        for row, (value, mask) in self._queue.items():
            before = self._model.read_memory(self._info, row)
            after = (before & ~mask) | value
            if after != before:
                self._model.write_memory(self._info, row, after)
                changed = True
        self._queue.clear()
        return changed


class SimulatorState(BaseEngineState):  # type: ignore[misc]
    """All slots of a simulation.

    Attributes
    ----------
    timeline: who is to be woken at which time.
    slots: the state of each signal and memory that was asked for.
    started: whether logic has settled for the first time; until then every signal has its
        initial value, combinational ones too, so that settling is seen as a change.
    pending: slots that are to be committed.
    watched: signals of the design that somebody waits for.
    """

    def __init__(self, design: Design, model: Model) -> None:
        self.model = model
        self.timeline = _PyTimeline()
        self.slots: list[Any] = []
        self.started = False
        self.pending: set[Any] = set()
        self.watched: dict[_Signal, None] = {}
        self._signals: dict[int, int] = {}
        self._memories: dict[Any, int] = {}
        self._infos = {info.data: info for info in model.program.memories}
        self._combinational = _driven_combinationally(design)
        self._design = design
        self._changes: Changes | None = None
        self._all_changed = False
        self._signals_set: list[Any] = []
        self._rows_set: list[tuple[Any, int]] = []

    def reset(self) -> None:
        self.timeline.reset()
        self.started = False
        self.model.reset()
        self.pending.clear()
        self.watched.clear()
        for state in self.slots:
            state.reset()
            if isinstance(state, _PySignalState):
                state.wakers.clear()

    # ----------------------------------------------------------------------- BaseEngineState

    def get_signal(self, signal: Any) -> int:
        index = self._signals.get(signal.duid)
        if index is None:
            slot = self.model.program.slot(signal)
            if slot is None:
                state = _PySignalState(signal, self.pending)
            else:
                state = _Signal(self, signal, slot, signal in self._combinational)
            index = self._signals[signal.duid] = len(self.slots)
            self.slots.append(state)
        return index

    def get_memory(self, memory: Any) -> int:
        if memory not in self._memories:
            if memory in self._infos:
                state = _Memory(self, self._infos[memory])
            else:
                state = _PyMemoryState(memory, self.pending)
            self._memories[memory] = len(self.slots)
            self.slots.append(state)
        return self._memories[memory]

    def set_delay_waker(self, interval: int, waker: Waker) -> None:
        self.timeline.set_waker(interval, waker)

    def add_signal_waker(self, signal: Any, waker: Waker) -> None:
        self.slots[self.get_signal(signal)].add_waker(waker)

    # -------------------------------------------------------------------------------- deltas

    def commit(self) -> bool:
        """Ends a delta cycle: registers take their edges, then what was set takes effect.

        Returns whether nothing changed.
        """
        moved = self.model.edges()
        self._signals_set.clear()
        self._rows_set.clear()
        for state in self.pending:
            if isinstance(state, _PySignalState):
                self._signals_set.append(state.signal)
            elif isinstance(state, _PyMemoryState):
                self._rows_set += [(state.memory, row) for row in state.write_queue]
            moved |= state.commit()
        self.pending.clear()
        if moved:
            self.model.settle()
        self._all_changed = not self.started
        self.started = True
        for signal in tuple(self.watched):
            moved |= signal.notify()
        if self.model.program.checks:
            self._report()
        return not moved

    # ------------------------------------------------------------------------------- tracing

    def trace(self, on: bool) -> None:
        """Says whether `changes` will be called after each delta cycle."""
        self._changes = Changes(self.model, self._named()) if on else None

    def changes(self) -> tuple[Iterable[Any], list[tuple[Any, int]]]:
        """Signals, and rows of memories, that may have changed in the last delta cycle."""
        assert self._changes is not None
        signals, rows = self._changes.signals(), self._changes.rows()
        if self._all_changed:
            signals = list(self._named())
        return signals + self._signals_set, rows + self._rows_set

    def _named(self) -> Any:
        """The signals of the design that have names."""
        return SignalSet(
            signal for info in self._design.fragments.values() for signal in info.signal_names
        )

    # ------------------------------------------------------------------------------ messages

    def _report(self) -> None:
        """Prints what the design prints; raises when a property does not hold."""
        for message in self.model.messages():
            match message.check.kind:
                case "print":
                    print(message.text, end="")
                case "cover":
                    if message.check.chunks:
                        assert message.check.source is not None
                        filename, line = message.check.source
                        print(f"Coverage hit at {filename}:{line}:", message.text)
                case kind:
                    text = "Assertion violated" if kind == "assert" else "Assumption violated"
                    if message.check.chunks:
                        text += f": {message.text}"
                    pin_blame(message.check.source, AssertionError(text))


def _driven_combinationally(design: Design) -> Any:
    """The signals of which the design drives any bit without a clock."""
    driven = SignalSet()
    for fragment in design.fragments:
        collector = LHSMaskCollector()
        collector.visit_stmt(fragment.statements.get("comb", []))
        if isinstance(fragment, MemoryInstance):
            for port in fragment._read_ports:
                if port._domain == "comb":
                    collector.visit_value(port._data, ~0)
        driven.update(signal for signal, _ in collector.masks())
    return driven
