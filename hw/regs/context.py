"""Registers of a context: completions, interrupts, faults, access windows."""

from __future__ import annotations

from .layout import Field, Reserved
from .register import Access, Block, Register

__all__ = [
    "CONTEXT", "CompletionBase", "CompletionCommand", "CompletionConfig", "CompletionHead",
    "CompletionTail", "ContextCallbacks", "FaultAddress", "FaultClear", "FaultCount",
    "FaultInstructionHigh", "FaultInstructionLow", "FaultPc", "FaultStartPc", "FaultState",
    "FaultStatus", "FaultTask", "FaultTime", "InterruptEnable", "InterruptStatus", "WINDOW",
    "WindowBase", "WindowLimit",
]  # fmt: skip

RO, RW, WO, W1C = Access.RO, Access.RW, Access.WO, Access.W1C


class CompletionBase(Register, offset=0x000, access=RW, width=64):
    """Where the completion ring of the context lies. Changes count as those of its size."""

    address = Field(40, "First entry, 64-byte aligned.")
    reserved = Reserved(24)


class CompletionConfig(Register, offset=0x008, access=RW):
    """The completion ring.

    Every task that runs has an entry promised, as it may fail; without room for one more, no task
    of the context is started. A change counts, and lets tasks start again, when none runs and all
    entries are written.
    """

    size = Field(4, "Entries, as a power of two: 1 to 12; 0: there is no ring.")
    reserved = Reserved(28)


class CompletionCommand(Register, offset=0x00C, access=WO):
    """Orders to the completion ring."""

    restart = Field(1, "Empty the ring, once older entries are written: head and tail 0, phase 1.")
    reserved = Reserved(31)


class CompletionHead(Register, offset=0x010, access=WO):
    """Consumer's index: entries before it may be overwritten.

    One that lies before the former one, or behind what was written, is ignored.
    """

    head = Field(32, "Index of the oldest entry not yet read, modulo 2^32.")


class CompletionTail(Register, offset=0x014, access=RO):
    """Producer's index."""

    tail = Field(32, "Entries written since the ring was restarted, modulo 2^32.")


class InterruptStatus(Register, offset=0x018, access=W1C):
    """Why the context interrupts."""

    completion = Field(1, "A completion entry was written and answered.")
    fault = Field(1, "A fault was captured or counted.")
    full = Field(1, "A task could start, but unread entries leave no room in the ring.")
    stopped = Field(1, "A stream has ended an abort.")
    callback = Field(1, "A stream waits for a function of the host.")
    reserved = Reserved(27)


class InterruptEnable(Register, offset=0x01C, access=RW):
    """Which causes raise the interrupt line."""

    completion = Field(1, "Completion entry written.")
    fault = Field(1, "Fault.")
    full = Field(1, "Completion ring full.")
    stopped = Field(1, "Abort ended.")
    callback = Field(1, "Function of the host awaited.")
    reserved = Reserved(27)


class FaultStatus(Register, offset=0x020, access=RO):
    """The first fault of the context since the last clear."""

    valid = Field(1, "A fault is captured; the registers below belong to it.")
    reserved = Reserved(7)
    cause = Field(8, "FaultCause.")
    stream = Field(8, "Stream.")
    engine = Field(8, "Number of the engine, or a FaultUnit.")


class FaultCount(Register, offset=0x024, access=RO):
    """Faults of the context since the last clear, the first included."""

    count = Field(32, "Stays at its greatest value.")


class FaultTask(Register, offset=0x028, access=RO, width=64):
    """The task of the fault."""

    task_id = Field(64, "Number from the submission-queue entry.")


class FaultTime(Register, offset=0x030, access=RO, width=64):
    """When the fault was captured."""

    cycle = Field(64, "Cycle of the fault.")


class FaultAddress(Register, offset=0x038, access=RO, width=64):
    """Where the failing access went."""

    address = Field(40, "First byte of the burst or beat, or of the descriptor.")
    write = Field(1, "It was a write.")
    execute = Field(1, "It was a fetch of code.")
    reserved = Reserved(22)


class FaultStartPc(Register, offset=0x040, access=RO, width=64):
    """The kernel of the fault."""

    address = Field(40, "Address of its first instruction; 0 for other tasks.")
    reserved = Reserved(24)


class FaultPc(Register, offset=0x048, access=RO, width=64):
    """The instruction of the fault."""

    address = Field(40, "Address of the instruction; 0 for other tasks.")
    reserved = Reserved(24)


class FaultInstructionLow(Register, offset=0x050, access=RO, width=64):
    """The instruction word of the fault."""

    word = Field(64, "Bits 0 to 63.")


class FaultInstructionHigh(Register, offset=0x058, access=RO, width=64):
    """The instruction word of the fault."""

    word = Field(64, "Bits 64 to 127.")


class FaultState(Register, offset=0x060, access=RO):
    """What the engine was doing."""

    state = Field(32, "Of a core a CoreState; 0 of other engines.")


class FaultClear(Register, offset=0x064, access=WO):
    """Makes room for the next fault."""

    clear = Field(1, "Forget the captured fault and its count.")
    reserved = Reserved(31)


class ContextCallbacks(Register, offset=0x068, access=RO):
    """Streams of the context that wait for a function of the host."""

    streams = Field(32, "One bit for each stream.")


class WindowBase(Register, offset=0x000, access=RW, width=64, privileged=True):
    """Access window: first byte."""

    address = Field(40, "First byte.")
    reserved = Reserved(24)


class WindowLimit(Register, offset=0x008, access=RW, width=64, privileged=True):
    """Access window: last byte, and what is allowed in between. No rights: no window."""

    address = Field(40, "Last byte.")
    read = Field(1, "May be read.")
    write = Field(1, "May be written.")
    execute = Field(1, "Kernel code may be fetched.")
    reserved = Reserved(21)


CONTEXT = Block(
    "context", 0x8000, 0x100,
    (CompletionBase, CompletionConfig, CompletionCommand, CompletionHead, CompletionTail,
     InterruptStatus, InterruptEnable, FaultStatus, FaultCount, FaultTask, FaultTime,
     FaultAddress, FaultStartPc, FaultPc, FaultInstructionLow, FaultInstructionHigh, FaultState,
     FaultClear, ContextCallbacks),
    "One context: completions, interrupts and its first fault.", ("contexts",),
)  # fmt: skip
WINDOW = Block(
    "window", 0xC000, 0x10, (WindowBase, WindowLimit),
    "One access window; window w of context c is number c × windows + w.",
    ("contexts", "windows"),
)  # fmt: skip
