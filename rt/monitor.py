"""The lock of a device: one host thread uses it at a time, in the order in which they came."""

from __future__ import annotations

import enum
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar
from weakref import WeakSet

from .errors import ReentryError

__all__ = ["Monitor", "Woken", "entered"]

P = ParamSpec("P")
R = TypeVar("R")


class Woken(enum.Enum):
    """Why `Monitor.sleep` came back."""

    TIME = "the time is over"
    ACT = "another thread has used the device"
    STUCK = "every thread sleeps"


class Gate:
    """A thread's place in a line: it opens when the monitor is given to that thread."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.woken = Woken.TIME
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        self._lock.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it is open, or for so long; whether it was open."""
        return self._lock.acquire(
            timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX)
        )


class Monitor:
    """A lock that its owner may enter again, and that is given to threads in order of arrival.

    Calls of the runtime hold it, but not while they wait: `relinquish` lets those in who stand
    in line, and `sleep` gives it up until another thread has used the device. Both give it up
    completely, however often it was entered, and come back with it, exceptions included.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # of all that follows, and held for moments only
        self._owner: int | None = None
        self._depth = 0
        self._line: deque[Gate] = deque()
        self._sleepers: list[Gate] = []
        self._users: dict[int, threading.Thread] = {}
        self._servants: WeakSet[threading.Thread] = WeakSet()
        self._barred: set[int] = set()

    def __enter__(self) -> Self:
        me = threading.get_ident()
        if self._owner != me:
            if me in self._barred:
                raise ReentryError(
                    "a function that the device called uses the runtime, which waits for that "
                    "function; return first, and let another thread do it"
                )
            thread = threading.current_thread()
            if thread not in self._servants:
                self._users[me] = thread
            gate = Gate()
            try:
                self._stand(gate, self._line)
                gate.wait()
            except BaseException:  # an interrupt from the keyboard
                self._withdraw(gate)
                raise
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.wake()
            self._give_up()

    def relinquish(self) -> None:
        """Lets those in who stand in line. Costs nothing when there is nobody."""
        if self._line:
            self._pause(Gate(), self._line, None)

    def sleep(self, seconds: float | None) -> Woken:
        """Gives the monitor up until another thread has entered and left it, or for so long."""
        gate = Gate()
        self._pause(gate, self._sleepers, seconds)
        return gate.woken

    def wake(self, why: Woken = Woken.ACT) -> None:
        """Those who sleep stand in line."""
        if self._sleepers:
            with self._mutex:
                for gate in self._sleepers:
                    gate.woken = why
                self._line.extend(self._sleepers)
                self._sleepers.clear()

    # ----------------------------------------------------------------------------------- threads

    @property
    def alone(self) -> bool:
        """No other thread that has used the device is alive."""
        return not self._others()

    @property
    def others_sleep(self) -> bool:
        """Every other thread sleeps that is alive and has used the device, or still may.

        Daemon threads may not, until they do.
        """
        with self._mutex:
            asleep = {gate.thread for gate in self._sleepers}
        strangers = {
            thread.ident for thread in threading.enumerate()
            if not thread.daemon and thread not in self._servants
        }  # fmt: skip
        return self._others() | strangers <= {*asleep, threading.get_ident()}

    def _others(self) -> set[int]:
        me = threading.get_ident()
        if len(self._users) > 1:
            users = tuple(self._users.items())
            for dead in [number for number, thread in users if not thread.is_alive()]:
                self._users.pop(dead, None)
        return self._users.keys() - {me}

    def exempt(self) -> None:
        """The current thread serves the runtime: from now on it is no user of the device."""
        self._servants.add(threading.current_thread())
        self._users.pop(threading.get_ident(), None)

    @contextmanager
    def barred(self) -> Iterator[None]:
        """Inside, the current thread is refused: it runs a function that the device called."""
        me = threading.get_ident()
        self._barred.add(me)
        try:
            yield
        finally:
            self._barred.discard(me)

    # ------------------------------------------------------------------------------- giving over

    def _stand(self, gate: Gate, place: deque[Gate] | list[Gate]) -> None:
        with self._mutex:
            place.append(gate)
            self._hand_over()

    def _hand_over(self) -> None:
        """The first in line owns the monitor if nobody does."""
        if self._owner is None and self._line:
            gate = self._line.popleft()
            self._owner = gate.thread
            gate.open()

    def _give_up(self) -> None:
        with self._mutex:
            self._owner = None
            self._hand_over()

    def _leave_places(self, gate: Gate) -> None:
        for place in (self._line, self._sleepers):
            if gate in place:
                place.remove(gate)

    def _withdraw(self, gate: Gate) -> None:
        """Its thread does not want the monitor any more."""
        with self._mutex:
            self._leave_places(gate)
            if self._owner == gate.thread:
                self._owner = None
                self._hand_over()

    def _pause(self, gate: Gate, place: deque[Gate] | list[Gate], seconds: float | None) -> None:
        """Gives the monitor up until the gate opens, or for so long; then takes it again."""
        depth, self._depth = self._depth, 0
        try:
            with self._mutex:
                place.append(gate)
                self._owner = None
                self._hand_over()
            gate.wait(seconds)
        finally:
            interrupt = self._regain(gate)
            self._depth = depth
            if interrupt is not None:
                raise interrupt

    def _regain(self, gate: Gate) -> KeyboardInterrupt | None:
        """Makes its thread the owner. An interrupt from the keyboard does not change that."""
        interrupt = None
        while True:
            try:
                with self._mutex:
                    self._leave_places(gate)
                    if self._owner == gate.thread:
                        return interrupt
                    gate = Gate()
                    self._line.append(gate)
                    self._hand_over()
                gate.wait()
            except KeyboardInterrupt as error:
                interrupt = error


class Guarded(Protocol):
    """What has public calls that use a device."""

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        ...


G = TypeVar("G", bound=Guarded)


def entered(call: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """A method that holds its object's monitor while it does not wait."""

    @functools.wraps(call)
    def enter(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.monitor:
            return call(self, *args, **kwargs)

    return enter
