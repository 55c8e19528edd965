"""Runs a compiled design in this process."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from amaranth.sim._pyeval import value_to_string
from numpy.typing import NDArray

from hw.regs.errors import ConfigError

from .build import build
from .graph import mask
from .pages import Pages
from .program import Program
from .slots import CheckInfo, MemoryInfo, Slot

__all__ = ["Message", "Model", "ModelError", "Until"]

Hook = tuple[int | None, int | None]
NO_HOOK: Hook = None, None
MESSAGE_WORDS = 4096


class ModelError(ConfigError):
    """A compiled design was asked for what it does not have."""


class Until(ctypes.Structure):
    """What a run waits for, see `Model.until`."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("area", "offset", "size", "shift", "mask", "value", "equal", "more")
    ]


@dataclass(frozen=True)
class Message:
    """What a `Print` or a property reported, with the values of its message."""

    check: CheckInfo
    values: tuple[int, ...]

    @property
    def text(self) -> str:
        """The message, formatted as Amaranth's simulator does."""
        values = iter(self.values)
        return "".join(
            chunk if isinstance(chunk, str) else _formatted(next(values), chunk[1])
            for chunk in self.check.chunks
        )


def _formatted(value: int, form: str) -> str:
    if form.endswith("s"):
        return format(value_to_string(value), form[:-1])
    return format(value, form)


class Model:
    """The state of a design, and the functions that change it.

    Values are unsigned numbers. What is set takes effect on combinational logic in `settle`, and
    on registers in `edges` or `step`.

    Parameters
    ----------
    program: what is run; built here unless the cache has it.
    storages: bytes of the external memories, by name.
    optimise: level of the C compiler.
    """

    def __init__(
        self, program: Program, storages: Mapping[str, Pages] | None = None, *, optimise: int = 3
    ) -> None:
        self.program = program
        self.storages = {
            memory.external: (storages or {}).get(memory.external)
            or Pages(memory.depth * memory.row_bytes)
            for memory in program.memories
            if memory.external is not None
        }
        self.library = ctypes.CDLL(str(build(program.sources, program.header, optimise=optimise)))
        self._buffer = mmap.mmap(-1, max(1, program.state_bytes + program.work_bytes + 8))
        self._bytes = np.frombuffer(self._buffer, np.uint8)
        address = self._bytes.ctypes.data
        self._s = ctypes.c_void_p(address)
        self._v = ctypes.c_void_p(address + program.state_bytes)
        self._offsets = {"s": 0, "v": program.state_bytes}
        view = memoryview(self._buffer)
        self._views = {1: view.cast("B")}
        codes: tuple[Literal["H", "I", "Q"], ...] = ("H", "I", "Q")
        for size, code in zip((2, 4, 8), codes, strict=True):
            self._views[size] = view[: len(view) // size * size].cast(code)
        self._messages = np.zeros(MESSAGE_WORDS, np.uint64)
        number = ctypes.c_uint64
        self._settle = self._function("settle", None)
        self._edges = self._function("edges", ctypes.c_int, ctypes.c_int)
        self._run = self._function(
            "run", number, number, ctypes.POINTER(Until), number, ctypes.c_void_p, ctypes.c_void_p
        )
        self._poke = self._function("poke", None, number, number)
        self.script = self.library.script
        self.script.restype, self.script.argtypes = number, [ctypes.c_void_p]
        self.addresses: tuple[int, int] = address, address + program.state_bytes
        """Of registers and of combinational values, for `script`: see `script.Native`."""
        self.reset()

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self.library, name)
        function.restype = result
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *arguments]
        return function

    # ------------------------------------------------------------------------------ values

    def reset(self) -> None:
        """Initial values everywhere, settled, no edge pending; storages keep their bytes."""
        program = self.program
        self._bytes[:] = 0
        for offset, content in program.image:
            self._bytes[offset : offset + len(content)] = np.frombuffer(content, np.uint8)
        self._connect()
        self._awake()
        # Clocks from outside are what they are; those of logic rise to what it makes of them.
        self._edges(self._s, self._v, 0)
        self._settle(self._s, self._v)

    def _connect(self) -> None:
        """Tells the work area where messages and storages are."""
        program = self.program
        words = self._views[8]
        at = (program.state_bytes + program.messages) // 8
        words[at] = self._messages.ctypes.data
        words[at + 2] = MESSAGE_WORDS
        words[(program.state_bytes + program.changes) // 8 + 1] = 2 * len(program.numbers)
        for memory in program.memories:
            if memory.external is not None:
                pages = self.storages[memory.external]
                view = np.frombuffer(pages.view, np.uint8)
                words[at + 4 + 2 * memory.offset] = view.ctypes.data
                words[at + 5 + 2 * memory.offset] = pages.dirty.ctypes.data

    def _awake(self) -> None:
        start = self._offsets["v"]
        wake = self.program.wake
        self._bytes[start : start + len(wake)] |= np.frombuffer(wake, np.uint8)

    def get(self, slot: Slot) -> int:
        """The value of a signal."""
        value = 0
        for piece in slot.pieces:
            place = piece.place
            if place is None:
                value |= piece.constant << piece.position
                continue
            at = self._offsets[place.area] + place.offset
            part = self._views[place.size][at // place.size] >> piece.shift
            value |= (part & mask(piece.width)) << piece.position
        return value

    def set(self, slot: Slot, value: int) -> None:
        """Sets an input, or registers. ModelError: the design drives it with logic.

        A signal that is nothing but bits of inputs and registers, under another name, sets those.
        """
        self.check_settable(slot)
        for piece in slot.pieces:
            place = piece.place
            assert place is not None
            at = self._offsets[place.area] + place.offset
            before = self._views[place.size][at // place.size]
            bits = mask(piece.width)
            part = (value >> piece.position & bits) << piece.shift
            new = before & ~(bits << piece.shift) | part
            if new != before:
                self._poke(self._s, self._v, piece.element, new)

    @staticmethod
    def check_settable(slot: Slot) -> None:
        """Raises unless a signal can be set."""
        if not slot.settable:
            raise ModelError("a signal that is driven by combinational logic cannot be set")

    def read_memory(self, memory: MemoryInfo, row: int) -> int:
        """A row of a memory."""
        return int.from_bytes(self.memory(memory)[row].tobytes(), "little")

    def write_memory(self, memory: MemoryInfo, row: int, value: int) -> None:
        """Sets a row of a memory, and wakes what reads it."""
        content = (value & mask(memory.width)).to_bytes(memory.row_bytes, "little")
        self.memory(memory)[row] = np.frombuffer(content, np.uint8)
        words = self._views[8]
        for word, bits in memory.wakes:
            words[self._offsets["v"] // 8 + word] |= bits

    def memory(self, memory: MemoryInfo) -> NDArray[np.uint8]:
        """The bytes of a memory, one row each, without a copy."""
        if memory.external is not None:
            content = np.frombuffer(self.storages[memory.external].view, np.uint8)
        else:
            content = self._bytes[memory.offset : memory.offset + memory.depth * memory.row_bytes]
        return content.reshape(memory.depth, memory.row_bytes)

    # --------------------------------------------------------------------------------- time

    def settle(self) -> None:
        """Combinational logic follows."""
        self._settle(self._s, self._v)

    def edges(self) -> bool:
        """What is clocked by edges since the last call takes its next value, all at once."""
        return bool(self._edges(self._s, self._v, 1))

    def step(self, cycles: int = 1, leave: Hook = NO_HOOK) -> int:
        """Whole cycles of the only clock; settled. Fewer when a message is waiting.

        leave: address of a C function, and of its argument, that is called when a cycle is left.
        """
        self._check_clock()
        return int(self._run(self._s, self._v, cycles, None, 0, *leave))

    def run_until(self, untils: Sequence[Until], cycles: int, leave: Hook = NO_HOOK) -> int:
        """Like `step`, but stops before a cycle in which a condition holds.

        Conditions after one with `more` hold together with it.
        """
        self._check_clock()
        terms = (Until * len(untils))(*untils)
        return int(self._run(self._s, self._v, cycles, terms, len(untils), *leave))

    def until(self, slot: Slot, value: int, *, equal: bool = True, more: bool = False) -> Until:
        """A condition: a signal is equal to a value, or is not; `more`: and what comes next."""
        if len(slot.pieces) != 1 or slot.pieces[0].place is None:
            raise ModelError(
                "a run waits for a signal that is stored in one piece of at most 64 bits"
            )
        (piece,) = slot.pieces
        place = piece.place
        assert place is not None
        return Until(
            place.area == "v", place.offset, place.size, piece.shift, mask(piece.width), value,
            equal, more,
        )  # fmt: skip

    def holds(self, until: Until) -> bool:
        """Whether a condition holds now."""
        at = int(until.offset) + self._offsets["v" if until.area else "s"]
        value = self._views[int(until.size)][at // int(until.size)] >> until.shift & until.mask
        return bool((value == until.value) == bool(until.equal))

    def _check_clock(self) -> None:
        if len(self.program.clocks) != 1:
            raise ModelError(
                f"the design has {len(self.program.clocks)} clocks from outside; step needs one"
            )

    def changes(self) -> list[int] | None:
        """Numbers (see `Program.numbers`) of what may have changed since the last call.

        None: too many to tell.
        """
        at = self.program.state_bytes + self.program.changes
        length, capacity = self._views[8][at // 8], self._views[8][at // 8 + 1]
        self._views[8][at // 8] = 0
        if length > capacity:
            return None
        return self._views[4][at // 4 + 4 : at // 4 + 4 + length].tolist()

    # -------------------------------------------------------------------------- snapshots

    def snapshot(self) -> bytes:
        """The whole state but storages."""
        return bytes(self._buffer[: self.program.state_bytes])

    def restore(self, snapshot: bytes) -> None:
        """Puts a state back; settled."""
        self._bytes[: len(snapshot)] = np.frombuffer(snapshot, np.uint8)
        self._awake()
        self.settle()

    # --------------------------------------------------------------------------- messages

    @property
    def reported(self) -> bool:
        """Messages are waiting."""
        return self._views[8][(self.program.state_bytes + self.program.messages) // 8 + 1] != 0

    def messages(self) -> list[Message]:
        """What was reported since the last call, in order."""
        words = self._views[8]
        at = (self.program.state_bytes + self.program.messages) // 8
        used, position, found = words[at + 1], 0, []
        while position < used:
            check = self.program.checks[int(self._messages[position])]
            position += 1
            values = []
            for chunk in check.chunks:
                if isinstance(chunk, str):
                    continue
                width, _, signed = chunk
                value = 0
                for bit in range(0, width, 64):
                    value |= int(self._messages[position]) << bit
                    position += 1
                if signed and value >> (width - 1) & 1:
                    value -= 1 << width
                values.append(value)
            found.append(Message(check, tuple(values)))
        words[at + 1] = 0
        return found
