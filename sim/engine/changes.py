"""Which signals and memory rows of a running design changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .model import Model

__all__ = ["Changes"]


class Changes:
    """Compares a model with what it was when it was asked last, or made.

    Parameters
    ----------
    model: of a design that keeps all signals of interest.
    signals: those of interest.
    """

    def __init__(self, model: Model, signals: Iterable[Any]) -> None:
        self._bytes = model._bytes
        self._signals: list[list[Any]] = []
        places: dict[Any, int] = {}
        indices: list[int] = []
        owners: list[int] = []
        for signal in signals:
            slot = model.program.slot(signal)
            for piece in () if slot is None else slot.pieces:
                place = piece.place
                if place is None:
                    continue
                if place not in places:
                    places[place] = len(self._signals)
                    self._signals.append([])
                    start = model._offsets[place.area] + place.offset
                    indices += range(start, start + place.size)
                    owners += [places[place]] * place.size
                self._signals[places[place]].append(signal)
        self._indices, self._owners = np.array(indices, np.int64), np.array(owners, np.int64)
        self._before = self._bytes[self._indices]
        views = [(info.data, model.memory(info)) for info in model.program.memories]
        self._memories = [(data, view, view.copy()) for data, view in views]

    def signals(self) -> list[Any]:
        """Signals that share stored bytes with one that changed are among them, too."""
        after = self._bytes[self._indices]
        owners = np.unique(self._owners[after != self._before])
        self._before = after
        return [signal for owner in owners for signal in self._signals[owner]]

    def rows(self) -> list[tuple[Any, int]]:
        """Memories (Amaranth's objects) with rows."""
        found = []
        for data, view, image in self._memories:
            rows = np.flatnonzero((view != image).any(axis=1))
            image[rows] = view[rows]
            found += [(data, int(row)) for row in rows]
        return found
