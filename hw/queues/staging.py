"""The entries of one ring or list that were fetched ahead."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..interface import Head
from ..layout import struct
from ..regs.descriptor import Arguments, Sqe
from ..regs.fault import FaultCause
from ..regs.registers import Doorbell

__all__ = [
    "EntrySource", "FetchSignature", "RingSignature", "Staging", "Verdict", "is_listed",
]  # fmt: skip

SQE_BITS = Sqe.WIDTH
INDEX_BITS = Doorbell.tail.width
LISTED_BIT = 4


def is_listed(slot):
    """Whether a staging slot is one of those of lists."""
    return slot[LISTED_BIT]


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
    enter: pulse while the head is a good CALL that has not returned: its list is run.
    tail: last doorbell that was accepted. head: oldest task of the ring that has not ended.
    empty: head is tail: nothing pending, staged or running.
    flushed: empty, and no read in flight.
    called: a list runs. entry: entries of it that have retired, 0 when none runs.
    """

    def __init__(self):
        super().__init__({
            "base": Out(ADDRESS_BITS), "args_base": Out(ADDRESS_BITS),
            "size": Out(4), "context": Out(4),
            "doorbell": Out(INDEX_BITS), "rung": Out(1),
            "active": Out(1), "start": Out(1), "flush": Out(1), "enter": Out(1),
            "tail": In(INDEX_BITS), "head": In(INDEX_BITS), "empty": In(1), "flushed": In(1),
            "called": In(1), "entry": In(INDEX_BITS),
        })  # fmt: skip


class EntrySource(data.Struct):
    """Where the next entry and its argument block lie, and where they are put."""

    slot: 5
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

    slot: 5
    decoded: 1
    complete: 1
    settled: 1
    cause: 8
    address: ADDRESS_BITS
    sqe: struct(Sqe)


class Staging(wiring.Component):
    """`NpuConfig.staging` slots, each taken from the grant of its fetch until its task retires.

    What `tail` announces in cycle t shows at `fetch` in t; after a `start` in t, in t + 1. A
    complete verdict in t is the valid head in t + 1 if it is the next. When a head is taken, the
    next one is valid in the next cycle if it is complete.

    Parameters
    ----------
    config: sizes.
    listed: the slots are those of lists.

    Members
    -------
    base, args_base: first entry and first argument block, the low 6 and 7 bits taken as 0; with an
        args_base of 0, no block is fetched ahead. They count as they are at `start`.
    wrap: index bits that count for the place of an entry: the rest are turns of a ring.
    context: whose windows its reads are checked against. Constant, like `wrap`, from the cycle
        after `start` until the flush has ended.
    start: pulse: all indices become 0. Reads of retired tasks may be in flight.
    active: entries are fetched.
    flush: see `RingSignature`.
    tail: index behind the last entry. head: of the oldest task that has not retired.
    empty: head is tail.
    settled: no read is in flight.
    fetch: the next entry to fetch.
    verdict, judged: what has become of a fetch, valid while `judged`.
    tasks: the next task.
    retire: the oldest task that was taken has ended.
    """

    def __init__(self, config, *, listed=False):
        self.config = config
        self.listed = listed
        super().__init__({
            "base": In(ADDRESS_BITS), "args_base": In(ADDRESS_BITS), "wrap": In(INDEX_BITS),
            "context": In(4), "start": In(1), "active": In(1), "flush": In(1),
            "tail": In(INDEX_BITS), "head": Out(INDEX_BITS), "empty": Out(1), "settled": Out(1),
            "fetch": Out(FetchSignature()),
            "verdict": In(Verdict),
            "judged": In(1),
            "tasks": Out(stream.Signature(Head)),
            "retire": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        slot_bits = (self.config.staging - 1).bit_length()
        fetched = Signal(INDEX_BITS)
        taken = Signal(INDEX_BITS)
        # An entry leaves at most three reads behind in a slot: its predecessor's arguments too.
        asked = Signal(slot_bits + 2)
        answered = Signal(slot_bits + 2)

        m.d.comb += [
            self.empty.eq(self.head == self.tail),
            self.settled.eq(asked == answered),
        ]
        self._fetches(m, fetched, asked, slot_bits)
        self._tasks(m, taken, slot_bits)
        with m.If(self.judged & self.verdict.settled):
            m.d.sync += answered.eq(answered + 1)
        with m.If(self.retire & ~self.empty):
            m.d.sync += self.head.eq(self.head + 1)
        with m.If(self.flush):
            m.d.sync += [self.head.eq(self.tail), fetched.eq(self.tail), taken.eq(self.tail)]
        with m.If(self.start):
            m.d.sync += [self.head.eq(0), fetched.eq(0), taken.eq(0)]
        return m

    def _fetches(self, m, fetched, asked, slot_bits):
        fetch, source = self.fetch, self.fetch.source
        base, args_base = Signal(ADDRESS_BITS - 6), Signal(ADDRESS_BITS - 7)
        place = Signal(INDEX_BITS)
        m.d.comb += [
            place.eq(fetched & self.wrap),
            fetch.valid.eq(
                self.active
                & ~self.flush
                & (fetched != self.tail)
                & ((fetched - self.head)[:5] != self.config.staging)
            ),
            source.slot.eq(fetched[:slot_bits] | self.listed << LISTED_BIT),
            source.address.eq((base + place) << 6),
            source.args_address.eq((args_base + place) << 7),
            source.prefetch.eq(args_base != 0),
            source.context.eq(self.context),
        ]
        assert Sqe.BYTES == 1 << 6
        assert Arguments.BYTES == 1 << 7
        with m.If(self.start):
            m.d.sync += [base.eq(self.base[6:]), args_base.eq(self.args_base[7:])]
        with m.If(fetch.valid & fetch.ready):
            m.d.sync += [fetched.eq(fetched + 1), asked.eq(asked + 1 + source.prefetch)]

    def _tasks(self, m, taken, slot_bits):
        staging, verdict, tasks = self.config.staging, self.verdict, self.tasks
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
                (~tasks.valid | tasks.ready)
                & (complete | arriving).bit_select(next_slot, 1)
                & ~self.flush
            ),
            served.eq(load << next_slot),
            read.addr.eq(next_slot),
            read.en.eq(load),
        ]
        shown = Signal(LISTED_BIT)
        m.d.sync += complete.eq((complete | arriving) & ~served)
        with m.If(load):
            m.d.sync += [tasks.valid.eq(1), taken.eq(taken + 1), shown.eq(next_slot)]
        with m.Elif(tasks.ready):
            m.d.sync += tasks.valid.eq(0)
        with m.If(self.flush):
            m.d.sync += [tasks.valid.eq(0), complete.eq(0)]
        m.d.comb += [
            Cat(tasks.p.sqe, tasks.p.address, tasks.p.cause).eq(read.data),
            tasks.p.slot.eq(shown | self.listed << LISTED_BIT),
            tasks.p.listed.eq(self.listed),
        ]
