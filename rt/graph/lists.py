"""The lists of a graph in device memory: how they are called, and get other arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from hw.regs.descriptor import Arguments, CopyPayload, Sqe, TaskType

from ..event import GENERATIONS
from ..memory import Allocation
from ..task import Resource, Task, TaskState
from .desc import Node
from .image import Image
from .replay import Call, Renewal

if TYPE_CHECKING:
    from ..session import Session
    from ..stream import Stream

__all__ = ["Lists"]

WORDS = Sqe.event_deps.count


class Lists:
    """The lists of a graph, in device memory.

    Parameters
    ----------
    session: the session of the graph.
    image: what lies in memory, with the event slots that it holds.
    memory: where it lies.
    nodes: the tasks by their number within the graph.

    Attributes
    ----------
    count: how often they were called.
    """

    def __init__(
        self, session: Session, image: Image, memory: Allocation, nodes: Mapping[int, Node]
    ) -> None:
        self.image = image
        self.count = 0
        self._session = session
        self._memory = memory
        self._nodes = nodes
        self._changes = 0  # renewals and calls so far
        self._stale: set[int] = set()  # tasks whose new arguments are not in the image
        self._calls: list[Call] = []  # that are pending, or have ended since the last replay
        self._fork = session.event()
        self._ends = [session.event() for _ in image.parts]  # of the last replay

    def left(self) -> list[Stream]:
        """The streams on which calls are pending."""
        left = {call.stream for call in self._calls if not call.state.over}
        return [stream for stream in self._session.streams if stream in left]

    def renew(self, task_id: int) -> None:
        """The arguments of a task have changed."""
        self._stale.add(task_id)
        self._changes += 1

    def release(self) -> None:
        """Gives the memory and the event slots back as soon as no call is pending."""
        self._memory.free()
        for part in self.image.parts:
            self._session.device.events.release(part.slot)
        self._changes += 1

    def call(self, streams: Sequence[Stream], check: Callable[[], None]) -> list[Call]:
        """Calls each on its stream, the first on that which replays.

        check: raises if that is not possible any more, after others had the device.
        """
        cell: Allocation | None = None
        try:
            with ExitStack() as batches:
                for each in streams:
                    batches.enter_context(each.batch())
                self._mend(streams[0])
                while True:
                    seen, cell = self._changes, self._staged()
                    self._make_room(streams)
                    check()
                    if seen == self._changes:
                        return self._submit(streams, cell)
                    if cell is not None:  # another thread has changed the graph meanwhile
                        cell.free()
        except BaseException:
            if cell is not None and not cell.freed:
                cell.free()
            raise

    def _mend(self, origin: Stream) -> None:
        """Waits for all that is left of replays of which a part has failed or was dropped.

        Their order is lost: another part may still run when the ends of the last have passed.
        """
        if any(call.state in (TaskState.DROPPED, TaskState.FAILED) for call in self._calls):
            for stream in self.left():
                origin.wait(stream)

    def _staged(self) -> Allocation | None:
        """Host memory with the argument blocks from the first to the last stale one."""
        if not self._stale:
            return None
        first, size = self._span()
        cell, raw = self._session.host_memory(size), bytearray(size)
        for task_id, node in self._nodes.items():
            place = self.image.block(task_id) - first
            if node.launch is not None and 0 <= place < len(raw):
                raw[place : place + Arguments.BYTES] = node.launch.arguments.to_bytes()
        self._session.device.driver.transport.write_host(cell.address, bytes(raw))
        return cell

    def _span(self) -> tuple[int, int]:
        """Offset and size of the stale argument blocks, with what lies between."""
        places = [self.image.block(task_id) for task_id in self._stale]
        return min(places), max(places) - min(places) + Arguments.BYTES

    def _make_room(self, streams: Sequence[Stream]) -> None:
        """Waits until the rings take all the entries of a replay; raises unless slots are free.

        So that what follows needs not wait, and a replay is submitted as a whole or not at all.
        """
        while True:
            origin, *others = streams
            earlier = sum(origin.must_wait(end) for end in self._ends)
            fresh = bool(self._stale)
            before = origin.waits_take(earlier) + (2 if fresh else bool(others))
            needs = {origin: before + 1 + max(0, len(others) - 1) // WORDS}
            for other in others:
                needs[other] = other.waits_take(1) + fresh + 1
            short = next((each for each in streams if each.room < needs[each]), None)
            if short is None:
                break
            short.prepare(needs[short])
        if others and origin.takes_slot(self._fork):
            self._session.device.events.require(1)

    def _submit(self, streams: Sequence[Stream], cell: Allocation | None) -> list[Call]:
        session, (origin, *others) = self._session, streams
        for end in self._ends:
            origin.wait(end)
        if cell is not None:
            self._renew(origin, cell)
        if others and not origin.idle:
            origin.record(self._fork)
            for other in others:
                other.wait(self._fork)
                if cell is not None:
                    other.submit_waits()
        epoch = self.count * self.image.stride % GENERATIONS
        uses: dict[Resource, None] = {self._memory: None}
        for node in self._nodes.values():
            uses.update(dict.fromkeys(node.uses))
        calls = []
        for stream, part, end in zip(streams, self.image.parts, self._ends, strict=True):
            number = session.device.task_id()
            call = Call(stream, number, self.image, part, epoch, tuple(uses))
            stream.submit(call, call.sqe)
            end.record = call.end_record
            calls.append(call)
        for end in self._ends[1:]:
            origin.wait(end)
        self.count += 1
        self._changes += 1
        self._calls = [call for call in self._calls if not call.state.over] + calls
        return calls

    def _renew(self, origin: Stream, cell: Allocation) -> None:
        """Copies new argument blocks to the image.

        A list is read ahead as soon as its call is the next task of its ring. So the call stands
        behind an entry that cannot be taken before the copy has ended.
        """
        first, size = self._span()
        payload = CopyPayload(
            source=cell.address, destination=self._memory.address + first, row_bytes=size
        )
        task_id = self._session.device.task_id
        lost = partial(self._lose, frozenset(self._stale))
        copy = Renewal(origin, task_id(), self._memory, cell, lost)
        origin.submit_copy(payload, copy, False, False)
        origin.submit(Task(origin, task_id()), Sqe(type=TaskType.NOP))
        self._stale.clear()

    def _lose(self, stale: frozenset[int]) -> None:
        """A copy of these argument blocks was dropped: the next replay makes another."""
        self._stale |= stale
        self._changes += 1
