"""Event unit: what has been recorded, and who waits for it."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .arbiter import Arbiter
from .interface import WaiterSignature
from .layout import struct
from .regs.descriptor import GENERATION_BITS, SLOT_BITS, EventWord

__all__ = ["EventState", "EventUnit"]


class EventState(data.Struct):
    """A slot: the serial maximum of its generations, and the cycle in which it was taken."""

    generation: GENERATION_BITS
    timestamp: 64


def reached(recorded, wanted):
    """Whether `recorded` is serially not before `wanted`: less than 2^19 steps ahead of it."""
    return ~(recorded - wanted)[GENERATION_BITS - 1]


class EventUnit(wiring.Component):
    """Keeps the events and tells streams, without polling, when their dependencies are met.

    Generations compare serially, modulo 2^20. A slot keeps the serial maximum of what was
    recorded and the cycle of that record; a record that is not later changes nothing. All slots
    are at generation 0 after reset, the runtime's first is 1.

    Every record is compared in its cycle t with all the dependencies of all waiters, so any
    number of streams gets ready in t + 1. What was recorded before a waiter showed up is looked
    up, one dependency a cycle, in turn over the streams: a waiter that shows up in cycle v, alone,
    with n dependencies recorded before v, is ready in v + 1 + n (n = 0: in v).

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    records: from the scheduler; taken in the cycle in which it is offered.
    register: from the control register, of slots that exist; waits while `records` is valid.
    waiters: heads of the streams.
    cycle: now.
    select: slot that `selected` shows one cycle later; 0 for one that does not exist. A record is
        seen there from two cycles after it was taken.
    recorded: pulses in the cycle in which a record is taken; record: which.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "records": In(stream.Signature(struct(EventWord))),
            "register": In(stream.Signature(struct(EventWord))),
            "waiters": In(WaiterSignature()).array(config.streams),
            "cycle": In(64),
            "select": In(SLOT_BITS),
            "selected": Out(EventState),
            "recorded": Out(1),
            "record": Out(struct(EventWord)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.slots = slots = memory.Memory(
            shape=EventState, depth=self.config.events, init=[]
        )
        write = slots.write_port()
        record = self.record
        m.d.comb += [
            self.records.ready.eq(1),
            self.register.ready.eq(~self.records.valid),
            record.eq(Mux(self.records.valid, self.records.p, self.register.p)),
            self.recorded.eq(self.records.valid | self.register.valid),
        ]
        self._keep_maximum(m, slots, write, record)
        self._look_up(m, slots, write, record)

        show = slots.read_port(transparent_for=(write,))
        shown = Signal()
        m.d.comb += [show.en.eq(1), show.addr.eq(self.select)]
        m.d.sync += shown.eq(self.select < self.config.events)
        m.d.comb += self.selected.eq(Mux(shown, show.data, 0))
        return m

    def _keep_maximum(self, m, slots, write, record):
        """Reads the slot in the cycle of the record, compares and writes in the next one."""
        former = slots.read_port(transparent_for=(write,))
        pending = Signal()
        later = Signal(struct(EventWord))
        timestamp = Signal(64)
        m.d.comb += [former.en.eq(self.recorded), former.addr.eq(record.slot)]
        m.d.sync += pending.eq(self.recorded)
        with m.If(self.recorded):
            m.d.sync += [later.eq(record), timestamp.eq(self.cycle)]
        m.d.comb += [
            write.en.eq(
                pending
                & reached(later.generation, former.data.generation)
                & (later.generation != former.data.generation)
            ),
            write.addr.eq(later.slot),
            write.data.generation.eq(later.generation),
            write.data.timestamp.eq(timestamp),
        ]

    def _look_up(self, m, slots, write, record):
        """Marks the dependencies that are met.

        A look-up that reads in cycle l sees the records up to l - 1, and the comparison sees
        those from the waiter's first cycle on; l is not before that one, so none is missed.
        """
        streams = self.config.streams
        m.submodules.turn = turn = Arbiter(streams)
        port = slots.read_port(transparent_for=(write,))
        looking = Signal()
        looking_stream = Signal(range(streams))
        looking_word = Signal(2)
        looking_generation = Signal(GENERATION_BITS)
        m.d.comb += turn.accept.eq(turn.valid)
        m.d.sync += looking.eq(turn.valid)
        for s, waiter in enumerate(self.waiters):
            met = Signal(4, name=f"met{s}")
            looked = Signal(4, name=f"looked{s}")
            used = Signal(4, name=f"used{s}")
            unknown = Signal(4, name=f"unknown{s}")
            m.d.comb += [
                used.eq(Mux(waiter.valid, Cat(i < waiter.dependencies for i in range(4)), 0)),
                unknown.eq(used & ~met & ~looked),
                turn.requests[s].eq(unknown.any()),
                waiter.waiting.eq(used & ~met),
                waiter.ready.eq(waiter.valid & ~waiter.waiting.any()),
            ]
            with m.If(self.recorded):
                for i, event in enumerate(waiter.events):
                    with m.If(
                        (record.slot == event.slot) & reached(record.generation, event.generation)
                    ):
                        m.d.sync += met[i].eq(1)
            with m.If(looking & (looking_stream == s)):
                with m.If(reached(port.data.generation, looking_generation)):
                    m.d.sync += met.bit_select(looking_word, 1).eq(1)
            with m.If(turn.grant[s]):
                m.d.comb += port.en.eq(1)
                m.d.sync += [looking_stream.eq(s), looked.eq(looked | unknown & -unknown)]
                for i, event in reversed(list(enumerate(waiter.events))):
                    with m.If(unknown[i]):
                        m.d.comb += port.addr.eq(event.slot)
                        m.d.sync += [
                            looking_word.eq(i),
                            looking_generation.eq(event.generation),
                        ]
                with m.If(waiter.take | ~waiter.valid):
                    m.d.sync += looking.eq(0)
            with m.If(waiter.take | ~waiter.valid):
                m.d.sync += [met.eq(0), looked.eq(0)]
