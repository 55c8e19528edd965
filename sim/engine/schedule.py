"""What has to run when: the compiled processes of a design, by the signals that they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Value
from amaranth.hdl._mem import MemoryInstance
from amaranth.sim._pyrtl import _FragmentCompiler
from amaranth.sim.pysim import _PyEngineState, _PySignalState

__all__ = ["Schedule"]

Run = Callable[[], None]


class _Compiler(_FragmentCompiler):  # type: ignore[misc]
    """Also notes of which fragment the clocked processes are."""

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self.clocked: list[tuple[Any, Run]] = []
        self._known: set[Any] = set()

    def __call__(self, fragment: Any) -> Any:
        processes = super().__call__(fragment)
        for process in processes - self._known:
            if not process.is_comb:
                self.clocked.append((fragment, process.run))
        self._known |= processes
        return processes


class Schedule:
    """Runs a design with one clock domain and synchronous reset.

    Amaranth compiles each fragment and domain into a Python function. Its own loop looks at all
    of them in every delta cycle and runs all clocked ones at every edge. Here each signal knows
    the functions that read it: a clocked one runs only when something it reads, or a register of
    its own, has changed since its last run; otherwise it would compute the same again.

    Parameters
    ----------
    design: prepared design. Clock signals must not be read as data.

    Members
    -------
    state: values of all signals and memories.
    always: functions that are run at each edge; others may be appended.
    changed: collects the slots that change, unless it is None.
    """

    def __init__(self, design: Any) -> None:
        assert set(design.fragment.domains) <= {"sync"}, "one clock domain"
        self.state = _PyEngineState()
        self.always: list[Run] = []
        self.changed: set[Any] | None = None
        compiler = _Compiler(self.state)
        processes = compiler(design.fragment)
        self._comb = [process.run for process in processes if process.is_comb]
        self._clocked = [run for _, run in compiler.clocked]
        self._ready: set[Run] = set()
        self._next_edge: set[Run] = set()
        self._link(compiler.clocked)

    def _link(self, clocked: list[tuple[Any, Run]]) -> None:
        """Replaces the wakers of each slot by (functions to run now, functions for the edge)."""
        slots = self.state.slots
        at_edge: dict[int, list[Run]] = {}
        for fragment, run in clocked:
            for index in self._inputs(fragment):
                at_edge.setdefault(index, []).append(run)
        for index, slot in enumerate(slots):
            now = []
            for waker in slot.wakers:
                names = waker.__code__.co_freevars
                process = waker.__closure__[names.index("process")].cell_contents
                if process.is_comb:
                    now.append(process.run)
            slot.wakers = tuple(now), tuple(at_edge.get(index, ()))

    def _inputs(self, fragment: Any) -> set[int]:
        """Slots on which the clocked process of a fragment depends, its own registers included."""
        domain = fragment.domains["sync"]
        signals = []
        if "sync" in fragment.statements:
            statements = fragment.statements["sync"]
            signals += [*statements._rhs_signals(), *statements._lhs_signals()]
        if domain.rst is not None:
            signals.append(domain.rst)
        found = set()
        if isinstance(fragment, MemoryInstance):
            found.add(self.state.get_memory(fragment._data))
            for port in (*fragment._read_ports, *fragment._write_ports):
                for value in (port._addr, port._data, port._en):
                    signals += Value.cast(value)._rhs_signals()
        return found | {self.state.get_signal(signal) for signal in signals}

    def slot(self, signal: Any) -> Any:
        """State of a signal."""
        slot = self.state.slots[self.state.get_signal(Value.cast(signal))]
        if not slot.wakers:
            slot.wakers = (), ()
        return slot

    def reset(self) -> None:
        """Initial values everywhere; settles."""
        self.state.reset()
        if self.changed is not None:
            self.changed.update(self.state.slots)
        self._ready.update(self._comb)
        self._next_edge.update(self._clocked)
        self.settle()

    def save(self) -> tuple[Any, ...]:
        """Values of all signals and memories."""
        return tuple(
            slot.curr if type(slot) is _PySignalState else tuple(slot.data)
            for slot in self.state.slots
        )

    def load(self, values: tuple[Any, ...]) -> None:
        """Back to what `save` gave, even out of an edge that failed.

        What has become known since has its initial value.
        """
        slots = self.state.slots
        self.state.pending.clear()
        for slot in slots[len(values) :]:
            slot.reset()
        for slot, value in zip(slots, values, strict=False):
            if type(slot) is _PySignalState:
                slot.curr = slot.next = value
            else:
                slot.data = list(value)
                slot.write_queue.clear()
        self._next_edge.update(self._clocked)

    def edge(self) -> None:
        """One rising edge of the clock, which takes effect in `settle`."""
        due, self._next_edge = self._next_edge, set()
        for run in due:
            run()
        for run in self.always:
            run()

    def settle(self) -> None:
        """Runs what is ready and commits, until nothing changes any more."""
        ready, edge, pending = self._ready, self._next_edge, self.state.pending
        changed = self.changed
        while True:
            for run in ready:
                run()
            ready.clear()
            if not pending:
                return
            if changed is not None:
                changed.update(pending)
            for slot in pending:
                if type(slot) is _PySignalState:
                    if slot.curr == slot.next:
                        continue
                    slot.curr = slot.next
                else:
                    for address, value in slot.write_queue.items():
                        slot.data[address] = value
                    slot.write_queue.clear()
                now, later = slot.wakers
                ready.update(now)
                edge.update(later)
            pending.clear()
