"""Writes a waveform of a compiled design, in native code, from any cycle on."""

from __future__ import annotations

import atexit
import ctypes
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from vcd import VCDWriter
from vcd.common import VarType
from vcd.writer import StringVariable

from .build import build
from .graph import mask
from .model import Hook, Model, Until
from .program import Program
from .slots import Piece
from .variables import LONGEST, Variable, declare
from .wires import Part

__all__ = ["Waveform", "located"]

BUFFER = 1 << 20
"""Bytes of text that are written to the file at once."""
MARGIN = 256 + 8 * LONGEST
"""Bytes for a label, and what stands around a value."""
KNOWN = 64
"""Texts that a label remembers in native code, at most."""

BIT, VECTOR, NUMBER, TEXT = range(4)
WAITING, RECORDING, OVER = range(3)

VARIABLE = np.dtype(
    [("last", "u8"), ("mask", "u8"), ("tail", "S8"), ("offset", "u4"), ("kind", "u1"),
     ("size", "u1"), ("shift", "u1"), ("tail_length", "u1")]
)  # fmt: skip
PIECE = np.dtype(
    [("mask", "u8"), ("offset", "u4"), ("position", "u4"), ("size", "u1"), ("shift", "u1"),
     ("unused", "V6")]
)  # fmt: skip
WHOLE = np.dtype(
    [(name, "u4") for name in ("first", "pieces", "limb", "limbs", "label", "width")]
)
LABEL = np.dtype([("pairs", "u8"), ("mask", "u8"), ("room", "u8")])
LINK = np.dtype([("word", "u8"), ("bits", "u8")])

Flush = ctypes.CFUNCTYPE(None)
Name = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)


class _State(ctypes.Structure):
    """`struct waveform` of waveform.c."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "s", "v", "changes", "cycle", "before", "period", "time", "untils", "conditions",
            "state", "all", "variables", "count", "clock", "first", "numbers", "links", "marked",
            "pieces", "wholes", "constants", "lasts", "labels", "buffer", "used", "limit",
        )),
        ("flush", Flush),
        ("name", Name),
    ]  # fmt: skip


def located(found: Iterable[Variable[Part]], program: Program) -> list[Variable[Piece]]:
    """Variables of a design with the places where a program that keeps everything has them."""
    return [
        Variable(each.width, _pieces(each, program), each.label, each.clock, each.names)
        for each in found
    ]


def _pieces(variable: Variable[Part], program: Program) -> tuple[Piece, ...]:
    pieces = []
    position = 0
    for part in variable.parts:
        slot = None if part.signal is None else program.slot(part.signal)
        if slot is None:
            # Without a slot nothing drives a signal: it is as it was in the beginning.
            value = part.start if part.signal is None else part.signal.init >> part.start
            constant = value & mask(part.width)
            pieces.append(Piece(position, part.width, None, constant=constant))
        for piece in () if slot is None else slot.pieces:
            low = max(piece.position, part.start)
            high = min(piece.position + piece.width, part.start + part.width)
            if low >= high:
                continue
            inside = low - piece.position
            pieces.append(
                replace(
                    piece, position=position + low - part.start, width=high - low,
                    shift=piece.shift + inside,
                    constant=piece.constant >> inside & mask(high - low),
                )
            )  # fmt: skip
        position += part.width
    return tuple(pieces)


class Waveform:
    """Records cycles of a model as they are left; byte for byte what `Recorder` writes.

    Parameters
    ----------
    path: of the file, which is made at once.
    model: its program keeps everything and notes changes.
    variables: what is recorded; see `located`.
    period: femtoseconds of a cycle. Cycle n begins, with the rising edge, at n × period.
    untils: recorded from the first cycle in which they hold (see `Model.run_until`) to the last
        in a row; without any, from now on.

    Members
    -------
    hook: for `Model.run_until`.
    """

    def __init__(
        self,
        path: Path,
        model: Model,
        variables: Sequence[Variable[Piece]],
        period: int,
        untils: Sequence[Until] = (),
    ) -> None:
        assert model.program.numbers, "the program notes changes"
        self._model = model
        self._failure: BaseException | None = None
        self._broken = False
        self._texts: dict[str, Any] = {}
        self._state = state = _State(period=period, all=1)
        library = ctypes.CDLL(
            str(
                build(
                    resources.files(__package__).joinpath("waveform.c").read_text(),
                    resources.files(__package__).joinpath("runtime.h").read_text(),
                )
            )
        )
        context = ctypes.addressof(state)
        self.hook: Hook = ctypes.cast(library.leave, ctypes.c_void_p).value, context
        self._end = library.end
        self._end.argtypes = [ctypes.c_void_p]
        self._kept: list[Any] = [library]
        head = io.StringIO()
        writer = VCDWriter(head, timescale="1 fs", date="")
        declared = declare(writer, variables, lambda variable: 0)
        writer.flush()
        header, separator, _ = head.getvalue().partition("$enddefinitions $end\n")
        self._fill(variables, [variable.ident for variable in declared])
        terms = (Until * len(untils))(*untils)
        self._kept.append(terms)
        state.untils, state.conditions = ctypes.addressof(terms), len(untils)
        self._file = path.open("wb")
        self._file.write((header + separator).encode())
        # Who ends without closing it finds what was recorded, as with any file of Python.
        atexit.register(self.close)

    @property
    def recorded(self) -> bool:
        """A cycle was recorded."""
        return bool(self._state.state != WAITING)

    @property
    def over(self) -> bool:
        """The conditions held, and do so no more; or the file cannot be written."""
        return bool(self._state.state == OVER)

    def begin(self, cycle: int, before: int) -> None:
        """A run begins in a cycle, after so many cycles that were counted from an earlier reset.

        What was done to the model in between is seen if it went through `Model.set`.
        """
        self._state.cycle, self._state.before = cycle, before

    def compare(self) -> None:
        """The state was exchanged: in the next cycle everything may have changed."""
        self._state.all = 1

    def check(self) -> None:
        """Raises what has gone wrong while a cycle was recorded."""
        if self._failure is not None and not self._broken:
            self._broken = True
            raise self._failure

    def close(self) -> None:
        """Ends the file half a cycle after the last edge."""
        atexit.unregister(self.close)
        if self._file.closed:
            return
        try:
            if self.recorded:
                self._end(ctypes.addressof(self._state))
            self.check()
        finally:
            self._file.close()

    # ------------------------------------------------------------------------------ tables

    def _array(self, name: str, values: Any, kind: Any = np.uint64) -> Any:
        """Keeps an array that the native code uses."""
        array = np.array(values, kind)
        self._kept.append(array)
        setattr(self._state, name, array.ctypes.data)
        return array

    def _fill(self, variables: Sequence[Variable[Piece]], idents: Sequence[str]) -> None:
        model, state = self._model, self._state
        program = model.program
        state.s = model._bytes.ctypes.data
        state.v = state.s + program.state_bytes
        state.changes = state.v + program.changes
        rows: list[tuple[Any, ...]] = []
        pieces: list[tuple[Any, ...]] = []
        wholes: list[tuple[int, ...]] = []
        constants: list[int] = []
        self._labels = [variable.label for variable in variables if variable.label is not None]
        labels = 0
        for variable, ident in zip(variables, idents, strict=True):
            placed = [piece for piece in variable.parts if piece.place is not None]
            constant = sum(piece.constant << piece.position for piece in variable.parts)
            scalar = variable.label is None and variable.width == 1
            tail = f"{ident}\n" if scalar else f" {ident}\n"
            simple = variable.label is None and len(placed) == 1 and not constant
            if simple and placed[0].position == 0:
                (piece,) = placed
                rows.append(
                    (0, mask(piece.width), tail.encode(), self._offset(piece),
                     BIT if scalar else VECTOR, piece.place and piece.place.size, piece.shift,
                     len(tail))
                )  # fmt: skip
                continue
            kind = NUMBER if variable.label is None else TEXT
            rows.append((0, 0, tail.encode(), len(wholes), kind, 0, 0, len(tail)))
            limbs = -(-variable.width // 64)
            wholes.append(
                (len(pieces), len(placed), len(constants), limbs, labels, variable.width)
            )
            labels += kind == TEXT
            constants += [constant >> 64 * limb & mask(64) for limb in range(limbs)]
            pieces += [
                (mask(piece.width), self._offset(piece), piece.position,
                 piece.place and piece.place.size, piece.shift, b"")
                for piece in placed
            ]  # fmt: skip
        self._array("variables", rows, VARIABLE)
        state.count = len(rows)
        clocks = [number for number, variable in enumerate(variables) if variable.clock]
        state.clock = clocks[0] if clocks else len(rows)
        self._array("pieces", pieces, PIECE)
        self._array("wholes", wholes, WHOLE)
        self._array("constants", constants)
        self._array("lasts", constants)
        self._array("marked", [0] * (len(rows) // 64 + 1))
        self._link(variables)
        self._label()
        widest = max((variable.width for variable in variables), default=0)
        self._buffer = ctypes.create_string_buffer(BUFFER + widest + MARGIN)
        state.buffer, state.limit = ctypes.addressof(self._buffer), BUFFER
        state.flush, state.name = Flush(self._flush), Name(self._name)

    def _offset(self, piece: Piece) -> int:
        assert piece.place is not None
        start = self._model.program.state_bytes if piece.place.area == "v" else 0
        return start + piece.place.offset

    def _link(self, variables: Sequence[Variable[Piece]]) -> None:
        """Which variables depend on each number in the list of changes."""
        numbers = {place: number for number, place in enumerate(self._model.program.numbers)}
        words: list[dict[int, int]] = [defaultdict(int) for _ in numbers]
        for index, variable in enumerate(variables):
            for piece in variable.parts:
                if piece.place is not None:
                    words[numbers[piece.place]][index // 64] |= 1 << index % 64
        first = np.cumsum([0, *map(len, words)])
        self._array("first", first, np.uint32)
        self._array("links", [pair for each in words for pair in each.items()], LINK)
        self._state.numbers = len(words)

    def _label(self) -> None:
        rows = []
        for label in self._labels:
            room = min(KNOWN, 1 << label.width)
            pairs = np.zeros(4 * room, np.uint64)
            self._kept.append(pairs)
            rows.append((pairs.ctypes.data, 2 * room - 1, room))
        self._array("labels", rows, LABEL)

    # --------------------------------------------------------------------- from native code

    def _flush(self) -> None:
        state = self._state
        try:
            if self._failure is None:
                self._file.write(memoryview(self._buffer)[: state.used])
        except BaseException as failure:
            self._failure = failure
            state.state = OVER
        state.used = 0

    def _name(self, number: int, value: int) -> int:
        """Address of a text: its length, its characters. Equal texts have one address."""
        text = self._labels[number].text(value)
        kept = self._texts.get(text)
        if kept is None:
            written = StringVariable("", VarType.string, 1, text).format_value(text)
            characters = written[1:-1].encode()
            content = len(characters).to_bytes(8, "little") + characters + bytes(8)
            kept = self._texts[text] = ctypes.create_string_buffer(content, len(content))
        return ctypes.addressof(kept)
