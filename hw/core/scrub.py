"""Keeps what a context leaves in the local memories from every other one."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Scrub"]


class Scrub(wiring.Component):
    """Has the local memories scrubbed before another context can read them.

    They belong to the context whose task was taken last. If they hold anything, a scrub begins
    in the cycle in which a task of another context is taken. It begins by itself, in the first
    idle cycle, after reset, and after windows of the owner have changed, since another session
    may have got its number.

    A scrub that begins in cycle t clears a word of each memory in t + 1, t + 2, …, and goes on
    whatever becomes of the task. The kernel may start from the cycle of the last words on.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    takes, context: a task of that context is taken.
    idle: no task is in work, or the one that was is done and the next is taken.
    changed: one bit for each context: its access windows change.
    dirty: some memory has words to clear. last: none has more than one.
    holds: no kernel may start in this cycle; combinational.
    busy: the memories are scrubbed.
    """

    def __init__(self, config):
        super().__init__({
            "takes": In(1),
            "context": In(4),
            "idle": In(1),
            "changed": In(config.contexts),
            "dirty": In(1),
            "last": In(1),
            "holds": Out(1),
            "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        owner = Signal(4)
        revoked = Signal(init=1)  # the owner's rights have changed since it became that
        foreign = Signal()
        begins = Signal()
        m.d.comb += [
            foreign.eq(revoked | (self.takes & (owner != self.context))),
            begins.eq(self.idle & self.dirty & ~self.busy & foreign),
            self.holds.eq(begins | (self.busy & ~self.last)),
        ]
        with m.If(begins):
            m.d.sync += self.busy.eq(1)
        with m.Elif(self.last):
            m.d.sync += self.busy.eq(0)
        with m.If(self.takes):
            m.d.sync += [
                owner.eq(self.context),
                revoked.eq(self.changed.bit_select(self.context, 1)),
            ]
        with m.Elif(self.changed.bit_select(owner, 1)):
            m.d.sync += revoked.eq(1)
        return m
