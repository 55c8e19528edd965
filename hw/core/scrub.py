"""Keeps what a context leaves in the local memories from every other one."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Scrub", "scrub_cycles"]


def scrub_cycles(config):
    """Cycles of a scrub: one for each word of the deeper local memory."""
    return max(config.scratchpad_words, config.accumulator_rows)


class Scrub(wiring.Component):
    """Writes zeros to the local memories before another context can read them.

    They belong to the context whose task was taken last. A scrub begins in the cycle in which a
    task of another context is taken. It begins by itself, in the first idle cycle, after reset,
    and after windows of the owner have changed, since another session may have got its number.
    Memories in which no kernel has run since the last scrub are not scrubbed again.

    A scrub that begins in cycle t writes words 0, 1, … of all memories in t + 1, t + 2, …, and
    goes on whatever becomes of the task. A kernel may start from its last cycle on.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    takes, context: a task of that context is taken, in an idle cycle.
    starts: its kernel starts.
    idle: no task is in work.
    changed: one bit for each context: its access windows change.
    holds: no kernel may start in this cycle; combinational.
    busy: word `address` of all memories becomes zero; those that are less deep have none.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "takes": In(1),
            "context": In(4),
            "starts": In(1),
            "idle": In(1),
            "changed": In(config.contexts),
            "holds": Out(1),
            "busy": Out(1),
            "address": Out(range(scrub_cycles(config))),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        owner = Signal(4)
        used = Signal(init=1)  # a kernel has run since the last scrub
        revoked = Signal(init=1)  # the owner's rights have changed since it became that
        foreign = Signal()
        begins = Signal()
        last = Signal()
        m.d.comb += [
            foreign.eq(revoked | (self.takes & (owner != self.context))),
            begins.eq(used & self.idle & foreign),
            last.eq(self.address == scrub_cycles(self.config) - 1),
            self.holds.eq(begins | (self.busy & ~last)),
        ]
        with m.If(begins):
            m.d.sync += [self.busy.eq(1), self.address.eq(0), used.eq(0)]
        with m.Elif(self.busy):
            m.d.sync += [self.busy.eq(~last), self.address.eq(self.address + 1)]
        with m.If(self.starts):
            m.d.sync += used.eq(1)
        with m.If(self.takes):
            m.d.sync += [
                owner.eq(self.context),
                revoked.eq(self.changed.bit_select(self.context, 1)),
            ]
        with m.Elif(self.changed.bit_select(owner, 1)):
            m.d.sync += revoked.eq(1)
        return m
