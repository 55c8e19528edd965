"""What a run of a compiled design waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from .graph import mask
from .model import Model, Until
from .slots import Slot

__all__ = ["Term", "Wanted", "known", "met", "untils"]


class Term(NamedTuple):
    """A signal, by name or itself, has a value, or has not."""

    signal: Any
    value: int
    equal: bool = True


Wanted = Sequence[Sequence[Term]]
"""Terms that hold together, and other such."""


def known(model: Model, wanted: Wanted) -> bool:
    """Whether a model keeps all the signals."""
    return all(model.program.slot(term.signal) is not None for terms in wanted for term in terms)


def untils(model: Model, wanted: Wanted) -> list[Until]:
    """For `Model.run_until` of a model that keeps the signals."""
    found: list[Until] = []
    for terms in wanted:
        for together in product(*(_alternatives(model, term) for term in terms)):
            parts = [Until.from_buffer_copy(until) for each in together for until in each]
            for until in parts[:-1]:
                until.more = True
            found += parts
    return found


def met(model: Model, conditions: Iterable[Until]) -> bool:
    """Whether one of them holds now, with those that it holds together with."""
    together = True
    for until in conditions:
        together = together and model.holds(until)
        if not until.more:
            if together:
                return True
            together = True
    return False


def _alternatives(model: Model, term: Term) -> list[list[Until]]:
    """A signal has a value when all its pieces have, and has not as soon as one has not."""
    slot = model.program.slot(term.signal)
    assert slot is not None
    same: list[Until] = []
    for piece in slot.pieces:
        value = term.value >> piece.position & mask(piece.width)
        if piece.place is not None:
            whole = Slot(piece.width, (piece,))
            same.append(model.until(whole, value, equal=term.equal))
        elif piece.constant != value:
            return [] if term.equal else [[_always(model)]]
    if term.value >> slot.width:
        return [] if term.equal else [[_always(model)]]
    if term.equal:
        return [same or [_always(model)]]
    return [[until] for until in same]


def _always(model: Model) -> Until:
    """Holds always."""
    return Until(size=1, mask=0, value=0, equal=True)
