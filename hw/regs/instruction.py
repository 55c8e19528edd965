"""The instruction set of the matrix core, and the header of a kernel binary.

A kernel binary is a `KernelHeader` followed by 16-byte instructions. The sequencer runs them in
order, hands LOAD to the load unit, MATMUL to the compute unit, CHANNEL and STORE to the store
unit, and goes on at once; each unit works through its own instructions in order. Tokens order
the units: `wait_*` takes a token before the instruction starts, `signal_*` gives one when it has
ended. *previous* and *next* are the neighbours in load → compute → store.

An operand is an address register: base + rotation + Σ over the open loops of index × stride.
Registers that address memory count bytes; those that address scratchpad or accumulators count
words or rows. The rotation walks round a ring of buffers, whatever loops are open.

At the start of a kernel, address registers and the channel table are zeros, no loop is open, no
token is pending, and there are no weights to keep. What scratchpad and accumulators hold is
undefined; nothing in them is of another context.
"""

from __future__ import annotations

import enum

from .layout import Field, Layout, Reserved

__all__ = [
    "ADDRESS_REGISTERS", "INSTRUCTIONS", "ISA_VERSION", "KERNEL_MAGIC", "LOOP_DEPTH", "TOKENS",
    "Address", "Channel", "ChannelRecord", "Condition", "End", "Fence", "Grant", "Instruction",
    "KernelHeader", "Load", "Loop", "Matmul", "Next", "Opcode", "OutputFormat", "Rotate", "Skip",
    "Source", "Store", "Stride",
]  # fmt: skip

ISA_VERSION = 1
LOOP_DEPTH = 8
"""Loops that can be open at once."""
ADDRESS_REGISTERS = 16
"""Address registers of the sequencer."""
TOKENS = 15
"""Tokens that may be pending between two neighbouring units; one more is a fault."""
KERNEL_MAGIC = int.from_bytes(b"CELK", "little")


class Opcode(enum.IntEnum):
    """First byte of an instruction. 0 is none: running into cleared memory is a fault."""

    END = 0x01
    FENCE = 0x02
    LOOP = 0x03
    NEXT = 0x04
    ADDRESS = 0x05
    STRIDE = 0x06
    GRANT = 0x07
    ROTATE = 0x08
    SKIP = 0x09
    LOAD = 0x10
    MATMUL = 0x20
    CHANNEL = 0x30
    STORE = 0x31


class Source(enum.IntEnum):
    """Where ADDRESS takes the first summand of a base from."""

    NONE = 0
    ARGUMENT = 1


class Condition(enum.IntEnum):
    """Which turn of a loop SKIP acts in."""

    FIRST = 0
    NOT_FIRST = 1
    LAST = 2
    NOT_LAST = 3


class OutputFormat(enum.IntEnum):
    """What STORE writes for each sum."""

    INT32 = 0
    INT8 = 1


class Instruction(Layout, width=128):
    """Any instruction: only the opcode is common."""

    opcode = Field(8, "Which instruction.", enum=Opcode)


class End(Layout, width=128):
    """Ends the kernel once every unit is idle and every write is answered."""

    opcode = Field(8, "END.", reset=Opcode.END)
    reserved = Reserved(120)


class Fence(Layout, width=128):
    """Waits until every unit is idle and every write is answered: what was stored can be loaded."""

    opcode = Field(8, "FENCE.", reset=Opcode.FENCE)
    reserved = Reserved(120)


class Loop(Layout, width=128):
    """Opens a loop: what follows, up to its NEXT, runs `count` times."""

    opcode = Field(8, "LOOP.", reset=Opcode.LOOP)
    reserved0 = Reserved(24)
    count = Field(32, "Turns, at least 1.", reset=1)
    reserved1 = Reserved(64)


class Next(Layout, width=128):
    """Ends the body of the innermost open loop."""

    opcode = Field(8, "NEXT.", reset=Opcode.NEXT)
    reserved = Reserved(120)


class Address(Layout, width=128):
    """Sets an address register's base (argument word + offset), clears strides and rotation."""

    opcode = Field(8, "ADDRESS.", reset=Opcode.ADDRESS)
    register = Field(4, "Address register.")
    source = Field(1, "What the offset is added to.", enum=Source)
    reserved0 = Reserved(3)
    argument = Field(4, "Argument word, 0 to 15; 0 with source NONE.")
    reserved1 = Reserved(12)
    offset = Field(40, "Added; bytes, words or rows.", signed=True)
    reserved2 = Reserved(56)


class Stride(Layout, width=128):
    """Sets one stride of an address register."""

    opcode = Field(8, "STRIDE.", reset=Opcode.STRIDE)
    register = Field(4, "Address register.")
    level = Field(3, "Loop whose index is multiplied: 0 is the outermost.")
    reserved0 = Reserved(17)
    stride = Field(40, "Added for each turn; bytes, words or rows.", signed=True)
    reserved1 = Reserved(56)


class Rotate(Layout, width=128):
    """Turns address registers to the next buffer of their ring: modulo `size`."""

    opcode = Field(8, "ROTATE.", reset=Opcode.ROTATE)
    reserved0 = Reserved(8)
    registers = Field(16, "One bit for each address register that turns.")
    step = Field(24, "Added to the rotation, 1 to size; bytes, words or rows.", reset=1)
    reserved1 = Reserved(8)
    size = Field(24, "The rotation is taken modulo this.", reset=1)
    reserved2 = Reserved(40)


class Skip(Layout, width=128):
    """Skips the next instructions in some turns of an open loop."""

    opcode = Field(8, "SKIP.", reset=Opcode.SKIP)
    condition = Field(2, "In which turns of the loop.", enum=Condition)
    reserved0 = Reserved(6)
    level = Field(3, "Loop: 0 is the outermost; it must be open.")
    reserved1 = Reserved(13)
    count = Field(16, "Instructions that are skipped, at least 1.", reset=1)
    reserved2 = Reserved(80)


class Grant(Layout, width=128):
    """Gives tokens at once: how many buffers are free before anything has used them.

    Tokens that are left at the end of a kernel are dropped.
    """

    opcode = Field(8, "GRANT.", reset=Opcode.GRANT)
    load = Field(4, "Tokens that load can take from compute.")
    compute = Field(4, "Tokens that compute can take from store.")
    reserved = Reserved(112)


class Load(Layout, width=128):
    """Loads rows of bytes from memory into the scratchpad.

    Each row starts at a new word, its last word is filled up with zeros; rows follow each
    other without gaps.
    """

    opcode = Field(8, "LOAD.", reset=Opcode.LOAD)
    reserved0 = Reserved(1)
    wait_next = Field(1, "Take a token from compute first.")
    reserved1 = Reserved(1)
    signal_next = Field(1, "Give compute a token when the data is in the scratchpad.")
    reserved2 = Reserved(4)
    memory = Field(4, "Address register of the first byte in memory.")
    local = Field(4, "Address register of the first word in the scratchpad.")
    reserved3 = Reserved(8)
    rows = Field(16, "Rows, at least 1.", reset=1)
    reserved4 = Reserved(16)
    row_bytes = Field(32, "Bytes of a row, at least 1.", reset=1)
    pitch = Field(32, "Bytes from one row to the next in memory.")


class Matmul(Layout, width=128):
    """Multiplies activation rows by one weight tile; sums go to the accumulators.

    accumulator[a + r] (+)= activation[x + r × pitch] @ weights[w + k × weight_pitch], for
    r < rows, k < depth. Activation lanes from `depth` on are taken as zero.
    """

    opcode = Field(8, "MATMUL.", reset=Opcode.MATMUL)
    wait_previous = Field(1, "Take a token from load first.")
    wait_next = Field(1, "Take a token from store first.")
    signal_previous = Field(1, "Give load a token when the scratchpad has been read.")
    signal_next = Field(1, "Give store a token when the sums are in the accumulators.")
    accumulate = Field(1, "Add to the sums that are there; 0: replace them.")
    keep = Field(1, "Use the weights of the kernel's MATMUL before; 0: read them.")
    reserved0 = Reserved(2)
    activations = Field(4, "Address register of the first activation word.")
    weights = Field(4, "Address register of the first weight word.")
    accumulators = Field(4, "Address register of the first accumulator row.")
    reserved1 = Reserved(4)
    rows = Field(16, "Activation rows, at least 1.", reset=1)
    depth = Field(16, "Weight rows, 1 to the array's rows.", reset=1)
    pitch = Field(16, "Words from one activation row to the next.", reset=1)
    weight_pitch = Field(16, "Words from one weight row to the next.", reset=1)
    reserved2 = Reserved(32)


class Channel(Layout, width=128):
    """Reads the channel table of one column tile from the scratchpad into the store unit."""

    opcode = Field(8, "CHANNEL.", reset=Opcode.CHANNEL)
    wait_previous = Field(1, "Take a token from compute first.")
    reserved0 = Reserved(1)
    signal_previous = Field(1, "Give compute a token when the table has been read.")
    reserved1 = Reserved(1)
    reserved2 = Reserved(4)
    local = Field(4, "Address register of the first word: columns × ChannelRecord.")
    reserved3 = Reserved(12)
    reserved4 = Reserved(96)


class Store(Layout, width=128):
    """Stores accumulator rows to memory, as int32 or requantised to int8.

    INT32: sum (+ bias), modulo 2^32, 4 bytes each; one that wraps is an arithmetic overflow in a
    stream that reports it. INT8: clamp(zero_point + round((sum + bias) × multiplier ÷ 2^shift),
    low, high), rounded half to even, where sum + bias has 33 bits; without `bias` it is taken
    as 0. ReLU is low = zero_point.
    """

    opcode = Field(8, "STORE.", reset=Opcode.STORE)
    wait_previous = Field(1, "Take a token from compute first.")
    reserved0 = Reserved(1)
    signal_previous = Field(1, "Give compute a token when the accumulators have been read.")
    reserved1 = Reserved(1)
    format = Field(1, "What is written for each sum.", enum=OutputFormat)
    bias = Field(1, "Add the channel table's bias.")
    reserved2 = Reserved(2)
    memory = Field(4, "Address register of the first byte in memory.")
    accumulators = Field(4, "Address register of the first accumulator row.")
    reserved3 = Reserved(8)
    rows = Field(16, "Rows, at least 1.", reset=1)
    columns = Field(16, "Columns that are stored, 1 to the array's columns.", reset=1)
    pitch = Field(32, "Bytes from one row to the next in memory.")
    zero_point = Field(8, "Added after scaling; 0 for INT32.", signed=True)
    low = Field(8, "Least output; 0 for INT32.", signed=True)
    high = Field(8, "Greatest output; 0 for INT32.", signed=True)
    reserved4 = Reserved(8)


INSTRUCTIONS: dict[Opcode, type[Layout]] = {
    Opcode.END: End,
    Opcode.FENCE: Fence,
    Opcode.LOOP: Loop,
    Opcode.NEXT: Next,
    Opcode.ADDRESS: Address,
    Opcode.STRIDE: Stride,
    Opcode.GRANT: Grant,
    Opcode.ROTATE: Rotate,
    Opcode.SKIP: Skip,
    Opcode.LOAD: Load,
    Opcode.MATMUL: Matmul,
    Opcode.CHANNEL: Channel,
    Opcode.STORE: Store,
}
"""The layout of each instruction."""


class ChannelRecord(Layout, width=128):
    """Constants of one output channel, 16 bytes; a tile's table is one for each column."""

    bias = Field(32, "Added to the sum.", signed=True)
    multiplier = Field(31, "Scale, times 2^-shift.")
    reserved0 = Reserved(1)
    shift = Field(6, "Bits the product is shifted right, 0 to 63.")
    reserved1 = Reserved(58)


class KernelHeader(Layout):
    """First 32 bytes of a kernel binary; the instructions follow."""

    magic = Field(32, "The letters CELK.", reset=KERNEL_MAGIC)
    isa_version = Field(16, "Version of the instruction set.", reset=ISA_VERSION)
    reserved0 = Reserved(16)
    fingerprint = Field(32, "Hash of the configuration it was built for.")
    code_bytes = Field(32, "Bytes of code: 16 for each instruction, at least 16.")
    crc = Field(32, "CRC-32 of the code.")
    reserved1 = Reserved(96)
