"""Collects the answers of reads, and says what became of each."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..crc import Crc32
from ..interface import Status, access_cause, read_beat
from ..layout import struct
from ..regs.descriptor import (
    GENERATION_BITS,
    Arguments,
    EventWord,
    KernelPayload,
    Sqe,
    TaskType,
)
from ..regs.fault import FaultCause
from .decode import check
from .fetcher import Part, PartRead, Refetch
from .staging import Verdict, is_listed

__all__ = ["Judge", "argument_word"]

CRC_BYTE = Sqe.crc.offset // 8


def argument_word(unit):
    """`unit` bytes of an argument block on their way into its staging slot."""
    rows = Arguments.BYTES // unit
    return data.StructLayout({"stream": 5, "slot": 5, "row": range(rows), "data": unit * 8})


class Failure(data.Struct):
    """The first bad beat of a part."""

    cause: 8
    address: ADDRESS_BITS


class Judge(wiring.Component):
    """Puts the beats of each part together and judges it in the cycle after its last beat.

    A relative entry of a list gets the epoch of its stream added, modulo 2^20, to the generations
    of its dependencies and of its record, after its checksum was looked at.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    beats: answers; one is taken in every cycle in which a part is in flight.
    reads: the parts in flight, in the order of their answers.
    epochs: of the list of each stream.
    verdict: of a part of each stream, valid while `judged`.
    refetches: argument blocks that must be read from another place; in the cycle of the verdict.
    blocks: argument blocks that come in.
    """

    def __init__(self, config):
        self.config = config
        self.unit = min(config.data_bytes, Sqe.BYTES)
        super().__init__({
            "beats": In(stream.Signature(read_beat(config.data_bytes))),
            "reads": In(stream.Signature(PartRead)),
            "epochs": In(data.ArrayLayout(GENERATION_BITS, config.streams)),
            "verdict": Out(Verdict),
            "judged": Out(config.streams),
            "refetches": Out(stream.Signature(Refetch, always_ready=True)),
            "blocks": Out(
                stream.Signature(argument_word(self.unit), always_ready=True)
            ),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        beats, read, unit = self.beats, self.reads.p, self.unit
        index = Signal(range(Arguments.BYTES // unit))
        entry_beat = Signal()
        last = Signal()
        taken = Signal()
        word = Signal(unit * 8)
        lanes = beats.p.data
        m.d.comb += [
            beats.ready.eq(self.reads.valid),
            taken.eq(beats.valid & self.reads.valid),
            word.eq(Mux(beats.p.offset >= unit, lanes[unit * 8 :], lanes[: unit * 8])),
            entry_beat.eq(read.part == Part.ENTRY),
            last.eq(
                index == Mux(entry_beat, Sqe.BYTES // unit - 1, Arguments.BYTES // unit - 1)
            ),
            self.reads.ready.eq(taken & last),
            self.blocks.valid.eq(taken & ~entry_beat),
            self.blocks.p.stream.eq(read.stream),
            self.blocks.p.slot.eq(read.slot),
            self.blocks.p.row.eq(index),
            self.blocks.p.data.eq(word),
        ]  # fmt: skip
        earlier, failure = Signal(Failure), Signal(Failure)
        m.d.comb += failure.eq(earlier)
        with m.If((earlier.cause == FaultCause.NONE) & (beats.p.status != Status.OKAY)):
            m.d.comb += [
                failure.cause.eq(access_cause(beats.p.status)),
                failure.address.eq(beats.p.address),
            ]
        with m.If(taken):
            m.d.sync += [index.eq(Mux(last, 0, index + 1)), earlier.eq(Mux(last, 0, failure))]

        sqe = Signal(struct(Sqe))
        entry_address = Signal(ADDRESS_BITS)
        m.submodules.crc = crc = Crc32(unit)
        crc_at = CRC_BYTE % unit * 8
        masked = word & ~(((1 << 32) - 1) << crc_at)
        m.d.comb += [
            crc.valid.eq(taken & entry_beat),
            crc.start.eq(index == 0),
            crc.data.eq(Mux(index == CRC_BYTE // unit, masked, word)),
        ]
        with m.If(crc.valid):
            m.d.sync += sqe.eq(Cat(sqe, word)[unit * 8 :])
            with m.If(index == 0):
                m.d.sync += entry_address.eq(beats.p.address)

        ended = Signal()
        ended_read = Signal(PartRead)
        ended_failure = Signal(Failure)
        m.d.sync += ended.eq(taken & last)
        with m.If(taken & last):
            m.d.sync += [ended_read.eq(read), ended_failure.eq(failure)]
        for i in range(self.config.streams):
            m.d.comb += self.judged[i].eq(ended & (ended_read.stream == i))
        self._judge(m, ended, ended_read, ended_failure, sqe, entry_address, crc.crc != sqe.crc)
        self._relocate(m, ended_read, sqe)
        return m

    def _judge(self, m, ended, read, failure, sqe, entry_address, checksum_fails):
        kernel = data.View(struct(KernelPayload), sqe.payload)
        verdict, refetch = self.verdict, self.refetches.p
        read_well = failure.cause == FaultCause.NONE
        wanted = Signal()
        needs_args = Signal()
        elsewhere = Signal()
        m.d.comb += [
            verdict.slot.eq(read.slot),
            verdict.cause.eq(failure.cause),
            verdict.address.eq(Mux(read_well, entry_address, failure.address)),
            refetch.stream.eq(read.stream),
            refetch.slot.eq(read.slot),
            refetch.address.eq(kernel.args_address),
        ]
        with m.Switch(read.part):
            with m.Case(Part.ENTRY):
                with m.If(read_well):
                    m.d.comb += verdict.cause.eq(Mux(
                        checksum_fails,
                        FaultCause.CHECKSUM,
                        check(sqe, self.config, is_listed(read.slot)),
                    ))  # fmt: skip
                m.d.comb += [
                    needs_args.eq(
                        (verdict.cause == FaultCause.NONE) & (sqe.type == TaskType.KERNEL)
                    ),
                    elsewhere.eq(
                        ~read.prefetched | (kernel.args_address != read.args_address)
                    ),
                    verdict.decoded.eq(1),
                    verdict.complete.eq(~needs_args),
                    verdict.settled.eq(~(needs_args & elsewhere)),
                    self.refetches.valid.eq(ended & needs_args & elsewhere),
                ]  # fmt: skip
                with m.If(ended):
                    m.d.sync += wanted.eq(needs_args & ~elsewhere)
            with m.Case(Part.PREFETCH):
                m.d.comb += [verdict.complete.eq(wanted), verdict.settled.eq(1)]
            with m.Case(Part.REFETCH):
                m.d.comb += [verdict.complete.eq(1), verdict.settled.eq(1)]

    def _relocate(self, m, read, sqe):
        """The entry as its stream sees it."""
        shown = self.verdict.sqe
        epoch = Array(self.epochs)[read.stream]
        m.d.comb += shown.eq(sqe)
        with m.If(is_listed(read.slot) & sqe.relative):
            for i, word in enumerate(sqe.event_deps):
                with m.If(i < sqe.dependencies):
                    m.d.comb += shown.event_deps[i].eq(_later(word, epoch))
            with m.If(sqe.record):
                m.d.comb += shown.record_event.eq(_later(sqe.record_event, epoch))


def _later(word, epoch):
    """An event word, that many generations later."""
    event = data.View(struct(EventWord), word)
    return Cat(event.slot, (event.generation + epoch)[:GENERATION_BITS])
