"""Who waits for whom: why streams cannot go on, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hw.regs.descriptor import (
    Comparison,
    CopyPayload,
    EventWord,
    NotifyOperation,
    NotifyPayload,
    Sqe,
    TaskType,
    TimedRecord,
    ValuePayload,
)
from hw.regs.registers import (
    StreamEntry,
    StreamState,
    StreamStatus,
    StreamWait,
    Wait,
)

if TYPE_CHECKING:
    from .context import Context
    from .queue import Queue
    from .task import Task

__all__ = ["Diagnosis"]

HALF = 1 << (EventWord.generation.width - 1)
VALUE_BITS = ValuePayload.value.width
VALUE_BYTES = VALUE_BITS // 8
WRITES = (TaskType.MEMCPY, TaskType.MEMSET)
NAMED = 3
"""Tasks that a message names where any of them would do."""


@dataclass(frozen=True)
class Source:
    """A pending entry that can bring about what a stream waits for."""

    stream: Queue
    task: Task
    sqe: Sqe


@dataclass(frozen=True)
class Condition:
    """One of the things that the head of a stream waits for."""

    text: str
    relation: str
    """Says what a source does: with places for its stream and its task."""
    sources: Sequence[Source]
    missing: str = ""
    """What is wrong if there is no source."""

    def __str__(self) -> str:
        named = [
            self.relation.format(source.stream, source.stream.session.title(source.sqe.task_id))
            for source in self.sources[:NAMED]
        ]
        more = ["other tasks, too"] if len(self.sources) > NAMED else []
        return f"{self.text}, {' or '.join(named + more) or self.missing}"


@dataclass(frozen=True)
class Blocked:
    """A stream that does not go on, with all that must happen first; with nothing: it never will.
    """

    stream: Queue
    task: int
    conditions: Sequence[Condition] = field(default=())

    def __str__(self) -> str:
        task = self.stream.session.title(self.task)
        if not self.conditions:
            return f"{self.stream} was stopped by a fault before task {task}"
        waits = " and for ".join(map(str, self.conditions))
        return f"{self.stream} waits in task {task} for {waits}"


class Diagnosis:
    """What the streams of a context wait for at this moment, and who could end that.

    It reads their registers, and knows what the runtime has submitted. A stream is stuck if it
    waits for something that no pending task can bring about, or only tasks of stuck streams.

    Attributes
    ----------
    blocked: streams that wait or are stopped, with why.
    stuck: those of them that cannot go on unless the host acts.
    expires: the device itself ends a wait after some time.
    """

    def __init__(self, context: Context) -> None:
        self._driver = context.device.driver
        self._pending: list[Source] = []
        self.blocked: dict[Queue, Blocked] = {}
        self.expires = False
        streams = tuple(context.streams)
        states = {stream: self._driver.stream_wait(stream.number) for stream in streams}
        for stream in streams:
            self._pending += self._left(stream, states[stream][0])
        for stream in streams:
            self._look(stream, *states[stream])
        self.stuck = self._stuck()

    def explain(self, streams: Sequence[Queue]) -> str | None:
        """Why these streams cannot all go on, or None if they can."""
        named: list[str] = []
        seen: list[Queue] = []
        rounds: list[str] = []

        def follow(stream: Queue, path: tuple[Queue, ...]) -> None:
            if stream in path:
                ring = (*path[path.index(stream) :], stream)
                rounds.append(f"{' → '.join(map(str, ring))} wait for each other")
            if stream in seen:
                return
            seen.append(stream)
            named.append(str(self.blocked[stream]))
            for condition in self.blocked[stream].conditions:
                for source in condition.sources:
                    if source.stream in self.stuck and not self._lives(condition):
                        follow(source.stream, (*path, stream))

        for stream in streams:
            if stream in self.stuck:
                follow(stream, ())
        return "; ".join(named + list(dict.fromkeys(rounds))) or None

    # --------------------------------------------------------------------------------- the graph

    def _stuck(self) -> set[Queue]:
        """The greatest set of blocked streams that only wait for each other, or for nothing."""
        self.stuck = set(self.blocked)
        while True:
            free = {
                stream for stream in self.stuck
                if self.blocked[stream].conditions
                and all(self._lives(condition) for condition in self.blocked[stream].conditions)
            }  # fmt: skip
            if not free:
                return self.stuck
            self.stuck -= free

    def _lives(self, condition: Condition) -> bool:
        """A stream that goes on can bring it about."""
        return any(source.stream not in self.stuck for source in condition.sources)

    def _left(self, stream: Queue, status: StreamStatus) -> Iterator[Source]:
        """The entries of a stream that have not retired."""
        retired = stream.device_ended() - stream.ended
        listed = self._driver.read(StreamEntry, stream.number).entry if status.called else 0
        for place, task in enumerate(stream.pending):
            if place < retired:
                continue
            for number, sqe in enumerate(task.entries):
                if not (place == retired and 0 < number <= listed):
                    yield Source(stream, task, sqe)

    def _look(self, stream: Queue, status: StreamStatus, task: int, wait: StreamWait) -> None:
        own = [source for source in self._pending if source.stream is stream]
        if status.state == StreamState.STOPPED and own:
            self.blocked[stream] = Blocked(stream, own[0].sqe.task_id)
        if status.running or status.state != StreamState.ACTIVE:
            return
        head = next((source for source in own if source.sqe.task_id == task), None)
        conditions = self._conditions(status, head, wait)
        if conditions:
            self.blocked[stream] = Blocked(stream, task, conditions)
            self.expires |= head is not None and head.sqe.timeout > 0 and waits(head.sqe)

    # -------------------------------------------------------------------------------- conditions

    def _conditions(
        self, status: StreamStatus, head: Source | None, wait: StreamWait
    ) -> list[Condition]:
        """All that the head of a stream waits for; nothing if that is a function of the host."""
        if status.waiting:
            if head is None:
                return [self._event(EventWord(slot=wait.slot, generation=wait.generation))]
            return [
                self._event(EventWord.from_int(word))
                for number, word in enumerate(head.sqe.event_deps) if status.waiting >> number & 1
            ]  # fmt: skip
        if head is None:
            return []
        match status.wait:
            case Wait.NOTIFY:
                return [self._notify(NotifyPayload.from_int(head.sqe.payload))]
            case Wait.VALUE:
                return [self._value(ValuePayload.from_int(head.sqe.payload))]
            case Wait.BARRIER:
                return list(self._barrier(head))
        return []

    def _event(self, word: EventWord) -> Condition:
        def records(sqe: Sqe) -> bool:
            record = EventWord.from_int(sqe.record_event)
            later = (record.generation - word.generation) % (2 * HALF)
            return bool(sqe.record) and record.slot == word.slot and later < HALF

        return Condition(
            f"event slot {word.slot} generation {word.generation}",
            "which {} records in task {}",
            [source for source in self._pending if records(source.sqe)],
            "which no stream of the session records",
        )

    def _notify(self, wait: NotifyPayload) -> Condition:
        found = greatest = self._driver.notify_value(wait.counter)
        added, sources = 0, []
        for source in self._pending:
            notify = NotifyPayload.from_int(source.sqe.payload)
            if source.sqe.type != TaskType.NOTIFY or notify.counter != wait.counter:
                continue
            if notify.operation == NotifyOperation.WAIT:
                continue
            sources.append(source)
            if notify.operation == NotifyOperation.SET:
                greatest = max(greatest, notify.amount)
            else:
                added += notify.amount
        missing = "and nobody adds to it: no pending NOTIFY names it"
        if sources and greatest + added < wait.amount:
            missing = f"and all that is pending makes it {greatest + added} at most"
            sources = []
        text = f"notify {wait.counter} to be at least {wait.amount} (it is {found})"
        return Condition(text, "which {} changes in task {}", sources, missing)

    def _value(self, wait: ValuePayload) -> Condition:
        meaning = {
            Comparison.NOT_LESS.value: "to be at least {}",
            Comparison.EQUAL.value: "to be {}",
            Comparison.AND.value: "to have a bit of 0x{:x}",
            Comparison.NOR.value: "to lack a bit beside 0x{:x}",
        }[wait.operation].format(wait.value)
        mask = f" under the mask 0x{wait.mask:08x}" if wait.mask else ""
        return Condition(
            f"the value at 0x{wait.address:010x} {meaning}{mask}",
            "which {} writes in task {}",
            [source for source in self._pending if satisfies(source, wait)],
            "and no pending task writes that",
        )

    def _barrier(self, head: Source) -> Iterator[Condition]:
        oldest: dict[Queue, Source] = {}
        for source in self._pending:
            oldest.setdefault(source.stream, source)
        for stream, source in oldest.items():
            if stream is not head.stream and source.task.id < head.task.id:
                yield Condition(
                    "all tasks that were submitted before it", "of which {} has task {}", [source]
                )


def waits(sqe: Sqe) -> bool:
    """Whether the timeout of an entry counts while it waits."""
    if sqe.type == TaskType.NOTIFY:
        return NotifyPayload.from_int(sqe.payload).operation == NotifyOperation.WAIT
    return sqe.type in (
        TaskType.EVENT_WAIT, TaskType.VALUE_WAIT, TaskType.HOST_CALLBACK, TaskType.BARRIER
    )  # fmt: skip


def satisfies(source: Source, wait: ValuePayload) -> bool:
    """Whether an entry writes what a VALUE_WAIT waits for, or may, if what it writes is unknown."""
    sqe = source.sqe
    if sqe.type in WRITES:
        copy = CopyPayload.from_int(sqe.payload)
        end = copy.destination + (copy.rows - 1) * copy.destination_pitch + copy.row_bytes
        return copy.destination < wait.address + VALUE_BYTES and wait.address < end
    if sqe.type == TaskType.KERNEL:
        return source.task.reaches(wait.address)
    value = ValuePayload.from_int(sqe.payload)
    if sqe.type == TaskType.EVENT_RECORD and sqe.option:
        return value.address <= wait.address < value.address + TimedRecord.BYTES
    written = sqe.type == TaskType.VALUE_WRITE and value.address == wait.address
    return written and compares(value.value, wait)


def compares(found: int, wait: ValuePayload) -> bool:
    """Whether a value in memory ends a VALUE_WAIT."""
    mask = wait.mask or (1 << VALUE_BITS) - 1
    found, wanted = found & mask, wait.value & mask
    return bool({
        Comparison.NOT_LESS.value: ~(found - wanted) >> (VALUE_BITS - 1) & 1,
        Comparison.EQUAL.value: found == wanted,
        Comparison.AND.value: found & wanted,
        Comparison.NOR.value: ~(found | wanted) & mask,
    }[wait.operation])
