"""How a host thread waits: it lets time pass in slices, or sleeps while others are at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hw.regs.registers import (
    EngineStatus,
    Head,
    PollInterval,
    StreamState,
    StreamStatus,
    Tail,
    Wait,
)

from .deadlock import Diagnosis
from .driver import Driver
from .errors import DeadlockError, WaitTimeout
from .monitor import Woken
from .transport import Reason, Stop

if TYPE_CHECKING:
    from .context import Context
    from .queue import Queue

__all__ = ["QUIET", "SLICE", "Quiet", "Waiting"]

QUIET = 50_000
"""Cycles without an interrupt after which a lone thread looks whether anything still runs."""
SLICE = 2_000
"""Cycles after which other threads get their turn."""
NAP = 0.02
"""Seconds after which a thread that sleeps looks whether the others are still alive."""


class Quiet:
    """Whether nothing can happen on a device until the host orders something.

    So it is when no engine has a task and every stream has nothing to do or waits, both now and
    when it was looked some time ago, and no order was given since.

    Attributes
    ----------
    since: since when, in seconds of `time.monotonic`.
    """

    def __init__(self, driver: Driver) -> None:
        self.since = 0.0
        self._driver = driver
        self._orders: int | None = None
        self._mark: tuple[int, tuple[int, ...]] | None = None
        self._cycle = 0

    @property
    def holds(self) -> bool:
        """It was found quiet, and nobody has ordered anything since."""
        return self._orders == self._driver.orders

    def look(self, streams: Iterable[Queue]) -> bool:
        """Looks whether it is quiet, at these streams of all sessions."""
        driver = self._driver
        mark, span = None, SLICE
        if not driver.read(EngineStatus).busy:
            heads = []
            for stream in streams:
                status = driver.read(StreamStatus, stream.number)
                heads.append(driver.read(Head, stream.number).head)
                if self._moves(stream, status, heads[-1]):
                    break
                if status.wait == Wait.VALUE:
                    span = SLICE + 2 * driver.read(PollInterval).cycles
            else:
                mark = driver.orders, tuple(heads)
        if mark is None or mark != self._mark:
            self._mark, self._cycle = mark, driver.transport.now()
            return False
        if driver.transport.now() - self._cycle < span:
            return False
        self.begin()
        return True

    def begin(self) -> None:
        """It was found quiet."""
        self.since = time.monotonic()
        self._orders = self._driver.orders

    def _moves(self, stream: Queue, status: StreamStatus, head: int) -> bool:
        """Whether the stream can do something by itself."""
        if status.state in (StreamState.DISABLED, StreamState.STOPPED):
            return False
        if status.state != StreamState.ACTIVE or status.running:
            return True
        if status.wait == Wait.CALLBACK:
            return stream not in stream.session.functions.requests
        waits = status.waiting or status.wait != Wait.NONE
        return not waits and head != self._driver.read(Tail, stream.number).tail

    def end(self) -> None:
        """Something has happened."""
        self._orders = self._mark = None


class Waiting:
    """One wait of a thread, for `ready()`; see `Context.wait_until`."""

    def __init__(
        self,
        context: Context,
        ready: Callable[[], bool],
        timeout: int | None,
        describe: Callable[[], str],
        code: int,
        streams: tuple[Queue, ...],
        despite_fault: bool,
    ) -> None:
        self._context, self._device = context, context.device
        self._monitor, self._quiet = context.device.monitor, context.device.quiet
        self._transport = context.device.driver.transport
        self._ready, self._describe, self._code = ready, describe, code
        self._timeout, self._streams, self._despite_fault = timeout, streams, despite_fault
        self._start = self._first = self._transport.now()
        self._limit = context.device.patience if timeout is None else timeout
        self._since = time.monotonic()
        self._told = False
        self._hurries = False
        """Time passes although nothing happens: the device itself ends a wait."""

    def run(self) -> None:
        """Returns when it is ready; raises why it never will be."""
        ended = self._context.ended()
        still: int | None = None  # tasks that had ended when no engine had one
        while not self._look():
            if not self._despite_fault and (left := self._device.standstill):
                self._monitor.sleep(left)
                continue
            now = self._transport.now()
            if now - self._start >= self._limit:
                before, ended = ended, self._ended()
                if self._timeout is not None or ended == before:
                    self._expire(now)
                self._start = now
            end = self._start + self._limit
            if self._timeout is None:
                end = min(end, now + QUIET)
            stop = self._let_run(end)
            if stop.reason is Reason.INTERRUPT:
                self._quiet.end()
                self._hurries = False
                self._device.service()
                self._monitor.wake()
                still = None
            elif self._quiet.holds or not self._monitor.alone:
                self._sleep()
            elif self._timeout is None and end <= stop.cycle < self._start + self._limit:
                last, still = still, self._still()
                if still is not None and still == last:
                    self._quiet.begin()
                    self._sleep()
            self._monitor.relinquish()

    def _look(self) -> bool:
        """Whether it is ready; raises what else ends the wait."""
        self._context.collect()
        if self._ready():
            return True
        if not self._despite_fault:
            self._context.raise_fault()
            self._context.check()
        return False

    def _let_run(self, end: int) -> Stop:
        """Lets time pass until that cycle, an interrupt, or another thread's turn."""
        if self._quiet.holds and not self._hurries:
            end = self._transport.now()
        while True:
            step = end
            if threading.active_count() > 1:
                step = min(end, self._transport.now() + SLICE)
            stop = self._transport.run_until(interrupt=True, cycle=step)
            if stop.reason is Reason.INTERRUPT or stop.cycle >= end or not self._monitor.alone:
                return stop

    def _ended(self) -> int:
        return sum(stream.device_ended() for stream in self._context.streams)

    def _still(self) -> int | None:
        """How many tasks have ended if no engine has one in work, else None."""
        if self._device.driver.read(EngineStatus).busy:
            return None
        return self._ended()

    # ------------------------------------------------------------------------------ other threads

    def _sleep(self) -> None:
        """Sleeps while nothing can happen but for what other threads do, and not for ever."""
        if self._despite_fault:
            return
        if not self._quiet.holds and not self._quiet.look(self._device.streams()):
            self._told = self._hurries = False
            return
        if self._hurries:
            return
        patience = self._device.host_patience
        left = max(self._since, self._quiet.since) + patience - time.monotonic()
        if self._told or self._monitor.others_sleep:
            self._give_up("nothing runs on the device, and every thread waits")
        elif left <= 0:
            self._give_up(
                f"nothing runs on the device, and no thread has changed that in {patience} s"
            )
        else:
            self._told = self._monitor.sleep(min(left, NAP)) is Woken.STUCK

    # --------------------------------------------------------------------------------------- ends

    def _expire(self, now: int) -> None:
        waited = f"waited {now - self._start} cycles (limit {self._limit}) for {self._wanted()}"
        reason = None if self._despite_fault else Diagnosis(self._context).explain(self._streams)
        if reason is None:
            raise WaitTimeout(f"{waited}; allow more with timeout=", self._code)
        raise DeadlockError(f"{waited}; it never ends: {reason}; {REMEDY}", self._code)

    def _wanted(self) -> str:
        """What it waits for, in words, and which functions of the host do not return."""
        late = self._device.late_functions()
        return f"{self._describe()}; {late}" if late else self._describe()

    def _give_up(self, why: str) -> None:
        """Ends the wait, and those of the other threads that sleep.

        If the device itself ends a wait after some time, lets that pass instead.
        """
        diagnosis = Diagnosis(self._context)
        if diagnosis.expires:
            self._hurries = True
            return
        reason = diagnosis.explain(self._streams)
        waited = f"waited {self._transport.now() - self._first} cycles for {self._wanted()}"
        self._monitor.wake(Woken.STUCK)
        text = f"{why}: {waited}; {f'{reason}; ' if reason else ''}{REMEDY}"
        raise (DeadlockError if reason else WaitTimeout)(text, self._code)


REMEDY = "abort the streams that wait, or close the session"
