"""Life of one stream: its state, its head, its running task."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..interface import Head, WaiterSignature
from ..layout import struct
from ..regs.descriptor import EventWord, TaskType
from ..regs.fault import FaultCause
from ..regs.registers import RING_SIZES, StreamConfig, StreamState
from .control import Refusal
from .lane import Assignment

__all__ = ["Halt", "Kind", "Offer", "RingControl", "StreamLifecycle", "StreamSignature"]


class Kind(enum.Enum, shape=2):
    """What a task needs."""

    COPY = 0
    CORE = 1
    CONTROL = 2
    REFUSAL = 3


class Offer(data.Struct):
    """A task that may be dispatched now."""

    valid: 1
    kind: Kind
    priority: 3
    assignment: Assignment


class Halt(data.Struct):
    """Stop of a stream by a fault."""

    valid: 1
    cause: 8


class StreamSignature(wiring.Signature):
    """Registers of a stream, seen from the scheduler.

    config: the register. settings: what counts: follows the register while DISABLED, then stays
        as it was at the start.
    start, abort: command pulses; abort wins. Start is ignored unless DISABLED. For a context that
        does not exist, or a size that no ring has, it is refused: the stream stays DISABLED, with
        cause ILLEGAL_DESCRIPTOR.
    state, running, staged, waiting, engine, cause, task_id, wait: status.
    stopped: pulses when an abort has ended and the stream is DISABLED from the next cycle on.
        Every abort ends so, in whatever state it was ordered. All that the stream's tasks write,
        timed records and completion entries included, has been answered by then.
    """

    def __init__(self):
        super().__init__({
            "config": In(struct(StreamConfig)), "settings": Out(struct(StreamConfig)),
            "start": In(1), "abort": In(1),
            "state": Out(StreamState), "running": Out(1), "staged": Out(1), "waiting": Out(4),
            "engine": Out(8), "cause": Out(8), "task_id": Out(64), "wait": Out(struct(EventWord)),
            "stopped": Out(1),
        })  # fmt: skip


class RingControl(wiring.Signature):
    """The queue of a stream, seen from the scheduler.

    start: pulse: the start command was accepted; `active` from the next cycle on.
    active: doorbells count and entries are fetched.
    retire: pulse: the oldest popped task has ended. Never during `flush`.
    flush: level: drop everything, until `flushed`. No task of the stream runs any more.
    flushed: nothing is staged or in flight; looked at from the second cycle of `flush` on.
    overrun: pulse: a doorbell announced more than the ring holds.
    """

    def __init__(self):
        super().__init__({
            "start": Out(1), "active": Out(1), "retire": Out(1), "flush": Out(1),
            "flushed": In(1), "overrun": In(1),
        })  # fmt: skip


class StreamLifecycle(wiring.Component):
    """State machine of one stream.

    A head whose dependencies are met, or a bad one, is offered in the cycle in which that is so,
    while the stream is ACTIVE, runs nothing and has credit. The next may be offered in the cycle
    after the former task was retired.

    Parameters
    ----------
    config: `NpuConfig`.
    number: of the stream.

    Members
    -------
    head: fetched task; taken in the cycle in which it is dispatched.
    waiter: its dependencies, at the event unit.
    registers: `StreamSignature`. ring: `RingControl`.
    offer: task to dispatch.
    taken: the offer is dispatched in this cycle, to engine `engine`.
    retired: the running task ends in this cycle.
    credit: its context may promise one more completion entry. starved: there would be an offer,
        were it not for that.
    held: the completion writer holds a retirement of the stream.
    halt: a fault in this cycle stops the stream.
    cancel: level: the running task is to be aborted.
    overrun: an overrun is to be reported; `reported`: it is, in this cycle.
    blocked: the stream runs nothing because its head waits for an event.
    """

    def __init__(self, config, number):
        self.config = config
        self.number = number
        super().__init__({
            "head": In(stream.Signature(Head)),
            "waiter": Out(WaiterSignature()),
            "registers": Out(StreamSignature()),
            "ring": Out(RingControl()),
            "offer": Out(Offer),
            "taken": In(1),
            "engine": In(8),
            "retired": In(1),
            "credit": In(1),
            "starved": Out(1),
            "held": In(1),
            "halt": In(Halt),
            "cancel": Out(1),
            "overrun": Out(1),
            "reported": In(1),
            "blocked": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        self._advance(m)
        self._offer(m)
        self._show(m)
        return m

    def _advance(self, m):
        registers, ring = self.registers, self.ring
        state = registers.state
        flushing = Signal()
        ordered = Signal()
        possible = Signal()
        wanted = registers.config
        m.d.comb += [
            ordered.eq(registers.start & ~registers.abort & (state == StreamState.DISABLED)),
            possible.eq(
                (wanted.context < self.config.contexts)
                & (wanted.size >= RING_SIZES[0]) & (wanted.size <= RING_SIZES[-1])
            ),
            ring.start.eq(ordered & possible),
            ring.active.eq(state == StreamState.ACTIVE),
            ring.retire.eq(self.retired),
            ring.flush.eq((state == StreamState.ABORTING) & ~registers.running),
            registers.stopped.eq(flushing & ring.flushed & ~self.held),
            self.cancel.eq((state == StreamState.ABORTING) & registers.running),
        ]  # fmt: skip
        with m.If(state == StreamState.DISABLED):
            m.d.sync += registers.settings.eq(registers.config)
        m.d.sync += flushing.eq(ring.flush & ~registers.stopped)
        with m.If(self.taken):
            m.d.sync += [registers.running.eq(1), registers.engine.eq(self.engine)]
        with m.Elif(self.retired):
            m.d.sync += registers.running.eq(0)
        with m.If(ring.overrun):
            m.d.sync += self.overrun.eq(1)
        with m.Elif(self.reported):
            m.d.sync += self.overrun.eq(0)

        with m.If(registers.stopped):
            m.d.sync += state.eq(StreamState.DISABLED)
        with m.Elif(registers.abort):
            m.d.sync += state.eq(StreamState.ABORTING)
        with m.Elif(ring.start):
            m.d.sync += [state.eq(StreamState.ACTIVE), registers.cause.eq(FaultCause.NONE)]
        with m.Elif(ordered):
            m.d.sync += registers.cause.eq(FaultCause.ILLEGAL_DESCRIPTOR)
        with m.Elif(self.halt.valid & ring.active):
            m.d.sync += [state.eq(StreamState.STOPPED), registers.cause.eq(self.halt.cause)]

    def _offer(self, m):
        head, sqe, registers = self.head.p, self.head.p.sqe, self.registers
        settings = registers.settings
        ready = Signal()
        bad = head.cause != FaultCause.NONE
        alive = (registers.state == StreamState.ACTIVE) | (registers.state == StreamState.STOPPED)
        task, ticket = self.offer.assignment.task, self.offer.assignment.ticket
        m.d.comb += [
            self.waiter.valid.eq(self.head.valid & ~bad & alive),
            self.waiter.dependencies.eq(sqe.dependencies),
            self.waiter.take.eq(self.taken),
            self.head.ready.eq(self.taken),
            ready.eq(
                self.ring.active & ~registers.running & ~self.overrun
                & self.head.valid & (bad | self.waiter.ready)
            ),
            self.offer.valid.eq(ready & self.credit),
            self.starved.eq(ready & ~self.credit),
            self.offer.priority.eq(settings.priority),
            task.type.eq(sqe.type),
            task.stream.eq(self.number),
            task.context.eq(settings.context),
            task.slot.eq(head.slot),
            task.option.eq(sqe.option),
            task.overflow.eq(settings.overflow),
            ticket.stream.eq(self.number),
            ticket.context.eq(settings.context),
            ticket.task_id.eq(sqe.task_id),
            ticket.timeout.eq(sqe.timeout),
            ticket.record.eq(sqe.record),
            ticket.event.eq(sqe.record_event),
            ticket.completion.eq(sqe.completion),
            ticket.counters.eq(sqe.counters),
            ticket.timed.eq((sqe.type == TaskType.EVENT_RECORD) & sqe.option),
            ticket.address.eq(sqe.payload),
        ]  # fmt: skip
        m.d.comb += [word.eq(sqe.event_deps[i]) for i, word in enumerate(self.waiter.events)]
        with m.If(bad):
            refusal = data.View(Refusal, task.payload[: Refusal.as_shape().size])
            m.d.comb += [
                self.offer.kind.eq(Kind.REFUSAL),
                refusal.address.eq(head.address),
                refusal.cause.eq(head.cause),
            ]
        with m.Else():
            m.d.comb += task.payload.eq(sqe.payload)
            with m.Switch(sqe.type):
                with m.Case(TaskType.KERNEL):
                    m.d.comb += self.offer.kind.eq(Kind.CORE)
                with m.Case(TaskType.MEMCPY, TaskType.MEMSET):
                    m.d.comb += self.offer.kind.eq(Kind.COPY)
                with m.Default():
                    m.d.comb += self.offer.kind.eq(Kind.CONTROL)

    def _show(self, m):
        registers = self.registers
        task_id = Signal(64)
        with m.If(self.taken):
            m.d.sync += task_id.eq(self.head.p.sqe.task_id)
        m.d.comb += [
            registers.staged.eq(self.head.valid),
            registers.waiting.eq(self.waiter.waiting),
            registers.task_id.eq(
                Mux(registers.running, task_id, Mux(self.head.valid, self.head.p.sqe.task_id, 0))
            ),
            self.blocked.eq(
                self.ring.active & ~registers.running & self.waiter.valid & ~self.waiter.ready
            ),
        ]
        for i, event in reversed(list(enumerate(self.waiter.events))):
            with m.If(self.waiter.waiting[i]):
                m.d.comb += registers.wait.eq(event)
