"""The past of a run: snapshots and a log, so that any part of it can be recorded afterwards."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw.regs.errors import ConfigError, NpuError

from .engine.base import Engine, Snapshot, Stepper
from .host import Action, Host
from .replay import Finder, Follower, Reached
from .wave import Window

__all__ = ["History", "ReplayError"]

REMEDY = "a run is replayed right when all that is done to it goes through its link"


class ReplayError(NpuError):
    """A replay that is not the run again."""


@dataclass(frozen=True)
class Mark:
    """A snapshot in a history."""

    action: int
    """Number of the action that comes next, or of the run in which it was taken."""
    resets: int
    """How many there were before it."""
    snapshot: Snapshot

    @property
    def place(self) -> tuple[int, int]:
        """(resets, cycle): when that is in the run."""
        return self.resets, self.snapshot.cycle


class History:
    """What happened on a board since this was made.

    Snapshots are taken every so many cycles, between the actions of the host and within long
    runs. As the run gets longer every second one is dropped and they are taken half as often.

    Parameters
    ----------
    engine: whose history.
    every: cycles between snapshots, at first.
    keep: how many are kept, at most.

    Attributes
    ----------
    marks: the snapshots, in order of time.
    """

    def __init__(self, engine: Engine, *, every: int, keep: int = 32) -> None:
        self._engine = engine
        self._host = Host(engine)
        self._every = every
        self._keep = keep
        self._actions: list[Action] = []
        self._ends: list[int] = []
        """Cycles in which resets were done."""
        self._passed = 0
        """Cycles before the last reset."""
        self._due = 0
        """When the next snapshot is taken, in cycles of the whole run."""
        self.marks: list[Mark] = []
        self._take(0)

    def perform(self, action: Action) -> Any:
        """Does what an action says and keeps it in mind; returns what `Host` returns."""
        number = len(self._actions)
        if self._passed + action.cycle >= self._due:
            self._take(number)
        self._actions.append(action)
        try:
            if action.kind == "run_until":
                return self._run(number, *action.arguments)
            outcome = self._host.perform(action)
        except BaseException:
            # What broke off is known when nothing but time has passed in it.
            del self._actions[number]
            if action.kind == "run_until":
                until = (False, self._engine.now)
                self._actions.append(Action(action.cycle, "run_until", until))
            raise
        if action.kind == "reset":
            self._ends.append(action.cycle)
            self._passed += action.cycle
        return outcome

    def replay(self, path: Path, window: Window, scopes: Sequence[str] = ()) -> bool:
        """Records a window of the past, as if `Engine.capture` had been called at its beginning.

        The run itself goes on as if nothing had been. Returns whether any cycle was recorded.
        """
        engine = self._engine
        if engine.capturing:
            raise ConfigError("a waveform is being recorded; end it before the past is recorded")
        present = engine.snapshot()
        try:
            place = self._find(window) if window.start is None else self._opening(window)
            if place is None:
                return False
            mark = self._mark_before(place)
            engine.restore(mark.snapshot)
            engine.capture(path, window, scopes)
            if self._again(Follower(engine, window.stop), mark) is None:
                self._check(present.cycle)
            return engine.end_capture()
        finally:
            engine.end_capture()
            engine.restore(present)

    def _run(self, number: int, interrupt: bool, cycle: int | None) -> bool:
        while True:
            pause = self._due - self._passed
            if cycle is not None and cycle <= pause:
                return self._host.run_until(interrupt, cycle)
            if self._host.run_until(interrupt, pause):
                return True
            self._take(number)

    def _take(self, action: int) -> None:
        snapshot = self._engine.snapshot()
        self.marks.append(Mark(action, len(self._ends), snapshot))
        if len(self.marks) > self._keep:
            del self.marks[1::2]
            self._every *= 2
        self._due = self._passed + snapshot.cycle + self._every

    def _opening(self, window: Window) -> tuple[int, int] | None:
        """When a window of cycles begins: in the first part of the run that gets so far."""
        assert window.start is not None
        for resets, end in enumerate([*self._ends, self._engine.now]):
            begin = self.marks[0].snapshot.cycle if resets == 0 else 0
            cycle = max(window.start, begin)
            if cycle < end and (window.stop is None or cycle < window.stop):
                return resets, cycle
        return None

    def _find(self, window: Window) -> tuple[int, int] | None:
        """When a window of conditions begins: runs from the beginning until one of them holds."""
        first = self.marks[0]
        self._engine.restore(first.snapshot)
        resets = self._again(Finder(self._engine, window.conditions), first)
        return None if resets is None else (resets, self._engine.now)

    def _mark_before(self, place: tuple[int, int]) -> Mark:
        index = bisect_right(self.marks, place, key=lambda mark: mark.place)
        return self.marks[max(0, index - 1)]

    def _again(self, engine: Stepper, mark: Mark) -> int | None:
        """Does everything after a mark on `engine` until it raises `Reached`.

        Returns after how many resets that was, or None.
        """
        host = Host(engine)
        resets = mark.resets
        try:
            for number in range(mark.action, len(self._actions)):
                action = self._actions[number]
                if number > mark.action:
                    self._check(action.cycle)
                outcome = host.perform(action)
                if action.kind == "read" and (outcome and outcome.data) != action.result:
                    raise ReplayError(
                        f"a read that gave {action.result} in cycle {action.cycle} gave "
                        f"{outcome and outcome.data} when it was replayed; {REMEDY}"
                    )
                resets += action.kind == "reset"
        except Reached:
            return resets
        return None

    def _check(self, cycle: int) -> None:
        if self._engine.now != cycle:
            raise ReplayError(
                f"what was done in cycle {cycle} came to cycle {self._engine.now} when it was "
                f"replayed; {REMEDY}"
            )
