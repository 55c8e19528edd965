"""One completion ring: its indices, and how many tasks may still be started for it."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..interface import DISPATCHES, CreditSignature
from ..regs.registers import CompletionHead

__all__ = ["CompletionRing", "CompletionSignature"]

INDEX_BITS = CompletionHead.head.width


class CompletionSignature(wiring.Signature):
    """The completion ring of one context, seen from the control registers.

    base: first entry; the low 6 bits are taken as 0.
    size: log2 of the entries; 0: there is no ring, entries are dropped.
    head, moved: consumer's index, valid while `moved`. Ignored if before the former one, or past
        `tail` and the entry in work, which may be seen in memory before its answer has come.
    restart: pulse: head and tail become 0, phase 1.
    tail: entries written and answered.
    written: pulses in the first cycle in which `tail` counts an entry.
    full: a task could be dispatched, but there are unread entries, and no room for one more.
    """

    def __init__(self):
        super().__init__({
            "base": Out(ADDRESS_BITS), "size": Out(4), "head": Out(INDEX_BITS), "moved": Out(1),
            "restart": Out(1), "tail": In(INDEX_BITS), "written": In(1), "full": In(1),
        })  # fmt: skip


class CompletionRing(wiring.Component):
    """The ring of one context.

    Every task can fail and then has an entry, so one is promised to each task that runs, until
    it is written or known not to be needed. What is promised has room: no entry ever waits.

    Another base or size and a restart are carried out at the end of the first cycle in which
    nothing is promised; until then no credit is given. So no older entry is written after them.

    Parameters
    ----------
    depth: retirements of the context that the writer holds at most.

    Members
    -------
    registers: `CompletionSignature`.
    credit: `CreditSignature`.
    held: retirements of the context that the writer holds.
    count: an entry was written in this cycle.
    exists: there is a ring.
    place, phase: of the next entry.
    """

    def __init__(self, depth):
        super().__init__({
            "registers": In(CompletionSignature()),
            "credit": Out(CreditSignature()),
            "held": In(range(depth + 1)),
            "count": In(1),
            "exists": Out(1),
            "place": Out(ADDRESS_BITS),
            "phase": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        registers, credit, tail = self.registers, self.credit, self.registers.tail
        base = Signal(ADDRESS_BITS - 6)
        size = Signal(4)
        consumed = Signal(INDEX_BITS)
        restart = Signal()
        restarting = Signal()
        changing = Signal()
        unread = Signal(signed(INDEX_BITS))
        used = Signal(signed(INDEX_BITS + 1))
        read = Signal(INDEX_BITS)
        left = Signal(16)
        m.d.comb += [
            self.exists.eq(size != 0),
            self.place.eq((base + (tail & ((1 << size) - 1))[:15]) << 6),
            self.phase.eq(~tail.bit_select(size, 1)),
            restart.eq(registers.restart | restarting),
            changing.eq(restart | (registers.base[6:] != base) | (registers.size != size)),
            unread.eq(tail - consumed),
            used.eq(unread + credit.running + self.held),
            left.eq((1 << size) - used),
            read.eq(registers.head - consumed),
            registers.full.eq(credit.starved & ~changing & self.exists & (unread > 0)),
        ]
        with m.If(~changing):
            with m.If(~self.exists):
                m.d.comb += credit.left.eq(DISPATCHES)
            with m.Elif(used < (1 << size)):
                m.d.comb += credit.left.eq(Mux(left < DISPATCHES, left, DISPATCHES))

        m.d.sync += [restarting.eq(restart), registers.written.eq(self.count)]
        with m.If(registers.moved & (read <= unread + (self.held != 0))):
            m.d.sync += consumed.eq(registers.head)
        with m.If(self.count):
            m.d.sync += tail.eq(tail + 1)
        with m.If(changing & (credit.running == 0) & (self.held == 0)):
            m.d.sync += [base.eq(registers.base[6:]), size.eq(registers.size), restarting.eq(0)]
            with m.If(restart):
                m.d.sync += [tail.eq(0), consumed.eq(0)]
        return m
