"""Completion writer: timed records, and completion entries in the rings of the contexts."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..arbiter import Arbiter
from ..config import ADDRESS_BITS
from ..interface import FaultEvent, Retirement, Status, WritePort, access_cause
from ..layout import struct
from ..regs.descriptor import Completion, TimedRecord
from ..regs.fault import FaultCause, FaultUnit
from .block_writer import BlockWriter

__all__ = ["CompletionSignature", "CompletionWriter"]

INDEX_BITS = 32
COPIED = ("stream", "engine", "context", "task_id", "start", "end", "counters")


class CompletionSignature(wiring.Signature):
    """The completion ring of one context, seen from the control registers.

    base: first entry; the low 6 bits are taken as 0.
    size: log2 of the entries; 0: there is no ring, entries are dropped.
    head, moved: consumer's index, valid while `moved`.
    restart: pulse: head and tail become 0, phase 1. An entry in work then counts no more.
    tail: entries written and answered.
    written: pulses in the first cycle in which `tail` counts an entry.
    full: something waits because the ring is full.
    """

    def __init__(self):
        super().__init__({
            "base": Out(ADDRESS_BITS), "size": Out(4), "head": Out(INDEX_BITS), "moved": Out(1),
            "restart": Out(1), "tail": In(INDEX_BITS), "written": In(1), "full": In(1),
        })  # fmt: skip


class CompletionWriter(wiring.Component):
    """Writes what retired tasks leave behind, one at a time.

    Each context has a short queue, and the queues are served round-robin, so that a full ring
    stops only its own context. Everything in a context's queue waits for room in its ring. Of a
    retirement, the timed record is written first; the entry follows when the record is answered.

    A failed write is a fault. After a failed record the entry is written whether it was asked for
    or not, with the fault's cause as its status; a failed entry is dropped and `tail` stays.
    Retirements of contexts that the device does not have are dropped.

    A retirement taken in cycle t, with an idle writer and room in the ring, has its first request
    valid in t + 2. Its beats follow from the cycle after the request was taken. With the answer in
    cycle a, `written` pulses in a + 1. The next request is valid in a + 1 (the entry behind its
    record), a + 2 (behind an entry) or a + 3 (behind a record alone). So on a bus that answers in
    the cycle after the last beat, an entry of n beats takes n + 3 cycles from request to request.
    Writes are bursts of 64 bytes, or of `burst_bytes` if that is less.

    Parameters
    ----------
    config: sizes.
    depth: retirements that the queue of a context holds, a power of two.

    Members
    -------
    entries: retirements; ready if there is room in the queue of the context offered.
    room: one bit for each context: its queue has room.
    queues: the ring of each context; see `CompletionSignature`.
    memory: writes.
    fault: a failed write, in the cycle of its answer.
    """

    def __init__(self, config, depth=4):
        assert depth & (depth - 1) == 0
        self.config = config
        self.depth = depth
        super().__init__({
            "entries": In(stream.Signature(Retirement)),
            "room": Out(config.contexts),
            "queues": In(CompletionSignature()).array(config.contexts),
            "memory": Out(WritePort(config.data_bytes)),
            "fault": Out(FaultEvent),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.turns = turns = Arbiter(self.config.contexts)
        m.submodules.writer = writer = BlockWriter(self.config)
        connect(m, writer.memory, flipped(self.memory))

        busy = Signal()
        counts = Signal()
        m.d.comb += turns.accept.eq(~busy)
        work = self._queues(m, turns)
        self._rings(m, turns, work, counts)
        self._writing(m, turns, work, busy, counts, writer)
        return m

    def _queues(self, m, turns):
        """The retirement that was chosen in the cycle before, until the next choice."""
        contexts = self.config.contexts
        depth_bits = (self.depth - 1).bit_length()
        m.submodules.pending = pending = memory.Memory(
            shape=Retirement, depth=contexts * self.depth, init=[]
        )
        write, read = pending.write_port(), pending.read_port()
        pushed = Array(Signal(depth_bits + 1, name=f"pushed{i}") for i in range(contexts))
        popped = Array(Signal(depth_bits + 1, name=f"popped{i}") for i in range(contexts))
        context = self.entries.p.context
        m.d.comb += [
            self.entries.ready.eq(1),
            write.data.eq(self.entries.p),
            write.addr.eq(Cat(pushed[context][:depth_bits], context)),
            write.en.eq(self.entries.valid & self.entries.ready & (context < contexts)),
            read.addr.eq(Cat(popped[turns.index][:depth_bits], turns.index)),
            read.en.eq(turns.valid & turns.accept),
        ]
        for i, queue in enumerate(self.queues):
            level = Signal(depth_bits + 1, name=f"level{i}")
            waits = Signal(name=f"waits{i}")
            ahead = Signal(INDEX_BITS, name=f"ahead{i}")
            consumed = Signal(INDEX_BITS, name=f"consumed{i}")
            with m.If(queue.moved):
                m.d.sync += consumed.eq(queue.head)
            with m.If(queue.restart):
                m.d.sync += consumed.eq(0)
            m.d.comb += [
                level.eq(pushed[i] - popped[i]),
                self.room[i].eq(level != self.depth),
                waits.eq(level != 0),
                ahead.eq(queue.tail - consumed),
                queue.full.eq(waits & (queue.size != 0) & (ahead >= (1 << queue.size))),
                turns.requests[i].eq(waits & ~queue.full),
            ]
            with m.If(context == i):
                m.d.comb += self.entries.ready.eq(self.room[i])
                with m.If(write.en):
                    m.d.sync += pushed[i].eq(pushed[i] + 1)
            with m.If(read.en & turns.grant[i]):
                m.d.sync += popped[i].eq(popped[i] + 1)
        return read.data

    def _rings(self, m, turns, work, counts):
        """Tails; `counts`: the entry in work was written well."""
        stale = Signal()
        restarted = Signal()
        with m.If(turns.accept):
            m.d.sync += stale.eq(0)
        for i, queue in enumerate(self.queues):
            in_work = Mux(turns.accept, turns.grant[i], work.context == i)
            with m.If(queue.restart & in_work):
                m.d.comb += restarted.eq(1)
            m.d.sync += queue.written.eq(0)
            with m.If(counts & (work.context == i) & ~stale):
                m.d.sync += [queue.tail.eq(queue.tail + 1), queue.written.eq(1)]
            with m.If(queue.restart):
                m.d.sync += [queue.tail.eq(0), queue.written.eq(0)]
        with m.If(restarted):
            m.d.sync += stale.eq(1)

    def _writing(self, m, turns, work, busy, counts, writer):
        tail = Array(queue.tail for queue in self.queues)[turns.index]
        size = Array(queue.size for queue in self.queues)[turns.index]
        base = Array(queue.base for queue in self.queues)[turns.index]
        has_ring = Signal()
        place = Signal(ADDRESS_BITS)
        phase = Signal()
        recorded = Signal()
        cause = Signal(8)
        with m.If(turns.accept & turns.valid):
            m.d.sync += [
                busy.eq(1),
                has_ring.eq(size != 0),
                place.eq((base[6:] + (tail & ((1 << size) - 1))[:15]) << 6),
                phase.eq(~tail.bit_select(size, 1)),
                recorded.eq(0),
                cause.eq(FaultCause.NONE),
            ]

        record = Signal(struct(TimedRecord))
        entry = Signal(struct(Completion))
        record_next = Signal()
        entry_next = Signal()
        block = writer.blocks
        m.d.comb += [
            record.generation.eq(work.generation),
            record.timestamp.eq(work.timestamp),
            entry.phase.eq(phase),
            entry.status.eq(Mux(cause == FaultCause.NONE, work.status, cause)),
            *(entry[name].eq(work[name]) for name in COPIED),
            record_next.eq(busy & work.timed & ~recorded),
            entry_next.eq(
                busy
                & ~record_next
                & has_ring
                & (work.completion | (cause != FaultCause.NONE))
            ),
            block.valid.eq(record_next | entry_next),
            block.p.context.eq(work.context),
            block.p.short.eq(record_next),
            block.p.address.eq(Mux(record_next, work.address, place)),
            block.p.content.eq(Mux(record_next, record, entry)),
            counts.eq(entry_next & block.ready & (writer.status == Status.OKAY)),
        ]  # fmt: skip
        with m.If(block.ready):
            m.d.sync += [recorded.eq(1), cause.eq(access_cause(writer.status))]
        with m.If(busy & ~record_next & (block.ready | ~entry_next)):
            m.d.sync += busy.eq(0)

        report = self.fault.report
        m.d.comb += [
            self.fault.valid.eq(block.ready & (writer.status != Status.OKAY)),
            self.fault.context.eq(work.context),
            self.fault.stream.eq(work.stream),
            self.fault.engine.eq(FaultUnit.COMPLETION),
            self.fault.task_id.eq(work.task_id),
            report.cause.eq(access_cause(writer.status)),
            report.address.eq(writer.address),
            report.write.eq(1),
        ]
