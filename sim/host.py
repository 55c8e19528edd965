"""What a host does on a board, cycle by cycle; each thing can be logged and done again."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hw.axi import Response
from hw.config import HOST_BASE

from .board.board import Board
from .engine.base import Stepper
from .engine.pages import PAGE

__all__ = ["PATIENCE", "Action", "Answer", "Direction", "Host", "Kind"]

PATIENCE = 100_000
"""Cycles after which a control access without an answer is given up."""

Direction = Literal["read", "write"]
Kind = Literal[
    "read", "write", "read_host", "write_host", "write_device", "run_until", "reset", "inject"
]
"""Methods of `Host`."""


@dataclass(slots=True)
class Action:
    """One thing that the host did. The list of them replays a run exactly.

    It is logged before it is done, so that one that fails or never ends is in the list, too.
    """

    cycle: int
    kind: Kind
    arguments: tuple[Any, ...]
    result: Any = None
    """What a read or a run gave; None if it was not answered."""


class Answer(NamedTuple):
    """How the NPU answered a control access."""

    response: Response
    data: int


class Host:
    """The host of a board. The same calls in the same cycles give the same run, always.

    Arguments are right: who takes them from a user checks them.

    Parameters
    ----------
    board: `Board` that the engine runs.
    engine: `Stepper`.
    """

    def __init__(self, board: Board, engine: Stepper) -> None:
        self._board = board
        self._engine = engine
        self._memories = {
            name: (engine.memory(name), engine.dirty(name)) for name in ("host", "device")
        }
        engine.poke(board.results.ready, 1)

    def perform(self, action: Action) -> Any:
        """Does what an action says; returns what the method of that name returns."""
        return getattr(self, action.kind)(*action.arguments)

    def read(self, address: int) -> Answer | None:
        """A read of control space. None: not answered within `PATIENCE`."""
        return self._access(False, address, 0)

    def write(self, address: int, value: int) -> Answer | None:
        """A write into control space, likewise."""
        return self._access(True, address, value)

    def read_host(self, address: int, size: int) -> bytes:
        """Bytes of host memory. Takes no time, as all that follows but `run_until`."""
        at = address - HOST_BASE
        return bytes(self._memories["host"][0][at : at + size])

    def write_host(self, address: int, data: bytes) -> None:
        """Writes host memory."""
        self._store("host", address - HOST_BASE, data)

    def write_device(self, address: int, data: bytes) -> None:
        """Writes device memory, through a backdoor."""
        self._store("device", address, data)

    def run_until(self, interrupt: bool, cycle: int | None) -> bool:
        """Lets cycles pass until the interrupt line is high or to a cycle: which it was."""
        return self._engine.run_until(self._board.irq if interrupt else None, cycle)

    def inject(self, direction: Direction, first: int, last: int, response: Any) -> None:
        """Lets the memories answer accesses to `first` … `last` with a `Response`; None ends it."""
        engine = self._engine
        error = self._board.read_error if direction == "read" else self._board.write_error
        engine.poke(error.first, first)
        engine.poke(error.last, last)
        if response is not None:
            engine.poke(error.response.as_value(), response.value)
        engine.poke(error.enable, response is not None)

    def reset(self) -> None:
        """Back to cycle 0."""
        self._engine.reset()
        self._engine.poke(self._board.results.ready, 1)

    def _access(self, writes: bool, address: int, value: int) -> Answer | None:
        """Takes 3 cycles and those that the NPU takes to answer."""
        board, engine = self._board, self._engine
        start = engine.now
        command = board.commands
        engine.poke(command.p.write, writes)
        engine.poke(command.p.address, address)
        engine.poke(command.p.data, value)
        engine.poke(command.valid, 1)
        engine.step()
        engine.poke(command.valid, 0)
        if not engine.run_until(board.results.valid, start + PATIENCE):
            return None
        response = Response(engine.peek(board.results.p.response))
        result = engine.peek(board.results.p.data)
        engine.step()
        return Answer(response, result)

    def _store(self, name: str, at: int, data: bytes) -> None:
        memory, dirty = self._memories[name]
        memory[at : at + len(data)] = data
        dirty[at // PAGE : -(-(at + len(data)) // PAGE)] = 1
