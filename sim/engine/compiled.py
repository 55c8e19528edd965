"""The board as native code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Fragment, Value
from amaranth.hdl import _ast as ast

from hw.regs.errors import ConfigError

from .base import Capture, Condition, Snapshot, violation
from .cache import Cache
from .conditions import Term, Wanted, known, met, untils
from .garbage import paused
from .keys import digest
from .model import Model
from .pages import Pages
from .program import ALL, Program, compile
from .recording import Recording
from .script import DONE, INTERRUPTED, Native, Operation, Script, interpreted
from .slots import Slot
from .twin import Full, Twin
from .variables import check_scopes, chosen, tabulated, variables
from .waveform import Waveform, located

__all__ = ["CompiledBoard"]

FOREVER = (1 << 63) - 1


class CompiledBoard:
    """Engine that compiles a board; see `Engine`. Same cycles as pysim, thousands of times faster.

    Parameters
    ----------
    board: component with a `storages` dictionary, or a function that makes it, which is called
        only if something has to be compiled.
    clock_mhz: makes the time axis of waveforms.
    keep: combinational signals that are to be at hand without a second build; see `compile`.
    key: identifies what `board` makes and `keep`. What is compiled of it is kept in the user's
        cache then, and signals are known by name only.
    """

    name = "compiled"
    replays = True

    def __init__(
        self,
        board: Any,
        *,
        clock_mhz: int = 1000,
        keep: str | Iterable[Any] = ALL,
        key: str | None = None,
    ) -> None:
        self._period = 10**9 // clock_mhz
        self._make: Callable[[], Any] = board if callable(board) else lambda: board
        self._key = key
        self._elaborated: tuple[Any, Any] | None = None
        self.program = self._compile(keep) if key is None else Cache().object(
            key, lambda: self._compile(keep).detached()
        )
        self._storages = {
            memory.external: Pages(memory.depth * memory.row_bytes)
            for memory in self.program.memories if memory.external is not None
        }
        self._twin = Twin(Model(self.program, self._storages), self._full)
        self._recording: Recording | None = None
        self._recorded = False
        self._now = 0

    @property
    def model(self) -> Model:
        """What runs at full speed, with the state of the board, for use at once."""
        return self._twin.use(full=False)

    def _elaborate(self) -> tuple[Any, Any]:
        """The board, and its design; kept where signals are known as objects."""
        if self._elaborated is not None:
            return self._elaborated
        with paused():
            board = self._make()
            elaborated = board, Fragment.get(board, None).prepare()
        if self._key is None:
            self._elaborated = elaborated
        return elaborated

    def _compile(self, keep: str | Iterable[Any]) -> Program:
        board, design = self._elaborate()
        return compile(design, keep=keep, storages=board.storages.items())

    def _full(self) -> Full:
        """Everything, for waveforms."""

        def make() -> Full:
            board, design = self._elaborate()
            program = compile(design, keep=ALL, storages=board.storages.items(), trace=True)
            return Full(program, located(variables(design), program))

        def detached() -> Full:
            full = make()
            return Full(full.program.detached(), tabulated(full.variables))

        return make() if self._key is None else Cache().object(
            digest("full", self._key), detached
        )

    @property
    def now(self) -> int:
        return self._now

    @property
    def signals(self) -> list[str]:
        return list(self._twin.full.program.paths)

    def reset(self) -> None:
        if self._recording is not None:
            self._recording.reset(self._now)
        self._now = 0
        self._twin.active().reset()

    def step(self, cycles: int = 1) -> None:
        self._run(cycles)

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        limit = FOREVER if cycle is None else max(0, cycle - self._now)
        if signal is None:
            assert cycle is not None, "neither a signal nor a cycle to wait for"
            self.step(limit)
            return False
        return self._run(limit, [[Term(self._find(signal), value or 0, value is not None)]])

    def seek(self, conditions: Sequence[Condition], cycle: int | None) -> bool:
        wanted = [[Term(self._find(name), value) for name, value in each] for each in conditions]
        limit = FOREVER if cycle is None else max(0, cycle - self._now)
        return self._run(limit, wanted) and (cycle is None or self._now < cycle)

    def _run(self, cycles: int, wanted: Wanted = ()) -> bool:
        """Runs until something wanted holds, or those cycles have passed; whether it holds."""
        end = self._now + cycles
        while True:
            if self._recording is not None:
                self._now = self._recording.advance(self._now, end, wanted)
                if self._recording.over:
                    self._end_recording()
                    continue
            else:
                model = self._twin.use(full=False)
                if not known(model, wanted):
                    model = self._twin.use(full=True)
                self._now += model.run_until(untils(model, wanted), end - self._now)
            model = self._twin.current
            if not model.reported:
                break
            self._show_messages()
        if not known(model, wanted):
            model = self._twin.look()
        return met(model, untils(model, wanted))

    def _show_messages(self) -> None:
        """Prints what the board prints; raises when a property does not hold."""
        for message in self._twin.current.messages():
            match message.check.kind:
                case "print":
                    print(message.text, end="")
                case "cover":
                    if message.check.chunks:
                        filename, line = message.check.source or ("?", 0)
                        print(f"Coverage hit at {filename}:{line}:", message.text)
                case kind:
                    what = "Assumption violated" if kind == "assume" else "Assertion violated"
                    said = f": {message.text}" if message.text else ""
                    check = message.check
                    cycle = self._now - check.clocked
                    raise violation(what + said, cycle, check.source, check.module)

    def script(self, operations: Sequence[Operation]) -> Script:
        natives: dict[Model, Native] = {}
        slowly = interpreted(self, operations)

        def perform(*arguments: int) -> tuple[int, ...] | None:
            if self._recording is not None:
                return slowly(*arguments)
            model = self._twin.use(full=False)
            native = natives.get(model)
            if native is None:
                native = natives[model] = Native(model, operations, self._slot)
            status = native.start(arguments)
            outcome = native.outcome()
            self._now += outcome[-1]
            while status == INTERRUPTED:
                try:
                    self._show_messages()
                except BaseException:
                    native.abandon()
                    raise
                status = native.go_on()
                outcome = native.outcome()
                self._now += outcome[-1]
            return outcome[:-1] if status == DONE else None

        return perform

    def peek(self, signal: Any) -> int:
        return self._evaluate(self._find(signal))

    def _evaluate(self, value: Any) -> int:
        """A signal, or parts of signals."""
        if isinstance(value, str | ast.Signal):
            model = self._twin.current
            slot = model.program.slot(value)
            if slot is None:
                model = self._twin.look()
                slot = model.program.slot(value)
            if slot is None:
                raise _unknown(value)
            return model.get(slot)
        if isinstance(value, ast.Slice):
            whole = self._evaluate(value.value)
            return whole >> int(value.start) & ((1 << len(value)) - 1)
        if isinstance(value, ast.Operator) and value.operator in ("u", "s"):
            return self._evaluate(value.operands[0])
        raise ConfigError(f"{value!r} is neither a signal nor a part of one")

    def poke(self, signal: Any, value: int) -> None:
        model = self._twin.active()
        target = self._find(signal)
        low, width = 0, None if isinstance(target, str) else len(target)
        while not isinstance(target, str | ast.Signal):
            if isinstance(target, ast.Slice):
                low += target.start
                target = target.value
            elif isinstance(target, ast.Operator) and target.operator in ("u", "s"):
                target = target.operands[0]
            else:
                raise ConfigError(f"{target!r} is neither a signal nor a part of one")
        slot = model.program.slot(target)
        if slot is None:
            raise _unknown(target)
        bits = (1 << (slot.width if width is None else width)) - 1
        whole = model.get(slot)
        model.set(slot, whole & ~(bits << low) | (value & bits) << low)
        model.settle()

    def _find(self, signal: Any) -> Any:
        """What programs know a signal by: its name, or itself."""
        if not isinstance(signal, str):
            return Value.cast(signal)
        known = signal in self.program.paths or signal in self.program.names
        if not known and signal not in self._twin.full.program.paths:
            raise _unknown(signal)
        return signal

    def _slot(self, signal: Any) -> Slot:
        slot = self.program.slot(signal)
        if slot is None:
            raise ConfigError(f"{signal!r} is not kept in this build")
        return slot

    def memory(self, name: str) -> memoryview:
        return self._storages[name].view

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        return self._storages[name].dirty

    def snapshot(self) -> Snapshot:
        images = {name: pages.snapshot() for name, pages in self._storages.items()}
        return Snapshot(self._now, self, (self._twin.current.snapshot(), images))

    def restore(self, snapshot: Snapshot) -> None:
        if snapshot.engine is not self:
            raise ConfigError("the snapshot is of another engine; take one of this engine")
        if self.capturing:
            raise ConfigError(
                "no snapshot can be restored while a waveform is recorded; end the recording"
            )
        state, images = snapshot.state
        for name, image in images.items():
            self._storages[name].restore(image)
        self.model.restore(state)
        self._now = snapshot.cycle

    def capture(self, path: Path, window: Capture, scopes: Sequence[str] = ()) -> None:
        self._end_recording()
        for name, _ in (pair for condition in window.conditions for pair in condition):
            self._find(name)
        check_scopes(self._twin.full.variables, scopes)

        def make(wanted: Wanted) -> Waveform:
            model = self._twin.use(full=True)
            shown = chosen(self._twin.full.variables, scopes)
            return Waveform(path, model, shown, self._period, untils(model, wanted))

        self._recorded = False
        self._recording = Recording(self._twin, window, make)

    @property
    def capturing(self) -> bool:
        return self._recording is not None

    def end_capture(self) -> bool:
        self._end_recording()
        return self._recorded

    def close(self) -> None:
        self._end_recording()

    def _end_recording(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            self._recorded = recording.recorded
            recording.close()


def _unknown(signal: Any) -> ConfigError:
    return ConfigError(
        f"no signal is called {signal!r}; names are those of a waveform, "
        "without the scopes bench and top"
    )
