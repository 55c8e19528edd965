"""A waveform of a compiled board, in a window of its run."""

from __future__ import annotations

from collections.abc import Callable

from .base import Capture
from .conditions import Term, Wanted, known, met, untils
from .twin import Twin
from .waveform import Waveform

__all__ = ["Recording"]

CHUNK = 4096
"""Cycles after which it is looked whether a window of conditions is over."""


class Recording:
    """Waits for its window at full speed, and records it with the full program.

    Parameters
    ----------
    twin: what runs. window: see `Engine.capture`.
    make: opens the waveform.

    Attributes
    ----------
    recorded: a cycle was recorded. over: the window is behind.
    """

    def __init__(
        self, twin: Twin, window: Capture, make: Callable[[Wanted], Waveform]
    ) -> None:
        self._twin = twin
        self._window = window
        self._make = make
        self._conditions = [
            [Term(name, value) for name, value in condition] for condition in window.conditions
        ]
        self._waveform: Waveform | None = None
        self._before = 0
        self.over = False

    @property
    def recorded(self) -> bool:
        return self._waveform is not None and self._waveform.recorded

    def reset(self, cycle: int) -> None:
        """The board was reset in a cycle."""
        if self._waveform is None:
            self._before = 0
        else:
            self._before += cycle
            self._waveform.compare()

    def close(self) -> None:
        """Ends the waveform with the cycle that was recorded last."""
        self.over = True
        if self._waveform is not None:
            self._waveform.close()

    def advance(self, now: int, end: int, wanted: Wanted) -> int:
        """Lets cycles pass to `end`, or until something wanted holds or there is a message.

        Returns the cycle. Stops, too, when the window is over, with nothing of this said.
        """
        while now < end:
            if self._waveform is None:
                now, reached = self._wait(now, end, wanted)
            else:
                now, reached = self._record(self._waveform, now, end, wanted)
            if reached or self.over:
                break
        return now

    def _inside(self, cycle: int) -> bool:
        start, stop = self._window.start, self._window.stop
        return start is not None and start <= cycle and (stop is None or cycle < stop)

    def _wait(self, now: int, end: int, wanted: Wanted) -> tuple[int, bool]:
        """Without recording, to where the window begins."""
        start = self._window.start
        conditions: Wanted = []
        if start is None:
            conditions = self._conditions
        elif now < start:
            end = min(end, start)
        if not self._inside(now):
            model = self._twin.use(full=False)
            if not (known(model, wanted) and known(model, conditions)):
                model = self._twin.use(full=True)
            stops = untils(model, wanted)
            done = model.run_until([*stops, *untils(model, conditions)], end - now)
            now += done
            if model.reported or met(model, stops) or now == end:
                return now, model.reported or met(model, stops)
        elif met(self._twin.use(full=True), untils(self._twin.current, wanted)):
            return now, True
        self._waveform = self._make(self._conditions)
        return now, False

    def _record(
        self, waveform: Waveform, now: int, end: int, wanted: Wanted
    ) -> tuple[int, bool]:
        model = self._twin.use(full=True)
        stops = untils(model, wanted)
        if self._window.start is None:
            end = min(end, now + CHUNK)
        elif not self._inside(now):
            if met(model, stops):
                return now, True
            self.close()
            return now, False
        elif self._window.stop is not None:
            end = min(end, self._window.stop)
        waveform.begin(now, self._before)
        done = model.run_until(stops, end - now, waveform.hook)
        waveform.check()
        if waveform.over:
            self.close()
        return now + done, now + done < end
