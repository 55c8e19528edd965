"""Functional golden model of the whole device: a `Transport` in plain Python.

It does what the registers, submission queues, lists, events, counters, guard windows, completions
and faults promise, but not when: an access takes `ACCESS_CYCLES`, a task as long as its beats,
and a VALUE_WAIT looks whenever something happens. Kernels are run by a function that the test
gives.
"""

from collections import Counter

from hw.config import HOST_BASE
from hw.regs.capability import capabilities
from hw.regs.register import Access
from hw.regs.registers import (
    CONTEXT,
    COUNTER,
    DEVICE,
    EVENT,
    PMU,
    REGISTER_MAP,
    STREAM,
    CallbackReturn,
    CompletionCommand,
    CompletionHead,
    Doorbell,
    EventRecord,
    EventSelect,
    FaultClear,
    InterruptEnable,
    InterruptStatus,
    NotifySelect,
    NotifySet,
    StreamCommand,
    Wait,
)
from rt.transport import Read, Reason, Stop, TransportError
from tests.models.memory import Memory
from tests.models.tasks import Tasks

ACCESS_CYCLES = 4


class ModelDevice:
    """A device of configuration `config`.

    kernel: called as kernel(memory, context, code, arguments); it uses `load` and `store` of
        the memory, may raise `Fault`, and returns how many cycles it took.
    """

    def __init__(self, config, *, kernel=None, device_bytes=1 << 20, host_bytes=1 << 20):
        self.config = config
        self.kernel = kernel
        self.memory = Memory(config, self.get, device_bytes, host_bytes)
        self.constants = capabilities(config)
        self.log = Counter()
        self.closed = False
        self.reset()

    # ----------------------------------------------------------------------------- Transport

    @property
    def host_bytes(self):
        return len(self.memory.host)

    @property
    def device_bytes(self):
        return len(self.memory.device)

    def read_host(self, address, size):
        return bytes(self._host(address, size))

    def write_host(self, address, data):
        self._host(address, len(data))[:] = data

    def _host(self, address, size):
        first = address - HOST_BASE
        if first < 0 or first + size > self.host_bytes:
            raise TransportError(f"no host memory at 0x{address:x} for {size} bytes")
        return memoryview(self.memory.host)[first : first + size]

    def control(self, operations):
        values = []
        for operation in operations:
            self.tasks.advance(self.tasks.cycle + ACCESS_CYCLES)
            block, index, register, word = self._find(operation.address)
            self.log[register.__name__, type(operation).__name__] += 1
            if isinstance(operation, Read):
                values.append(self._read(register, index) >> (32 * word) & 0xFFFFFFFF)
            else:
                self._write(register, index, word, operation.value)
            self.tasks.dispatch()
        return values

    def run_until(self, *, interrupt, cycle):
        while not (interrupt and self.irq):
            self.tasks.dispatch()
            following = self.tasks.following()
            if following is None and cycle is None:
                raise AssertionError("nothing will ever happen: this wait would last for ever")
            if following is None or (cycle is not None and following > cycle):
                self.tasks.advance(cycle)
                break
            self.tasks.advance(following)
        return Stop(Reason.INTERRUPT if interrupt and self.irq else Reason.CYCLE, self.tasks.cycle)

    def now(self):
        return self.tasks.cycle

    def reset(self):
        self.registers = {}
        self.tasks = Tasks(self.config, self.get, self._interrupt, self.memory, self.kernel)

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
            return self._stream_state(register, self.tasks.streams[index])
        if block is CONTEXT:
            context = self.tasks.contexts[index]
            fault = context.fault.get(register, {})
            more = {"CompletionTail": dict(tail=context.tail % (1 << 32)),
                    "FaultCount": dict(count=context.count),
                    "ContextCallbacks": dict(streams=self.tasks.callbacks(index))}  # fmt: skip
            return more.get(register.__name__, fault)
        generation, time = self.tasks.waits.events[self.get(EventSelect).slot % self.config.events]
        return {
            "Cycle": dict(cycle=self.tasks.cycle),
            "InterruptContexts": dict(contexts=self._pending()),
            "EngineStatus": dict(busy=sum(1 << task.engine for task in self.tasks.running())),
            "EventValue": dict(generation=generation),
            "EventTime": dict(timestamp=time),
            "NotifyValue": dict(value=self.tasks.waits.notifies[self.get(NotifySelect).counter]),
        }.get(register.__name__, {})

    def _stream_state(self, register, stream):
        sqe, wait = self.tasks.next(stream)
        missing = dict(self.tasks.waits.missing(sqe)) if wait is Wait.EVENT else {}
        return {
            "Tail": dict(tail=stream.tail),
            "Head": dict(head=stream.head),
            "StreamStatus": dict(
                state=stream.state, running=int(stream.running is not None),
                staged=int(sqe is not None), called=int(stream.call is not None),
                waiting=sum(1 << i for i in missing), wait=wait,
                engine=stream.running.engine if stream.running else 0, cause=stream.cause,
            ),
            "StreamTask": dict(task_id=sqe.task_id if sqe else 0),
            "StreamWait": next(iter(missing.values())).as_dict() if missing else {},
            "StreamEntry": dict(entry=stream.call.entry if stream.call else 0),
        }[register.__name__]  # fmt: skip

    def _write(self, register, index, word, value):
        if register.ACCESS in (Access.RO, Access.CONST):
            raise TransportError(f"SLVERR: {register.__name__} is read only")
        for field in register.FIELDS:
            written = field.unpack(value << 32 * word >> field.offset)
            if field.below is not None and written >= getattr(self.config, field.below):
                raise TransportError(f"SLVERR: {register.__name__}.{field.name} is {written}")
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
                self.tasks.record(order.slot, order.generation)
            case NotifySet():
                self.tasks.waits.notifies[self.get(NotifySelect).counter] = order.value
            case CallbackReturn():
                self.tasks.waits.returned(self.tasks.streams[index], order)
            case StreamCommand():
                self.tasks.command(self.tasks.streams[index], order)
            case Doorbell():
                self.tasks.doorbell(self.tasks.streams[index], order.tail)
            case CompletionCommand(restart=1):
                self.tasks.contexts[index].head = self.tasks.contexts[index].tail = 0
            case CompletionHead():
                self.tasks.contexts[index].head = order.head
                self.tasks.dispatch()
            case FaultClear(clear=1):
                self.tasks.contexts[index].fault, self.tasks.contexts[index].count = {}, 0

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
