"""Golden model of what runs tasks: streams in turn, engines, time, and the ends of tasks."""

import itertools
from dataclasses import dataclass

from hw.regs.descriptor import EventWord, FailureMode, Sqe, TaskType, TimedRecord, ValuePayload
from hw.regs.fault import FaultCause, FaultUnit
from hw.regs.registers import StreamState, Wait
from tests.models.effects import Effects
from tests.models.memory import Fault
from tests.models.queues import INDEXES, Call, Queues, Stream
from tests.models.reports import Reports
from tests.models.waits import TIMED, Waits

TIMEOUT_UNIT = 1024


@dataclass
class Running:
    """A task on an engine, from dispatch to retirement."""

    stream: Stream
    engine: int
    sqe: Sqe
    start: int
    end: int
    fault: Fault | None = None


class Tasks:
    """Streams, engines, events and contexts of `config`. Time is `cycle`.

    get: a register that was written. interrupt: sets causes of a context. memory: a `Memory`.
    kernel: runs kernels.
    """

    def __init__(self, config, get, interrupt, memory, kernel):
        self._interrupt, self.memory = interrupt, memory
        self.cycle = 0
        self.queues = Queues(config, get, memory)
        self.waits = Waits(config, self.queues, memory)
        self.reports = Reports(config, get, interrupt, memory)
        self.streams, self.contexts = self.queues.streams, self.reports.contexts
        self._effects = Effects(config, memory, kernel)
        self._turns = itertools.count(1)
        self._served = [0] * config.streams

    # ---------------------------------------------------------------------------------- orders

    def command(self, stream, order):
        if order.start and stream.state is StreamState.DISABLED:
            self.queues.start(stream)
        if order.abort and stream.state is not StreamState.DISABLED:
            task = stream.running
            if task is not None:
                task.fault = Fault(FaultCause.ABORTED)
                self._retire(task)
            self._interrupt(self._context(stream), stopped=1)
            stream.drop()

    def doorbell(self, stream, tail):
        if stream.state is not StreamState.ACTIVE:
            return
        if (tail - stream.head) % INDEXES > 1 << self.queues.settings(stream).size:
            self._fault(stream, FaultUnit.QUEUE, 0, Fault(FaultCause.QUEUE_OVERRUN))
        else:
            stream.tail = tail

    def record(self, slot, generation):
        self.waits.record(slot, generation, self.cycle)

    # ------------------------------------------------------------------------------ scheduling

    def _context(self, stream):
        return self.queues.settings(stream).context

    def running(self):
        return [stream.running for stream in self.streams if stream.running]

    def next(self, stream):
        """The task that runs or would run next, None if there is none, and what it waits for."""
        if stream.running or not stream.pending:
            return stream.running.sqe if stream.running else None, Wait.NONE
        sqe, bad = self.queues.fetch(stream)
        try:
            wait = self.waits.wait(stream, sqe) if bad is None else Wait.NONE
        except Fault:
            wait = Wait.NONE
        shown = stream.state is StreamState.ACTIVE or wait is Wait.EVENT
        return sqe, wait if shown else Wait.NONE

    def callbacks(self, context):
        """One bit for each stream of a context that waits for a function of the host."""
        return sum(
            1 << stream.number for stream in self.streams
            if self.waits.asks_host(stream) and self._context(stream) == context
        )  # fmt: skip

    def dispatch(self):
        """Hands tasks to idle engines: greatest priority first, in turn inside a level."""
        progress = True
        while progress:
            for stream in self.streams:
                if not stream.waits:
                    stream.since = stream.deadline = None
                elif stream.since is None:
                    stream.since = self.cycle
            order = sorted(
                (stream for stream in self.streams if stream.waits),
                key=lambda s: (self.queues.settings(s).priority, self._served[s.number], s.number),
            )
            progress = any(self._start(stream) for stream in order)

    def _start(self, stream):
        """Starts the stream's next task if it is ready and an engine is idle."""
        sqe, bad = self.queues.fetch(stream)
        if bad is None:
            wait, bad = self._look(stream, sqe)
            if wait is not Wait.NONE:
                return False
            if bad is None and sqe.type == TaskType.CALL and stream.call is None:
                stream.call = Call(sqe)
                stream.change_head()
                return True
        context = self._context(stream)
        running = sum(self._context(task.stream) == context for task in self.running())
        room = self.reports.room(context, running)
        if room is not None and room <= 0:
            ring = self.contexts[context]
            if ring.tail != ring.head:
                self._interrupt(context, full=1)
            return False
        if bad is not None:
            sqe = sqe or Sqe.from_int(0)
            self._refuse(Running(stream, FaultUnit.QUEUE, sqe, self.cycle, self.cycle, bad))
            return True
        taken = {task.engine for task in self.running()}
        engine = next((e for e in self._effects.engines(sqe.type) if e not in taken), None)
        if engine is not None:
            self._run(Running(stream, engine, sqe, self.cycle + 1, 0))
        return engine is not None

    def _look(self, stream, sqe):
        """What a good head waits for, and why it does not wait any more."""
        try:
            wait = self.waits.wait(stream, sqe)
        except Fault as fault:
            return Wait.NONE, fault
        if wait is not Wait.NONE and sqe.timeout and sqe.type in TIMED:
            stream.deadline = stream.since + sqe.timeout * TIMEOUT_UNIT
            if stream.deadline <= self.cycle:
                place = self.queues.place(stream)
                return Wait.NONE, Fault(FaultCause.TASK_TIMEOUT, place)
        if wait is Wait.CALLBACK and not stream.asks_host:
            stream.asks_host = True
            self._interrupt(self._context(stream), callback=1)
        return wait, None

    def _refuse(self, task):
        task.stream.running = task
        self._retire(task)

    def _run(self, task):
        stream, sqe = task.stream, task.sqe
        self._served[stream.number] = next(self._turns)
        if sqe.type == TaskType.NOTIFY:
            self.waits.notify(sqe)
        limit = sqe.timeout * TIMEOUT_UNIT
        try:
            duration = self._effects.run(sqe, self._context(stream))
        except Fault as fault:
            duration, task.fault = 8, fault
        if limit and duration > limit:
            duration, task.fault = limit, Fault(FaultCause.TASK_TIMEOUT)
        task.end = self.cycle + duration
        stream.running = task
        if not duration:
            task.start = task.end
            self._retire(task)

    def following(self):
        """The next cycle in which a task ends or a head gives up, or None."""
        ends = [task.end for task in self.running()]
        deadlines = [s.deadline for s in self.streams if s.deadline and s.deadline > self.cycle]
        return min(ends + deadlines, default=None)

    def advance(self, cycle):
        """Lets time pass until `cycle`; tasks that end by then retire in order."""
        while (following := self.following()) is not None and following <= cycle:
            self.cycle = max(self.cycle, following)
            ended = [task for task in self.running() if task.end <= self.cycle]
            if ended:
                self._retire(ended[0])
            self.dispatch()
        self.cycle = max(self.cycle, cycle)

    # ------------------------------------------------------------------------------ retirement

    def _retire(self, task):
        """The end of a task: event, timed record, completion entry, then the next may start."""
        stream, sqe, fault = task.stream, task.sqe, task.fault
        context = self._context(stream)
        if fault is None and sqe.record:
            self._finish_record(EventWord.from_int(sqe.record_event), sqe, context)
        elif fault is not None and fault.cause != FaultCause.ABORTED:
            self._fault(stream, task.engine, sqe.task_id, fault)
        if sqe.completion or fault is not None:
            failed = self.reports.complete(context, task, self.cycle)
            if failed is not None:
                self._fault(stream, FaultUnit.COMPLETION, sqe.task_id, failed)
        stream.running = None
        stream.pop()

    def _finish_record(self, word, sqe, context):
        self.record(word.slot, word.generation)
        if sqe.type == TaskType.EVENT_RECORD and sqe.option:
            written = TimedRecord(generation=word.generation, timestamp=self.cycle)
            place = ValuePayload.from_int(sqe.payload).address
            self.memory.store(context, place, written.to_bytes())

    def _fault(self, stream, engine, task_id, fault):
        """A fault stops its stream, or with STOP every stream of the context."""
        context = self._context(stream)
        self.reports.capture(stream, engine, context, task_id, fault, self.cycle)
        everyone = self.queues.settings(stream).failure_mode == FailureMode.STOP
        for other in self.streams:
            same = self._context(other) == context
            if other is stream or (everyone and same and other.state is StreamState.ACTIVE):
                other.state, other.cause = StreamState.STOPPED, fault.cause
