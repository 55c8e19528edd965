"""The board as native code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Value
from amaranth.hdl import _ast as ast

from hw.regs.errors import ConfigError

from .base import Capture, Condition, Snapshot, holds, violation
from .cache import Cache
from .model import Model, Until
from .pages import Pages
from .program import ALL, Program, Slot, compile
from .script import DONE, INTERRUPTED, Native, Operation, Script, interpreted

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
        self.program = self._compile(keep) if key is None else Cache().object(
            key, lambda: self._compile(keep).detached()
        )
        self._storages = {
            memory.external: Pages(memory.depth * memory.row_bytes)
            for memory in self.program.memories if memory.external is not None
        }
        self.model = Model(self.program, self._storages)
        self._now = 0

    def _compile(self, keep: str | Iterable[Any], *, trace: bool = False) -> Program:
        board = self._make()
        return compile(board, keep=keep, storages=board.storages.items(), trace=trace)

    @property
    def now(self) -> int:
        return self._now

    def reset(self) -> None:
        self._now = 0
        self.model.reset()

    def step(self, cycles: int = 1) -> None:
        self._run(cycles)

    def run_until(self, signal: Any, cycle: int | None, value: int | None = None) -> bool:
        limit = FOREVER if cycle is None else max(0, cycle - self._now)
        if signal is None:
            assert cycle is not None, "neither a signal nor a cycle to wait for"
            self.step(limit)
            return False
        until = self.model.until(self._slot(signal), value or 0, equal=value is not None)
        self._run(limit, until)
        return self.model.holds(until)

    def _run(self, cycles: int, *untils: Until) -> None:
        """Runs until a condition holds, or those cycles have passed."""
        model, end = self.model, self._now + cycles
        while True:
            self._now += model.run_until(untils, end - self._now)
            if not model.reported:
                return
            self._show_messages()

    def _show_messages(self) -> None:
        """Prints what the board prints; raises when a property does not hold."""
        for message in self.model.messages():
            match message.check.kind:
                case "print":
                    print(message.text, end="")
                case "cover":
                    if message.check.chunks:
                        filename, line = message.check.source or ("?", 0)
                        print(f"Coverage hit at {filename}:{line}:", message.text)
                case kind:
                    raise violation(
                        kind, message.text, self._now - message.check.clocked,
                        message.check.source, message.check.module,
                    )  # fmt: skip

    def script(self, operations: Sequence[Operation]) -> Script:
        natives: dict[Model, Native] = {}
        slowly = interpreted(self, operations)

        def perform(*arguments: int) -> tuple[int, ...] | None:
            if self.capturing:
                return slowly(*arguments)
            model = self.model
            native = natives.get(model)
            if native is None:
                native = natives[model] = Native(model, operations, self._slot)
            status = native.start(arguments)
            self._now += native.cycles
            while model.reported:
                self._show_messages()
                if status == INTERRUPTED:
                    status = native.go_on()
                    self._now += native.cycles
            return native.results if status == DONE else None

        return perform

    def seek(self, conditions: Sequence[Condition], cycle: int | None) -> bool:
        while cycle is None or self._now < cycle:
            if holds(self, conditions):
                return True
            self.step()
        return False

    def peek(self, signal: Any) -> int:
        if isinstance(signal, str):
            return self.model.get(self._slot(signal))
        return self._evaluate(Value.cast(signal))

    def _evaluate(self, value: Any) -> int:
        """A signal, or parts of signals."""
        if isinstance(value, ast.Signal):
            return self.model.get(self._slot(value))
        if isinstance(value, ast.Slice):
            return self._evaluate(value.value) >> value.start & ((1 << len(value)) - 1)
        if isinstance(value, ast.Operator) and value.operator in ("u", "s"):
            return self._evaluate(value.operands[0])
        raise ConfigError(f"{value!r} is neither a signal nor a part of one")

    def poke(self, signal: Any, value: int) -> None:
        low, width, target = 0, None, signal
        if not isinstance(signal, str):
            target = Value.cast(signal)
            width = len(target)
            while not isinstance(target, ast.Signal):
                if isinstance(target, ast.Slice):
                    low += target.start
                    target = target.value
                elif isinstance(target, ast.Operator) and target.operator in ("u", "s"):
                    target = target.operands[0]
                else:
                    raise ConfigError(f"{target!r} is neither a signal nor a part of one")
        slot = self._slot(target)
        bits = (1 << (slot.width if width is None else width)) - 1
        whole = self.model.get(slot)
        self.model.set(slot, whole & ~(bits << low) | (value & bits) << low)
        self.model.settle()

    def _slot(self, signal: Any) -> Slot:
        slot = self.program.slot(signal)
        if slot is None:
            raise ConfigError(
                f"{signal!r} is not kept in this build, or is no signal; names are those of a "
                "waveform, without the scopes bench and top"
            )
        return slot

    def memory(self, name: str) -> memoryview:
        return self._storages[name].view

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        return self._storages[name].dirty

    def snapshot(self) -> Snapshot:
        images = {name: pages.snapshot() for name, pages in self._storages.items()}
        return Snapshot(self._now, self, (self.model.snapshot(), images))

    def restore(self, snapshot: Snapshot) -> None:
        if snapshot.engine is not self:
            raise ConfigError("the snapshot is of another engine; take one of this engine")
        state, images = snapshot.state
        for name, image in images.items():
            self._storages[name].restore(image)
        self.model.restore(state)
        self._now = snapshot.cycle

    def capture(self, path: Path, window: Capture, scopes: Sequence[str] = ()) -> None:
        raise NotImplementedError

    @property
    def capturing(self) -> bool:
        return False

    def end_capture(self) -> bool:
        return False

    def close(self) -> None:
        return None
