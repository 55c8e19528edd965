"""Fetches kernel binaries into two code banks, and checks them."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..bus.funnel import ByteFunnel
from ..bus.pattern import BurstGenerator
from ..config import ADDRESS_BITS
from ..crc import Crc32
from ..interface import ReadPort, Status, access_cause
from ..layout import struct
from ..regs.fault import FaultCause
from ..regs.instruction import ISA_VERSION, KERNEL_MAGIC, Instruction, KernelHeader
from ..regs.layout import Reserved

__all__ = ["Hint", "Kernel", "KernelFetch"]

WORD_BYTES = Instruction.BYTES


class Kernel(data.Struct):
    """A kernel binary: its address, the context whose windows allow it, whether to read it anew."""

    address: ADDRESS_BITS
    context: 4
    invalidate: 1


class Hint(data.Struct):
    """The kernel that is likely to be started next, while `valid`."""

    valid: 1
    kernel: Kernel


class KernelFetch(wiring.Component):
    """Two banks of checked code: one in use, the other for what comes next.

    A start of a kernel that a bank holds is `ready` in the same cycle. Otherwise its header and
    then its code are read into the bank not in use: the header's burst is offered one cycle
    after the start, the code's three after the header's last beat, and `ready` comes three cycles
    after the code's last beat (on buses of more than 16 bytes, which are wider than the banks,
    after the last of the beats is cut into words). A start with `invalidate` empties both banks.

    Hinted kernels are read in the same way in advance, unless they have `invalidate` (their code
    may still be written before they start). Whatever is wrong with one is no fault before it is
    started; it is not read again before another start.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    start: kernels; taken when no earlier one is pending.
    hint: `Hint`.
    ready: pulse; the started kernel is in a bank, and `word` is of it from now on.
    pending: the started kernel is being read.
    index: which instruction of the started kernel to read; in the cycle of `ready` already.
    word: the instruction, one cycle after its index.
    length: instructions of the kernel, from the cycle after `ready` on.
    fault: pulse; the started kernel cannot be had: ILLEGAL_KERNEL, or what its read ended with.
    memory: `ReadPort`, with the right to execute.
    beat: pulse; a beat of code was taken.
    draining: from the cycle after an abort until its memory port is idle.
    forget: pulse; rights or code have changed: no bank may be started again, and what is being
        read does not count, before it was read anew. The kernel that runs goes on.
    abort: pulse; forgets the start and whatever is being read.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "start": In(stream.Signature(Kernel)),
            "hint": In(Hint),
            "ready": Out(1),
            "pending": Out(1),
            "index": In(13),
            "word": Out(128),
            "length": Out(13),
            "fault": Out(wiring.Signature({
                "valid": Out(1), "cause": Out(8), "address": Out(ADDRESS_BITS),
            })),
            "memory": Out(ReadPort(config.data_bytes)),
            "beat": Out(1),
            "draining": Out(1),
            "forget": In(1),
            "abort": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beats = self.memory.beats
        m.submodules.generator = generator = BurstGenerator(config.burst_bytes)
        m.submodules.funnel = funnel = ByteFunnel(config.data_bytes, WORD_BYTES)
        m.submodules.checksum = checksum = Crc32(WORD_BYTES)
        code = memory.Memory(shape=128, depth=2 * config.instructions, init=[])
        m.submodules.code = code
        code_write = code.write_port()
        code_read = code.read_port()

        index_bits = (config.instructions - 1).bit_length()

        # What the banks hold, and which one runs.
        tags = [Signal(Kernel, name=f"bank{n}") for n in range(2)]
        valid = Signal(2)
        lengths = [Signal(13, name=f"length{n}") for n in range(2)]
        current = Signal()
        target = Signal()
        m.d.comb += target.eq(~current)
        target_tag = Signal(Kernel)
        m.d.comb += target_tag.eq(Mux(target, tags[1].as_value(), tags[0].as_value()))

        def equal(one, other):
            return (one.address == other.address) & (one.context == other.context)

        # What is wanted now: the start of this cycle, or one that had to wait.
        wanted = Signal(Kernel)
        asked = Signal(Kernel)
        is_asked = Signal()
        hits = Signal(2)
        m.d.comb += [
            self.start.ready.eq(~self.pending),
            is_asked.eq(self.pending | self.start.valid),
            asked.eq(Mux(self.pending, wanted.as_value(), self.start.p.as_value())),
            *(
                hits[n].eq(valid[n] & equal(tags[n], asked) & ~asked.invalidate)
                for n in range(2)
            ),
            self.ready.eq(is_asked & hits.any() & ~self.abort),
        ]
        bank = Signal()
        m.d.comb += bank.eq(Mux(self.ready, hits[1], current))
        m.d.sync += current.eq(bank)
        m.d.comb += [
            self.length.eq(Mux(current, lengths[1], lengths[0])),
            code_read.addr.eq(Cat(self.index[:index_bits], bank)),
            self.word.eq(code_read.data),
        ]

        # Words of 16 bytes, whatever the width of the bus.
        header = data.View(struct(KernelHeader), Signal(KernelHeader.WIDTH, name="header"))
        word_ready = Signal()
        word_taken = Signal()
        header_half = Signal()
        place = Signal(13)
        okay = Signal()
        m.d.comb += [
            word_ready.eq(funnel.level >= WORD_BYTES),
            funnel.pop.eq(Mux(word_taken, WORD_BYTES, 0)),
            okay.eq(beats.p.status == Status.OKAY),
            funnel.i.valid.eq(beats.valid & okay),
            funnel.i.p.data.eq(beats.p.data),
            funnel.i.p.offset.eq(beats.p.offset),
            funnel.i.p.count.eq(beats.p.count),
            beats.ready.eq(~okay | funnel.i.ready),
            self.beat.eq(beats.valid & beats.ready & okay),
            self.memory.requests.valid.eq(generator.o.valid),
            self.memory.requests.p.address.eq(generator.o.p.address),
            self.memory.requests.p.bytes.eq(generator.o.p.bytes),
            self.memory.requests.p.context.eq(generator.o.p.context),
            generator.o.ready.eq(self.memory.requests.ready),
            generator.i.p.rows.eq(1),
            code_write.addr.eq(Cat(place[:index_bits], target)),
            code_write.data.eq(funnel.data),
            checksum.valid.eq(code_write.en),
            checksum.data.eq(funnel.data),
        ]

        legal = Signal()
        reserved = Cat(
            header[field.name] for field in KernelHeader.FIELDS if isinstance(field, Reserved)
        )
        m.d.comb += legal.eq(
            (header.magic == KERNEL_MAGIC)
            & (header.isa_version == ISA_VERSION)
            & (header.fingerprint == config.fingerprint)
            & (reserved == 0)
            & (header.code_bytes[:4] == 0)
            & (header.code_bytes != 0)
            & (header.code_bytes <= config.instructions * WORD_BYTES)
        )

        bad_beat = Signal()
        m.d.comb += bad_beat.eq(beats.valid & ~okay)
        with m.If(bad_beat):
            m.d.comb += [
                self.fault.address.eq(beats.p.address),
                self.fault.cause.eq(access_cause(beats.p.status)),
            ]
        with m.Else():
            m.d.comb += [
                self.fault.address.eq(target_tag.address),
                self.fault.cause.eq(FaultCause.ILLEGAL_KERNEL),
            ]

        # The kernel to read next, and what ends a read early.
        refused = Signal()  # `target_tag` names a hinted kernel that could not be had
        hint_useful = Signal()
        chosen = Signal(Kernel)
        begins = Signal()
        reading = Signal()
        wrong = Signal()
        unwanted = Signal()
        stops = Signal()
        outdated = Signal()  # rights or code have changed since the read began
        m.d.comb += [
            hint_useful.eq(
                self.hint.valid
                & ~self.hint.kernel.invalidate
                & ~(valid[0] & equal(tags[0], self.hint.kernel))
                & ~(valid[1] & equal(tags[1], self.hint.kernel))
                & ~(refused & equal(target_tag, self.hint.kernel))
            ),
            chosen.eq(Mux(is_asked, asked.as_value(), self.hint.kernel.as_value())),
            unwanted.eq(is_asked & ~self.ready & (asked.invalidate | ~equal(target_tag, asked))),
            stops.eq(reading & (wrong | bad_beat | unwanted) | self.abort),
            self.fault.valid.eq(
                reading & (wrong | bad_beat) & self.pending & ~unwanted & ~self.abort
            ),
            self.memory.abort.eq(stops),
            generator.clear.eq(stops),
            funnel.clear.eq(stops | self.draining),
        ]

        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += [
                    begins.eq(~self.abort & Mux(is_asked, ~self.ready, hint_useful)),
                    generator.i.valid.eq(begins),
                    generator.i.p.address.eq(chosen.address),
                    generator.i.p.row_bytes.eq(KernelHeader.BYTES),
                    generator.i.p.context.eq(chosen.context),
                ]
                m.d.sync += header_half.eq(0)
                with m.If(stops):
                    m.next = "DRAIN"
                with m.Elif(begins):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [reading.eq(1), word_taken.eq(word_ready)]
                with m.If(word_ready):
                    m.d.sync += [
                        header.as_value().eq(Cat(header.as_value()[128:], funnel.data)),
                        header_half.eq(1),
                    ]
                with m.If(stops):
                    m.next = "DRAIN"
                with m.Elif(word_ready & header_half):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [
                    reading.eq(1),
                    checksum.start.eq(1),
                    wrong.eq(~legal),
                    generator.i.valid.eq(legal),
                    generator.i.p.address.eq(target_tag.address + KernelHeader.BYTES),
                    generator.i.p.row_bytes.eq(header.code_bytes),
                    generator.i.p.context.eq(target_tag.context),
                ]
                m.d.sync += place.eq(0)
                m.next = "CODE"
                with m.If(stops):
                    m.next = "DRAIN"
            with m.State("CODE"):
                m.d.comb += [
                    reading.eq(1),
                    word_taken.eq(word_ready),
                    code_write.en.eq(word_ready),
                ]
                with m.If(word_ready):
                    m.d.sync += place.eq(place + 1)
                with m.If(stops):
                    m.next = "DRAIN"
                with m.Elif(word_ready & (place + 1 == header.code_bytes >> 4)):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [reading.eq(1), wrong.eq(checksum.crc != header.crc)]
                with m.If(stops):
                    m.next = "DRAIN"
                with m.Else():
                    m.d.sync += valid.bit_select(target, 1).eq(~outdated)
                    m.next = "IDLE"
            with m.State("DRAIN"):
                with m.If(self.memory.idle & ~self.abort):
                    m.next = "IDLE"
        m.d.comb += self.draining.eq(fsm.ongoing("DRAIN"))

        with m.If(begins):
            for n in range(2):
                with m.If(target == n):
                    m.d.sync += [tags[n].eq(chosen), valid[n].eq(0)]
        with m.If(self.forget):
            m.d.sync += [outdated.eq(1), valid.eq(0)]
        with m.Elif(begins):
            m.d.sync += outdated.eq(0)
        with m.If(fsm.ongoing("CHECK")):
            for n in range(2):
                with m.If(target == n):
                    m.d.sync += lengths[n].eq(place)

        with m.If(reading & (wrong | bad_beat)):
            m.d.sync += refused.eq(1)
        with m.Elif(begins):
            m.d.sync += refused.eq(0)
        with m.If(self.start.valid & self.start.ready):
            m.d.sync += [
                self.pending.eq(~self.ready),
                wanted.eq(self.start.p),
                wanted.invalidate.eq(0),
                refused.eq(0),
            ]
            with m.If(self.start.p.invalidate):
                m.d.sync += valid.eq(0)
        with m.Elif(self.ready | self.fault.valid):
            m.d.sync += self.pending.eq(0)
        with m.If(self.abort):
            m.d.sync += self.pending.eq(0)
        return m
