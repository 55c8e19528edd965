"""One submission queue: its indices, and the entries that were fetched ahead."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..interface import Head
from ..layout import struct
from ..regs.descriptor import Arguments, Sqe
from ..regs.fault import FaultCause
from ..regs.registers import Doorbell

__all__ = ["EntrySource", "FetchSignature", "RingSignature", "Staging", "Verdict"]

SQE_BITS = Sqe.WIDTH
INDEX_BITS = Doorbell.tail.width


class RingSignature(wiring.Signature):
    """One submission queue, seen from the scheduler and the control registers.

    base: first entry; the low 6 bits are taken as 0. args_base: first argument block, the low 7
        bits taken as 0; 0: no block is fetched ahead. Both count as they are at `start`.
    size: log2 of the entries. context: whose windows its reads are checked against. Both are
        constant from the cycle after `start` until the flush has ended.
    doorbell, rung: index behind the last entry, valid while `rung`.
    active: doorbells are accepted and entries fetched.
    start: pulse while not active, with nothing in flight: all indices become 0.
    flush: held until `flushed`: what is staged is dropped, answers of the bus are swallowed, head
        becomes tail. A head that was offered is withdrawn.
    tail: last doorbell that was accepted. head: oldest task that has not ended.
    empty: head is tail: nothing pending, staged or running.
    flushed: empty, and no read in flight.
    """

    def __init__(self):
        super().__init__({
            "base": Out(ADDRESS_BITS), "args_base": Out(ADDRESS_BITS),
            "size": Out(4), "context": Out(4),
            "doorbell": Out(INDEX_BITS), "rung": Out(1),
            "active": Out(1), "start": Out(1), "flush": Out(1),
            "tail": In(INDEX_BITS), "head": In(INDEX_BITS), "empty": In(1), "flushed": In(1),
        })  # fmt: skip


class EntrySource(data.Struct):
    """Where the next entry of a ring and its argument block lie, and where they are put."""

    slot: 4
    address: ADDRESS_BITS
    args_address: ADDRESS_BITS
    prefetch: 1
    context: 4


class FetchSignature(wiring.Signature):
    """The next entry to fetch, seen from the queue. Taken when `valid` and `ready`."""

    def __init__(self):
        super().__init__({"valid": Out(1), "ready": In(1), "source": Out(EntrySource)})


class Verdict(data.Struct):
    """What became of a fetch for `slot`.

    decoded: the entry itself has come; `sqe` and `address` are stored.
    complete: nothing more is needed: the task may show as a head, with `cause`.
    settled: a read that was asked for has its answer, and no other follows from it.
    """

    slot: 4
    decoded: 1
    complete: 1
    settled: 1
    cause: 8
    address: ADDRESS_BITS
    sqe: struct(Sqe)


class Staging(wiring.Component):
    """The queue of one stream: `NpuConfig.staging` slots, each taken from the grant of its fetch
    until its task retires.

    A doorbell in cycle t shows in `tail` and at `fetch` in t + 1. A complete verdict in t is the
    valid head in t + 1 if it is the stream's next. When a head is taken, the next one is valid in
    the next cycle if it is complete.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    ring: see `RingSignature`.
    overrun: pulses in the cycle of a doorbell that announces more than the ring holds, or less
        than was announced before; it is ignored.
    fetch: the next entry to fetch.
    verdict, judged: what has become of a fetch, valid while `judged`.
    head: the next task.
    retire: the oldest task that was taken has ended.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "ring": In(RingSignature()),
            "overrun": Out(1),
            "fetch": Out(FetchSignature()),
            "verdict": In(Verdict),
            "judged": In(1),
            "head": Out(stream.Signature(Head)),
            "retire": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        ring = self.ring
        slot_bits = (self.config.staging - 1).bit_length()
        tail, head = Signal(INDEX_BITS), Signal(INDEX_BITS)
        fetched, taken = Signal(INDEX_BITS), Signal(INDEX_BITS)
        # An entry leaves at most three reads behind in a slot: its predecessor's arguments too.
        asked, answered = Signal(slot_bits + 2), Signal(slot_bits + 2)

        m.d.comb += [
            ring.tail.eq(tail),
            ring.head.eq(head),
            ring.empty.eq(head == tail),
            ring.flushed.eq(ring.empty & (asked == answered)),
        ]
        self._fetches(m, tail, head, fetched, asked)
        self._head(m, taken, slot_bits)
        with m.If(self.judged & self.verdict.settled):
            m.d.sync += answered.eq(answered + 1)
        with m.If(self.retire & ~ring.empty):
            m.d.sync += head.eq(head + 1)
        with m.If(ring.flush):
            m.d.sync += [head.eq(tail), fetched.eq(tail), taken.eq(tail)]
        with m.If(ring.start):
            m.d.sync += [tail.eq(0), head.eq(0), fetched.eq(0), taken.eq(0)]
        return m

    def _fetches(self, m, tail, head, fetched, asked):
        ring, fetch = self.ring, self.fetch
        base, args_base = Signal(ADDRESS_BITS - 6), Signal(ADDRESS_BITS - 7)
        ahead = Signal(INDEX_BITS)
        pending = Signal(INDEX_BITS)
        in_range = Signal()
        place = Signal(15)
        m.d.comb += [
            ahead.eq(ring.doorbell - head),
            pending.eq(tail - head),
            in_range.eq((ahead <= (1 << ring.size)) & (ahead >= pending)),
            self.overrun.eq(ring.rung & ring.active & ~in_range),
            place.eq(fetched & ((1 << ring.size) - 1)),
            fetch.valid.eq(
                ring.active
                & ~ring.flush
                & (fetched != tail)
                & ((fetched - head)[:5] != self.config.staging)
            ),
            fetch.source.slot.eq(fetched[: (self.config.staging - 1).bit_length()]),
            fetch.source.address.eq((base + place) << 6),
            fetch.source.args_address.eq((args_base + place) << 7),
            fetch.source.prefetch.eq(args_base != 0),
            fetch.source.context.eq(ring.context),
        ]
        assert Sqe.BYTES == 1 << 6
        assert Arguments.BYTES == 1 << 7
        with m.If(ring.start):
            m.d.sync += [base.eq(ring.base[6:]), args_base.eq(ring.args_base[7:])]
        with m.If(ring.rung & ring.active & in_range):
            m.d.sync += tail.eq(ring.doorbell)
        with m.If(fetch.valid & fetch.ready):
            m.d.sync += [fetched.eq(fetched + 1), asked.eq(asked + 1 + fetch.source.prefetch)]

    def _head(self, m, taken, slot_bits):
        staging, verdict = self.config.staging, self.verdict
        m.submodules.entries = entries = memory.Memory(
            shape=SQE_BITS + ADDRESS_BITS + 8, depth=staging, init=[]
        )
        write = entries.write_port(granularity=8)
        read = entries.read_port(transparent_for=(write,))
        decoded, done = self.judged & verdict.decoded, self.judged & verdict.complete
        failed = verdict.cause != FaultCause.NONE
        m.d.comb += [
            write.addr.eq(verdict.slot),
            write.data.eq(Cat(verdict.sqe, verdict.address, verdict.cause)),
            write.en.eq(Cat(
                decoded.replicate(SQE_BITS // 8),
                (decoded | (done & failed)).replicate(ADDRESS_BITS // 8),
                decoded | done,
            )),
        ]  # fmt: skip

        complete = Signal(staging)
        arriving = Signal(staging)
        served = Signal(staging)
        next_slot = Signal(slot_bits)
        load = Signal()
        m.d.comb += [
            next_slot.eq(taken),
            arriving.eq(done << verdict.slot[:slot_bits]),
            load.eq(
                (~self.head.valid | self.head.ready)
                & (complete | arriving).bit_select(next_slot, 1)
                & ~self.ring.flush
            ),
            served.eq(load << next_slot),
            read.addr.eq(next_slot),
            read.en.eq(load),
        ]
        shown = Signal(4)
        m.d.sync += complete.eq((complete | arriving) & ~served)
        with m.If(load):
            m.d.sync += [self.head.valid.eq(1), taken.eq(taken + 1), shown.eq(next_slot)]
        with m.Elif(self.head.ready):
            m.d.sync += self.head.valid.eq(0)
        with m.If(self.ring.flush):
            m.d.sync += [self.head.valid.eq(0), complete.eq(0)]
        m.d.comb += [
            Cat(self.head.p.sqe, self.head.p.address, self.head.p.cause).eq(read.data),
            self.head.p.slot.eq(shown),
        ]
