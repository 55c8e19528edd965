"""Requests the entries of all streams and their arguments."""

from amaranth import Array, Cat, Module, Signal
from amaranth.lib import data, enum, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from ..arbiter import Arbiter
from ..config import ADDRESS_BITS
from ..interface import BurstRequest
from ..regs.descriptor import Arguments, Sqe
from .staging import EntrySource, FetchSignature

__all__ = ["Fetcher", "Part", "PartRead", "Refetch"]


class Part(enum.Enum, shape=2):
    """What a read brings: an entry, the argument block behind it, or one from another place."""

    ENTRY = 0
    PREFETCH = 1
    REFETCH = 2


class PartRead(data.Struct):
    """A read in flight. `prefetched`, `args_address`: the block that is read behind an entry."""

    part: Part
    stream: 5
    slot: 5
    prefetched: 1
    args_address: ADDRESS_BITS


class Refetch(data.Struct):
    """An argument block that must come from another place than the default one."""

    stream: 5
    slot: 5
    address: ADDRESS_BITS


class Fetcher(wiring.Component):
    """Turns what the streams want to fetch into reads, one burst a cycle.

    Refetches go first; then the streams take turns. The next fetch is taken in the cycle in which
    the last burst of the former one is, and its first request is valid in the cycle after.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    fetches: what each stream wants to fetch next.
    refetches: argument blocks from other places; always ready.
    contexts: of each stream, for its refetches.
    requests: bursts of 64 bytes, or of `burst_bytes` if that is less.
    reads: the parts that were asked for, in the order of their answers.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "fetches": In(FetchSignature()).array(config.streams),
            "refetches": In(stream.Signature(Refetch, always_ready=True)),
            "contexts": In(data.ArrayLayout(4, config.streams)),
            "requests": Out(stream.Signature(BurstRequest)),
            "reads": Out(stream.Signature(PartRead)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        requests = self.requests
        line = min(Sqe.BYTES, self.config.burst_bytes)
        slots = 2 * self.config.streams * self.config.staging
        m.submodules.refetches = refetches = fifo.SyncFIFOBuffered(
            width=Refetch.as_shape().size, depth=slots
        )
        m.submodules.reads = reads = fifo.SyncFIFO(
            width=PartRead.as_shape().size, depth=self.config.outstanding
        )
        refetch = data.View(Refetch, refetches.r_data)

        source = Signal(EntrySource)
        m.submodules.turns = turns = Arbiter(self.config.streams)
        m.d.comb += turns.requests.eq(Cat(fetch.valid for fetch in self.fetches))
        with m.Switch(turns.index):
            for i, fetch in enumerate(self.fetches):
                with m.Case(i):
                    m.d.comb += source.eq(fetch.source)

        busy = Signal()
        begins = Signal()
        read = Signal(PartRead)
        address = Signal(ADDRESS_BITS)
        context = Signal(4)
        lines = Signal(range(Arguments.BYTES // line + 1))
        accepted = Signal()
        then_args = Signal()
        part_ends = Signal()
        free = Signal()
        m.d.comb += [
            refetches.w_en.eq(self.refetches.valid),
            refetches.w_data.eq(self.refetches.p),
            self.reads.valid.eq(reads.r_rdy),
            self.reads.p.eq(reads.r_data),
            reads.r_en.eq(self.reads.ready),
            requests.valid.eq(busy & (~begins | reads.w_rdy)),
            requests.p.address.eq(address),
            requests.p.bytes.eq(line),
            requests.p.context.eq(context),
            accepted.eq(requests.valid & requests.ready),
            reads.w_en.eq(accepted & begins),
            reads.w_data.eq(read),
            part_ends.eq(accepted & (lines == 1)),
            then_args.eq((read.part == Part.ENTRY) & read.prefetched),
            free.eq(~busy | (part_ends & ~then_args)),
            refetches.r_en.eq(free),
            turns.accept.eq(free & ~refetches.r_rdy),
        ]
        for i, fetch in enumerate(self.fetches):
            m.d.comb += fetch.ready.eq(turns.accept & turns.grant[i])

        with m.If(accepted):
            m.d.sync += [address.eq(address + line), lines.eq(lines - 1), begins.eq(0)]
        with m.If(part_ends & then_args):
            m.d.sync += [
                begins.eq(1),
                read.part.eq(Part.PREFETCH),
                address.eq(read.args_address),
                lines.eq(Arguments.BYTES // line),
            ]
        with m.If(free):
            m.d.sync += [busy.eq(refetches.r_rdy | turns.valid), begins.eq(1)]
            with m.If(refetches.r_rdy):
                m.d.sync += [
                    read.part.eq(Part.REFETCH),
                    read.stream.eq(refetch.stream),
                    read.slot.eq(refetch.slot),
                    address.eq(refetch.address),
                    context.eq(Array(self.contexts)[refetch.stream]),
                    lines.eq(Arguments.BYTES // line),
                ]
            with m.Elif(turns.valid):
                m.d.sync += [
                    read.part.eq(Part.ENTRY),
                    read.stream.eq(turns.index),
                    read.slot.eq(source.slot),
                    read.prefetched.eq(source.prefetch),
                    read.args_address.eq(source.args_address),
                    address.eq(source.address),
                    context.eq(source.context),
                    lines.eq(Sqe.BYTES // line),
                ]
        return m
