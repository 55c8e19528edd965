"""The address registers: what the operands of instructions are computed with."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import data, enum, memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..regs.instruction import ADDRESS_REGISTERS, LOOP_DEPTH

__all__ = ["AddressCommand", "AddressFile", "AddressKind"]

RING_BITS = 24


class AddressKind(enum.Enum, shape=3):
    """What a command does to address registers.

    SET: `register` gets base `value`, plus the argument with `argument`; no strides, rotation 0.
    STRIDE: `register` gets stride `value` at `level`; `initial` is index × `value`.
    STEP: the loop at `level` begins its next turn.
    LEAVE: the loop at `level` ends: its index is 0 again.
    ROTATE: the registers in `mask` turn by `value` modulo `size`.
    """

    SET = 0
    STRIDE = 1
    STEP = 2
    LEAVE = 3
    ROTATE = 4


class AddressCommand(data.Struct):
    """One change of the address registers."""

    kind: AddressKind
    register: 4
    mask: ADDRESS_REGISTERS
    level: range(LOOP_DEPTH)
    argument: 1
    value: ADDRESS_BITS
    initial: ADDRESS_BITS
    size: RING_BITS


class AddressFile(wiring.Component):
    """Keeps the present value of every address register, so that none is multiplied out.

    Each register has its value and rotation; strides and what each loop has added so far lie
    in two memories, one word a loop level. A turn of a loop adds one word of strides.
    A command of cycle t is performed in t + 1; a select of cycle t shows `value` in t + 1,
    with all commands up to t − 1.

    Members
    -------
    valid, command: a command.
    argument: the argument word, in the cycle after its command.
    select: which register to show.
    value: the register selected in the cycle before, modulo 2^40.
    active: a command is being performed.
    bad: the ROTATE being performed has a register whose rotation is not below `size`.
    clear: sets all registers to 0, without strides; also drops a command being performed.
    """

    valid: In(1)
    command: In(AddressCommand)
    argument: In(64)
    select: In(4)
    value: Out(ADDRESS_BITS)
    active: Out(1)
    bad: Out(1)
    clear: In(1)

    def elaborate(self, platform):
        m = Module()
        lanes = data.ArrayLayout(ADDRESS_BITS, ADDRESS_REGISTERS)
        m.submodules.strides = strides = memory.Memory(shape=lanes, depth=LOOP_DEPTH, init=[])
        m.submodules.added = added = memory.Memory(shape=lanes, depth=LOOP_DEPTH, init=[])
        stride_write = strides.write_port(granularity=1)
        stride_read = strides.read_port(transparent_for=(stride_write,))
        added_write = added.write_port(granularity=1)
        added_read = added.read_port(transparent_for=(added_write,))

        values = Array(Signal(ADDRESS_BITS, name=f"r{n}") for n in range(ADDRESS_REGISTERS))
        rotations = [Signal(RING_BITS, name=f"rotation{n}") for n in range(ADDRESS_REGISTERS)]
        moves = [Signal(LOOP_DEPTH, name=f"moves{n}") for n in range(ADDRESS_REGISTERS)]
        selected = Signal(4)
        m.d.sync += [selected.eq(self.select), self.active.eq(self.valid)]
        m.d.comb += self.value.eq(values[selected])

        command = Signal(AddressCommand)
        with m.If(self.valid):
            m.d.sync += command.eq(self.command)
        m.d.comb += [
            stride_read.addr.eq(self.command.level),
            stride_read.en.eq(self.valid),
            added_read.addr.eq(self.command.level),
            added_read.en.eq(self.valid),
            stride_write.addr.eq(command.level),
            added_write.addr.eq(command.level),
        ]
        with m.If(self.active):
            for n, value in enumerate(values):
                named = command.register == n
                moving = moves[n].bit_select(command.level, 1)
                with m.Switch(command.kind):
                    with m.Case(AddressKind.SET), m.If(named):
                        base = Mux(command.argument, self.argument[:ADDRESS_BITS], 0)
                        m.d.sync += [
                            value.eq(command.value + base), rotations[n].eq(0), moves[n].eq(0),
                        ]  # fmt: skip
                    with m.Case(AddressKind.STRIDE), m.If(named):
                        before = Mux(moving, added_read.data[n], 0)
                        m.d.sync += [
                            value.eq(value + command.initial - before),
                            moves[n].bit_select(command.level, 1).eq(1),
                        ]
                        m.d.comb += [
                            stride_write.data[n].eq(command.value),
                            stride_write.en[n].eq(1),
                            added_write.data[n].eq(command.initial),
                            added_write.en[n].eq(1),
                        ]
                    with m.Case(AddressKind.STEP), m.If(moving):
                        m.d.sync += value.eq(value + stride_read.data[n])
                        m.d.comb += [
                            added_write.data[n].eq(added_read.data[n] + stride_read.data[n]),
                            added_write.en[n].eq(1),
                        ]
                    with m.Case(AddressKind.LEAVE), m.If(moving):
                        m.d.sync += value.eq(value - added_read.data[n])
                        m.d.comb += [added_write.data[n].eq(0), added_write.en[n].eq(1)]
                    with m.Case(AddressKind.ROTATE), m.If(command.mask[n]):
                        step = command.value[:RING_BITS]
                        around = Mux(rotations[n] + step >= command.size, command.size, 0)
                        m.d.sync += [
                            value.eq(value + step - around),
                            rotations[n].eq(rotations[n] + step - around),
                        ]
                        with m.If(rotations[n] >= command.size):
                            m.d.comb += self.bad.eq(1)
        with m.If(self.clear):
            m.d.sync += self.active.eq(0)
            for n, value in enumerate(values):
                m.d.sync += [value.eq(0), rotations[n].eq(0), moves[n].eq(0)]
        return m
