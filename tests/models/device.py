"""Functional golden model of the whole device: a `Transport` in plain Python.

It does what the registers, submission queues, events, guard windows, completions and faults
promise, but not when: an access takes `ACCESS_CYCLES`, a task as long as its beats. Kernels are
run by a function that the test gives.
"""

import itertools
import zlib
from collections import Counter, deque
from dataclasses import dataclass, field

from hw.config import HOST_BASE
from hw.regs.capability import capabilities
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
from hw.regs.fault import FaultCause
from hw.regs.instruction import ISA_VERSION, KERNEL_MAGIC, KernelHeader
from hw.regs.register import Access
from hw.regs.registers import (
    CONTEXT,
    COUNTER,
    DEVICE,
    EVENT,
    PMU,
    REGISTER_MAP,
    STREAM,
    CompletionBase,
    CompletionCommand,
    CompletionConfig,
    CompletionHead,
    Doorbell,
    EventRecord,
    EventSelect,
    FaultClear,
    FaultStatus,
    InterruptEnable,
    InterruptStatus,
    RingBase,
    StreamCommand,
    StreamConfig,
    StreamState,
    WindowBase,
    WindowLimit,
)
from rt.transport import Read, Reason, Stop, TransportError
from tests.models.decode import cause_of

ACCESS_CYCLES = 4
QUEUE, WRITER = 0xFE, 0xFF
GENERATIONS = 1 << 20
NEVER = 1 << 62


class Fault(Exception):
    """A task fails. Raised by the model, and by kernel functions."""

    def __init__(self, cause, address=0, access="read", **more):
        super().__init__(cause)
        self.cause, self.address, self.access, self.more = cause, address, access, more


@dataclass
class Stream:
    """State of one stream: its ring, and the task that is on an engine."""

    number: int
    state: StreamState = StreamState.DISABLED
    head: int = 0
    tail: int = 0
    cause: int = 0
    running: object = None


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


class ModelDevice:
    """A device of configuration `config`.

    kernel: called as kernel(model, context, code, arguments); it uses `load` and `store`, may
        raise `Fault`, and returns how many cycles it took.
    """

    def __init__(self, config, *, kernel=None, device_bytes=1 << 20, host_bytes=1 << 20):
        self.config = config
        self.kernel = kernel
        self.device_memory, self.host_memory = bytearray(device_bytes), bytearray(host_bytes)
        self.constants = capabilities(config)
        self.broken = {}  # address: cause that the bus answers there
        self.log = Counter()
        self.closed = False
        self.reset()

    # ----------------------------------------------------------------------------- Transport

    @property
    def host_bytes(self):
        return len(self.host_memory)

    @property
    def device_bytes(self):
        return len(self.device_memory)

    def read_host(self, address, size):
        return bytes(self._host(address, size))

    def write_host(self, address, data):
        self._host(address, len(data))[:] = data

    def _host(self, address, size):
        first = address - HOST_BASE
        if first < 0 or first + size > self.host_bytes:
            raise TransportError(f"no host memory at 0x{address:x} for {size} bytes")
        return memoryview(self.host_memory)[first : first + size]

    def control(self, operations):
        values = []
        for operation in operations:
            self._advance(self.cycle + ACCESS_CYCLES)
            block, index, register, word = self._find(operation.address)
            self.log[register.__name__, type(operation).__name__] += 1
            if isinstance(operation, Read):
                values.append(self._read(register, index) >> (32 * word) & 0xFFFFFFFF)
            else:
                self._write(register, index, word, operation.value)
            self._dispatch()
        return values

    def run_until(self, *, interrupt, cycle):
        limit = NEVER if cycle is None else cycle
        while not (interrupt and self.irq):
            self._dispatch()
            following = min((task.end for task in self._tasks()), default=NEVER)
            if min(following, limit) == NEVER:
                raise AssertionError("nothing will ever happen: this wait would last for ever")
            if following > limit:
                self._advance(max(limit, self.cycle))
                break
            self._advance(max(following, self.cycle))
        return Stop(Reason.INTERRUPT if interrupt and self.irq else Reason.CYCLE, self.cycle)

    def now(self):
        return self.cycle

    def reset(self):
        self.cycle = 0
        self.registers = {}
        self.streams = [Stream(n) for n in range(self.config.streams)]
        self.contexts = [Context() for _ in range(self.config.contexts)]
        self.events = [(0, 0)] * self.config.events
        self.stalled = deque()  # retired tasks whose completion ring is full
        self.turns = itertools.count()
        self.served = [0] * self.config.streams

    def close(self):
        self.closed = True

    # ----------------------------------------------------------------------------- registers

    def _find(self, address):
        for block in REGISTER_MAP:
            index, offset = divmod(address - block.base, block.stride)
            if not 0 <= index < block.count(self.config):
                continue
            for register in block:
                word, rest = divmod(offset - register.OFFSET, 4)
                if rest == 0 and 0 <= word < register.words():
                    return block, index, register, word
        raise TransportError(f"DECERR at control address 0x{address:04x}")

    def get(self, register, index=0):
        """A register that keeps what was written."""
        raw = self.registers.get((register, index))
        return register() if raw is None else register.from_int(raw)

    def _read(self, register, index):
        if register.ACCESS is Access.CONST:
            return self.constants[register].to_int()
        if register.ACCESS is Access.RO:
            return register(**self._state(register, index)).to_int()
        return 0 if register.ACCESS is Access.WO else self.get(register, index).to_int()

    def _state(self, register, index):
        """The fields of a read-only register."""
        block = next(block for block in (DEVICE, EVENT, PMU, COUNTER, STREAM, CONTEXT)
                     if register in block.registers)  # fmt: skip
        if block is STREAM:
            return self._stream_state(register, self.streams[index])
        if block is CONTEXT:
            context = self.contexts[index]
            fault = context.fault.get(register, {})
            more = {"CompletionTail": dict(tail=context.tail % (1 << 32)),
                    "FaultCount": dict(count=context.count)}  # fmt: skip
            return more.get(register.__name__, fault)
        generation, time = self.events[self.get(EventSelect).slot % self.config.events]
        return {
            "Cycle": dict(cycle=self.cycle),
            "InterruptContexts": dict(contexts=self._pending()),
            "EngineStatus": dict(busy=sum(1 << task.engine for task in self._tasks())),
            "EventValue": dict(generation=generation),
            "EventTime": dict(timestamp=time),
        }.get(register.__name__, {})

    def _stream_state(self, register, stream):
        sqe = stream.running.sqe if stream.running else self._peek(stream)
        missing = [] if stream.running or sqe is None else self._missing(sqe)
        words = {i: word for i, word in missing}
        return {
            "Tail": dict(tail=stream.tail),
            "Head": dict(head=stream.head),
            "StreamStatus": dict(
                state=stream.state, running=int(stream.running is not None),
                staged=int(sqe is not None), waiting=sum(1 << i for i in words),
                engine=stream.running.engine if stream.running else 0, cause=stream.cause,
            ),
            "StreamTask": dict(task_id=sqe.task_id if sqe else 0),
            "StreamWait": next(iter(words.values())).as_dict() if words else {},
        }[register.__name__]  # fmt: skip

    def _write(self, register, index, word, value):
        if register.ACCESS in (Access.RO, Access.CONST):
            raise TransportError(f"SLVERR: {register.__name__} is read only")
        old = self.get(register, index).to_int()
        if register.ACCESS is Access.W1C:
            new = old & ~value
        else:
            new = old & ~(0xFFFFFFFF << (32 * word)) | value << (32 * word)
        if register.ACCESS is not Access.WO:
            self.registers[register, index] = new
            return
        self._order(register.from_int(value), index)

    def _order(self, order, index):
        """A write-only register was written."""
        match order:
            case EventRecord():
                if order.slot < self.config.events:
                    self._record(order.slot, order.generation)
            case StreamCommand():
                self._command(self.streams[index], order)
            case Doorbell():
                self._doorbell(self.streams[index], order.tail)
            case CompletionCommand(restart=1):
                self.contexts[index].head = self.contexts[index].tail = 0
            case CompletionHead():
                self.contexts[index].head = order.head
                self._retry()
            case FaultClear(clear=1):
                self.contexts[index].fault, self.contexts[index].count = {}, 0

    def _interrupt(self, context, **causes):
        raw = self.get(InterruptStatus, context).to_int() | InterruptStatus(**causes).to_int()
        self.registers[InterruptStatus, context] = raw

    def _pending(self):
        return sum(
            1 << c for c in range(self.config.contexts)
            if self.get(InterruptStatus, c).to_int() & self.get(InterruptEnable, c).to_int()
        )  # fmt: skip

    @property
    def irq(self):
        """The interrupt line."""
        return self._pending() != 0

    # -------------------------------------------------------------------------------- memory

    def _check(self, context, address, size, access):
        """Raises unless one window of the context has the right for the whole range."""
        for number in range(self.config.windows):
            index = context * self.config.windows + number
            limit = self.get(WindowLimit, index)
            first = self.get(WindowBase, index).address
            if first <= address and address + size - 1 <= limit.address and getattr(limit, access):
                break
        else:
            raise Fault(FaultCause.ACCESS_VIOLATION, address, access)
        for place, cause in self.broken.items():
            if address <= place < address + size:
                raise Fault(cause, place, access)

    def _view(self, address, size, access):
        host = address >= HOST_BASE
        memory, first = (self.host_memory, address - HOST_BASE) if host else (
            self.device_memory, address)  # fmt: skip
        if first + size > len(memory):
            raise Fault(FaultCause.BUS_DECODE_ERROR, address, access)
        return memoryview(memory)[first : first + size]

    def _bursts(self, address, size):
        """Pieces that do not cross a multiple of `burst_bytes`."""
        while size:
            piece = min(size, self.config.burst_bytes - address % self.config.burst_bytes)
            yield address, piece
            address, size = address + piece, size - piece

    def load(self, context, address, size, access="read"):
        """Bytes of memory as the context may see them."""
        pieces = []
        for place, piece in self._bursts(address, size):
            self._check(context, place, piece, access)
            pieces.append(bytes(self._view(place, piece, access)))
        return b"".join(pieces)

    def store(self, context, address, data):
        """Writes memory as the context may."""
        done = 0
        for place, piece in self._bursts(address, len(data)):
            self._check(context, place, piece, "write")
            self._view(place, piece, "write")[:] = data[done : done + piece]
            done += piece

    # --------------------------------------------------------------------------------- queues

    def _settings(self, stream):
        return self.get(StreamConfig, stream.number)

    def _command(self, stream, order):
        if order.start and stream.state is StreamState.DISABLED:
            stream.state, stream.head, stream.tail, stream.cause = StreamState.ACTIVE, 0, 0, 0
        if order.abort and stream.state is not StreamState.DISABLED:
            task = stream.running
            if task is not None:
                task.fault = Fault(FaultCause.ABORTED)
                self._retire(task)
            stream.state, stream.head = StreamState.DISABLED, stream.tail
            self._interrupt(self._settings(stream).context, stopped=1)

    def _doorbell(self, stream, tail):
        if stream.state is not StreamState.ACTIVE:
            return
        if (tail - stream.head) % (1 << 32) > 1 << self._settings(stream).size:
            context = self._settings(stream).context
            self._fault(stream, QUEUE, context, 0, Fault(FaultCause.QUEUE_OVERRUN))
        else:
            stream.tail = tail

    def _entry(self, stream):
        """Address of the entry at the head, or None when there is none."""
        if stream.head == stream.tail:
            return None
        index = stream.head % (1 << self._settings(stream).size)
        return self.get(RingBase, stream.number).address + index * Sqe.size()

    def _peek(self, stream):
        """The next entry, however bad, or None."""
        address = self._entry(stream)
        if address is None:
            return None
        try:
            raw = self.load(self._settings(stream).context, address, Sqe.size())
        except Fault:
            return None
        return Sqe.from_bytes(raw)

    def _fetch(self, stream):
        """The next entry and what is wrong with it."""
        address, context = self._entry(stream), self._settings(stream).context
        try:
            sqe = Sqe.from_bytes(self.load(context, address, Sqe.size()))
        except Fault as fault:
            return Sqe.from_int(0), fault
        if sqe.crc != zlib.crc32(Sqe.from_int(sqe.to_int() & ~CRC_MASK).to_bytes()):
            return sqe, Fault(FaultCause.CHECKSUM, address)
        cause = cause_of(sqe, self.config.events)
        return sqe, Fault(cause, address) if cause else None

    def _missing(self, sqe):
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

    def _tasks(self):
        return [stream.running for stream in self.streams
                if stream.running and stream.running not in self.stalled]  # fmt: skip

    def _class(self, kind):
        """Numbers of the engines that run a type of task."""
        copies, cores = self.config.copy_channels, self.config.cores
        if kind in (TaskType.MEMCPY, TaskType.MEMSET):
            return range(copies)
        if kind == TaskType.KERNEL:
            return range(copies, copies + cores)
        return range(copies + cores, copies + cores + 1)

    def _dispatch(self):
        """Hands tasks to idle engines: greatest priority first, in turn inside a level."""
        progress = True
        while progress:
            progress = False
            order = sorted(
                self.streams,
                key=lambda s: (self._settings(s).priority, self.served[s.number], s.number),
            )
            for stream in order:
                idle = stream.state is StreamState.ACTIVE and stream.running is None
                if idle and stream.head != stream.tail and self._start(stream):
                    progress = True
                    break

    def _start(self, stream):
        """Starts the stream's next task if it is ready and an engine is idle."""
        sqe, bad = self._fetch(stream)
        if bad is not None:
            task = Running(stream, QUEUE, sqe, self.cycle, self.cycle, bad)
            stream.running = task
            self._retire(task)
            return True
        taken = {task.engine for task in self._tasks()}
        engine = next((e for e in self._class(sqe.type) if e not in taken), None)
        if engine is None or self._missing(sqe):
            return False
        self.served[stream.number] = next(self.turns) + 1
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
                data = self.load(context, place, copy.row_bytes)
            self.store(context, copy.destination + row * copy.destination_pitch, data)
        return 20 + copy.rows * (1 + copy.row_bytes // self.config.data_bytes)

    def _kernel(self, task, payload, context):
        raw = self.load(context, payload.args_address, Arguments.size())
        arguments = Arguments.from_bytes(raw)
        place = payload.kernel_address
        header = KernelHeader.from_bytes(self.load(context, place, KernelHeader.size(), "execute"))
        legal = (
            (header.magic, header.isa_version, header.fingerprint)
            == (KERNEL_MAGIC, ISA_VERSION, self.config.fingerprint)
            and 16 <= header.code_bytes <= self.config.instructions * 16
            and header.code_bytes % 16 == 0
        )  # fmt: skip
        start = place + KernelHeader.size()
        code = self.load(context, start, header.code_bytes, "execute") if legal else b""
        if not legal or header.crc != zlib.crc32(code):
            raise Fault(FaultCause.ILLEGAL_KERNEL, place, start_pc=start)
        return self.kernel(self, context, code, arguments)

    def _advance(self, cycle):
        """Lets time pass until `cycle`; tasks that end by then retire in order."""
        while True:
            task = min(self._tasks(), key=lambda task: task.end, default=None)
            if task is None or task.end > cycle:
                break
            self.cycle = max(self.cycle, task.end)
            self._retire(task)
            self._dispatch()
        self.cycle = max(self.cycle, cycle)

    # ------------------------------------------------------------------------------ retirement

    def _record(self, slot, generation):
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
        if reports and (ring.tail - ring.head) % (1 << 32) >= 1 << size:
            self._interrupt(context, full=1)
            if task not in self.stalled:
                self.stalled.append(task)
            return
        if task.fault is None and sqe.record:
            self._finish_record(EventWord.from_int(sqe.record_event), sqe, context)
        elif task.fault is not None and task.fault.cause != FaultCause.ABORTED:
            self._fault(stream, task.engine, context, sqe.task_id, task.fault)
        if reports:
            self._complete(task, context, ring, size)
        stream.running = None
        stream.head = (stream.head + 1) % (1 << 32)

    def _finish_record(self, word, sqe, context):
        self._record(word.slot, word.generation)
        if sqe.type == TaskType.EVENT_RECORD and sqe.option:
            written = TimedRecord(generation=word.generation, timestamp=self.cycle)
            self.store(context, ValuePayload.from_int(sqe.payload).address, written.to_bytes())

    def _complete(self, task, context, ring, size):
        entry = Completion(
            phase=~(ring.tail >> size) & 1, status=task.fault.cause if task.fault else 0,
            stream=task.stream.number, engine=task.engine, context=context,
            task_id=task.sqe.task_id, start=task.start, end=self.cycle,
            counters=[self.cycle - task.start] * 8 if task.sqe.counters else [],
        )  # fmt: skip
        index = ring.tail % (1 << size)
        place = self.get(CompletionBase, context).address + index * Completion.size()
        try:
            self.store(context, place, entry.to_bytes())
        except Fault as fault:
            self._capture(task.stream, WRITER, context, task.sqe.task_id, fault)
            return
        ring.tail = (ring.tail + 1) % (1 << 32)
        self._interrupt(context, completion=1)

    def _retry(self):
        """A completion ring may have room again."""
        waiting, self.stalled = self.stalled, deque()
        for task in waiting:
            self._retire(task)
        self._dispatch()

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


CRC_MASK = ((1 << Sqe.crc.width) - 1) << Sqe.crc.offset
