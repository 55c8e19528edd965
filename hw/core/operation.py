"""What the sequencer hands to the load, compute and store units, and how they answer."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..regs.instruction import Channel, Load, Matmul, Opcode, Store

__all__ = [
    "LOCAL_BITS", "OPERANDS", "LocalRead", "LocalWrite", "Operation", "TokenPort", "UnitSignature",
]  # fmt: skip

LOCAL_BITS = 24
"""Bits of a computed scratchpad word or accumulator row address, before its range is checked."""
OPERANDS = {
    Opcode.LOAD: (Load.memory, Load.local),
    Opcode.MATMUL: (Matmul.activations, Matmul.weights, Matmul.accumulators),
    Opcode.CHANNEL: (Channel.local,),
    Opcode.STORE: (Store.memory, Store.accumulators),
}
"""Address registers that an instruction names, in the order in which they are read."""
FIRST_OPERAND = 16
assert all(
    field.offset == FIRST_OPERAND + 4 * place
    for fields in OPERANDS.values() for place, field in enumerate(fields)
)  # fmt: skip


class Operation(data.Struct):
    """An instruction with its operands computed.

    word: the instruction; a unit views it through its layout in `hw.regs.instruction`.
    index: its place in the kernel, in instructions.
    memory: operand in memory (LOAD, STORE).
    local: operands in local memories, in the order of the instruction's registers: LOAD,
        CHANNEL {local}; MATMUL {activations, weights, accumulators}; STORE {accumulators}.
    """

    word: 128
    index: 13
    memory: ADDRESS_BITS
    local: data.ArrayLayout(LOCAL_BITS, 3)


class TokenPort(wiring.Signature):
    """Tokens between two neighbouring units, seen from one of them.

    available: a token waits for this unit.
    take: pulse: it is taken; only while `available`.
    give: pulse: one more for the neighbour.
    """

    def __init__(self):
        super().__init__({"available": In(1), "take": Out(1), "give": Out(1)})


class UnitSignature(wiring.Signature):
    """A unit of the core, seen from itself.

    operations: taken in order; the unit takes tokens itself before it starts one. Reserved
        fields were checked; the unit checks the ranges of what it uses.
    previous, next: tokens shared with the neighbours.
    start: pulse, while not busy: a new task; nothing that the one before left is used.
    context, overflow: of the task; constant while the core is busy.
    busy: an operation is in work: taken, and not all of its effects (writes answered) are done.
    waiting: it waits for a token.
    progress: something was achieved in this cycle.
    fault: pulses; from the next cycle on the unit issues nothing and waits for abort.
    abort: pulse: forget everything, within this cycle; memory ports drain by themselves.
    """

    def __init__(self):
        super().__init__({
            "operations": In(stream.Signature(Operation)),
            "previous": Out(TokenPort()),
            "next": Out(TokenPort()),
            "start": In(1),
            "context": In(4),
            "overflow": In(1),
            "busy": Out(1),
            "waiting": Out(1),
            "progress": Out(1),
            "fault": Out(wiring.Signature({
                "valid": Out(1), "cause": Out(8), "address": Out(ADDRESS_BITS),
                "write": Out(1), "index": Out(13), "word": Out(128),
            })),
            "abort": In(1),
        })  # fmt: skip


class LocalRead(wiring.Signature):
    """Reads a word of a local memory, seen from the unit.

    Data is valid two cycles after `enable`: one for the memory, one in which ECC will be decoded.
    """

    def __init__(self, depth, width):
        super().__init__({
            "enable": Out(1), "address": Out(range(depth)), "data": In(width),
        })  # fmt: skip


class LocalWrite(wiring.Signature):
    """Writes whole words of a local memory, seen from the unit; readable the cycle after."""

    def __init__(self, depth, width):
        super().__init__({
            "enable": Out(1), "address": Out(range(depth)), "data": Out(width),
        })  # fmt: skip
