"""What a host does on a board, cycle by cycle; each thing can be logged and done again."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hw.axi import Response
from hw.config import HOST_BASE

from .board.memory import Injection
from .board.register_master import Command, Result
from .engine.base import Stepper
from .engine.pages import PAGE
from .engine.script import Peek, Poke, Step, Until

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


def _offsets(structure: Any) -> dict[str, int]:
    """The first bit of each field."""
    return {name: field.offset for name, field in structure.as_shape()}


COMMAND, RESULT, INJECTION = map(_offsets, (Command, Result, Injection))
ADDRESS, DATA = COMMAND["address"], COMMAND["data"]
WRITE = 1 << COMMAND["write"]
RESPONSE, WORD = RESULT["response"], RESULT["data"]
ACCESS = (
    Poke("accesses__payload"),
    Poke("accesses__valid", 1),
    Step(),
    Poke("accesses__valid", 0),
    Until("answers__valid"),
    Peek("answers__payload"),
    Step(),
)
"""An access to control space: the payload of its command, and the cycles that it may take."""
RESPONSES = tuple(map(Response, range(4)))


class Host:
    """The host of a board. The same calls in the same cycles give the same run, always.

    Arguments are right: who takes them from a user checks them.

    Parameters
    ----------
    engine: `Stepper` that runs a `Board`.
    """

    def __init__(self, engine: Stepper) -> None:
        self._engine = engine
        self._access = engine.script(ACCESS)
        self._memories = {
            name: (engine.memory(name), engine.dirty(name)) for name in ("host", "device")
        }
        engine.poke("answers__ready", 1)

    def perform(self, action: Action) -> Any:
        """Does what an action says; returns what the method of that name returns."""
        return getattr(self, action.kind)(*action.arguments)

    def read(self, address: int) -> Answer | None:
        """A read of control space. None: not answered within `PATIENCE`."""
        return self._answer(self._access(address << ADDRESS, PATIENCE - 1))

    def write(self, address: int, value: int) -> Answer | None:
        """A write into control space, likewise."""
        payload = WRITE | address << ADDRESS | value << DATA
        return self._answer(self._access(payload, PATIENCE - 1))

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
        return self._engine.run_until("irq" if interrupt else None, cycle)

    def inject(self, direction: Direction, first: int, last: int, response: Any) -> None:
        """Lets the memories answer accesses to `first` … `last` with a `Response`; None ends it."""
        fields = {"first": first, "last": last, "enable": int(response is not None)}
        if response is not None:
            fields["response"] = response.value
        error = sum(value << INJECTION[name] for name, value in fields.items())
        self._engine.poke(f"{direction}_errors", error)

    def reset(self) -> None:
        """Back to cycle 0."""
        self._engine.reset()
        self._engine.poke("answers__ready", 1)

    @staticmethod
    def _answer(results: tuple[int, ...] | None) -> Answer | None:
        if results is None:
            return None
        (result,) = results
        return Answer(RESPONSES[result >> RESPONSE & 3], result >> WORD & 0xFFFFFFFF)

    def _store(self, name: str, at: int, data: bytes) -> None:
        memory, dirty = self._memories[name]
        memory[at : at + len(data)] = data
        dirty[at // PAGE : -(-(at + len(data)) // PAGE)] = 1
