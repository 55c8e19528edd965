"""One state under two programs: a fast one, and one that has every signal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .model import Model
from .program import Program
from .slots import Piece
from .variables import Variable

__all__ = ["Full", "Twin"]

OPTIMISE = 0
"""Level of the C compiler for the full program, which is large: rather ready soon than fast."""


@dataclass(frozen=True)
class Full:
    """A program that keeps everything and notes changes, with what a waveform shows of it."""

    program: Program
    variables: list[Variable[Piece]]


class Twin:
    """Lets a design run as either program.

    Parameters
    ----------
    fast: model that runs at first.
    make: gives what the other model is of. It is called when that is needed for the first time.

    Attributes
    ----------
    current: the model that has the state. Who changes it has got it from `active` or `use`.
    """

    def __init__(self, fast: Model, make: Callable[[], Full]) -> None:
        self._fast = fast
        self._make = make
        self._full: tuple[Full, Model] | None = None
        self._same = False
        self.current = fast

    @property
    def full(self) -> Full:
        """Everything; compiled here if it was not yet."""
        return self._other()[0]

    def active(self) -> Model:
        """The model that has the state, to change it."""
        self._same = False
        return self.current

    def use(self, *, full: bool) -> Model:
        """The fast or the full model, which has the state from now on."""
        wanted = self._other()[1] if full else self._fast
        if wanted is not self.current:
            if not self._same:
                wanted.restore(self.current.snapshot())
            self.current = wanted
        self._same = False
        return wanted

    def look(self) -> Model:
        """The full model, to see what the fast one does not keep."""
        model = self._other()[1]
        if model is not self.current and not self._same:
            model.restore(self.current.snapshot())
            self._same = True
        return model

    def _other(self) -> tuple[Full, Model]:
        if self._full is None:
            full = self._make()
            fast = self._fast.program
            assert _layout(full.program) == _layout(fast), "the state does not depend on `keep`"
            model = Model(full.program, self._fast.storages, optimise=OPTIMISE)
            self._full = full, model
        return self._full


def _layout(program: Program) -> tuple[object, ...]:
    """Where the state lies."""
    memories = [(memory.name, memory.offset, memory.depth) for memory in program.memories]
    return program.state_bytes, program.register_bytes, memories, program.image
