"""The hardware side of a stream: rings, doorbells, completions and aborts."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Self

from hw.regs.descriptor import Completion, EventWord, FailureMode, Sqe, TaskType
from hw.regs.fault import FaultCause
from hw.regs.registers import (
    ArgsBase,
    Doorbell,
    Head,
    RingBase,
    StreamCommand,
    StreamConfig,
    StreamState,
)

from .describe import describe
from .errors import InvalidHandle, InvalidParameter
from .monitor import Monitor
from .ring import INDEXES, SubmissionRing
from .task import Task

if TYPE_CHECKING:
    from .graph.capture import Capture
    from .launch import Launch
    from .session import Session

__all__ = ["Queue"]

UNREADABLE = (
    FaultCause.CHECKSUM, FaultCause.ACCESS_VIOLATION, FaultCause.BUS_SLAVE_ERROR,
    FaultCause.BUS_DECODE_ERROR,
)  # fmt: skip
"""What is wrong with a submission-queue entry whose contents mean nothing."""


class Queue:
    """A hardware stream of a session, with its rings in host memory.

    What is submitted is written and announced at once, or at the end of a batch. The last task
    of each batch reports its end; as a stream is in order, that tells of the others, too.

    Parameters
    ----------
    session: the session it belongs to.
    number: of the hardware stream.
    log2: entries of the ring, as a power of two.
    priority: 0 greatest … 7 least.
    failure_mode: what a fault of it stops beside itself.
    overflow: an int32 overflow is a fault.
    timeout: longest run of a kernel in cycles, unless its launch says otherwise.
    """

    def __init__(
        self,
        session: Session,
        number: int,
        *,
        log2: int,
        priority: int,
        failure_mode: FailureMode,
        overflow: bool,
        timeout: int,
    ) -> None:
        self.session = session
        self.number = number
        self.priority = priority
        self.failure_mode = failure_mode
        self.timeout = timeout
        self.closed = False
        self.stopped = False
        """A fault stopped it."""
        self.ended = 0
        """How many of its tasks are known to have ended."""
        self._driver = session.device.driver
        self._settings = StreamConfig(
            size=log2,
            priority=priority,
            failure_mode=failure_mode,
            context=session.context,
            overflow=int(overflow),
        )
        self._memory = session.host_memory(
            SubmissionRing.size_bytes(log2), SubmissionRing.ALIGNMENT
        )
        self._ring = SubmissionRing(self._driver.transport, self._memory.address, log2)
        self._origin = 0  # index at which the device's count started
        self._tail = 0
        self._pending: deque[Task] = deque()
        self._unsent: list[tuple[Task, Sqe]] = []
        self._events: dict[int, EventWord] = {}  # what the next task waits for, by slot
        self._batches = 0
        self.capturing: Capture | None = None
        """The capture that takes what is submitted."""
        self._aborts = 0  # that dropped tasks
        self._aborted = False  # nobody was told of the last of them
        try:
            self.start()
        except BaseException:
            self._memory.free()
            raise

    def __str__(self) -> str:
        return f"stream {self.number}"

    # ------------------------------------------------------------------------------ submission

    def submit(self, task: Task, sqe: Sqe) -> Task:
        """Appends a task, which `prepare` has made room for; it waits for the events held."""
        if self.capturing is not None:
            self.capturing.add(self, task, sqe)
            return task
        assert self._tail - self.ended < self._ring.entries
        deps = [word.to_int() for word in self._events.values()]
        self._events.clear()
        self._unsent.append(
            (task, sqe.replace(task_id=task.id, event_deps=deps, dependencies=len(deps)))
        )
        self._pending.append(task)
        self._tail += 1
        if not self._batches:
            self.commit()
        return task

    @property
    def room(self) -> int:
        """Tasks that can be submitted without waiting for others."""
        return self._ring.entries - (self._tail - self.ended)

    def prepare(self, entries: int = 1) -> Self:
        """Makes sure that so many tasks can be submitted; may wait for room in the ring."""
        self.check()
        if self.capturing is not None:
            self.capturing.check()
            return self
        if entries > self._ring.entries:
            raise InvalidParameter(
                f"{entries} entries are needed at once and the ring of {self} has "
                f"{self._ring.entries}; make the stream with a greater depth="
            )
        if self.room < entries:
            self.session.wait_until(
                lambda: self.room >= entries,
                None,
                lambda: f"room in the ring of {self._ring.entries} entries: {self.describe()}",
                streams=(self,),
            )
            self.check()
        return self

    def place(self, launch: Launch) -> int:
        """Puts the arguments of the next task where they are fetched ahead from."""
        if self.capturing is not None:
            return self.capturing.place(launch)
        index = self._tail - self._origin
        self._ring.write_arguments(index, launch.arguments)
        return self._ring.args_address(index)

    def refuse_capture(self, call: str) -> None:
        """Raises if it is being captured, which spoils the capture."""
        if self.capturing is not None:
            self.capturing.refuse(f"{self} was to {call} while it was captured")

    def commit(self) -> None:
        """Writes what was submitted and rings the doorbell. The last task reports its end."""
        if not self._unsent:
            return
        task, sqe = self._unsent[-1]
        self._unsent[-1] = task, sqe.replace(completion=1)
        entries = [sqe for _, sqe in self._unsent]
        for task, sqe in self._unsent:
            task.entry = sqe
        first = self._tail - len(entries) - self._origin
        self._unsent.clear()
        self._ring.write_entries(first, entries)
        self._driver.write(Doorbell(tail=(self._tail - self._origin) % INDEXES), index=self.number)

    def flush(self) -> None:
        """Announces everything submitted so far, waits of the stream included."""
        if self._events and self.capturing is None:
            self.submit_waits()
        self.commit()

    def submit_waits(self, timeout: int = 0) -> None:
        """A task that does nothing but wait for the events held; timeout as in its entry."""
        self.prepare()
        if self._events:  # still: another thread's task may have taken them
            sqe = Sqe(type=TaskType.EVENT_WAIT, timeout=timeout)
            self.submit(Task(self, self.session.device.task_id()), sqe)

    # ------------------------------------------------------------------------------ completion

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    @property
    def pending(self) -> tuple[Task, ...]:
        """Tasks that have not ended, as far as the host knows, oldest first."""
        return tuple(self._pending)

    @property
    def idle(self) -> bool:
        """Nothing is pending, as far as the host knows."""
        return not self._pending and not self._events and not self.stopped

    def device_ended(self) -> int:
        """How many of its tasks have ended, as the device counts at this moment."""
        known = (self.ended - self._origin) % INDEXES
        return self.ended + (self._driver.read(Head, self.number).head - known) % INDEXES

    def completed(self, entry: Completion) -> bool:
        """A completion entry: its task has ended, and all before it.

        Returns whether that task was pending. One of a list tells of what is before its CALL. Of
        an entry that the device could not read, the number means nothing, and no task is taken as
        ended.
        """
        if self._unread(entry):
            return False
        number = next((n for n, task in enumerate(self._pending) if task.lists(entry.task_id)), -1)
        if number >= 0:
            for _ in range(number):
                self._end_oldest(None)
            self._pending[0].listed(entry)
            return True
        known = False
        while self._pending and self._pending[0].id <= entry.task_id:
            known = self._pending[0].id == entry.task_id
            self._end_oldest(entry if known else None)
        return known

    def _unread(self, entry: Completion) -> bool:
        """Whether the device could not read the entry of the task that failed.

        A VALUE_WAIT that cannot read its value fails in the same way, but then it is known.
        """
        if entry.status not in UNREADABLE or self._driver.engine_name(entry.engine) != "queue":
            return False
        return entry.status == FaultCause.CHECKSUM or not any(
            sqe.type == TaskType.VALUE_WAIT and sqe.task_id == entry.task_id
            for task in self._pending for sqe in task.entries
        )

    def _end_oldest(self, entry: Completion | None) -> None:
        self.ended += 1
        self._pending.popleft().end(entry)

    def describe(self) -> str:
        """What the stream is doing and what it waits for, from its registers."""
        return describe(self)

    # ------------------------------------------------------------------------------- end of life

    def note_abort(self) -> None:
        """What is pending will be dropped, which somebody has to be told."""
        if self._pending:
            self._aborts += 1
            self._aborted = True

    def cease(self) -> None:
        """Orders the hardware stream to stop."""
        self._forget_unsent()
        self.session.functions.withdraw(self)
        self._driver.write(StreamCommand(abort=1), index=self.number)

    def halt(self) -> None:
        """Stops the hardware stream. Its dropped records are left to the session."""
        self.cease()
        self.session.wait_until(
            lambda: self._driver.stream_state(self.number) is StreamState.DISABLED,
            None,
            lambda: f"the abort of {self}: {self.describe()}",
            despite_fault=True,
        )
        self._drop_pending()

    def _forget_unsent(self) -> None:
        self._unsent.clear()
        self._events.clear()

    def _drop_pending(self) -> None:
        """Its tasks will never run: the hardware stream is disabled."""
        self._forget_unsent()
        self.ended = self._tail
        while self._pending:
            self._pending.popleft().drop()
        self.session.collect()  # what was still on its way means none of the tasks that follow

    def start(self) -> None:
        """Starts the hardware stream, which is disabled, with an empty ring."""
        self._origin = self._tail
        self.stopped = False
        self._driver.write(
            RingBase(address=self._ring.base),
            ArgsBase(address=self._ring.args_base),
            self._settings,
            StreamCommand(start=1),
            index=self.number,
        )

    def discard(self) -> None:
        """Closes it at once. While its abort does not end, the device keeps what it uses, the
        memory of its session included. Does nothing if it is closed."""
        if self.closed:
            return
        self.closed = True
        self.note_abort()
        try:
            self.halt()
        except BaseException:
            self.session.hold()
            self.session.device.keep(self)
            raise
        else:
            self._give_back()
        finally:
            self.session.forget(self)

    def _give_back(self) -> None:
        self._memory.free()
        self.session.device.give_stream(self.number)

    def reclaim(self) -> None:
        """Gives back what the device kept of it: its abort has ended after all."""
        self._drop_pending()
        self._give_back()
        self.session.let_go()

    def check_open(self) -> None:
        """Raises if it is closed."""
        self.session.check()
        if self.closed:
            raise InvalidHandle(f"{self} is closed; make a new one with session.stream")

    def check(self) -> None:
        """Raises unless tasks can be submitted."""
        self.check_open()
        if self.stopped:
            self.session.raise_fault()
