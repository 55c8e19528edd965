"""Assignments to bits at a computed offset: Amaranth's netlist has one for each offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import _nir as nir

__all__ = ["Nets", "Part", "number_of", "parts"]

Nets = tuple[int, ...]
LEAST = 3
"""Assignments that are taken together."""


@dataclass(frozen=True)
class Part:
    """Bits from `start` + (`offset` − `first`) × `stride` on become `value`.

    Only while `enable` holds and the offset is one of `count` numbers from `first` on; only bits
    before `stop`.
    """

    enable: int
    offset: Nets
    first: int
    count: int
    start: int
    stride: int
    stop: int
    value: Nets


def parts(raw: Any, assigned: Sequence[Any]) -> list[Any]:
    """The assignments in their order, those that belong together as a `Part`.

    Parameters
    ----------
    raw: Amaranth's netlist.
    assigned: of an assignment list.
    """
    return list(_joined(raw, assigned)) if len(assigned) >= LEAST else list(assigned)


def _joined(raw: Any, assigned: Sequence[Any]) -> Iterator[Any]:
    at = 0
    while at < len(assigned):
        end = at + 1
        choice = _choice(raw, assigned[at].cond)
        if choice is not None:
            while end < len(assigned) and _follows(raw, assigned, at, end, choice[1]):
                end += 1
        part = None
        if choice is not None and end - at >= LEAST:
            part = _part(raw, assigned[at:end], *choice)
        if part is None:
            yield assigned[at]
            at += 1
        else:
            yield part
            at = end


def _choice(raw: Any, net: int) -> tuple[Nets, int] | None:
    """The value and the number with which it is compared, if all choices of a switch are such."""
    cell = raw.cells[net >> 16] if net >= 2 else None
    if not isinstance(cell, nir.PriorityMatch):
        return None
    found = [number_of(raw, each) for each in cell.inputs[: (net & 0xFFFF) + 1]]
    values = {None if pair is None else pair[0] for pair in found}
    if None in values or len(values) > 1 or len({pair and pair[1] for pair in found}) < len(found):
        return None
    return found[-1]


def number_of(raw: Any, net: int) -> tuple[Nets, int] | None:
    """The value and the number that a net compares, if it does that."""
    cell = raw.cells[net >> 16] if net >= 2 else None
    if not isinstance(cell, nir.Matches) or len(cell.patterns) != 1 or "-" in cell.patterns[0]:
        return None
    return cell.value, int(cell.patterns[0] or "0", 2)


def _follows(raw: Any, assigned: Sequence[Any], at: int, end: int, first: int) -> bool:
    """Whether an assignment is the next of those that begin at `at`."""
    one, two, last = assigned[at], assigned[end], assigned[end - 1]
    count = end - at
    stride = assigned[at + 1].start - one.start
    return bool(
        stride > 0
        and two.cond == one.cond + count
        and two.cond >> 16 == one.cond >> 16
        and two.start == last.start + stride
        and two.value == one.value[: len(two.value)]
        and (number_of(raw, raw.cells[two.cond >> 16].inputs[two.cond & 0xFFFF]) or ((), -1))[1]
        == first + count
    )


def _part(raw: Any, group: Sequence[Any], offset: Nets, first: int) -> Part | None:
    value = group[0].value
    if not value:
        return None
    stop = max(each.start + len(each.value) for each in group)
    if any(len(each.value) != min(len(value), stop - each.start) for each in group):
        return None
    if _choice(raw, group[-1].cond) is None:
        return None
    cell = raw.cells[group[0].cond >> 16]
    stride = group[1].start - group[0].start
    if stride >= max(8, len(value)):
        # Separate words are better told apart: each is written as one, see `families`.
        return None
    return Part(cell.en, offset, first, len(group), group[0].start, stride, stop, value)
