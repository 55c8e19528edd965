"""Graphs: tasks that are built once and replayed by a call for each stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from ..errors import InvalidHandle, InvalidParameter, WrongContext
from ..finish import finish
from ..launch import Launch
from ..memory import Buffer
from ..monitor import Monitor, entered
from .dag import plan
from .desc import Node
from .image import Image
from .lists import Lists
from .replay import Replay

if TYPE_CHECKING:
    from ..session import Session
    from ..stream import Stream

__all__ = ["Graph"]


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
        self._lists: Lists | None = None

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
        self._nodes, self._lists = nodes, Lists(session, image, memory, nodes)
        self._names = {number: name for part in image.parts for number, name in part.names.items()}
        self._streams = tuple(streams)
        session.graphs.append(self)

    # --------------------------------------------------------------------------------- contents

    @property
    def streams(self) -> int:
        """How many streams a replay takes."""
        return len(self._lists.image.parts) if self._lists else 0

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
        lists, node = self._built(), self._node(task_id)
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
        lists.renew(task_id)

    # ---------------------------------------------------------------------------------- replays

    @entered
    def replay(self, stream: Stream, *others: Stream) -> Replay:
        """See `Stream.replay`."""
        lists = self._built()
        streams = self._carriers(stream, others)
        calls = lists.call(streams, partial(self._check_streams, streams))
        return Replay(self, lists.count - 1, calls)

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
        self._built()
        for stream in streams:
            stream.check()
            stream.refuse_capture(f"replay {self}")

    # ------------------------------------------------------------------------------ end of life

    @entered
    def close(self) -> None:
        """Waits until no replay is pending, and gives back what the graph has taken.

        After a fault it does not wait: then the device keeps it until `Session.recover`.
        """
        if self.closed:
            return
        lists = self._lists
        try:
            if lists is not None and not self.session.failed:
                self.session.wait_until(
                    lambda: not lists.left(), None,
                    lambda: f"replays of {self}: {self.session.describe()}",
                    streams=lists.left(),
                )  # fmt: skip
        finally:
            self.discard()

    def discard(self) -> None:
        """Gives back what it has taken as soon as no replay is pending. Does not wait."""
        if self.closed:
            return
        self.closed = True
        if self._lists is not None:
            self.session.graphs.remove(self)
            finish(*(node.release for node in self._nodes.values()), self._lists.release)

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

    def _built(self) -> Lists:
        """Its lists; raises unless it can be replayed."""
        self.session.check()
        if self.closed:
            raise InvalidHandle(f"{self} is closed; build it again")
        if self._lists is None:
            raise InvalidHandle(f"{self} is not built; leave the block that captures it first")
        return self._lists

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self}>"
