"""Nets of Amaranth's netlist, which are single bits, taken together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from amaranth.hdl import _nir as nir

from .graph import LIMB

__all__ = ["Nets", "Run", "cut", "operands", "runs", "stretches"]

Nets = Sequence[int]
Run = tuple[str, int, int, int]
"""("constant", bits, number, 0), ("cell", bits, index of the cell, its first bit),
("repeat", bits, net, 0), or ("sign", bits, 0, 0): repeats the bit below."""


def runs(nets: Nets) -> Iterator[Run]:
    """Nets, which are single bits, gathered into words."""
    position, size = 0, len(nets)
    while position < size:
        net = nets[position]
        end = position + 1
        if net < 2:
            number = int(net)
            while end < size and nets[end] < 2:
                number |= int(nets[end]) << (end - position)
                end += 1
            yield "constant", end - position, number, 0
        elif end < size and nets[end] == net:
            while end < size and nets[end] == net:
                end += 1
            yield "repeat", end - position, net, 0
        else:
            while end < size and nets[end] == net + end - position:
                end += 1
            yield "cell", end - position, net >> 16, net & 0xFFFF
            first = end
            while end < size and nets[end] == nets[first - 1]:
                end += 1
            if end > first:
                yield "sign", end - first, 0, 0
        position = end


def operands(cell: Any) -> Iterable[Nets]:
    """The values that a cell reads."""
    if isinstance(cell, nir.Operator):
        yield from cell.inputs
    elif isinstance(cell, nir.AssignmentList):
        yield cell.default
        for assignment in cell.assignments:
            yield assignment.value
    elif isinstance(cell, nir.Part | nir.Matches):
        yield cell.value
    elif isinstance(cell, nir.FlipFlop | nir.SyncWritePort):
        yield cell.data


def stretches(nets: Nets, low: int, high: int) -> Iterable[tuple[int, int, int]]:
    """Stretches of bits with one net: first bit, bit after the last, net."""
    while low < high:
        end = low + 1
        while end < high and nets[end] == nets[low]:
            end += 1
        yield low, end, nets[low]
        low = end


def cut(low: int, high: int) -> Iterable[tuple[int, int]]:
    """Cut at multiples of 64."""
    while low < high:
        end = min(high, low // LIMB * LIMB + LIMB)
        yield low, end
        low = end
