"""Captures: streams whose tasks become those of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from hw.regs.descriptor import Sqe

from ..errors import CaptureError
from ..launch import Launch
from ..task import Task
from .desc import Node

if TYPE_CHECKING:
    from ..event import Event
    from ..queue import Queue

__all__ = ["Capture", "Point"]


@dataclass(frozen=True)
class Point:
    """Where an event was recorded in a capture: behind these tasks."""

    capture: Capture
    stream: Queue
    after: frozenset[int]


@dataclass
class Lane:
    """A stream of a capture."""

    tasks: list[int] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    """What its next task waits for, beside the last."""

    @property
    def frontier(self) -> set[int]:
        """What must have ended when all that it was given has."""
        return {*self.tasks[-1:], *self.held}


class Capture:
    """What the streams of one capture were given.

    A call that a capture does not allow raises, and makes the capture invalid: it takes no more,
    and `finish` raises. Its streams are released in any case.

    Parameters
    ----------
    origin: the stream that begins it, and that others must be joined to.

    Attributes
    ----------
    nodes: the tasks, by their number.
    active: it goes on.
    """

    def __init__(self, origin: Queue) -> None:
        self.nodes: dict[int, Node] = {}
        self.active = True
        self._lanes: dict[Queue, Lane] = {origin: Lane()}
        self._origin = origin
        self._launch: Launch | None = None
        self._wrong = ""
        origin.capturing = self

    @property
    def streams(self) -> list[Queue]:
        """The streams that have tasks in it, the origin first."""
        return [stream for stream, lane in self._lanes.items() if lane.tasks]

    @property
    def lanes(self) -> list[list[int]]:
        """The tasks of these streams."""
        return [lane.tasks for lane in self._lanes.values() if lane.tasks]

    # ------------------------------------------------------------------------------ submissions

    def check(self) -> None:
        """Raises unless it takes tasks."""
        if self._wrong:
            raise CaptureError(f"the capture is invalid, since {self._wrong}; leave its block")

    def place(self, launch: Launch) -> int:
        """The next task launches this. Its arguments have no address yet."""
        self._launch = launch
        return 0

    def add(self, stream: Queue, task: Task, sqe: Sqe) -> None:
        """A stream was given a task."""
        self.check()
        lane = self._lanes[stream]
        deps = tuple(sorted(lane.frontier))
        launch, self._launch = self._launch, None
        self.nodes[task.id] = Node(
            task.id, task.id, sqe, deps, task.capture(), launch, task.waits_for
        )
        lane.tasks.append(task.id)
        lane.held.clear()

    def record(self, stream: Queue, event: Event) -> None:
        """An event means what a stream was given so far."""
        self.check()
        event.point = Point(self, stream, frozenset(self._lanes[stream].frontier))

    def wait(self, stream: Queue, event: Event) -> None:
        """What a stream is given from now on waits for an event. It joins the capture."""
        if not self.active:
            self.refuse_event()
        point = event.point
        if point is None:
            if event.record is None:
                return
            self.refuse(
                f"{stream} was to wait for an event that was recorded outside of the capture, "
                "which has no place in a graph; record it inside, or wait before the capture",
                CaptureError.DEPENDENCY,
            )
        if point.capture is not self:
            self.refuse(
                f"{stream} was to wait for an event of another capture; record it in this one",
                CaptureError.CONFLICT,
            )
        self.check()
        if stream.capturing is None:
            self._lanes[stream] = Lane()
            stream.capturing = self
        if point.stream is not stream:
            self._lanes[stream].held |= point.after

    def refuse(self, reason: str, code: int = CaptureError.STREAM) -> NoReturn:
        """Raises; the capture is invalid from now on."""
        self._wrong = self._wrong or reason
        raise CaptureError(reason, code)

    # ---------------------------------------------------------------------------------- its end

    def finish(self) -> None:
        """Releases the streams; raises unless a graph can be made of it."""
        self._release()
        if self._wrong:
            raise CaptureError(f"the capture is invalid, since {self._wrong}")
        closed = next((stream for stream in self._lanes if stream.closed), None)
        if closed is not None:
            raise CaptureError(f"the capture is invalid, since {closed} was closed")
        joined = set(self._ancestors(self._lanes[self._origin].frontier))
        open_ends = [
            f"{stream} (last task {lane.tasks[-1]})"
            for stream, lane in self._lanes.items()
            if lane.tasks and lane.tasks[-1] not in joined
        ]
        if open_ends:
            raise CaptureError(
                f"{', '.join(open_ends)} of the capture must be joined to {self._origin}, which "
                f"began it; record an event there and let {self._origin} wait for it",
                CaptureError.UNJOINED,
            )
        if not self.nodes:
            raise CaptureError("nothing was captured; submit at least one task in the block")

    def cancel(self) -> None:
        """Releases the streams, and what the tasks use."""
        self._release()
        for node in self.nodes.values():
            node.release()
        self.nodes.clear()

    def _release(self) -> None:
        self.active = False
        for stream in self._lanes:
            stream.capturing = None

    def _ancestors(self, tasks: set[int]) -> Iterator[int]:
        """These tasks, and all that must end before them."""
        seen: set[int] = set()
        left = list(tasks)
        while left:
            task = left.pop()
            if task not in seen:
                seen.add(task)
                yield task
                left += self.nodes[task].deps

    def refuse_event(self) -> NoReturn:
        """Raises: an event of the capture was to be used elsewhere."""
        self.refuse(
            "the event was recorded in a capture, where it only orders tasks; record it outside "
            "before it is used there",
            CaptureError.EVENT,
        )
