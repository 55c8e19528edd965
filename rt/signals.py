"""Signals of a stream: counters, values in memory, barriers, and functions of the host."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, SupportsIndex

from hw.regs.descriptor import (
    Comparison,
    NotifyOperation,
    NotifyPayload,
    Sqe,
    TaskType,
    ValuePayload,
)

from .errors import InvalidParameter
from .memory import Buffer
from .monitor import Monitor, entered
from .notify import Notify
from .task import Resource, Task, timeout_units

if TYPE_CHECKING:
    from .queue import Queue
    from .session import Session

__all__ = ["Signals", "check_word"]

VALUE_BYTES = 8


class Signals(ABC):
    """The part of `Stream` that signals. Every call submits one task and returns at once.

    What waits does so on the device, and holds up its own stream only. With `timeout` cycles, in
    steps of 1,024, the task fails when it has been the next of its stream for so long. With
    `profile=True` the task is measured, see `Task.profile`.
    """

    session: Session

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    @abstractmethod
    def prepare(self) -> Queue:
        """Makes sure that a task can be submitted; may wait for room in the ring."""

    @abstractmethod
    def submit(self, task: Task, sqe: Sqe) -> Task:
        """Appends a task, which `prepare` has made room for."""

    # ---------------------------------------------------------------------------------- counters

    @entered
    def notify(self, notify: Notify, amount: int = 1, *, profile: bool = False) -> Task:
        """Adds to a counter, modulo 2^32, when everything before it has ended."""
        return self._count(notify, NotifyOperation.ADD, amount, "", None, profile)

    @entered
    def set_notify(self, notify: Notify, value: int, *, profile: bool = False) -> Task:
        """Sets a counter."""
        return self._count(notify, NotifyOperation.SET, value, "", None, profile)

    @entered
    def wait_notify(
        self,
        notify: Notify,
        amount: int = 1,
        *,
        timeout: int | None = None,
        profile: bool = False,
    ) -> Task:
        """Waits until a counter is at least an amount, and subtracts that."""
        waits = f"{notify} to be at least {amount}"
        return self._count(notify, NotifyOperation.WAIT, amount, waits, timeout, profile)

    def _count(
        self,
        notify: Notify,
        operation: NotifyOperation,
        amount: int,
        waits_for: str,
        timeout: int | None,
        profile: bool,
    ) -> Task:
        self.session.check_notify(notify)
        amount = whole("amount", amount)
        low, high = NotifyPayload.amount.limits
        if not low <= amount <= high:
            raise InvalidParameter(
                f"the amount for {notify} is {amount}; it must lie within {low} … {high}"
            )
        payload = NotifyPayload(counter=notify.counter.number, amount=amount, operation=operation)
        sqe = Sqe(
            type=TaskType.NOTIFY, payload=payload.to_int(), timeout=timeout_units(timeout)
        )
        return self._signal(sqe, [notify.counter], waits_for, profile)

    # ------------------------------------------------------------------------------------ values

    @entered
    def write_value(
        self, buffer: Buffer, offset: int, value: int, *, profile: bool = False
    ) -> Task:
        """Writes a value of 8 bytes at byte `offset` of a buffer, all 8 at once."""
        payload = ValuePayload(address=self._place(buffer, offset), value=check_word(value))
        sqe = Sqe(type=TaskType.VALUE_WRITE, payload=payload.to_int())
        return self._signal(sqe, [buffer.allocation], "", profile)

    @entered
    def wait_value(
        self,
        buffer: Buffer,
        offset: int,
        value: int,
        comparison: Comparison = Comparison.NOT_LESS,
        *,
        mask: int | None = None,
        timeout: int | None = None,
        profile: bool = False,
    ) -> Task:
        """Waits until the 8 bytes at byte `offset` of a buffer compare with a value.

        comparison: how. NOT_LESS is that of two's complement numbers, so that a count goes on
            over its wrap.
        mask: bits of the low 4 bytes that count; by default all 8 bytes do.
        """
        if comparison not in tuple(Comparison):
            raise InvalidParameter(
                f"the comparison is {comparison!r}; choose one of "
                f"{', '.join(each.name for each in Comparison)} of Comparison"
            )
        high = (1 << ValuePayload.mask.width) - 1
        mask = None if mask is None else whole("mask", mask)
        if mask is not None and not 1 <= mask <= high:
            raise InvalidParameter(f"the mask is {mask}; it must lie within 1 … {high}, or be None")
        payload = ValuePayload(
            address=self._place(buffer, offset), value=check_word(value), mask=mask or 0,
            operation=comparison,
        )  # fmt: skip
        waits_for = (
            f"the value at 0x{payload.address:010x} to be {comparison.name} "
            f"0x{payload.value:x}" + (f" in the bits 0x{mask:08x}" if mask else "")
        )
        sqe = Sqe(
            type=TaskType.VALUE_WAIT, payload=payload.to_int(), timeout=timeout_units(timeout)
        )
        return self._signal(sqe, [buffer.allocation], waits_for, profile)

    def _place(self, buffer: Buffer, offset: int) -> int:
        self.session.check_buffer(buffer)
        last = buffer.nbytes - VALUE_BYTES
        address = buffer.address + whole("offset", offset)
        if not 0 <= offset <= last or address % VALUE_BYTES:
            raise InvalidParameter(
                f"the value lies at byte {offset} of {buffer}, which has {buffer.nbytes} bytes; it "
                f"must lie within it and its address be a multiple of {VALUE_BYTES}"
            )
        return address

    # -------------------------------------------------------------------------- streams and host

    @entered
    def barrier(self, *, timeout: int | None = None, profile: bool = False) -> Task:
        """Waits for everything that any stream of the session was given before this call."""
        self.session.check()
        self.prepare().refuse_capture("wait at a barrier")
        for stream in self.session.streams:
            if stream is not self and not stream.stopped:
                stream.flush()
        sqe = Sqe(type=TaskType.BARRIER, timeout=timeout_units(timeout))
        return self._signal(sqe, [], "all that was submitted to its session before it", profile)

    @entered
    def callback(self, function: Callable[..., object], *args: object) -> Task:
        """Calls a function of the host with these arguments, and goes on when it has returned.

        It runs on a thread of the session that does nothing else, one function at a time; no time
        passes on the device meanwhile, for `Device.host_patience` seconds at most. It cannot use
        the runtime: `ReentryError`. If it raises, the stream fails, and what it raised is the
        cause of the `DeviceFault`.
        """
        if not callable(function):
            raise InvalidParameter(
                f"a function is needed, not {type(function).__name__}; give its arguments after it"
            )
        stream, number = self.prepare(), self.session.device.task_id()
        name = getattr(function, "__qualname__", repr(function))
        known = self.session.functions.function(number, name, partial(function, *args))
        task = Task(stream, number, uses=[known], waits_for=f"the host's function {name}")
        return self.submit(task, Sqe(type=TaskType.HOST_CALLBACK))

    def _signal(self, sqe: Sqe, uses: list[Resource], waits_for: str, profile: bool) -> Task:
        stream = self.prepare()
        task = Task(
            stream, self.session.device.task_id(), uses=uses, profiled=profile, waits_for=waits_for
        )
        return self.submit(task, sqe.replace(completion=int(profile), counters=int(profile)))


def whole(name: str, value: SupportsIndex) -> int:
    """A whole number, of numpy or not; raises unless it is one."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidParameter(f"the {name} is {value!r}; it must be a whole number") from None


def check_word(value: int) -> int:
    """A number of 64 bits, signed or not, as the device has it; raises unless it is one."""
    value = whole("value", value)
    if not -(1 << 63) <= value < 1 << 64:
        raise InvalidParameter(f"the value {value} does not fit 64 bits")
    return value & 0xFFFFFFFFFFFFFFFF
