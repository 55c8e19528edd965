"""The workload of the bench: a GEMM with copies and events, as a log of what its host did.

It is recorded once, through the runtime, and then replayed on every engine without it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from hw.config import HOST_BASE, NpuConfig
from hw.regs.errors import NpuError

from ..board.config import BoardConfig
from ..engine.base import Stepper
from ..engine.cache import Cache
from ..engine.keys import digest, sources
from ..engine.pages import PAGE
from ..host import Action, Host
from ..jobs import run_gemm
from ..link import SimTransport
from ..link import open as open_simulation

__all__ = ["Mismatch", "Player", "Workload", "load", "record"]

Content = tuple[str, tuple[int, ...], int]
"""Name of a storage, numbers of its pages that were written, and their checksum at the end."""


class Mismatch(NpuError):
    """A replay is not the run that was recorded."""


@dataclass(frozen=True)
class Workload:
    """A product of two size × size matrices of random int8, from upload to download."""

    config: NpuConfig
    size: int
    actions: tuple[Action, ...]
    cycles: int
    """All that the host does has ended."""
    kernels: tuple[int, int]
    """Cycles from the start of the first kernel to the end of the last, half-open."""
    contents: tuple[Content, ...]
    """What the storages hold at the end."""

    def utilisation(self, cycles: int) -> float:
        """The share of multiplications that the array could do in so many cycles."""
        return self.size**3 / (cycles * self.config.rows * self.config.columns)


def load(preset: str, size: int, engine: str = "auto") -> Workload:
    """The workload, from the cache or recorded on that engine of ours."""
    config = NpuConfig.preset(preset)
    key = digest(
        "workload", sources("hw", "rt", "sim.board"), repr(config), repr(BoardConfig()), str(size)
    )
    return Cache().object(
        key, lambda: record(open_simulation(config=config, engine=engine), size)
    )


def record(transport: SimTransport, size: int) -> Workload:
    """Runs it through the runtime, compares the product with numpy's and closes the link.

    transport: just opened, with its actions recorded.
    """
    rng = np.random.default_rng(size)
    a, b = (rng.integers(-128, 128, (size, size)).astype(np.int8) for _ in range(2))
    end = {}

    class Kept:
        """The link, without its end: the storages are looked at afterwards."""

        def __getattr__(self, name: str) -> Any:
            return getattr(transport, name)

        def close(self) -> None:
            end["cycles"] = transport.now()

    report = run_gemm(Kept(), a, b)
    if not report.exact:
        raise Mismatch(f"the product on {transport.engine.name} is not numpy's")
    contents = []
    for side in ("device", "host"):
        pages = tuple(np.flatnonzero(transport.engine.dirty(side)).tolist())
        contents.append((side, pages, _checksum(transport.engine, side, pages)))
    transport.close()
    return Workload(
        transport.config, size, tuple(transport.actions), end["cycles"],
        (report.start, report.start + report.cycles), tuple(contents),
    )  # fmt: skip


class Player:
    """Replays a workload, and checks that each thing happens in the cycle it was recorded in.

    Parameters
    ----------
    workload: what is replayed.
    host: of the board, on `engine`.
    """

    def __init__(self, workload: Workload, host: Host, engine: Stepper) -> None:
        self._workload = workload
        self._host = host
        self._engine = engine
        self._next = 0

    def rewind(self) -> None:
        """Resets the board, and empties what the workload writes of its memories."""
        for side, pages, _ in self._workload.contents:
            for page in pages:
                if side == "host":
                    self._host.write_host(HOST_BASE + page * PAGE, bytes(PAGE))
                else:
                    self._host.write_device(page * PAGE, bytes(PAGE))
        self._host.reset()
        self._next = 0

    @property
    def cycle(self) -> int:
        """The current cycle."""
        return self._engine.now

    def place(self) -> int:
        """How many actions were done: what `resume` takes, beside a snapshot of the engine."""
        return self._next

    def resume(self, place: int) -> None:
        """Goes on from there; the engine must be back there, too."""
        self._next = place

    def play(self, cycle: int | None = None) -> None:
        """Goes on to that cycle, or to the end.

        An access that is under way in that cycle is finished first.
        """
        engine = self._engine
        actions = self._workload.actions
        end = self._workload.cycles if cycle is None else cycle
        while self._next < len(actions) and (cycle is None or engine.now < cycle):
            action = actions[self._next]
            if action.kind != "run_until":
                self._check(action, engine.now, action.cycle)
                answer = self._host.perform(action)
                if action.kind == "read":
                    self._check(action, answer and answer.data, action.result)
            else:
                interrupt, limit = action.arguments
                stop = end if limit is None else min(limit, end)
                reached = self._host.run_until(interrupt, stop)
                if not reached and stop < action.result.cycle:
                    return
                self._check(action, (reached, engine.now), _stop(action))
            self._next += 1

    def check_end(self) -> None:
        """The workload has ended in the same state as when it was recorded."""
        self._check("end", (self._next, self._engine.now),
                    (len(self._workload.actions), self._workload.cycles))  # fmt: skip
        for side, pages, checksum in self._workload.contents:
            self._check(f"{side} memory", _checksum(self._engine, side, pages), checksum)

    def _check(self, what: Action | str, found: Any, recorded: Any) -> None:
        if found != recorded:
            name = f"{what.kind} {what.arguments}"[:80] if isinstance(what, Action) else what
            raise Mismatch(
                f"{name} in cycle {self._engine.now}: {found!r} instead of {recorded!r}; the "
                "engine does not simulate what was recorded"
            )


def _stop(action: Action) -> tuple[bool, int]:
    return action.result.reason.value == "interrupt", action.result.cycle


def _checksum(engine: Stepper, side: str, pages: tuple[int, ...]) -> int:
    view = engine.memory(side)
    checksum = 0
    for page in pages:
        checksum = zlib.crc32(view[page * PAGE : (page + 1) * PAGE], checksum)
    return checksum
