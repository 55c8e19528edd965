"""What the next task of a stream waits for besides its events."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..interface import Head, NotifySignature, PollSignature, access_cause
from ..layout import struct
from ..regs.descriptor import NotifyOperation, NotifyPayload, TaskType, ValuePayload
from ..regs.fault import FaultCause
from ..regs.registers import CallbackReturn, Wait

__all__ = ["Conditions"]

TIMED = (
    TaskType.EVENT_WAIT, TaskType.NOTIFY, TaskType.VALUE_WAIT, TaskType.HOST_CALLBACK,
    TaskType.BARRIER,
)  # fmt: skip
"""Types whose timeout counts from the cycle in which they are next."""
UNIT_BITS = 10
"""A timeout is in units of 2^UNIT_BITS cycles."""


class Conditions(wiring.Component):
    """What the head of one stream waits for once its events are met: a notify, a value, the host
    or a barrier. Heads of other types wait for nothing more.

    A notify is met combinationally. The others are looked at from the first cycle on in which the
    events are met and the stream runs nothing: then the poll and the barrier are shown, and the
    host is called. A return of the host in cycle t counts in t + 1.

    The timeout of a head that waits in itself (`TIMED`) counts from the first cycle t in which it
    is next and the stream runs nothing: in t + 1,024 × timeout it has failed if it is not met in
    that very cycle, for good.

    Members
    -------
    head: the head. valid: it is a good one, and its stream is ACTIVE.
    idle: the stream runs nothing. ready: the head's events are met.
    taken: the head leaves in this cycle.
    context: of the stream.
    notify: `NotifySignature`. The amount is taken only if the head does not leave as failed.
    poll: `PollSignature`.
    barrier: the head waits for the barrier. passed: it is met.
    callback: the head waits for the host, and has not failed. called: pulse in the first such
        cycle.
    answered, answer: the host's return; ignored unless `callback`, and for another task.
    met: events and condition are met, the head may run.
    failed: the head is to be refused, with `cause` and `address`.
    kind: what is waited for besides events.
    """

    head: In(Head)
    valid: In(1)
    idle: In(1)
    ready: In(1)
    taken: In(1)
    context: In(4)
    notify: Out(NotifySignature())
    poll: Out(PollSignature())
    barrier: Out(1)
    passed: In(1)
    callback: Out(1)
    called: Out(1)
    answered: In(1)
    answer: In(struct(CallbackReturn))
    met: Out(1)
    failed: Out(1)
    cause: Out(8)
    address: Out(ADDRESS_BITS)
    kind: Out(Wait)

    def elaborate(self, platform):
        m = Module()
        type = self.head.sqe.type
        notify = data.View(struct(NotifyPayload), self.head.sqe.payload)
        value = data.View(struct(ValuePayload), self.head.sqe.payload)
        looks = Signal()
        passes, refused, late = Signal(), Signal(), Signal()
        wait = Signal(Wait)
        returned, wrong = self._host(m, looks & (type == TaskType.HOST_CALLBACK), late)
        m.d.comb += [
            looks.eq(self.valid & self.ready & self.idle),
            self.notify.counter.eq(notify.counter),
            self.notify.amount.eq(notify.amount),
            self.notify.take.eq(self.taken & self.notify.valid & self.met),
            self.poll.request.address.eq(value.address),
            self.poll.request.context.eq(self.context),
            self.poll.request.value.eq(value.value),
            self.poll.request.mask.eq(value.mask),
            self.poll.request.operation.eq(value.operation),
            self.poll.take.eq(self.taken & self.poll.valid),
        ]
        with m.Switch(type):
            with m.Case(TaskType.NOTIFY):
                with m.If(notify.operation == NotifyOperation.WAIT):
                    m.d.comb += [
                        wait.eq(Wait.NOTIFY),
                        self.notify.valid.eq(self.valid & self.ready),
                        passes.eq(self.notify.ready),
                    ]
                with m.Else():
                    m.d.comb += passes.eq(1)
            with m.Case(TaskType.VALUE_WAIT):
                m.d.comb += [
                    wait.eq(Wait.VALUE),
                    self.poll.valid.eq(looks),
                    passes.eq(looks & self.poll.met),
                    refused.eq(looks & self.poll.failed),
                ]
            with m.Case(TaskType.HOST_CALLBACK):
                m.d.comb += [
                    wait.eq(Wait.CALLBACK),
                    passes.eq(returned & ~wrong),
                    refused.eq(returned & wrong),
                ]
            with m.Case(TaskType.BARRIER):
                m.d.comb += [
                    wait.eq(Wait.BARRIER),
                    self.barrier.eq(looks),
                    passes.eq(looks & self.passed),
                ]
            with m.Default():
                m.d.comb += passes.eq(1)

        m.d.comb += [
            late.eq(self._late(m, self.ready & (passes | refused))),
            self.met.eq(self.valid & self.ready & passes & ~late),
            self.failed.eq(late | refused),
            self.cause.eq(FaultCause.TASK_TIMEOUT),
            self.address.eq(self.head.address),
        ]
        with m.If(refused & ~late):
            with m.If(type == TaskType.VALUE_WAIT):
                m.d.comb += [
                    self.cause.eq(access_cause(self.poll.status)),
                    self.address.eq(value.address),
                ]
            with m.Else():
                m.d.comb += self.cause.eq(FaultCause.HOST_CALLBACK)
        with m.If(self.valid & self.ready & ~passes & ~self.failed):
            m.d.comb += self.kind.eq(wait)
        return m

    def _host(self, m, awaits, late):
        """Calls the host; returns whether it has come back, and whether its function failed."""
        asked, returned, failed = Signal(), Signal(), Signal()
        m.d.comb += [
            self.callback.eq(awaits & ~returned & ~late),
            self.called.eq(self.callback & ~asked),
        ]
        with m.If(~awaits | self.taken):
            m.d.sync += [asked.eq(0), returned.eq(0)]
        with m.Else():
            m.d.sync += asked.eq(1)
            same = self.answer.task == self.head.sqe.task_id[: len(self.answer.task)]
            with m.If(self.answered & self.callback & same):
                m.d.sync += [returned.eq(1), failed.eq(self.answer.failed)]
        return returned, failed

    def _late(self, m, settled):
        """Whether the head has waited too long: not settled when its time was over."""
        timeout = self.head.sqe.timeout
        waited = Signal(len(timeout) + UNIT_BITS)
        late = Signal()
        limited = Signal()
        over = Signal()
        timed = Signal()
        with m.Switch(self.head.sqe.type):
            with m.Case(*TIMED):
                m.d.comb += timed.eq(1)
        m.d.comb += [
            limited.eq(self.valid & self.idle & timed & (timeout != 0)),
            over.eq(limited & (waited == timeout << UNIT_BITS)),
        ]
        with m.If(~limited | self.taken):
            m.d.sync += [waited.eq(0), late.eq(0)]
        with m.Else():
            m.d.sync += late.eq(late | (over & ~settled))
            with m.If(~over):
                m.d.sync += waited.eq(waited + 1)
        return late | (over & ~settled)
