"""Which signals of a design are just other names of wires."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from amaranth.hdl import _ast as ast

__all__ = ["Part", "Wires"]


@dataclass(frozen=True, eq=False)
class Part:
    """`width` bits of a signal from `start` on; without a signal, `start` is their value."""

    signal: Any
    start: int
    width: int

    @property
    def key(self) -> tuple[int, int, int]:
        """Equal for equal bits."""
        return (0 if self.signal is None else id(self.signal)), self.start, self.width

    def cut(self, start: int, width: int) -> Part:
        """Some of its bits."""
        if self.signal is None:
            return Part(None, self.start >> start & ((1 << width) - 1), width)
        return Part(self.signal, self.start + start, width)


@dataclass
class _Driven:
    """What is assigned to a signal.

    Attributes
    ----------
    once: bits that are assigned outside of any condition.
    more: bits whose value is not known from that alone.
    sources: what they get: (start, width, value).
    """

    once: int = 0
    more: int = 0
    sources: list[tuple[int, int, Any]] = field(default_factory=list)


class Wires:
    """Follows assignments that always hold (`a.eq(b)` outside of any condition) to their source.

    Parameters
    ----------
    design: prepared design.
    """

    def __init__(self, design: Any) -> None:
        self._driven: dict[int, _Driven] = {}
        self._resolved: dict[int, tuple[Part, ...]] = {}
        self._entered: set[int] = set()
        for fragment in design.fragments:
            for statement in getattr(fragment, "statements", {}).get("comb", ()):
                if isinstance(statement, ast.Assign):
                    self._assign(statement.lhs, statement.rhs)
                else:
                    for signal in statement._lhs_signals():
                        self._drive(signal).more = -1

    def parts(self, value: Any) -> tuple[Part, ...] | None:
        """The bits of a value, from their sources; None if it computes something."""
        if isinstance(value, ast.Signal):
            return self._signal(value)
        if isinstance(value, ast.Const):
            width = len(value)
            return (Part(None, value.value & ((1 << width) - 1), width),)
        if isinstance(value, ast.Slice):
            inner = self.parts(value.value)
            return None if inner is None else _cut(inner, value.start, len(value))
        if isinstance(value, ast.Operator) and value.operator in ("u", "s"):
            return self.parts(value.operands[0])
        if isinstance(value, ast.Concat):
            parts: list[Part] = []
            for each in value.parts:
                inner = self.parts(each)
                if inner is None:
                    return None
                parts += inner
            return _joined(parts)
        return None

    def _drive(self, signal: Any) -> _Driven:
        return self._driven.setdefault(id(signal), _Driven())

    def _assign(self, target: Any, source: Any) -> None:
        start, width = 0, len(target)
        while not isinstance(target, ast.Signal):
            if isinstance(target, ast.Slice):
                start += target.start
                target = target.value
            elif isinstance(target, ast.Operator) and target.operator in ("u", "s"):
                target = target.operands[0]
            else:
                for signal in target._lhs_signals():
                    self._drive(signal).more = -1
                return
        driven = self._drive(target)
        bits = ((1 << width) - 1) << start
        driven.more |= driven.once & bits
        driven.once |= bits
        driven.sources.append((start, width, source))

    def _signal(self, signal: Any) -> tuple[Part, ...]:
        if id(signal) in self._resolved:
            return self._resolved[id(signal)]
        whole = Part(signal, 0, len(signal))
        if id(signal) in self._entered:
            return (whole,)
        self._entered.add(id(signal))
        parts: list[Part] = []
        position = 0
        driven = self._driven.get(id(signal), _Driven())
        for start, width, source in sorted(driven.sources, key=itemgetter(0)):
            if driven.more >> start & ((1 << width) - 1):
                continue
            found = self._fitted(source, width)
            if found is not None:
                parts += [whole.cut(position, start - position), *found]
                position = start + width
        parts.append(whole.cut(position, len(signal) - position))
        self._resolved[id(signal)] = _joined(parts)
        return self._resolved[id(signal)]

    def _fitted(self, source: Any, width: int) -> tuple[Part, ...] | None:
        """The bits of a source, cut or extended to a width."""
        missing = width - len(source)
        if missing > 0 and source.shape().signed:
            return None
        parts = self.parts(source)
        if parts is None:
            return None
        return _joined([*parts, Part(None, 0, missing)]) if missing > 0 else _cut(parts, 0, width)


def _cut(parts: tuple[Part, ...], start: int, width: int) -> tuple[Part, ...]:
    chosen = []
    position = 0
    for part in parts:
        low, high = max(start, position), min(start + width, position + part.width)
        if low < high:
            chosen.append(part.cut(low - position, high - low))
        position += part.width
    return _joined(chosen)


def _joined(parts: list[Part]) -> tuple[Part, ...]:
    """Without empty parts; neighbours in one signal are one part."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if part.width <= 0:
            continue
        if last is not None and last.signal is part.signal:
            if part.signal is None:
                value = last.start | part.start << last.width
                joined[-1] = Part(None, value, last.width + part.width)
                continue
            if last.start + last.width == part.start:
                joined[-1] = Part(part.signal, last.start, last.width + part.width)
                continue
        joined.append(part)
    return tuple(joined)
