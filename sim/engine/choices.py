"""Assignments under the cases of one switch: the value is selected by a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import _nir as nir

from .parts import Nets, number_of

__all__ = ["LEAST", "Choice", "choice"]

LEAST = 4
"""Cases below which they are rather looked at one after the other."""


class Choice:
    """The cases of a priority match whose inputs compare one value with different numbers.

    Attributes
    ----------
    enable: net without which no case holds.
    value: nets of the value that is compared.
    numbers: of each output, the number; None: the last, which holds for all others.
    """

    def __init__(self, enable: int, value: Nets, numbers: list[int | None]) -> None:
        self.enable = enable
        self.value = value
        self.numbers = numbers


def choice(raw: Any, index: int, known: dict[int, Choice | None]) -> Choice | None:
    """What cell `index` chooses by, if it is such a priority match."""
    if index not in known:
        known[index] = _choice(raw, raw.cells[index])
    return known[index]


def _choice(raw: Any, cell: Any) -> Choice | None:
    if not isinstance(cell, nir.PriorityMatch) or len(cell.inputs) < LEAST:
        return None
    inputs: Sequence[int] = cell.inputs
    numbers: list[int | None] = []
    values = set()
    for at, net in enumerate(inputs):
        if net == 1 and at == len(inputs) - 1:
            numbers.append(None)
            continue
        pair = number_of(raw, net)
        if pair is None or pair[1] in numbers:
            return None
        values.add(pair[0])
        numbers.append(pair[1])
    if len(values) != 1 or not 0 < len(value := values.pop()) <= 64:
        return None
    return Choice(cell.en, value, numbers)
