"""One NPU: what its sessions share."""

from __future__ import annotations

import itertools
from functools import partial
from types import TracebackType
from typing import Self

from hw.config import HOST_BASE, NpuConfig
from hw.regs.registers import StreamCommand, StreamConfig, StreamState, Watchdog

from .callback import Request
from .context import release
from .driver import Driver
from .errors import NoContext, NoStream, WaitTimeout
from .event import EventSlots
from .finish import finish
from .memory import Pool
from .monitor import Monitor, entered
from .notify import Counters
from .queue import Queue
from .session import Session
from .transport import Transport
from .wait import Quiet

__all__ = ["Device"]

PAGE = 4096
POLL = 64
"""Cycles from one look at an abort that was left behind to the next."""


class Device:
    """The NPU behind a transport. Closing it closes its sessions and the transport.

    What another driver has left on the NPU is ended: its streams, completions, interrupts and
    access windows.

    Any number of threads may use it. They take turns, call by call, in the order in which they
    come; who waits lets the others in, and what a thread submits to a stream stays in order. If
    nothing can happen on the device any more, no time passes while a thread is at work elsewhere.

    Parameters
    ----------
    transport: the link.
    patience: cycles that a wait without a timeout of its own lasts when no task ends.
    host_patience: seconds that a wait lasts when nothing can happen on the device unless another
        thread, which does not wait, orders it; and for which time stands still on the device
        while it waits for a function of the host.
    watchdog: cycles for which a busy engine may achieve nothing; 0: no limit.

    Attributes
    ----------
    driver: its registers.
    config: its sizes.

    Raises
    ------
    IncompatibleDevice: it is none that this driver understands; both versions are named.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        patience: int = 10_000_000,
        host_patience: float = 10.0,
        watchdog: int = 1_000_000,
    ) -> None:
        self.driver = Driver(transport)
        self.patience = patience
        self.host_patience = host_patience
        self.monitor = Monitor()
        self.quiet = Quiet(self.driver)
        self.events = EventSlots(self.driver, self._collect)
        self.counters = Counters(self.driver, self._collect)
        # Nothing lies at address 0, so that a forgotten argument is an access violation.
        self.device_pool = Pool(PAGE, transport.device_bytes - PAGE, "device memory")
        self.host_pool = Pool(HOST_BASE, transport.host_bytes, "host memory")
        self.code: dict[tuple[int, int], int] = {}
        """Checksum of the kernel that was last loaded at an address for a context."""
        self._numbers = itertools.count(1)
        self._sessions: dict[int, Session] = {}
        self._streams = set(range(self.config.streams))
        self._kept: list[Queue] = []
        """Closed streams whose abort has not ended: their hardware belongs to nobody."""
        self.driver.write(Watchdog(cycles=watchdog))
        for number in range(self.config.streams):
            self._disable(number)
        for context in range(self.config.contexts):
            release(self.driver, context)

    def _disable(self, number: int) -> None:
        """Ends what another driver has left running."""
        transport = self.driver.transport
        if self.driver.stream_state(number) is StreamState.DISABLED:
            return
        self.driver.write(StreamCommand(abort=1), index=number)
        start = transport.now()
        while self.driver.stream_state(number) is not StreamState.DISABLED:
            waited = transport.now() - start
            if waited >= self.patience:
                raise WaitTimeout(
                    f"stream {number}: waited {waited} cycles (limit {self.patience}) for the end "
                    "of its abort; reset the device"
                )
            transport.run_until(interrupt=False, cycle=transport.now() + POLL)

    @property
    def config(self) -> NpuConfig:
        return self.driver.config

    @entered
    def session(
        self, *, device_bytes: int | None = None, host_bytes: int | None = None
    ) -> Session:
        """Opens a session: a context that is protected from the others, with its own memory.

        device_bytes: of its device memory; by default an equal share for each context.
        host_bytes: of host memory for its rings and copies in flight; likewise.
        """
        self._reclaim()
        contexts = self.config.contexts
        taken = {*self._sessions, *(stream.session.context for stream in self._kept)}
        free = [context for context in range(contexts) if context not in taken]
        if not free:
            raise NoContext(
                f"all {contexts} contexts of the device are in use; close a session first"
            )
        shares = [
            pool.size // contexts // PAGE * PAGE if size is None else size
            for pool, size in ((self.device_pool, device_bytes), (self.host_pool, host_bytes))
        ]
        session = Session(self, free[0], *shares)
        self._sessions[session.context] = session
        return session

    def priority_range(self) -> tuple[int, int]:
        """The greatest and the least priority of a stream; a smaller number is greater."""
        greatest, least = StreamConfig.priority.limits
        return greatest, least

    def task_id(self) -> int:
        """A fresh number for a task."""
        return next(self._numbers)

    def take_stream(self) -> int:
        """A hardware stream that is free, or `NoStream`."""
        self._reclaim()
        if not self._streams:
            raise NoStream(
                f"all {self.config.streams} streams of the device are in use; close one first"
            )
        number = min(self._streams)
        self._streams.remove(number)
        return number

    def give_stream(self, number: int) -> None:
        """Nobody uses the hardware stream any more."""
        self._streams.add(number)

    def keep(self, stream: Queue) -> None:
        """The stream is closed but has not ended its abort: it is given back when it has."""
        self._kept.append(stream)

    def _reclaim(self) -> None:
        for stream in tuple(self._kept):
            if self.driver.stream_state(stream.number) is StreamState.DISABLED:
                self._kept.remove(stream)
                stream.reclaim()

    def _collect(self) -> None:
        """Takes the completion entries of every session."""
        for session in self._sessions.values():
            session.collect()

    def streams(self) -> tuple[Queue, ...]:
        """Those of every session."""
        return tuple(stream for session in self._sessions.values() for stream in session.streams)

    def forget(self, session: Session) -> None:
        """The session is closed."""
        del self._sessions[session.context]

    def service(self) -> None:
        """Handles the interrupts that are pending, each by its cause.

        Functions of the host run at the end, when no more time passes for what they are told.
        Waits for them while time stands still; others may use the device.
        """
        requests: list[Request] = []
        for context, causes in self.driver.interrupts().items():
            session = self._sessions.get(context)
            if session is None:
                self.driver.mute(context)
            else:
                requests += session.interrupted(causes)
        for request in requests:
            request.start()
        while not all(request.over for request in requests) and (left := self.standstill):
            self.monitor.sleep(left)

    @property
    def standstill(self) -> float:
        """Seconds for which no time passes, at most, as functions of the host run."""
        return max((session.functions.left for session in self._sessions.values()), default=0.0)

    def late_functions(self) -> str:
        """The functions of the host that time did not wait for any longer."""
        late = (session.functions.late() for session in self._sessions.values())
        return " and ".join(filter(None, late))

    @entered
    def close(self) -> None:
        """Closes every session without waiting for its tasks, then the transport."""
        sessions = tuple(self._sessions.values())
        finish(
            *(partial(session.close, drain=False) for session in sessions),
            self.driver.transport.close,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
