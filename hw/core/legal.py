"""Which instruction words have a meaning."""

from amaranth import Cat
from amaranth.lib import data

from ..layout import struct
from ..regs.instruction import INSTRUCTIONS, LOOP_DEPTH, Opcode, Source

__all__ = ["is_legal"]


def is_legal(word, depth):
    """Whether an instruction word has a meaning where it stands.

    Ranges of local memories are left to the units, and what an operand or a rotation has become
    to the address registers.

    Parameters
    ----------
    word: 128 bits.
    depth: how many loops are open.
    """
    return Cat(
        (word[:8] == opcode) & (word & _reserved(layout) == 0) & _fits(opcode, word, depth)
        for opcode, layout in INSTRUCTIONS.items()
    ).any()


def _reserved(layout):
    """The bits of a layout that must be zero."""
    return ((1 << layout.WIDTH) - 1) ^ layout.MASK


def _fits(opcode, word, depth):
    """What an instruction asks for beside its reserved bits."""
    fields = data.View(struct(INSTRUCTIONS[opcode]), word)
    match opcode:
        case Opcode.END:
            return depth == 0
        case Opcode.LOOP:
            return (fields.count != 0) & (depth != LOOP_DEPTH)
        case Opcode.NEXT:
            return depth != 0
        case Opcode.ADDRESS:
            return (fields.source != Source.NONE) | (fields.argument == 0)
        case Opcode.ROTATE:
            return (fields.step != 0) & (fields.step <= fields.size)
        case Opcode.SKIP:
            return (fields.count != 0) & (fields.level < depth)
        case _:
            return 1
