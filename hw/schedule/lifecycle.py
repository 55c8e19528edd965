"""Life of one stream: its state, its head, its running task."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..interface import BarrierSignature, Head, NotifySignature, PollSignature, WaiterSignature
from ..regs.descriptor import TaskType
from ..regs.fault import FaultCause
from ..regs.registers import RING_SIZES, StreamState, Wait
from .conditions import Conditions
from .control import Refusal
from .lane import Assignment
from .ports import RingControl, StreamSignature

__all__ = ["Halt", "Kind", "Offer", "StreamLifecycle"]


class Kind(enum.Enum, shape=3):
    """What a task needs."""

    COPY = 0
    CORE = 1
    CONTROL = 2
    VALUE = 3
    REFUSAL = 4


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


class StreamLifecycle(wiring.Component):
    """State machine of one stream.

    A head is offered in the cycle in which its events and its condition (see `Conditions`) are
    met, and a bad one or one that has failed in the cycle in which it shows or fails, while the
    stream is ACTIVE, runs nothing and has credit. The cycle in which the former task retires
    counts as such, but for the conditions that are only looked at when the stream runs nothing.

    A CALL is not offered in such a cycle, credit or not, but entered: the heads of its list follow
    as if they stood in the ring. When it comes back, `returned`, its events are not asked again.

    Parameters
    ----------
    config: `NpuConfig`.
    number: of the stream.

    Members
    -------
    head: fetched task; taken in the cycle in which it is dispatched.
    waiter: its dependencies, at the event unit.
    notify, poll: what it waits for, at the notify unit and the poller.
    barrier: `BarrierSignature`. A task of a list counts with the number of its CALL, also a
        BARRIER; one whose number is not to be trusted, because its entry is bad, is not known.
    registers: `StreamSignature`. ring: `RingControl`.
    offer: task to dispatch.
    taken: the offer is dispatched in this cycle, to engine `engine`.
    retired: the running task ends in this cycle.
    credit: its context may promise one more completion entry. starved: there would be an offer,
        were it not for that. Not in a cycle in which a task retires: it may give its credit back.
    held: the completion writer holds a retirement of the stream.
    halt: a fault in this cycle stops the stream.
    cancel: level: the running task is to be aborted.
    overrun: an overrun is to be reported; `reported`: it is, in this cycle.
    blocked: the stream is ACTIVE and runs nothing because its head waits for something.
    """

    def __init__(self, config, number):
        self.config = config
        self.number = number
        super().__init__({
            "head": In(stream.Signature(Head)),
            "waiter": Out(WaiterSignature()),
            "notify": Out(NotifySignature()),
            "poll": Out(PollSignature()),
            "barrier": Out(BarrierSignature()),
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
        good = Signal()
        m.d.comb += good.eq(self.head.valid & (self.head.p.cause == FaultCause.NONE))
        self._advance(m)
        conditions = self._wait(m, good)
        self._offer(m, good, conditions)
        self._show(m, good, conditions)
        self._order(m, good)
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

    def _wait(self, m, good):
        """What the head waits for; a CALL that comes back waits for nothing."""
        head, registers = self.head.p, self.registers
        alive = (registers.state == StreamState.ACTIVE) | (registers.state == StreamState.STOPPED)
        m.submodules.conditions = conditions = Conditions()
        connect(m, conditions.notify, flipped(self.notify))
        connect(m, conditions.poll, flipped(self.poll))
        m.d.comb += [
            self.waiter.valid.eq(good & ~head.returned & alive),
            self.waiter.dependencies.eq(head.sqe.dependencies),
            *(word.eq(head.sqe.event_deps[i]) for i, word in enumerate(self.waiter.events)),
            self.waiter.take.eq(self.taken | self.ring.enter),
            conditions.head.eq(head),
            conditions.valid.eq(good & self.ring.active),
            conditions.idle.eq(~registers.running),
            conditions.ready.eq(self.waiter.ready | head.returned),
            conditions.taken.eq(self.taken),
            conditions.context.eq(registers.settings.context),
            self.barrier.valid.eq(conditions.barrier),
            conditions.passed.eq(self.barrier.met),
            registers.callback.eq(conditions.callback),
            registers.called_host.eq(conditions.called),
            conditions.answered.eq(registers.returned),
            conditions.answer.task.eq(registers.returned_task),
            conditions.answer.failed.eq(registers.returned_failed),
        ]
        return conditions

    def _offer(self, m, good, conditions):
        head, sqe, settings = self.head.p, self.head.p.sqe, self.registers.settings
        task, ticket = self.offer.assignment.task, self.offer.assignment.ticket
        ready, refused, enters = Signal(), Signal(), Signal()
        m.d.comb += [
            refused.eq(~good | conditions.failed),
            ready.eq(
                self.ring.active & (~self.registers.running | self.retired) & ~self.overrun
                & self.head.valid & (refused | conditions.met)
            ),
            enters.eq((sqe.type == TaskType.CALL) & ~head.returned & ~refused),
            self.ring.enter.eq(ready & enters),
            self.head.ready.eq(self.taken),
            self.offer.valid.eq(ready & ~enters & self.credit),
            self.starved.eq(ready & ~enters & ~self.credit & ~self.registers.running),
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
        with m.If(refused):
            refusal = data.View(Refusal, task.payload[: Refusal.as_shape().size])
            m.d.comb += [
                self.offer.kind.eq(Kind.REFUSAL),
                refusal.address.eq(Mux(good, conditions.address, head.address)),
                refusal.cause.eq(Mux(good, conditions.cause, head.cause)),
            ]
        with m.Else():
            m.d.comb += task.payload.eq(sqe.payload)
            with m.Switch(sqe.type):
                with m.Case(TaskType.KERNEL):
                    m.d.comb += self.offer.kind.eq(Kind.CORE)
                with m.Case(TaskType.MEMCPY, TaskType.MEMSET):
                    m.d.comb += self.offer.kind.eq(Kind.COPY)
                with m.Case(TaskType.VALUE_WRITE):
                    m.d.comb += self.offer.kind.eq(Kind.VALUE)
                with m.Default():
                    m.d.comb += self.offer.kind.eq(Kind.CONTROL)

    def _show(self, m, good, conditions):
        registers = self.registers
        task_id = Signal(64)
        with m.If(self.taken):
            m.d.sync += task_id.eq(self.head.p.sqe.task_id)
        m.d.comb += [
            registers.staged.eq(self.head.valid),
            registers.waiting.eq(self.waiter.waiting),
            registers.wait_kind.eq(
                Mux(self.waiter.valid & ~self.waiter.ready, Wait.EVENT, conditions.kind)
            ),
            registers.task_id.eq(
                Mux(registers.running, task_id, Mux(self.head.valid, self.head.p.sqe.task_id, 0))
            ),
            self.blocked.eq(
                self.ring.active & ~registers.running & (registers.wait_kind != Wait.NONE)
            ),
        ]
        for i, event in reversed(list(enumerate(self.waiter.events))):
            with m.If(self.waiter.waiting[i]):
                m.d.comb += registers.wait.eq(event)

    def _order(self, m, good):
        """What barriers must know: the oldest task that is left."""
        head, registers, barrier = self.head.p, self.registers, self.barrier
        trusted = Signal()
        call = Signal(64)
        with m.If(self.taken):
            m.d.sync += trusted.eq(good)
        with m.If(self.ring.enter):
            m.d.sync += [registers.called.eq(1), call.eq(head.sqe.task_id)]
        with m.Elif((self.taken & head.returned) | self.ring.flush):
            m.d.sync += registers.called.eq(0)
        m.d.comb += [
            barrier.context.eq(registers.settings.context),
            barrier.task_id.eq(Mux(registers.called, call, head.sqe.task_id)),
            barrier.pending.eq(~self.ring.empty),
            barrier.known.eq(registers.called | Mux(registers.running, trusted, good)),
            barrier.oldest.eq(Mux(registers.called, call, registers.task_id)),
        ]
