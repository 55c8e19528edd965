"""Submission queues: fetches the entries of every stream and their arguments ahead of time."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, enum, fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..arbiter import Arbiter
from ..config import ADDRESS_BITS
from ..crc import Crc32
from ..interface import ArgumentPort, Head, ReadPort, Status, access_cause
from ..layout import struct
from ..regs.descriptor import Arguments, KernelPayload, Sqe, TaskType
from ..regs.fault import FaultCause
from .decode import check
from .staging import EntrySource, RingSignature, Staging, Verdict

__all__ = ["SubmissionQueues"]

SQE_BYTES, ARGS_BYTES = Sqe.BYTES, Arguments.BYTES
CRC_BYTE = Sqe.crc.offset // 8


class Part(enum.Enum, shape=2):
    """What a read brings: an entry, the argument block behind it, or one from another place."""

    ENTRY = 0
    PREFETCH = 1
    REFETCH = 2


class PartRead(data.Struct):
    """A read in flight. `prefetched`, `args_address`: the block that is read behind an entry."""

    part: Part
    stream: 5
    slot: 4
    prefetched: 1
    args_address: ADDRESS_BITS


class Refetch(data.Struct):
    """An argument block that must come from another place than the default one."""

    stream: 5
    slot: 4
    address: ADDRESS_BITS


class Failure(data.Struct):
    """The first bad beat of a part."""

    cause: 8
    address: ADDRESS_BITS


class SubmissionQueues(wiring.Component):
    """The rings of all streams: each entry is read, checked, and offered in order as a head.

    Streams with something to fetch and a free slot are served round-robin. An entry and, if the
    stream has an `args_base`, its argument block are read back to back; the next entry's reads
    follow without waiting for answers. A good KERNEL whose block lies elsewhere has it read from
    there before its head shows. Reads are bursts of 64 bytes, or of `burst_bytes` if that is less.

    A bad entry is a head like others, with its cause: that of a failed read, with the address of
    the first bad beat, else CHECKSUM, else what `hw.queues.decode.check` says.

    With a free fetcher, a doorbell in cycle t has its first request valid in t + 2, and then one
    a cycle. From the last beat that a task needs in t on, its head is valid in t + 2. A block from
    another place is requested 4 cycles after the last beat of its entry.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    rings: control of each stream; see `RingSignature`.
    heads: the next task of each stream. After one is taken the next is valid in the next cycle,
        if all of it has come.
    retire: one bit for each stream: its oldest taken task has ended, and the slot is free.
    overrun: one bit for each stream: a doorbell was refused in this cycle.
    memory: reads; a beat is taken in every cycle.
    arguments: reads the staged argument blocks, data one cycle later, for each core.
    """

    def __init__(self, config):
        self.config = config
        self.unit = min(config.data_bytes, SQE_BYTES)
        super().__init__({
            "rings": In(RingSignature()).array(config.streams),
            "heads": Out(stream.Signature(Head)).array(config.streams),
            "retire": In(config.streams),
            "overrun": Out(config.streams),
            "memory": Out(ReadPort(config.data_bytes)),
            "arguments": In(ArgumentPort()).array(config.cores),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        queues = []
        for i in range(self.config.streams):
            m.submodules[f"stream{i}"] = queue = Staging(self.config)
            connect(m, flipped(self.rings[i]), queue.ring)
            connect(m, queue.head, flipped(self.heads[i]))
            m.d.comb += [queue.retire.eq(self.retire[i]), self.overrun[i].eq(queue.overrun)]
            queues.append(queue)

        slots = self.config.streams * self.config.staging
        m.submodules.refetches = refetches = fifo.SyncFIFOBuffered(
            width=Refetch.as_shape().size, depth=slots
        )
        m.submodules.reads = reads = fifo.SyncFIFO(
            width=PartRead.as_shape().size, depth=self.config.outstanding
        )
        self._requests(m, queues, refetches, reads)
        self._answers(m, queues, refetches, reads)
        return m

    def _requests(self, m, queues, refetches, reads):
        requests = self.memory.requests
        line = min(SQE_BYTES, self.config.burst_bytes)
        refetch = data.View(Refetch, refetches.r_data)
        contexts = Array(ring.context for ring in self.rings)

        source = Signal(EntrySource)
        m.submodules.turns = turns = Arbiter(len(queues))
        m.d.comb += turns.requests.eq(Cat(queue.fetch.valid for queue in queues))
        with m.Switch(turns.index):
            for i, queue in enumerate(queues):
                with m.Case(i):
                    m.d.comb += source.eq(queue.fetch.source)

        busy = Signal()
        begins = Signal()
        read = Signal(PartRead)
        address = Signal(ADDRESS_BITS)
        context = Signal(4)
        lines = Signal(range(ARGS_BYTES // line + 1))
        accepted = Signal()
        then_args = Signal()
        part_ends = Signal()
        free = Signal()
        m.d.comb += [
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
        for i, queue in enumerate(queues):
            m.d.comb += queue.fetch.ready.eq(turns.accept & turns.grant[i])

        with m.If(accepted):
            m.d.sync += [address.eq(address + line), lines.eq(lines - 1), begins.eq(0)]
        with m.If(part_ends & then_args):
            m.d.sync += [
                begins.eq(1),
                read.part.eq(Part.PREFETCH),
                address.eq(read.args_address),
                lines.eq(ARGS_BYTES // line),
            ]
        with m.If(free):
            m.d.sync += [busy.eq(refetches.r_rdy | turns.valid), begins.eq(1)]
            with m.If(refetches.r_rdy):
                m.d.sync += [
                    read.part.eq(Part.REFETCH),
                    read.stream.eq(refetch.stream),
                    read.slot.eq(refetch.slot),
                    address.eq(refetch.address),
                    context.eq(contexts[refetch.stream]),
                    lines.eq(ARGS_BYTES // line),
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
                    lines.eq(SQE_BYTES // line),
                ]

    def _answers(self, m, queues, refetches, reads):
        beats = self.memory.beats
        read = data.View(PartRead, reads.r_data)
        bits = self.unit * 8
        index = Signal(range(ARGS_BYTES // self.unit))
        entry_beat = Signal()
        last = Signal()
        taken = Signal()
        word = Signal(bits)
        lanes = beats.p.data
        m.d.comb += [
            beats.ready.eq(reads.r_rdy),
            taken.eq(beats.valid & reads.r_rdy),
            word.eq(Mux(beats.p.offset >= self.unit, lanes[bits:], lanes[:bits])),
            entry_beat.eq(read.part == Part.ENTRY),
            last.eq(
                index == Mux(entry_beat, SQE_BYTES // self.unit - 1, ARGS_BYTES // self.unit - 1)
            ),
            reads.r_en.eq(taken & last),
        ]
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
        m.submodules.crc = crc = Crc32(self.unit)
        crc_at = CRC_BYTE % self.unit * 8
        masked = word & ~(((1 << 32) - 1) << crc_at)
        m.d.comb += [
            crc.valid.eq(taken & entry_beat),
            crc.start.eq(index == 0),
            crc.data.eq(Mux(index == CRC_BYTE // self.unit, masked, word)),
        ]
        with m.If(crc.valid):
            m.d.sync += sqe.eq(Cat(sqe, word)[bits:])
            with m.If(index == 0):
                m.d.sync += entry_address.eq(beats.p.address)
        self._argument_memory(m, read, taken & ~entry_beat, index, word)

        ended = Signal()
        ended_read = Signal(PartRead)
        ended_failure = Signal(Failure)
        m.d.sync += ended.eq(taken & last)
        with m.If(taken & last):
            m.d.sync += [ended_read.eq(read), ended_failure.eq(failure)]
        checksum_fails = crc.crc != sqe.crc
        self._judge(
            m, queues, refetches, ended, ended_read, ended_failure, sqe, entry_address,
            checksum_fails,
        )  # fmt: skip

    def _argument_memory(self, m, read, write_enable, index, word):
        per_word = self.unit // 8
        rows = ARGS_BYTES // self.unit
        slot_bits = (self.config.staging - 1).bit_length()
        m.submodules.blocks = blocks = memory.Memory(
            shape=self.unit * 8, depth=self.config.streams * self.config.staging * rows, init=[]
        )
        write = blocks.write_port()
        m.d.comb += [
            write.en.eq(write_enable),
            write.addr.eq(Cat(index, read.slot[:slot_bits], read.stream)),
            write.data.eq(word),
        ]
        lane_bits = (per_word - 1).bit_length()
        for i, port in enumerate(self.arguments):
            row = blocks.read_port()
            lane = Signal(lane_bits, name=f"lane{i}")
            m.d.sync += lane.eq(port.word[:lane_bits])
            m.d.comb += [
                row.addr.eq(Cat(port.word[lane_bits:], port.slot[:slot_bits], port.stream)),
                port.data.eq(row.data.word_select(lane, 64)),
            ]

    def _judge(
        self, m, queues, refetches, ended, read, failure, sqe, entry_address, checksum_fails
    ):
        kernel = data.View(struct(KernelPayload), sqe.payload)
        verdict = Signal(Verdict)
        read_well = failure.cause == FaultCause.NONE
        wanted = Signal()
        needs_args = Signal()
        elsewhere = Signal()
        m.d.comb += [
            verdict.slot.eq(read.slot),
            verdict.sqe.eq(sqe),
            verdict.cause.eq(failure.cause),
            verdict.address.eq(Mux(read_well, entry_address, failure.address)),
        ]
        with m.Switch(read.part):
            with m.Case(Part.ENTRY):
                with m.If(read_well):
                    m.d.comb += verdict.cause.eq(
                        Mux(checksum_fails, FaultCause.CHECKSUM, check(sqe, self.config))
                    )
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
                    refetches.w_en.eq(ended & needs_args & elsewhere),
                ]
                with m.If(ended):
                    m.d.sync += wanted.eq(needs_args & ~elsewhere)
            with m.Case(Part.PREFETCH):
                m.d.comb += [verdict.complete.eq(wanted), verdict.settled.eq(1)]
            with m.Case(Part.REFETCH):
                m.d.comb += [verdict.complete.eq(1), verdict.settled.eq(1)]
        refetch = data.View(Refetch, refetches.w_data)
        m.d.comb += [
            refetch.stream.eq(read.stream),
            refetch.slot.eq(read.slot),
            refetch.address.eq(kernel.args_address),
        ]
        for i, queue in enumerate(queues):
            m.d.comb += [
                queue.verdict.eq(verdict),
                queue.judged.eq(ended & (read.stream == i)),
            ]
