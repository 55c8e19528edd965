"""Events: points in time of a stream that other streams and the host wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hw.regs.descriptor import EventWord, TimedRecord
from hw.regs.registers import EventSelect, EventTime, EventValue

from .driver import Driver
from .errors import NoEvent, NoTimestamp, StreamAborted, WaitTimeout
from .memory import Allocation
from .monitor import Monitor, entered

if TYPE_CHECKING:
    from .graph.capture import Point
    from .queue import Queue
    from .session import Session

__all__ = ["Event", "EventSlots", "Record", "Slot"]

GENERATIONS = 1 << EventWord.generation.width


@dataclass(eq=False)
class Slot:
    """A slot of the event unit: records of one stream only, until they have all retired."""

    number: int
    generation: int | None = None
    """Last one given to a record; None before the first use by this driver."""
    stream: Queue | None = None
    pending: int = 0
    records: list[Record] = field(default_factory=list)
    """Those that are pending, oldest first."""

    def add(self, generation: int, stream: Queue) -> Record:
        """A record of that generation, later than all that are pending."""
        self.generation = generation
        self.pending += 1
        self.records.append(Record(self, generation, stream))
        return self.records[-1]


@dataclass(eq=False)
class Record:
    """One recording of an event: what a wait copies."""

    slot: Slot
    generation: int
    stream: Queue
    cell: Allocation | None = None
    """Where the device writes the time."""
    done: bool = False
    dropped: bool = False
    """An abort dropped it: it counts as passed, but what was before it did not all run."""
    abandoned: bool = False
    """That abort has ended: the host may let those go on who wait for it."""
    time: int | None = None

    @property
    def word(self) -> EventWord:
        return EventWord(slot=self.slot.number, generation=self.generation)

    def __str__(self) -> str:
        return f"event slot {self.slot.number} generation {self.generation}"


@dataclass(eq=False)
class EventSlots:
    """The slots of a device, shared by its sessions. A slot is in use while records pend.

    `collect` takes what the device has completed, for every session.
    """

    driver: Driver
    collect: Callable[[], None]
    free: deque[Slot] = field(init=False)

    def __post_init__(self) -> None:
        self.free = deque(Slot(number) for number in range(self.driver.config.events))

    def take(self) -> Slot:
        """The slot that has been free for longest, or `NoEvent`."""
        if not self.free:
            self.collect()
        if not self.free:
            raise NoEvent(
                f"all {self.driver.config.events} event slots have pending records; "
                "synchronise a stream that records, or record fewer events at once"
            )
        slot = self.free[0]
        if slot.generation is None:
            self.driver.write(EventSelect(slot=slot.number))
            slot.generation = self.driver.read(EventValue).generation
        return self.free.popleft()

    def require(self, count: int) -> None:
        """Raises `NoEvent` unless so many slots are free."""
        if len(self.free) < count:
            self.collect()
        if len(self.free) < count:
            raise NoEvent(
                f"{count} of the {self.driver.config.events} event slots must be free, and "
                f"{len(self.free)} are; synchronise a stream that records, or close a graph"
            )

    def hold(self) -> Slot:
        """A slot that is in use until `release`."""
        slot = self.take()
        slot.pending += 1
        return slot

    def release(self, slot: Slot) -> None:
        """One of those who use the slot does not any more."""
        slot.pending -= 1
        if not slot.pending:
            slot.stream = None
            self.free.append(slot)

    def record(self, slot: Slot, stream: Queue) -> Record:
        """The next generation of a slot, for `stream`."""
        assert slot.generation is not None
        assert not slot.pending or slot.stream is stream
        slot.stream = stream
        return slot.add((slot.generation + 1) % GENERATIONS, stream)

    def retire(self, record: Record) -> None:
        """A record has passed the device, or never will."""
        record.done = True
        record.slot.records.remove(record)
        self.release(record.slot)


class Event:
    """An event in the recommended mode of the ACL runtime. Made by `Session.event`.

    `Stream.record` captures the work submitted so far; `Stream.wait`, `query` and `synchronise`
    mean the latest record at the time of the call and ignore later ones. On an event that was
    never recorded they pass at once.

    Attributes
    ----------
    session: the session it belongs to.
    timing: the device writes the cycle of each record to memory.
    """

    def __init__(self, session: Session, timing: bool) -> None:
        self.session = session
        self.timing = timing
        self.point: Point | None = None
        """The latest record, if that was in a capture."""
        self._record: Record | None = None

    @property
    def record(self) -> Record | None:
        """The latest record outside of captures."""
        return self._record

    @record.setter
    def record(self, record: Record) -> None:
        self._record, self.point = record, None

    def _check_point(self) -> None:
        """Raises if it was recorded in a capture."""
        if self.point is not None:
            self.point.capture.refuse_event()

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    @entered
    def query(self) -> bool:
        """Whether the latest record has passed. Raises what failed in the session."""
        self._check_point()
        self.session.poll()
        return self.record is None or self.record.done

    @entered
    def synchronise(self, timeout: int | None = None) -> None:
        """Waits until the latest record has passed. `timeout` as in `Stream.synchronise`."""
        self.session.check()
        self._check_point()
        record = self.record
        if record is None:
            return
        self.session.wait_until(
            lambda: record.done,
            timeout,
            lambda: f"{record}, which {record.stream} records: {record.stream.describe()}",
            WaitTimeout.EVENT,
            streams=(record.stream,),
        )
        if record.dropped:
            raise StreamAborted(f"{record} was dropped when {record.stream} was aborted")

    @property
    @entered
    def cycle(self) -> int:
        """The cycle of the latest record.

        Without `timing` it is the event unit's, which keeps it until the slot is used again;
        `NoTimestamp` when it is lost, and when the latest record has not passed.
        """
        self.session.check()
        self._check_point()
        record = self.record
        if record is None or not record.done or record.dropped:
            raise NoTimestamp(
                "the event has not been recorded yet; record it and synchronise before its time "
                "is read"
            )
        if record.time is None:
            read_slot(self.session.device.driver, record)
        assert record.time is not None
        return record.time

    @entered
    def elapsed(self, other: Event) -> int:
        """Cycles from this event to `other`, from the device's timestamps."""
        for event in (self, other):
            if not event.timing:
                raise NoTimestamp("the event was made without timing; use event(timing=True)")
        return other.cycle - self.cycle


def read_slot(driver: Driver, record: Record) -> None:
    """Takes over the time that the event unit keeps, if it is still that of the record."""
    driver.write(EventSelect(slot=record.slot.number))
    stored = driver.read(EventValue).generation
    time = driver.read(EventTime).timestamp
    if stored != record.generation:
        raise NoTimestamp(
            f"{record} was recorded again as generation {stored}; make the event with "
            "timing=True to keep its times"
        )
    record.time = time


def read_time(session: Session, record: Record) -> None:
    """Takes over the time that the device wrote for a record."""
    assert record.cell is not None
    raw = session.device.driver.transport.read_host(record.cell.address, TimedRecord.BYTES)
    written = TimedRecord.from_bytes(raw)
    if written.generation == record.generation:
        record.time = written.timestamp
