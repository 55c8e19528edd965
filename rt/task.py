"""Handles of submitted tasks."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from hw.regs.descriptor import Completion, EventWord, Sqe
from hw.regs.fault import FaultCause

from .errors import CaptureError, InvalidParameter, StreamAborted
from .event import Record, read_time
from .memory import Allocation
from .monitor import Monitor, entered

if TYPE_CHECKING:
    from .queue import Queue

__all__ = ["LONGEST", "Download", "Profile", "Resource", "Task", "TaskState", "timeout_units"]

TIMEOUT_UNIT = 1024
LONGEST = ((1 << Sqe.timeout.width) - 1) * TIMEOUT_UNIT
"""Greatest timeout of a task in cycles."""


def timeout_units(cycles: int | None) -> int:
    """A timeout as an entry has it, rounded up; None: never. Raises if no task can have it."""
    if cycles is None:
        return 0
    if not 1 <= cycles <= LONGEST:
        raise InvalidParameter(f"the timeout is {cycles} cycles; it must lie within 1 … {LONGEST}")
    return -(-cycles // TIMEOUT_UNIT)


class Resource(Protocol):
    """What a task uses until it is over."""

    def acquire(self) -> None: ...

    def release(self) -> None: ...


class TaskState(enum.Enum):
    """How far a task is, as far as the host knows."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"
    CAPTURED = "captured"

    @property
    def over(self) -> bool:
        """It will not change any more."""
        return self is not TaskState.PENDING


@dataclass(frozen=True)
class Profile:
    """What the device measured of a task."""

    start: int
    """Cycle of the first bus address or the first instruction issued."""
    end: int
    """Cycle of the last write response of its data."""
    counters: tuple[int, ...]
    """What the eight PMU counters added from start to end."""
    engine: str
    """Engine that ran it."""

    @property
    def cycles(self) -> int:
        """From start to end."""
        return self.end - self.start


class Task:
    """A task that was submitted to a stream.

    Attributes
    ----------
    stream: the stream.
    id: number in fault records, completion entries and waveforms; unique on the device.
    state: how far it is.
    waits_for: in words what it waits for beside events, if it is one that waits.
    """

    def __init__(
        self,
        stream: Queue,
        id: int,
        *,
        uses: Sequence[Resource] = (),
        staging: Allocation | None = None,
        profiled: bool = False,
        waits_for: str = "",
    ) -> None:
        self.stream = stream
        self.id = id
        self.state = TaskState.PENDING
        self.waits_for = waits_for
        self.entry: Sqe | None = None
        """As it was submitted."""
        self.record: Record | None = None
        self._profiled = profiled
        self._profile: Profile | None = None
        self._uses: tuple[Resource, ...] = (*uses, staging) if staging else tuple(uses)
        for resource in self._uses:
            resource.acquire()
        if staging:
            staging.free()  # as soon as this task is over

    @property
    def done(self) -> bool:
        """It has ended well, as far as the host knows."""
        return self.state is TaskState.DONE

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.stream.monitor

    @entered
    def wait(self, timeout: int | None = None) -> None:
        """Waits until it has ended. `timeout` as in `Stream.synchronise`."""
        session = self.stream.session
        if self.state is TaskState.CAPTURED:
            raise CaptureError(
                f"task {self.id} was captured and runs in replays of its graph; wait for those"
            )
        if self.state is TaskState.PENDING:
            session.check()
            session.wait_until(
                lambda: self.state is not TaskState.PENDING,
                timeout,
                lambda: f"task {self.id}: {self.stream.describe()}",
                streams=(self.stream,),
            )
        if self.state is TaskState.FAILED:
            session.raise_fault()
        if self.state is not TaskState.DONE:
            raise StreamAborted(f"task {self.id} of {self.stream} did not run to its end")

    @property
    @entered
    def profile(self) -> Profile:
        """Start, end and counters of a task that was submitted with `profile=True`; waits."""
        if not self._profiled:
            raise InvalidParameter(
                f"task {self.id} was submitted without profile=True; submit it with it"
            )
        self.wait()
        assert self._profile is not None
        return self._profile

    def end(self, entry: Completion | None) -> None:
        """The device says that it has ended, with its completion entry if it has one."""
        if entry is not None and entry.status != FaultCause.NONE:
            aborted = entry.status == FaultCause.ABORTED
            self.drop(TaskState.DROPPED if aborted else TaskState.FAILED)
            return
        self.state = TaskState.DONE
        session = self.stream.session
        if entry is not None:
            engine = session.device.driver.engine_name(entry.engine)
            self._profile = Profile(entry.start, entry.end, entry.counters, engine)
        if self.record is not None:
            if self.record.cell is not None:
                read_time(session, self.record)
            session.device.events.retire(self.record)
        self.finish()
        self._release()

    def drop(self, state: TaskState = TaskState.DROPPED) -> None:
        """It has failed, or will never run."""
        self.state = state
        if self.record is not None:
            self.record.dropped = True
            self.stream.session.stranded.append(self.record)
        self._release()

    def reaches(self, address: int) -> bool:
        """Whether the byte at that address lies in a buffer of its."""
        return any(isinstance(used, Allocation) and used.covers(address) for used in self._uses)

    def finish(self) -> None:
        """What is left to do for the host before the staging memory is given back."""

    @property
    def entries(self) -> tuple[Sqe, ...]:
        """Its submitted entry, and behind it those of the list that a CALL runs."""
        return () if self.entry is None else (self.entry,)

    def capture(self) -> tuple[Resource, ...]:
        """It belongs to a graph, which will release what is returned."""
        self.state = TaskState.CAPTURED
        uses, self._uses = self._uses, ()
        return uses

    def lists(self, number: int) -> bool:
        """Whether it calls a list with a task of that number."""
        return False

    def listed(self, entry: Completion) -> None:
        """The completion entry of a task of its list."""

    def waiting(self, number: int) -> str:
        """In words what it waits for beside events, or one of its list; nothing for others."""
        return self.waits_for if number == self.id else ""

    def records(self, wanted: EventWord) -> bool:
        """Whether it records that event."""
        return self.record is not None and self.record.word == wanted

    def _release(self) -> None:
        for resource in self._uses:
            resource.release()


class Download(Task):
    """A copy to the host that was submitted. `result()` gives the array."""

    def __init__(
        self,
        stream: Queue,
        id: int,
        *,
        uses: Sequence[Allocation],
        staging: Allocation,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        profiled: bool = False,
    ) -> None:
        super().__init__(stream, id, uses=uses, staging=staging, profiled=profiled)
        self._place = staging.address
        self._array: npt.NDArray[Any] = np.empty(shape, dtype)

    def finish(self) -> None:
        transport = self.stream.session.device.driver.transport
        raw = transport.read_host(self._place, self._array.nbytes)
        self._array[...] = np.frombuffer(raw, self._array.dtype).reshape(self._array.shape)

    @entered
    def result(self, timeout: int | None = None) -> npt.NDArray[Any]:
        """The array as it was when the copy ran; waits for the copy if it has not ended yet."""
        self.wait(timeout)
        return self._array
