"""The hardware side of a session: completions, interrupts, waiting and faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hw.regs.descriptor import Completion
from hw.regs.fault import FaultCause
from hw.regs.registers import (
    CompletionBase,
    CompletionCommand,
    CompletionConfig,
    CompletionHead,
    EngineStatus,
    FaultClear,
    InterruptEnable,
    InterruptStatus,
    StreamState,
    StreamWait,
)

from .driver import EVERY_CAUSE, Driver
from .errors import DeviceFault, FaultRecord, NoContext, WaitTimeout
from .event import Record
from .ring import INDEXES, CompletionRing
from .transport import Reason

if TYPE_CHECKING:
    from .device import Device
    from .stream import Stream

__all__ = ["Context", "release"]

COMPLETIONS = 6
"""Entries of the completion ring, as a power of two."""
QUIET = 50_000
"""Cycles without an interrupt after which a wait looks whether anything still runs."""


class Context:
    """A context of the device, with the streams that belong to it.

    Attributes
    ----------
    device: the device.
    context: number of the context.
    streams: its streams that are not closed.
    stranded: records that will never happen, whose slots streams may still wait for.
    """

    def __init__(self, device: Device, context: int) -> None:
        self.device = device
        self.context = context
        self.streams: list[Stream] = []
        self.stranded: list[Record] = []
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

    def wait_until(
        self,
        ready: Callable[[], bool],
        timeout: int | None,
        describe: Callable[[], str],
        code: int = WaitTimeout.STREAM,
        *,
        despite_fault: bool = False,
    ) -> None:
        """Lets the device run until `ready()`. The session's fault ends the wait.

        Without a timeout, patience starts anew as long as tasks end, and the wait gives up
        sooner, after `QUIET` cycles, when the device has nothing left that could end.
        """
        transport = self.device.driver.transport
        for stream in self.streams:
            stream.commit()
        start, limit = transport.now(), self.device.patience if timeout is None else timeout
        ended = self.ended()
        still: int | None = None  # tasks that had ended when no engine had one
        while True:
            self.collect()
            if ready():
                return
            if not despite_fault:
                self.raise_fault()
            now = transport.now()
            if now - start >= limit:
                before, ended = ended, sum(stream.device_ended() for stream in self.streams)
                if timeout is not None or ended == before:
                    waited = f"waited {now - start} cycles (limit {limit}) for"
                    raise WaitTimeout(f"{waited} {describe()}; allow more with timeout=", code)
                start = now
            slice_end = start + limit if timeout is not None else min(start + limit, now + QUIET)
            stop = transport.run_until(interrupt=True, cycle=slice_end)
            if stop.reason is Reason.INTERRUPT:
                self.device.service()
                still = None
            elif timeout is None and slice_end < start + limit:
                last, still = still, self._still()
                if still is not None and still == last:
                    raise WaitTimeout(
                        f"nothing runs on the device, and nothing can: waited "
                        f"{transport.now() - start} cycles for {describe()}; abort the streams "
                        "that wait, or close the session",
                        code,
                    )

    def _still(self) -> int | None:
        """How many tasks have ended if no engine has one in work, else None."""
        if self.device.driver.read(EngineStatus).busy:
            return None
        return sum(stream.device_ended() for stream in self.streams)

    def poll(self) -> None:
        """Looks once at what the device has achieved; raises the session's fault."""
        self.check()
        for stream in self.streams:
            stream.commit()
        self.device.service()
        self.collect()
        self.raise_fault()

    def interrupted(self, causes: InterruptStatus) -> None:
        """The context has interrupted for these causes, which are cleared."""
        self.collect()
        if causes.fault:
            self._inspect(None)

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

    def recorder(self, wait: StreamWait) -> str | None:
        """The stream that has pending records in an event slot, and what it is doing."""
        for stream in self.streams:
            if stream.records(wait.slot, wait.generation):
                return f"{stream} records ({stream.describe_task()})"
        return None

    # ------------------------------------------------------------------------------------ faults

    @property
    def failed(self) -> bool:
        """A fault is known."""
        return self._fault is not None

    def raise_fault(self) -> None:
        """Raises the session's fault, if there is one."""
        if self._fault is not None:
            self._reported = True
            raise DeviceFault(self._fault, "call session.recover() or close the session")

    def _inspect(self, entry: Completion | None) -> None:
        """Takes over the first fault, and which streams it stopped."""
        driver = self.device.driver
        if self._fault is None:
            self._fault = driver.fault(self.context)
        if self._fault is None and entry is not None:
            self._fault = FaultRecord(
                cause=entry.status, engine=driver.engine_name(entry.engine),
                stream=entry.stream, task_id=entry.task_id, context=self.context, address=0,
                access="read", start_pc=0, pc=0, instruction=0, state=0, timestamp=entry.end,
            )  # fmt: skip
        for stream in self.streams:
            stream.stopped |= driver.stream_state(stream.number) is StreamState.STOPPED

    def recover(self) -> None:
        """Forgets the fault. Every stream is aborted: what was pending does not run.

        The completion ring begins anew, as a write of it that failed may have landed in part.
        """
        self.check()
        for stream in self.streams:
            stream.halt()
        self.settle_all()
        self.open_context(self._ring.base)
        self._fault, self._reported = None, False
        for stream in self.streams:
            stream.start()

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
