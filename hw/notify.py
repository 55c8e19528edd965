"""Notify unit: counters that tasks add to, set and wait for."""

from amaranth import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .interface import NotifyChange, NotifySignature
from .regs.descriptor import NotifyOperation

__all__ = ["NotifyUnit"]


class NotifyUnit(wiring.Component):
    """Keeps the counters and tells streams, without polling, when theirs is high enough.

    A counter has 32 bits, is 0 after reset and wraps. In each cycle one waiter may take, one
    change come and one counter be set by register, all of the same counter too: then they count
    in that order. What counts in cycle t is seen by waiters, and in `value`, from t + 1 on; so of
    several waiters that are ready, the next sees what the one before it has left.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    waiters: heads of the streams, of counters that exist. `take` only while `ready`, one at once.
    changes: NOTIFY that adds or sets; always taken.
    select: counter that `value` shows, combinational, and that `set` sets.
    value: of that counter.
    set, set_value: pulse: it becomes the value.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "waiters": In(NotifySignature()).array(config.streams),
            "changes": In(stream.Signature(NotifyChange)),
            "select": In(8),
            "value": Out(32),
            "set": In(1),
            "set_value": In(32),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        counters = Array(Signal(32, name=f"counter{n}") for n in range(self.config.notifies))
        change = self.changes.p
        taking = Signal()
        taken = Signal(8)
        amount = Signal(32)
        left = Signal(32)
        changed = Signal(32)
        m.d.comb += [
            self.changes.ready.eq(1),
            self.value.eq(counters[self.select]),
            taking.eq(Cat(waiter.take for waiter in self.waiters).any()),
            left.eq(counters[taken] - amount),
            changed.eq(change.amount),
        ]
        for waiter in self.waiters:
            m.d.comb += waiter.ready.eq(
                waiter.valid & (counters[waiter.counter] >= waiter.amount)
            )
            with m.If(waiter.take):
                m.d.comb += [taken.eq(waiter.counter), amount.eq(waiter.amount)]
                m.d.sync += Assert(waiter.ready, "a notify is taken before it is there")
        m.d.sync += Assert(
            sum(waiter.take for waiter in self.waiters) < 2, "two notifies are taken at once"
        )
        with m.If(change.operation == NotifyOperation.ADD):
            m.d.comb += changed.eq(
                Mux(taking & (taken == change.counter), left, counters[change.counter])
                + change.amount
            )
        for n, counter in enumerate(counters):
            with m.If(self.set & (self.select == n)):
                m.d.sync += counter.eq(self.set_value)
            with m.Elif(self.changes.valid & (change.counter == n)):
                m.d.sync += counter.eq(changed)
            with m.Elif(taking & (taken == n)):
                m.d.sync += counter.eq(left)
        return m
