"""The sequencer: runs the instructions of a kernel and feeds the units."""

from amaranth import Array, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..layout import struct
from ..regs.instruction import (
    LOOP_DEPTH,
    Address,
    Condition,
    Grant,
    Loop,
    Opcode,
    Rotate,
    Skip,
    Source,
    Stride,
)
from .address import AddressFile, AddressKind
from .legal import is_legal
from .operation import LOCAL_BITS, OPERANDS, Operation

__all__ = ["Sequencer"]

QUEUE_DEPTH = 4
UNITS = {"load": (Opcode.LOAD,), "compute": (Opcode.MATMUL,),
         "store": (Opcode.CHANNEL, Opcode.STORE)}  # fmt: skip
assert (Address.register.offset, Address.offset.offset) == (
    Stride.register.offset, Stride.stride.offset,
)  # fmt: skip


class Sequencer(wiring.Component):
    """Runs a kernel from its first instruction on.

    An instruction is in work for one cycle, an operation for as many as it has operands, and a
    STRIDE of a loop that has turned n times for two more than n has bits. The first one is in
    work in the cycle after `start`. An operation is offered to its unit two cycles after its
    last operand's, if the unit keeps up; up to four wait for each unit. END and FENCE take one
    cycle from when all units are idle and the address registers have settled.

    Illegal is: an unknown opcode, a reserved bit, LOOP with count 0 or too deep, NEXT without a
    loop, END inside one, running past the last instruction, ADDRESS with an argument but source
    NONE, ROTATE with a step of 0 or above its size or of a register whose rotation is not below
    the size, SKIP with count 0 or of a loop that is not open, and operands in local memories
    that are negative or do not fit `LOCAL_BITS`.

    Members
    -------
    start: pulse; runs the kernel that the code port reads from now on. While none runs, or in the
        cycle of its END.
    index, code, length: which instruction to read; its word one cycle later; how many there are.
    argument, argument_data: which argument word to read; it, one cycle later.
    load, compute, store: operations for the units.
    grant_load, grant_compute: tokens given by GRANT, in this cycle.
    idle: every unit is.
    issued: pulses with each instruction when it begins; for END and FENCE when it ends.
    ended: pulses with the END.
    running: from the cycle after `start` until END, fault or abort.
    blocked: the instruction in work waits for units.
    place, word: of the instruction in work; its place in the kernel. The word is 0 behind the
        last one.
    queued: which units have operations that they did not take yet.
    fault: pulse; an illegal instruction with its place and word; nothing more is issued.
    abort: pulse; forgets everything.
    """

    start: In(1)
    index: Out(13)
    code: In(128)
    length: In(13)
    argument: Out(4)
    argument_data: In(64)
    load: Out(stream.Signature(Operation))
    compute: Out(stream.Signature(Operation))
    store: Out(stream.Signature(Operation))
    grant_load: Out(4)
    grant_compute: Out(4)
    idle: In(1)
    issued: Out(1)
    ended: Out(1)
    running: Out(1)
    blocked: Out(1)
    place: Out(13)
    word: Out(128)
    queued: Out(3)
    fault: Out(wiring.Signature({"valid": Out(1), "index": Out(13), "word": Out(128)}))
    abort: In(1)

    def __init__(self, config):
        self.config = config
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.addresses = addresses = AddressFile()
        command = addresses.command
        word = self.code
        address, stride, rotate = (
            data.View(struct(layout), word) for layout in (Address, Stride, Rotate)
        )
        loop, skip, grant = (data.View(struct(layout), word) for layout in (Loop, Skip, Grant))

        # Loops.
        depth = Signal(range(LOOP_DEPTH + 1))
        innermost = Signal(range(LOOP_DEPTH))
        opened = Signal(range(LOOP_DEPTH))
        bodies = Array(Signal(13, name=f"body{n}") for n in range(LOOP_DEPTH))
        turns = Array(Signal(32, name=f"turn{n}") for n in range(LOOP_DEPTH))
        counts = Array(Signal(32, name=f"count{n}") for n in range(LOOP_DEPTH))
        m.d.comb += [innermost.eq(depth - 1), opened.eq(depth)]

        illegal = Signal()
        m.d.comb += illegal.eq((self.place >= self.length) | ~is_legal(word, depth))

        # Operands pass through one stage, in which the address registers answer.
        operand = Signal(range(3))
        last_operand = Signal()
        passing = Signal()
        passing_operand = Signal(range(3))
        passing_last = Signal()
        passing_word = Signal(128)
        passing_index = Signal(13)
        earlier = [Signal(ADDRESS_BITS, name=f"operand{n}") for n in range(2)]
        out_of_range = Signal()
        reaches = Signal()
        m.d.comb += addresses.select.eq(word.word_select(4 + operand, 4))
        m.d.sync += passing_last.eq(last_operand)
        for n in range(2):
            with m.If(passing & (passing_operand == n)):
                m.d.sync += earlier[n].eq(addresses.value)

        opcode = passing_word[:8]
        in_memory = Signal()
        operation = Signal(Operation)
        m.d.comb += [
            in_memory.eq(
                ((opcode == Opcode.LOAD) | (opcode == Opcode.STORE)) & (passing_operand == 0)
            ),
            out_of_range.eq(passing & ~in_memory & (addresses.value[LOCAL_BITS:] != 0)),
            operation.word.eq(passing_word),
            operation.index.eq(passing_index),
            operation.memory.eq(earlier[0]),
            operation.local[0].eq(
                Mux(opcode == Opcode.MATMUL, earlier[0], addresses.value)
            ),
            operation.local[1].eq(earlier[1]),
            operation.local[2].eq(addresses.value),
        ]

        # A queue for each unit; an operation begins only when its queue will have room.
        has_room = Signal()
        reserves = Signal()
        drained = Signal()
        shares = []
        for name, opcodes in UNITS.items():
            queue = SyncFIFO(width=Operation.as_shape().size, depth=QUEUE_DEPTH)
            m.submodules[f"{name}_queue"] = ResetInserter(self.abort)(queue)
            output = getattr(self, name)
            share = Signal(range(QUEUE_DEPTH + 1), name=f"{name}_reserved")
            mine = Signal(name=f"for_{name}")
            takes = output.valid & output.ready
            m.d.comb += [
                mine.eq(sum(word[:8] == code for code in opcodes) != 0),
                queue.w_data.eq(operation),
                queue.w_en.eq(
                    passing & passing_last & ~out_of_range
                    & (sum(opcode == code for code in opcodes) != 0)
                ),
                output.p.eq(queue.r_data),
                output.valid.eq(queue.r_rdy),
                queue.r_en.eq(output.ready),
            ]  # fmt: skip
            with m.If(mine):
                m.d.comb += has_room.eq(share != QUEUE_DEPTH)
            m.d.sync += share.eq(share + (reserves & mine) - takes)
            with m.If(self.abort):
                m.d.sync += share.eq(0)
            shares.append(share != 0)
        m.d.comb += [
            self.queued.eq(sum(busy << n for n, busy in enumerate(shares))),
            drained.eq((self.queued == 0) & ~addresses.active & self.idle),
        ]

        # An illegal instruction shows when it is in work, or one cycle late in its operands.
        early = Signal()
        late = Signal()
        m.d.comb += late.eq(out_of_range | addresses.bad)

        following = Signal(13)
        goes_on = Signal()
        target = Signal(18)
        multiplicand = Signal(ADDRESS_BITS)
        multiplier = Signal(32)
        product = Signal(ADDRESS_BITS)
        stride_turn = Signal(32)
        m.d.comb += [
            target.eq(self.place + 1),
            following.eq(Mux(target > self.length, self.length, target)),
            self.index.eq(Mux(self.running & ~self.start, Mux(goes_on, following, self.place), 0)),
            self.word.eq(Mux(self.place < self.length, word, 0)),
            self.argument.eq(address.argument),
            addresses.argument.eq(self.argument_data),
            stride_turn.eq(Mux(stride.level < depth, turns[stride.level], 0)),
            command.register.eq(address.register),
            command.mask.eq(rotate.registers),
            command.level.eq(Mux(word[:8] == Opcode.STRIDE, stride.level, innermost)),
            command.argument.eq(address.source == Source.ARGUMENT),
            command.value.eq(
                Mux(word[:8] == Opcode.ROTATE, rotate.step, address.offset)
            ),
            command.initial.eq(product),
            command.size.eq(rotate.size),
        ]
        with m.If(goes_on):
            m.d.sync += self.place.eq(following)

        with m.FSM(name="state"):
            with m.State("IDLE"):
                with m.If(self.start):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.running.eq(1)
                with m.If(illegal):
                    # Those before it, which are still being performed, fault first.
                    with m.If(~passing & ~addresses.active):
                        m.d.comb += early.eq(1)
                        m.next = "HALT"
                with m.Else():
                    m.d.comb += [goes_on.eq(1), self.issued.eq(1)]
                    with m.Switch(word[:8]):
                        with m.Case(Opcode.END, Opcode.FENCE):
                            m.d.comb += [
                                goes_on.eq(drained), self.issued.eq(drained),
                                self.blocked.eq(~drained),
                            ]  # fmt: skip
                            with m.If(drained & (word[:8] == Opcode.END)):
                                m.d.comb += self.ended.eq(1)
                                m.next = "IDLE"
                        with m.Case(Opcode.LOOP):
                            m.d.sync += [
                                bodies[opened].eq(following), turns[opened].eq(0),
                                counts[opened].eq(loop.count), depth.eq(depth + 1),
                            ]  # fmt: skip
                        with m.Case(Opcode.NEXT):
                            m.d.comb += addresses.valid.eq(1)
                            with m.If(turns[innermost] + 1 == counts[innermost]):
                                m.d.comb += command.kind.eq(AddressKind.LEAVE)
                                m.d.sync += depth.eq(innermost)
                            with m.Else():
                                m.d.comb += [
                                    command.kind.eq(AddressKind.STEP),
                                    target.eq(bodies[innermost]),
                                ]
                                m.d.sync += turns[innermost].eq(turns[innermost] + 1)
                        with m.Case(Opcode.SKIP):
                            turn = turns[skip.level]
                            last_turn = turn + 1 == counts[skip.level]
                            skips = Signal()
                            with m.Switch(skip.condition):
                                with m.Case(Condition.FIRST):
                                    m.d.comb += skips.eq(turn == 0)
                                with m.Case(Condition.NOT_FIRST):
                                    m.d.comb += skips.eq(turn != 0)
                                with m.Case(Condition.LAST):
                                    m.d.comb += skips.eq(last_turn)
                                with m.Default():
                                    m.d.comb += skips.eq(~last_turn)
                            with m.If(skips):
                                m.d.comb += target.eq(self.place + 1 + skip.count)
                        with m.Case(Opcode.ADDRESS):
                            m.d.comb += [
                                command.kind.eq(AddressKind.SET), addresses.valid.eq(1)
                            ]  # fmt: skip
                        with m.Case(Opcode.STRIDE):
                            m.d.comb += command.kind.eq(AddressKind.STRIDE)
                            with m.If(stride_turn == 0):
                                m.d.comb += addresses.valid.eq(1)
                            with m.Else():
                                m.d.comb += goes_on.eq(0)
                                m.d.sync += [
                                    multiplicand.eq(stride.stride), multiplier.eq(stride_turn)
                                ]  # fmt: skip
                                m.next = "MULTIPLY"
                        with m.Case(Opcode.ROTATE):
                            m.d.comb += [
                                command.kind.eq(AddressKind.ROTATE), addresses.valid.eq(1)
                            ]  # fmt: skip
                        with m.Case(Opcode.GRANT):
                            m.d.comb += [
                                self.grant_load.eq(grant.load),
                                self.grant_compute.eq(grant.compute),
                            ]
                        for code, fields in OPERANDS.items():
                            with m.Case(code):
                                begins = operand == 0
                                advances = ~begins | has_room
                                m.d.comb += [
                                    last_operand.eq(operand == len(fields) - 1),
                                    goes_on.eq(last_operand & advances),
                                    self.issued.eq(begins & has_room),
                                    reserves.eq(begins & has_room),
                                    self.blocked.eq(begins & ~has_room),
                                    reaches.eq(advances),
                                ]
                                with m.If(advances):
                                    m.d.sync += operand.eq(Mux(last_operand, 0, operand + 1))
                with m.If(self.start):
                    m.next = "RUN"
                with m.If(late):
                    m.next = "HALT"
                with m.If(self.abort):
                    m.next = "IDLE"
            with m.State("MULTIPLY"):
                m.d.comb += [self.running.eq(1), command.kind.eq(AddressKind.STRIDE)]
                m.d.sync += [
                    multiplicand.eq(multiplicand << 1), multiplier.eq(multiplier >> 1)
                ]  # fmt: skip
                with m.If(multiplier[0]):
                    m.d.sync += product.eq(product + multiplicand)
                with m.If(multiplier == 0):
                    m.d.comb += [addresses.valid.eq(1), goes_on.eq(1)]
                    m.d.sync += product.eq(0)
                    m.next = "RUN"
                with m.If(late):
                    m.next = "HALT"
                with m.If(self.abort):
                    m.next = "IDLE"
            with m.State("HALT"):
                with m.If(self.abort):
                    m.next = "IDLE"

        with m.If(self.start):
            m.d.comb += addresses.clear.eq(1)
            m.d.sync += [self.place.eq(0), depth.eq(0), operand.eq(0), product.eq(0)]

        m.d.comb += self.fault.valid.eq(late | early)
        with m.If(late):
            m.d.comb += [self.fault.index.eq(passing_index), self.fault.word.eq(passing_word)]
        with m.Elif(early):
            m.d.comb += [self.fault.index.eq(self.place), self.fault.word.eq(self.word)]
        with m.If(addresses.valid | reaches):
            m.d.sync += [passing_word.eq(word), passing_index.eq(self.place)]
        m.d.sync += [passing.eq(reaches & ~self.abort), passing_operand.eq(operand)]
        return m
