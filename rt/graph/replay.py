"""Replays of a graph: the calls that were submitted for one, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hw.regs.descriptor import Completion, EventWord, Sqe, TaskType
from hw.regs.fault import FaultCause

from ..errors import DeviceFault, FaultRecord, StreamAborted
from ..event import GENERATIONS
from ..memory import Allocation
from ..monitor import Monitor, entered
from ..task import Profile, Resource, Task, TaskState
from .image import Image, Part

if TYPE_CHECKING:
    from ..queue import Queue
    from .graph import Graph

__all__ = ["Call", "Renewal", "Replay"]


class Call(Task):
    """One part of a graph, called on a stream.

    It stays pending when a task of its list fails: the hardware stream still stands in the list,
    until it is aborted.
    """

    def __init__(
        self,
        stream: Queue,
        id: int,
        image: Image,
        part: Part,
        epoch: int,
        uses: Sequence[Resource],
    ) -> None:
        super().__init__(stream, id, uses=uses)
        self.profiles: dict[int, Profile] = {}
        """Of the tasks that are measured, by their number on the device."""
        self.fault: FaultRecord | None = None
        """What has failed in its list."""
        self._part = part
        self._epoch = epoch
        self._stride = image.stride
        word = part.word(image.stride, epoch)
        self.end_record = self.record = part.slot.add(word.generation, stream)
        self.sqe = Sqe(
            type=TaskType.CALL, completion=1, record=1, record_event=word.to_int(),
            payload=image.payload(part, epoch).to_int(),
        )  # fmt: skip

    def lists(self, number: int) -> bool:
        """Whether a task of its list has that number on the device."""
        return number in self._part.names

    def listed(self, entry: Completion) -> None:
        """The completion entry of a task of its list."""
        session = self.stream.session
        if entry.status == FaultCause.NONE:
            engine = session.device.driver.engine_name(entry.engine)
            profile = Profile(entry.start, entry.end, entry.counters, engine)
            self.profiles[entry.task_id] = profile
        elif entry.status != FaultCause.ABORTED:
            self.state = TaskState.FAILED
            self.fault = session.fault_of(entry)

    @property
    def entries(self) -> tuple[Sqe, ...]:
        return (*super().entries, *self._part.called(self._epoch))

    def waiting(self, number: int) -> str:
        return self._part.waits_for.get(number) or super().waiting(number)

    def records(self, wanted: EventWord) -> bool:
        end = self.end_record.word
        later = (end.generation - wanted.generation) % GENERATIONS
        return end.slot == wanted.slot and later < self._stride

    def drop(self, state: TaskState = TaskState.DROPPED) -> None:
        super().drop(state if self.fault is None else TaskState.FAILED)


class Renewal(Task):
    """The copy of new argument blocks to the memory of a graph.

    lost: called if it is dropped.
    """

    def __init__(
        self,
        stream: Queue,
        id: int,
        memory: Allocation,
        staging: Allocation,
        lost: Callable[[], None],
    ) -> None:
        super().__init__(stream, id, uses=[memory], staging=staging)
        self._lost = lost

    def drop(self, state: TaskState = TaskState.DROPPED) -> None:
        super().drop(state)
        self._lost()


class Replay:
    """One replay of a graph. Made by `Stream.replay`.

    Attributes
    ----------
    graph: the graph.
    number: which replay of the graph, from 0 on.
    """

    def __init__(self, graph: Graph, number: int, calls: Sequence[Call]) -> None:
        self.graph = graph
        self.number = number
        self._calls = tuple(calls)

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.graph.monitor

    @property
    def done(self) -> bool:
        """All of it has ended well, as far as the host knows."""
        return all(call.done for call in self._calls)

    @property
    def over(self) -> bool:
        """Nothing of it will change any more, as far as the host knows."""
        return all(call.state.over for call in self._calls)

    @entered
    def wait(self, timeout: int | None = None) -> None:
        """Waits until all of it has ended; raises what failed in it, even after a recovery.

        timeout: as in `Stream.synchronise`.
        """
        session = self.graph.session
        if not self.over and self.fault is None:
            session.check()
            session.wait_until(
                lambda: self.over, timeout, self.describe,
                streams=[call.stream for call in self._calls],
            )  # fmt: skip
        if self.fault is not None:
            session.raise_fault()
            raise DeviceFault(
                self.fault, "replay the graph again", self.graph.named(self.fault.task_id)
            )
        if not self.done:
            raise StreamAborted(f"{self} did not run to its end: a stream of it was aborted")

    @property
    def fault(self) -> FaultRecord | None:
        """What has failed in it, as far as the host knows."""
        return next((call.fault for call in self._calls if call.fault is not None), None)

    @entered
    def profile(self, task_id: int) -> Profile:
        """What the device measured of a task that is in the graph with `profile=True`; waits."""
        number = self.graph.profiled(task_id)
        self.wait()
        return next(
            call.profiles[number] for call in self._calls if number in call.profiles
        )

    def describe(self) -> str:
        """What its streams are doing."""
        streams = "; ".join(
            call.stream.describe() for call in self._calls if not call.state.over
        )
        return f"{self}: {streams}"

    def __str__(self) -> str:
        return f"replay {self.number} of {self.graph}"
