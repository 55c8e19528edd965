"""Golden model of what runs tasks: submission queues, scheduler, events, completions, faults."""

import itertools
import zlib
from dataclasses import dataclass, field

from hw.regs.descriptor import (
    Arguments,
    Completion,
    CopyPayload,
    EventWord,
    FailureMode,
    KernelPayload,
    Sqe,
    TaskType,
    TimedRecord,
    ValuePayload,
)
from hw.regs.fault import FaultCause, FaultUnit
from hw.regs.instruction import ISA_VERSION, KERNEL_MAGIC, KernelHeader
from hw.regs.registers import (
    CONTEXT,
    CompletionBase,
    CompletionConfig,
    FaultStatus,
    RingBase,
    StreamConfig,
    StreamState,
)
from tests.models.decode import cause_of
from tests.models.memory import Fault

GENERATIONS = 1 << 20
CRC_MASK = ((1 << Sqe.crc.width) - 1) << Sqe.crc.offset


@dataclass
class Stream:
    """State of one stream: its ring, and the task that is on an engine."""

    number: int
    state: StreamState = StreamState.DISABLED
    head: int = 0
    tail: int = 0
    cause: int = 0
    running: object = None
    settings: StreamConfig | None = None
    base: int = 0
    """Both as they were at the start."""


@dataclass
class Running:
    """A task on an engine, from dispatch to retirement."""

    stream: Stream
    engine: int
    sqe: Sqe
    start: int
    end: int
    fault: Fault | None = None


@dataclass
class Context:
    """Completion ring and first fault of one context."""

    tail: int = 0
    head: int = 0
    fault: dict = field(default_factory=dict)
    count: int = 0


class Tasks:
    """Streams, engines, events and contexts of `config`. Time is `cycle`.

    get: a register that was written. interrupt: sets causes of a context. memory: a `Memory`.
    kernel: runs kernels.
    """

    def __init__(self, config, get, interrupt, memory, kernel):
        self.config, self.memory, self.kernel = config, memory, kernel
        self.get, self._interrupt = get, interrupt
        self.cycle = 0
        self.streams = [Stream(n) for n in range(config.streams)]
        self.contexts = [Context() for _ in range(config.contexts)]
        self.events = [(0, 0)] * config.events
        self._turns = itertools.count(1)
        self._served = [0] * config.streams

    # --------------------------------------------------------------------------------- queues

    def _settings(self, stream):
        if stream.state is StreamState.DISABLED:
            return self.get(StreamConfig, stream.number)
        return stream.settings

    def command(self, stream, order):
        if order.start and stream.state is StreamState.DISABLED:
            settings = self._settings(stream)
            if settings.context < self.config.contexts and 1 <= settings.size <= 12:
                stream.state, stream.head, stream.tail, stream.cause = StreamState.ACTIVE, 0, 0, 0
                stream.settings = settings
                stream.base = self.get(RingBase, stream.number).address
            else:
                stream.cause = FaultCause.ILLEGAL_DESCRIPTOR
        if order.abort and stream.state is not StreamState.DISABLED:
            task = stream.running
            if task is not None:
                task.fault = Fault(FaultCause.ABORTED)
                self._retire(task)
            self._interrupt(self._settings(stream).context, stopped=1)
            stream.state, stream.head = StreamState.DISABLED, stream.tail

    def doorbell(self, stream, tail):
        if stream.state is not StreamState.ACTIVE:
            return
        if (tail - stream.head) % (1 << 32) > 1 << self._settings(stream).size:
            context = self._settings(stream).context
            self._fault(stream, FaultUnit.QUEUE, context, 0, Fault(FaultCause.QUEUE_OVERRUN))
        else:
            stream.tail = tail

    def _entry(self, stream):
        """Address of the entry at the head, or None when there is none."""
        if stream.head == stream.tail:
            return None
        index = stream.head % (1 << self._settings(stream).size)
        return stream.base + index * Sqe.BYTES

    def peek(self, stream):
        """The next entry, however bad, or None."""
        address = self._entry(stream)
        if address is None:
            return None
        try:
            raw = self.memory.load(self._settings(stream).context, address, Sqe.BYTES)
        except Fault:
            return None
        return Sqe.from_bytes(raw)

    def _fetch(self, stream):
        """The next entry and what is wrong with it."""
        address, context = self._entry(stream), self._settings(stream).context
        try:
            sqe = Sqe.from_bytes(self.memory.load(context, address, Sqe.BYTES))
        except Fault as fault:
            return Sqe.from_int(0), fault
        if sqe.crc != zlib.crc32(Sqe.from_int(sqe.to_int() & ~CRC_MASK).to_bytes()):
            return sqe, Fault(FaultCause.CHECKSUM, address)
        cause = cause_of(sqe, self.config.events)
        return sqe, Fault(cause, address) if cause else None

    def missing(self, sqe):
        """Dependencies that are not recorded yet, with their places."""
        words = [EventWord.from_int(word) for word in sqe.event_deps[: sqe.dependencies]]
        return [
            (i, word) for i, word in enumerate(words)
            if word.slot < self.config.events and not self._recorded(word)
        ]  # fmt: skip

    def _recorded(self, word):
        stored, _ = self.events[word.slot]
        return (stored - word.generation) % GENERATIONS < GENERATIONS // 2

    # ------------------------------------------------------------------------------ scheduling

    def running(self):
        return [stream.running for stream in self.streams if stream.running]

    def _credit(self, context):
        """Completion entries that may still be promised; None: there is no ring."""
        size = self.get(CompletionConfig, context).size
        running = sum(self._settings(task.stream).context == context for task in self.running())
        ring = self.contexts[context]
        return (1 << size) - (ring.tail - ring.head) % (1 << 32) - running if size else None

    def _class(self, kind):
        """Numbers of the engines that run a type of task."""
        copies, cores = self.config.copy_channels, self.config.cores
        if kind in (TaskType.MEMCPY, TaskType.MEMSET):
            return range(copies)
        if kind == TaskType.KERNEL:
            return range(copies, copies + cores)
        return range(copies + cores, copies + cores + 1)

    def dispatch(self):
        """Hands tasks to idle engines: greatest priority first, in turn inside a level."""
        progress = True
        while progress:
            progress = False
            order = sorted(
                self.streams,
                key=lambda s: (self._settings(s).priority, self._served[s.number], s.number),
            )
            for stream in order:
                idle = stream.state is StreamState.ACTIVE and stream.running is None
                if idle and stream.head != stream.tail and self._start(stream):
                    progress = True
                    break

    def _start(self, stream):
        """Starts the stream's next task if it is ready and an engine is idle."""
        sqe, bad = self._fetch(stream)
        context = self._settings(stream).context
        credit = self._credit(context)
        if credit is not None and credit <= 0 and (bad is not None or not self.missing(sqe)):
            ring = self.contexts[context]
            if ring.tail != ring.head:
                self._interrupt(context, full=1)
            return False
        if bad is not None:
            task = Running(stream, FaultUnit.QUEUE, sqe, self.cycle, self.cycle, bad)
            stream.running = task
            self._retire(task)
            return True
        taken = {task.engine for task in self.running()}
        engine = next((e for e in self._class(sqe.type) if e not in taken), None)
        if engine is None or self.missing(sqe):
            return False
        self._served[stream.number] = next(self._turns)
        task = Running(stream, engine, sqe, self.cycle + 1, 0)
        limit = sqe.timeout * 1024
        try:
            duration = self._run(task)
        except Fault as fault:
            duration, task.fault = 8, fault
        if limit and duration > limit:
            duration, task.fault = limit, Fault(FaultCause.TASK_TIMEOUT)
        task.end = self.cycle + duration
        stream.running = task
        if not duration:
            self._retire(task)
        return True

    def _run(self, task):
        """The effect of a task on memory; returns its cycles."""
        sqe, context = task.sqe, self._settings(task.stream).context
        if sqe.type in (TaskType.MEMCPY, TaskType.MEMSET):
            return self._copy(CopyPayload.from_int(sqe.payload), context, sqe.type)
        if sqe.type == TaskType.KERNEL:
            return self._kernel(task, KernelPayload.from_int(sqe.payload), context)
        return 0

    def _copy(self, copy, context, kind):
        for row in range(copy.rows):
            if kind == TaskType.MEMSET:
                data = bytes([copy.source]) * copy.row_bytes
            else:
                place = copy.source + row * copy.source_pitch
                data = self.memory.load(context, place, copy.row_bytes)
            self.memory.store(context, copy.destination + row * copy.destination_pitch, data)
        return 20 + copy.rows * (1 + copy.row_bytes // self.config.data_bytes)

    def _kernel(self, task, payload, context):
        raw = self.memory.load(context, payload.args_address, Arguments.BYTES)
        arguments = Arguments.from_bytes(raw)
        place = payload.kernel_address
        raw = self.memory.load(context, place, KernelHeader.BYTES, "execute")
        header = KernelHeader.from_bytes(raw)
        legal = (
            (header.magic, header.isa_version, header.fingerprint)
            == (KERNEL_MAGIC, ISA_VERSION, self.config.fingerprint)
            and 16 <= header.code_bytes <= self.config.instructions * 16
            and header.code_bytes % 16 == 0
        )  # fmt: skip
        start = place + KernelHeader.BYTES
        code = self.memory.load(context, start, header.code_bytes, "execute") if legal else b""
        if not legal or header.crc != zlib.crc32(code):
            raise Fault(FaultCause.ILLEGAL_KERNEL, place, start_pc=start)
        return self.kernel(self.memory, context, code, arguments)

    def advance(self, cycle):
        """Lets time pass until `cycle`; tasks that end by then retire in order."""
        while True:
            task = min(self.running(), key=lambda task: task.end, default=None)
            if task is None or task.end > cycle:
                break
            self.cycle = max(self.cycle, task.end)
            self._retire(task)
            self.dispatch()
        self.cycle = max(self.cycle, cycle)

    # ------------------------------------------------------------------------------ retirement

    def record(self, slot, generation):
        stored, _ = self.events[slot]
        if 0 < (generation - stored) % GENERATIONS < GENERATIONS // 2:
            self.events[slot] = generation, self.cycle

    def _retire(self, task):
        """The end of a task: event, timed record, completion entry, then the next may start."""
        stream, sqe = task.stream, task.sqe
        context = self._settings(stream).context
        ring = self.contexts[context]
        size = self.get(CompletionConfig, context).size
        reports = bool(size) and (sqe.completion or task.fault is not None)
        if task.fault is None and sqe.record:
            self._finish_record(EventWord.from_int(sqe.record_event), sqe, context)
        elif task.fault is not None and task.fault.cause != FaultCause.ABORTED:
            self._fault(stream, task.engine, context, sqe.task_id, task.fault)
        if reports:
            self._complete(task, context, ring, size)
        stream.running = None
        stream.head = (stream.head + 1) % (1 << 32)

    def _finish_record(self, word, sqe, context):
        self.record(word.slot, word.generation)
        if sqe.type == TaskType.EVENT_RECORD and sqe.option:
            written = TimedRecord(generation=word.generation, timestamp=self.cycle)
            place = ValuePayload.from_int(sqe.payload).address
            self.memory.store(context, place, written.to_bytes())

    def _complete(self, task, context, ring, size):
        entry = Completion(
            phase=~(ring.tail >> size) & 1, status=task.fault.cause if task.fault else 0,
            stream=task.stream.number, engine=task.engine, context=context,
            task_id=task.sqe.task_id, start=task.start, end=self.cycle,
            counters=[self.cycle - task.start] * 8 if task.sqe.counters else [],
        )  # fmt: skip
        index = ring.tail % (1 << size)
        place = self.get(CompletionBase, context).address + index * Completion.BYTES
        try:
            self.memory.store(context, place, entry.to_bytes())
        except Fault as fault:
            self._fault(task.stream, FaultUnit.COMPLETION, context, task.sqe.task_id, fault)
            return
        ring.tail = (ring.tail + 1) % (1 << 32)
        self._interrupt(context, completion=1)

    def _fault(self, stream, engine, context, task_id, fault):
        """A fault stops its stream, or with STOP every stream of the context."""
        self._capture(stream, engine, context, task_id, fault)
        everyone = self._settings(stream).failure_mode == FailureMode.STOP
        for other in self.streams:
            same = self._settings(other).context == context
            if other is stream or (everyone and same and other.state is StreamState.ACTIVE):
                other.state, other.cause = StreamState.STOPPED, fault.cause

    def _capture(self, stream, engine, context, task_id, fault):
        state = self.contexts[context]
        state.count += 1
        self._interrupt(context, fault=1)
        if state.fault:
            return
        more = fault.more
        word = more.get("instruction", 0)
        named = {
            "FaultTask": dict(task_id=task_id),
            "FaultTime": dict(cycle=self.cycle),
            "FaultAddress": dict(
                address=fault.address, write=int(fault.access == "write"),
                execute=int(fault.access == "execute"),
            ),
            "FaultStartPc": dict(address=more.get("start_pc", 0)),
            "FaultPc": dict(address=more.get("pc", 0)),
            "FaultInstructionLow": dict(word=word & (1 << 64) - 1),
            "FaultInstructionHigh": dict(word=word >> 64),
            "FaultState": dict(state=more.get("state", 0)),
        }  # fmt: skip
        state.fault = {register: named[register.__name__] for register in CONTEXT
                       if register.__name__ in named}  # fmt: skip
        state.fault[FaultStatus] = dict(
            valid=1, cause=fault.cause, stream=stream.number, engine=engine
        )
