"""Graphs: tasks that are built once and replayed by a call for each stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from hw.regs.descriptor import Arguments, CopyPayload, Sqe, TaskType

from ..errors import InvalidHandle, InvalidParameter, WrongContext
from ..event import GENERATIONS
from ..finish import finish
from ..launch import Launch
from ..memory import Allocation, Buffer
from ..monitor import Monitor, entered
from ..task import Resource, Task, TaskState
from .dag import plan
from .desc import Node
from .image import Image
from .replay import Call, Renewal, Replay

if TYPE_CHECKING:
    from ..session import Session
    from ..stream import Stream

__all__ = ["Graph"]

WORDS = Sqe.event_deps.count


class Graph:
    """Tasks in device memory, to be run again and again. Made by `Session.graph` or
    `Stream.capture`.

    Attributes
    ----------
    session: the session it belongs to.
    name: what errors call it.
    closed: it was closed.
    """

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = name or f"graph {next(session.graph_numbers)}"
        self.closed = False
        self._nodes: dict[int, Node] = {}
        self._names: dict[int, str] = {}
        self._streams: tuple[Stream, ...] = ()
        self._image: Image | None = None
        self._memory: Allocation | None = None
        self._count = 0
        self._changes = 0  # updates and replays so far
        self._stale: set[int] = set()  # tasks whose new arguments are not in the image
        self._pending: list[Call] = []  # and such as have ended since

    def build(
        self,
        nodes: dict[int, Node],
        lanes: Sequence[Sequence[int]],
        streams: Sequence[Stream] = (),
    ) -> None:
        """Lays the tasks down in device memory, and waits until they are there.

        lanes: the tasks of each stream. streams: those that it is replayed on by default.
        The nodes belong to the graph, also if that fails.
        """
        session = self.session
        with ExitStack() as undo:
            for node in nodes.values():
                undo.callback(node.release)
            deps = {task_id: node.deps for task_id, node in nodes.items()}
            slots = []
            for _ in lanes:
                slots.append(session.device.events.hold())
                undo.callback(session.device.events.release, slots[-1])
            image = Image(plan(deps, lanes), nodes, slots, session.device.task_id)
            memory = session.device_memory(image.size, Image.ALIGNMENT)
            undo.callback(memory.free)
            image.address = memory.address
            raw = np.frombuffer(image.to_bytes(), np.uint8)
            session.store(Buffer(session, memory, 0, raw.shape, raw.dtype, True), raw)
            undo.pop_all()
        self._nodes, self._image, self._memory = nodes, image, memory
        self._names = {number: name for part in image.parts for number, name in part.names.items()}
        self._streams = tuple(streams)
        self._fork = session.event()
        self._ends = [session.event() for _ in image.parts]  # of the last replay
        session.graphs.append(self)

    # --------------------------------------------------------------------------------- contents

    @property
    def streams(self) -> int:
        """How many streams a replay takes."""
        return len(self._ends) if self._image else 0

    @property
    def task_ids(self) -> tuple[int, ...]:
        """The tasks."""
        return tuple(self._nodes)

    def named(self, number: int) -> str:
        """What a task with that number on the device is here, or nothing."""
        name = self._names.get(number)
        return f"{name} of {self}" if name else ""

    def profiled(self, task_id: int) -> int:
        """The number on the device of a task that is measured; raises for others."""
        node = self._node(task_id)
        if not node.sqe.counters:
            raise InvalidParameter(
                f"task {task_id} is in {self} without profile=True; build the graph with it"
            )
        return node.number

    def _node(self, task_id: int) -> Node:
        if task_id not in self._nodes:
            raise InvalidParameter(
                f"{self} has no task {task_id}; it has {', '.join(map(str, self._nodes))}"
            )
        return self._nodes[task_id]

    @entered
    def update(
        self,
        task_id: int,
        *,
        inputs: Sequence[Buffer] | None = None,
        outputs: Sequence[Buffer] | None = None,
        scalars: Sequence[int] | None = None,
    ) -> None:
        """Gives a kernel of the graph other arguments, from the next replay on.

        What is not given stays as it is. Replays that were submitted before are not concerned.
        They are copied by the stream of that replay: if it is aborted before, replays of other
        streams that are already submitted still run with the former ones.
        """
        self.check()
        node = self._node(task_id)
        if node.launch is None:
            raise InvalidParameter(
                f"task {task_id} of {self} is no kernel; only arguments of kernels can be updated"
            )
        old = node.launch
        launch = Launch(
            old.kernel,
            old.inputs if inputs is None else inputs,
            old.outputs if outputs is None else outputs,
            old.scalars if scalars is None else scalars,
        )
        launch.check(self.session)
        for resource in launch.uses:
            resource.acquire()
        node.release()
        node.launch, node.uses = launch, launch.uses
        self._stale.add(task_id)
        self._changes += 1

    # ---------------------------------------------------------------------------------- replays

    @entered
    def replay(self, stream: Stream, *others: Stream) -> Replay:
        """See `Stream.replay`."""
        self.check()
        streams = self._carriers(stream, others)
        cell: Allocation | None = None
        try:
            with ExitStack() as batches:
                for each in streams:
                    batches.enter_context(each.batch())
                self._mend(stream)
                while True:
                    seen, cell = self._changes, self._staged()
                    self._make_room(streams)
                    self._check_streams(streams)
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
        if any(call.state in (TaskState.DROPPED, TaskState.FAILED) for call in self._pending):
            left = {call.stream: None for call in self._pending if not call.state.over}
            for stream in self.session.streams:
                if stream in left:
                    origin.wait(stream)

    def _carriers(self, origin: Stream, others: Sequence[Stream]) -> list[Stream]:
        """The streams that run the parts, the first on the stream that replays."""
        if not others:
            others = [s for s in self._streams if s is not origin and not s.closed]
        streams = [origin, *others][: self.streams]
        if len(streams) < self.streams:
            raise InvalidParameter(
                f"{self} takes {self.streams} streams and {len(streams)} were given; "
                "give more, or build it with a smaller streams="
            )
        for place, stream in enumerate(streams):
            if stream.session is not self.session:
                raise WrongContext(f"{stream} belongs to another session than {self}")
            if stream in streams[:place]:
                raise InvalidParameter(f"{stream} was given twice; {self} takes different streams")
        self._check_streams(streams)
        return streams

    def _check_streams(self, streams: Sequence[Stream]) -> None:
        """Raises unless it can be replayed on them."""
        self.check()
        for stream in streams:
            stream.check()
            stream.refuse_capture(f"replay {self}")

    def _staged(self) -> Allocation | None:
        """Host memory with the argument blocks from the first to the last stale one."""
        if not self._stale:
            return None
        assert self._image is not None
        first, size = self._span()
        cell, raw = self.session.host_memory(size), bytearray(size)
        for task_id, node in self._nodes.items():
            place = self._image.block(task_id) - first
            if node.launch is not None and 0 <= place < len(raw):
                raw[place : place + Arguments.BYTES] = node.launch.arguments.to_bytes()
        self.session.device.driver.transport.write_host(cell.address, bytes(raw))
        return cell

    def _span(self) -> tuple[int, int]:
        """Offset and size of the stale argument blocks, with what lies between."""
        assert self._image is not None
        places = [self._image.block(task_id) for task_id in self._stale]
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
            self.session.device.events.require(1)

    def _submit(self, streams: Sequence[Stream], cell: Allocation | None) -> Replay:
        assert self._image is not None
        assert self._memory is not None
        session, (origin, *others) = self.session, streams
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
        epoch = self._count * self._image.stride % GENERATIONS
        uses: dict[Resource, None] = {self._memory: None}
        for node in self._nodes.values():
            uses.update(dict.fromkeys(node.uses))
        calls = []
        for stream, part, end in zip(streams, self._image.parts, self._ends, strict=True):
            number = session.device.task_id()
            call = Call(stream, number, self._image, part, epoch, tuple(uses))
            stream.submit(call, call.sqe)
            end.record = call.end_record
            calls.append(call)
        for end in self._ends[1:]:
            origin.wait(end)
        self._count += 1
        self._changes += 1
        self._pending = [call for call in self._pending if not call.state.over] + calls
        return Replay(self, self._count - 1, calls)

    def _renew(self, origin: Stream, cell: Allocation) -> None:
        """Copies new argument blocks to the image.

        A list is read ahead as soon as its call is the next task of its ring. So the call stands
        behind an entry that cannot be taken before the copy has ended.
        """
        first, size = self._span()
        assert self._memory is not None
        payload = CopyPayload(
            source=cell.address, destination=self._memory.address + first, row_bytes=size
        )
        task_id = self.session.device.task_id
        lost = partial(self._lose, frozenset(self._stale))
        copy = Renewal(origin, task_id(), self._memory, cell, lost)
        origin.submit_copy(payload, copy, False, False)
        origin.submit(Task(origin, task_id()), Sqe(type=TaskType.NOP))
        self._stale.clear()

    def _lose(self, stale: frozenset[int]) -> None:
        """A copy of these argument blocks was dropped: the next replay makes another."""
        self._stale |= stale
        self._changes += 1

    # ------------------------------------------------------------------------------ end of life

    @entered
    def close(self) -> None:
        """Waits until no replay is pending, and gives back what the graph has taken.

        After a fault it does not wait: then the device keeps it until `Session.recover`.
        """
        if self.closed:
            return
        try:
            if not self.session.failed:
                self.session.wait_until(
                    lambda: all(call.state.over for call in self._pending), None,
                    lambda: f"replays of {self}: {self.session.describe()}",
                    streams=list({call.stream for call in self._pending}),
                )  # fmt: skip
        finally:
            self.discard()

    def discard(self) -> None:
        """Gives back what it has taken as soon as no replay is pending. Does not wait."""
        if self.closed:
            return
        self.closed = True
        if self._image is not None and self._memory is not None:
            events = self.session.device.events
            slots = [part.slot for part in self._image.parts]
            self.session.graphs.remove(self)
            finish(
                *(node.release for node in self._nodes.values()), self._memory.free,
                *(partial(events.release, slot) for slot in slots),
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and not self.session.closed:
            self.close()
        else:
            with self.monitor:
                self.discard()

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    def check(self) -> None:
        """Raises unless it can be replayed."""
        self.session.check()
        if self.closed:
            raise InvalidHandle(f"{self} is closed; build it again")
        if self._image is None:
            raise InvalidHandle(f"{self} is not built; leave the block that captures it first")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self}>"
