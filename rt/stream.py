"""Streams: what is submitted to one runs in order, and beside what other streams run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from hw.regs.descriptor import CopyPayload, Sqe, TaskType, TimedRecord, ValuePayload
from hw.regs.registers import EventRecord

from .copy import Copies
from .errors import InvalidParameter, StreamAborted
from .event import GENERATIONS, Event, Slot, read_slot
from .finish import finish
from .graph.capture import Capture
from .graph.graph import Graph
from .graph.replay import Replay
from .kernel.kernel import Kernel
from .launch import Launch
from .memory import Buffer
from .monitor import entered
from .queue import Queue
from .signals import Signals
from .task import Task, timeout_units

__all__ = ["Stream"]

MOST_WAITS = Sqe.event_deps.count
"""Events that one entry can wait for."""


class Stream(Queue, Copies, Signals):
    """A queue of tasks of a session. Made by `Session.stream`.

    Calls that submit return at once with a `Task`. What fails on the device is raised by the
    next `synchronise` or `query`, and by every later one until `Session.recover`.

    Attributes
    ----------
    session: the session it belongs to.
    number: of the hardware stream.
    priority: 0 greatest … 7 least.
    failure_mode: what a fault of it stops beside itself.
    timeout: longest run of a kernel in cycles, unless `launch` says otherwise.
    """

    # ------------------------------------------------------------------------------ submission

    @entered
    def launch(
        self,
        kernel: Kernel,
        inputs: Sequence[Buffer] = (),
        outputs: Sequence[Buffer] = (),
        scalars: Sequence[int] = (),
        *,
        timeout: int | None = None,
        profile: bool = False,
    ) -> Task:
        """Runs a kernel with up to 8 inputs, 4 outputs and 4 scalars.

        timeout: longest run in cycles; it is counted in steps of 1,024 and rounded up.
        profile: measure it, see `Task.profile`.
        """
        self.check()
        launch = Launch(kernel, inputs, outputs, scalars)
        launch.check(self.session)
        units = timeout_units(self.timeout if timeout is None else timeout)
        self.prepare()
        task = Task(self, self.session.device.task_id(), uses=launch.uses, profiled=profile)
        return self.submit(kernel.track(task), launch.sqe(self.place(launch), units, profile))

    @entered
    def record(self, event: Event) -> None:
        """Records an event: it passes when everything submitted so far has ended.

        On an idle stream that is at once.
        """
        self.check()
        self.session.check_event(event)
        device = self.session.device
        if self.capturing is not None:
            self.capturing.record(self, event)
            return
        if self.idle:
            event.record = record = device.events.record(device.events.take(), self)
            self._driver.write(EventRecord(**record.word.as_dict()))
            if event.timing:
                read_slot(self._driver, record)
            device.events.retire(record)
            return
        if self._unsent and not event.timing and not self._events:
            task, sqe = self._unsent[-1]
            if task.record is None:
                event.record = task.record = device.events.record(self._slot(event), self)
                self._unsent[-1] = task, sqe.replace(
                    record=1, record_event=task.record.word.to_int(), completion=1
                )
                return
        self.prepare()
        cell = self._staging(TimedRecord.BYTES) if event.timing else None
        try:
            record = device.events.record(self._slot(event), self)
        except BaseException:
            if cell is not None:
                cell.free()
            raise
        record.cell = cell
        task = Task(self, device.task_id(), staging=cell)
        event.record = task.record = record
        payload = ValuePayload(address=cell.address if cell else 0)
        self.submit(
            task,
            Sqe(type=TaskType.EVENT_RECORD, record=1, record_event=record.word.to_int(),
                option=int(event.timing), completion=1, payload=payload.to_int()),
        )  # fmt: skip

    def _slot(self, event: Event) -> Slot:
        """The event's slot while this stream has a record pending in it, else a fresh one."""
        self.session.collect()
        record = event.record
        if record is None or self.takes_slot(event):
            return self.session.device.events.take()
        return record.slot

    def takes_slot(self, event: Event) -> bool:
        """Whether recording the event takes a fresh slot."""
        record = event.record
        return record is None or record.done or record.dropped or record.stream is not self

    def must_wait(self, event: Event) -> bool:
        """Whether `wait` for the event means anything."""
        record = event.record
        return record is not None and not record.done and record.stream is not self

    def waits_take(self, more: int) -> int:
        """How many entries that only wait are submitted when it waits for so many more events."""
        return max(0, len(self._events) + more - 1) // MOST_WAITS if more else 0

    @entered
    def wait(self, other: Event | Stream, *, timeout: int | None = None) -> None:
        """What is submitted from now on waits for the latest record of an event, or for all that
        another stream was given so far.

        An entry waits for four events: for more, one that only waits is submitted first. If that
        raises, the call has changed nothing.

        timeout: cycles that the stream may do nothing but wait for it, as in `wait_notify`.
        """
        self.check()
        limit = timeout_units(timeout)
        if not isinstance(other, Event | Stream):
            raise InvalidParameter(
                f"an event or a stream is needed, not {type(other).__name__}; make an event with "
                "session.event"
            )
        event = other if isinstance(other, Event) else self._end_of(other)
        self.session.check_event(event)
        capture = self.capturing or (event.point and event.point.capture)
        if capture:
            if limit:
                self.refuse_capture("wait with a timeout")
            capture.wait(self, event)
            return
        record = event.record
        if record is None or not self.must_wait(event):
            return
        full = record.slot.number not in self._events and len(self._events) == MOST_WAITS
        if full or (limit and self._events):
            self.submit_waits()
        if limit:
            self.prepare()
        word = self._events.get(record.slot.number, record.word)
        if (record.generation - word.generation) % GENERATIONS < GENERATIONS // 2:
            word = record.word
        self._events[record.slot.number] = word
        if limit:
            self.submit_waits(limit)

    def _end_of(self, stream: Stream) -> Event:
        """An event that is recorded there now."""
        event = self.session.event()
        if stream.capturing is not self.capturing and stream.capturing is None:
            self.refuse_capture(f"wait for {stream}, which is not,")
        if stream is not self:
            stream.record(event)
        return event

    def submit_copy(self, payload: CopyPayload, task: Task, fill: bool, profile: bool) -> None:
        self.submit(
            task,
            Sqe(type=TaskType.MEMSET if fill else TaskType.MEMCPY, payload=payload.to_int(),
                completion=int(profile), counters=int(profile)),
        )  # fmt: skip

    @contextmanager
    def batch(self) -> Iterator[None]:
        """What is submitted inside is announced to the device at the end, with one doorbell."""
        with self.monitor:
            self.check()
            self._batches += 1
        try:
            yield
        finally:
            with self.monitor:
                self._batches -= 1
                if not self._batches and not self.closed:
                    self.commit()

    # ---------------------------------------------------------------------------------- graphs

    @contextmanager
    def capture(self, name: str = "") -> Iterator[Graph]:
        """What is submitted inside does not run, but becomes a graph; see `rt.graph`.

        name: what errors call the graph.
        """
        with self.monitor:
            self.check()
            self.refuse_capture("begin another capture")
            graph, capture = Graph(self.session, name), Capture(self)
        try:
            yield graph
            with self.monitor:
                capture.finish()
        except BaseException:
            with self.monitor:
                capture.cancel()
            raise
        with self.monitor:
            streams = [stream for stream in self.session.streams if stream in capture.streams]
            graph.build(capture.nodes, capture.lanes, streams)

    @entered
    def replay(self, graph: Graph, *others: Stream) -> Replay:
        """Runs the tasks of a graph when everything submitted so far has ended.

        What is submitted afterwards waits for all of them. One part of the graph runs on this
        stream, the others on `others`, behind what these were given; without them on those that
        the graph was captured from.
        """
        if not isinstance(graph, Graph):
            raise InvalidParameter(
                f"a graph is needed, not {type(graph).__name__}; make one with session.graph or "
                "Stream.capture"
            )
        return graph.replay(self, *others)

    # ------------------------------------------------------------------------------ completion

    @entered
    def query(self) -> bool:
        """Whether everything submitted so far has ended. Raises what failed in the session."""
        self.check_open()
        self.refuse_capture("be queried")
        if not self.stopped:
            self.flush()
        self.session.poll()
        self._report_abort()
        return self.idle

    @entered
    def synchronise(self, timeout: int | None = None) -> None:
        """Waits until everything submitted so far has ended. Raises what failed in the session.

        timeout: cycles; `WaitTimeout` says what the stream waits for. Without it the wait
        lasts for as long as tasks of the session end within `Device.patience` cycles.
        """
        self.check_open()
        self.refuse_capture("be synchronised")
        self.session.raise_fault()
        self.flush()
        last, aborts = self._tail, self._aborts
        self.session.wait_until(
            lambda: self.ended >= last, timeout, lambda: f"the tasks of {self}: {self.describe()}",
            streams=(self,),
        )  # fmt: skip
        self.session.raise_fault()
        self._report_abort(aborts)

    def _report_abort(self, known: int | None = None) -> None:
        """Raises if nobody was told of an abort, or if there were more than those `known`."""
        if self._aborted or known not in (None, self._aborts):
            self._aborted = False
            raise StreamAborted(f"{self} was aborted; the tasks that were pending did not run")

    # ------------------------------------------------------------------------------- end of life

    @entered
    def abort(self) -> None:
        """Stops the running task and drops all that is pending; the next synchronise says so.

        Events whose record is dropped count as passed, so that nobody waits for them for ever.
        """
        self.check_open()
        self.refuse_capture("be aborted")
        self.note_abort()
        self.halt()
        self._release_waiters()
        self.start()

    def _release_waiters(self) -> None:
        """Those who wait for records that were dropped go on."""
        for record in self.session.stranded:
            record.abandoned |= record.stream is self
        self.session.release_waiters()

    def close(self) -> None:
        """Waits until everything submitted has ended, and gives the hardware stream back."""
        self.destroy()

    @entered
    def destroy(self, *, force: bool = False) -> None:
        """Gives the hardware stream back; waits until everything submitted has ended.

        force: does not wait, but stops the running task and drops all that is pending, as `abort`.
        """
        if self.closed:
            return
        if force:
            self._drop()
            return
        self.refuse_capture("be closed")
        try:
            if not self.stopped and not self.session.failed:
                self.flush()
                self.session.wait_until(
                    lambda: not self._pending, None, self.describe, streams=(self,)
                )
        finally:
            self._drop()

    def _drop(self) -> None:
        finish(self.discard, self._release_waiters)

    def reclaim(self) -> None:
        super().reclaim()
        self._release_waiters()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.closed or self.session.closed:
            return
        self.destroy(force=error is not None)

