"""The hardware side of a session: completions, interrupts, waiting and faults."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hw.regs.descriptor import Completion
from hw.regs.fault import FaultCause
from hw.regs.registers import (
    CompletionBase,
    CompletionCommand,
    CompletionConfig,
    CompletionHead,
    EventRecord,
    FaultClear,
    InterruptEnable,
    InterruptStatus,
    StreamState,
)

from .callback import Functions, Request
from .driver import EVERY_CAUSE, Driver
from .errors import DeviceFault, FaultRecord, NoContext, WaitTimeout
from .event import Record
from .monitor import Monitor, entered
from .ring import INDEXES, CompletionRing
from .wait import Waiting

if TYPE_CHECKING:
    from .device import Device
    from .graph.graph import Graph
    from .queue import Queue
    from .stream import Stream

__all__ = ["Context", "release"]

COMPLETIONS = 6
"""Entries of the completion ring, as a power of two."""


class Context:
    """A context of the device, with the streams that belong to it.

    Attributes
    ----------
    device: the device.
    context: number of the context.
    streams: its streams that are not closed.
    stranded: records that will never happen, whose slots streams may still wait for.
    functions: functions of the host that its streams call.
    graphs: its graphs that are not closed.
    """

    def __init__(self, device: Device, context: int) -> None:
        self.device = device
        self.context = context
        self.streams: list[Stream] = []
        self.stranded: list[Record] = []
        self.functions = Functions(device, context)
        self.graphs: list[Graph] = []
        self.graph_numbers = itertools.count(1)
        self.closed = False
        self._fault: FaultRecord | None = None
        self._reported = False

    def open_context(self, ring: int) -> None:
        """Starts completions, at that address, and interrupts."""
        driver = self.device.driver
        self._ring = CompletionRing(driver.transport, ring, COMPLETIONS)
        self._acknowledged = 0
        driver.write(
            CompletionBase(address=ring), CompletionConfig(size=COMPLETIONS),
            CompletionCommand(restart=1), FaultClear(clear=1), InterruptStatus(**EVERY_CAUSE),
            InterruptEnable(**EVERY_CAUSE), index=self.context,
        )  # fmt: skip

    # ----------------------------------------------------------------------------------- waiting

    @entered
    def wait_until(
        self,
        ready: Callable[[], bool],
        timeout: int | None,
        describe: Callable[[], str],
        code: int = WaitTimeout.STREAM,
        *,
        streams: Sequence[Queue] | None = None,
        despite_fault: bool = False,
    ) -> None:
        """Lets the device run until `ready()`. The session's fault ends the wait.

        Without a timeout, patience starts anew as long as tasks end. The wait gives up sooner
        when nothing can happen any more on the device: it finds that out after twice `QUIET`
        cycles, or `SLICE` if several threads use it. Then each thread that waits raises why: at
        once if no thread is at work, else when none has changed anything for
        `Device.host_patience` seconds, in which no time passes on the device.

        streams: whose tasks are waited for; by default any of the session's.
        despite_fault: for what the device does by itself in any case, as the end of an abort.
        """
        for stream in self.streams:
            stream.commit()
        waited = tuple(self.streams if streams is None else streams)
        Waiting(self, ready, timeout, describe, code, waited, despite_fault).run()

    @entered
    def poll(self) -> None:
        """Looks once at what the device has achieved; raises the session's fault."""
        self.check()
        for stream in self.streams:
            stream.commit()
        self.device.service()
        self.collect()
        self.raise_fault()

    def interrupted(self, causes: InterruptStatus) -> list[Request]:
        """The context has interrupted for these causes, which are cleared.

        Returns the functions of the host that it asks for, which are not started yet.
        """
        self.collect()
        if causes.fault:
            self._inspect(None)
        return self.functions.asked(self.streams) if causes.callback else []

    def collect(self) -> None:
        """Takes the completion entries that are in host memory.

        One of a task that is not pending any more, as it was dropped, is no new fault. The
        device is told each time when half of the ring was taken, so always when it is full.
        """
        by_number = {stream.number: stream for stream in self.streams}
        for entry in self._ring.take():
            stream = by_number.get(entry.stream)
            pending = stream is not None and stream.completed(entry)
            if pending and entry.status not in (FaultCause.NONE, FaultCause.ABORTED):
                self._inspect(entry)
        if self._ring.head - self._acknowledged >= self._ring.entries // 2:
            self._acknowledged = self._ring.head
            head = CompletionHead(head=self._ring.head % INDEXES)
            self.device.driver.write(head, index=self.context)
        if self.stranded:
            self.release_waiters()

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.device.monitor

    def check(self) -> None:
        """Raises if it is closed."""
        if self.closed:
            raise NoContext("the session is closed; open a new one with device.session()")

    def ended(self) -> int:
        """How many tasks of its open streams are known to have ended."""
        return sum(stream.ended for stream in self.streams)

    def describe(self) -> str:
        """What its streams are doing."""
        return "; ".join(stream.describe() for stream in self.streams) or "no stream"

    # ------------------------------------------------------------------------------------ faults

    @property
    def failed(self) -> bool:
        """A fault is known."""
        return self._fault is not None

    def raise_fault(self) -> None:
        """Raises the session's fault, if there is one."""
        if self._fault is not None:
            self._reported = True
            fault = DeviceFault(
                self._fault, "call session.recover() or close the session",
                self.named(self._fault.task_id),
            )  # fmt: skip
            raise fault from self.functions.errors.get(self._fault.task_id)

    def _inspect(self, entry: Completion | None) -> None:
        """Takes over the first fault, and which streams it stopped."""
        driver = self.device.driver
        if self._fault is None:
            self._fault = driver.fault(self.context)
        if self._fault is None and entry is not None:
            self._fault = self.fault_of(entry)
        for stream in self.streams:
            stream.stopped |= driver.stream_state(stream.number) is StreamState.STOPPED

    def fault_of(self, entry: Completion) -> FaultRecord:
        """What a completion entry tells, in the device's own words if it was the first fault."""
        driver = self.device.driver
        known = driver.fault(self.context)
        if known and (known.stream, known.task_id) == (entry.stream, entry.task_id):
            return known
        return FaultRecord(
            cause=entry.status, engine=driver.engine_name(entry.engine),
            stream=entry.stream, task_id=entry.task_id, context=self.context, address=0,
            access="read", start_pc=0, pc=0, instruction=0, state=0, timestamp=entry.end,
        )  # fmt: skip

    def named(self, number: int) -> str:
        """What a task with that number is called in its graph; nothing if it is in none."""
        return next(filter(None, (graph.named(number) for graph in self.graphs)), "")

    def title(self, number: int) -> str:
        """A number of a task, and what that is called in its graph."""
        name = self.named(number)
        return f"{number} ({name})" if name else str(number)

    @entered
    def recover(self) -> None:
        """Forgets the fault. Every stream is aborted: what was pending does not run.

        The completion ring begins anew, as a write of it that failed may have landed in part.
        """
        self.check()
        self.cease()
        for stream in self.streams:
            stream.halt()
        self.settle_all()
        self.open_context(self._ring.base)
        self._fault, self._reported = None, False
        self.functions.errors.clear()
        for stream in self.streams:
            stream.start()

    def cease(self) -> None:
        """Orders every stream to stop, before the end of any abort is waited for.

        The one with the latest tasks comes first, so that no barrier passes as what it waits for
        is dropped, and nothing goes on behind it.
        """
        def oldest(stream: Queue) -> int:
            return stream.pending[0].id if stream.pending else 0

        for stream in sorted(self.streams, key=oldest, reverse=True):
            stream.cease()

    def release_waiters(self) -> None:
        """Those go on who wait for records that an abort has dropped.

        But not before older records of the same slot are over, which that would release, too:
        replays of a graph that pend at once share its slots.
        """
        def oldest() -> Record | None:
            return next(
                (r for r in self.stranded if r.abandoned and r.slot.records[0] is r), None
            )

        while (record := oldest()) is not None:
            self.device.driver.write(EventRecord(**record.word.as_dict()))
            self.settle(record)

    def settle(self, record: Record) -> None:
        """Nobody waits for a stranded record any more."""
        self.stranded.remove(record)
        self.device.events.retire(record)

    def settle_all(self) -> None:
        """No stream waits for anything any more."""
        for record in tuple(self.stranded):
            self.settle(record)


def release(driver: Driver, context: int) -> None:
    """Ends completions, interrupts and every right of a context, whoever has used it."""
    driver.mute(context)
    driver.write(
        CompletionConfig(), CompletionCommand(restart=1), FaultClear(clear=1), index=context
    )
    for number in range(driver.config.windows):
        driver.close_window(context, number)
