"""Notifies: counters of the device that streams add to, set, and wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .driver import Driver
from .errors import InvalidHandle, NoNotify
from .monitor import Monitor, entered

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Counter", "Counters", "Notify"]


class Counter:
    """A counter of the notify unit that tasks may still be using when it is given back.

    It goes back to the device once it is freed and every task that uses it has ended.
    """

    def __init__(self, pool: Counters, number: int) -> None:
        self.number = number
        self.freed = False
        self._pool = pool
        self._users = 0

    def acquire(self) -> None:
        """One more task uses it."""
        self._users += 1

    def release(self) -> None:
        """One of its tasks has ended."""
        self._users -= 1
        self._settle()

    def free(self) -> None:
        """It is not needed for more than the tasks that use it now."""
        assert not self.freed
        self.freed = True
        self._settle()

    def _settle(self) -> None:
        if self.freed and not self._users:
            self._pool.free.append(self.number)


@dataclass(eq=False)
class Counters:
    """The counters of a device, shared by its sessions.

    `collect` takes what the device has completed, for every session.
    """

    driver: Driver
    collect: Callable[[], None]
    free: deque[int] = field(init=False)

    def __post_init__(self) -> None:
        self.free = deque(range(self.driver.config.notifies))

    def take(self) -> Counter:
        """A counter that nobody uses, set to 0, or `NoNotify`."""
        if not self.free:
            self.collect()
        if not self.free:
            raise NoNotify(
                f"all {self.driver.config.notifies} counters of the notify unit are in use; "
                "close a notify, and let the tasks that use it end"
            )
        self.driver.set_notify(self.free[0], 0)
        return Counter(self, self.free.popleft())


class Notify:
    """A counter that streams of one session signal each other with. Made by `Session.notify`.

    Unlike an event it counts: `Stream.notify` adds to it, `Stream.wait_notify` waits until it is
    at least an amount and subtracts that. It begins with 0 and counts modulo 2^32.

    Attributes
    ----------
    session: the session it belongs to.
    """

    def __init__(self, session: Session, counter: Counter) -> None:
        self.session = session
        self.counter = counter

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    @property
    def closed(self) -> bool:
        return self.counter.freed

    @property
    @entered
    def value(self) -> int:
        """The counter as it is at this moment."""
        self.check()
        return self.session.device.driver.notify_value(self.counter.number)

    @entered
    def close(self) -> None:
        """Gives the counter back as soon as no submitted task uses it. Does not wait."""
        if not self.closed:
            self.counter.free()
            self.session.notifies.remove(self)

    def check(self) -> None:
        """Raises unless it is open."""
        self.session.check()
        if self.closed:
            raise InvalidHandle(f"{self} is closed; make a new one with session.notify")

    def __str__(self) -> str:
        return f"notify {self.counter.number}"

    def __repr__(self) -> str:
        return f"<{self}>"
