"""The control registers of the NPU, each once, and the map that places them.

The control space is 64 KiB. Unmapped addresses answer DECERR.
"""

from __future__ import annotations

import enum

from .descriptor import FailureMode
from .instruction import ISA_VERSION
from .layout import Field, Reserved
from .register import Access, Block, Register

CONST, RO, RW, WO, W1C = Access.CONST, Access.RO, Access.RW, Access.WO, Access.W1C

IDENT = int.from_bytes(b"CELO", "little")
VERSION_MAJOR, VERSION_MINOR = 1, 0


class StreamState(enum.IntEnum):
    """What a stream is doing."""

    DISABLED = 0, "Not started; doorbells are ignored."
    ACTIVE = 1, "Runs what its ring holds."
    STOPPED = 2, "Stopped by a fault; nothing more is started until ABORT and START."
    ABORTING = 3, "An abort is under way: the running task is stopped and bursts drain."

    doc: str

    def __new__(cls, value: int, doc: str) -> StreamState:
        self = int.__new__(cls, value)
        self._value_ = value
        self.doc = doc
        return self


# ------------------------------------------------------------------------------------- device


class Identity(Register, offset=0x000, access=CONST):
    """Says that this is a Celosia NPU."""

    ident = Field(32, "The letters CELO.", reset=IDENT)


class Version(Register, offset=0x004, access=CONST):
    """Versions of what a driver relies on."""

    minor = Field(8, "Register map: grows with additions.", reset=VERSION_MINOR)
    major = Field(8, "Register map: grows when a driver must change.", reset=VERSION_MAJOR)
    isa = Field(16, "Instruction set.", reset=ISA_VERSION)


class Fingerprint(Register, offset=0x008, access=CONST):
    """Hash that kernel binaries must carry."""

    fingerprint = Field(32, "Hash of the sizes that a kernel depends on.")


class ArraySize(Register, offset=0x00C, access=CONST):
    """Capability: the array."""

    rows = Field(16, "Rows of the array.")
    columns = Field(16, "Columns of the array.")


class MemorySize(Register, offset=0x010, access=CONST, width=64):
    """Capability: memories of a core."""

    scratchpad_words = Field(24, "Words of the scratchpad.")
    accumulator_rows = Field(24, "Rows of the accumulators.")
    instructions = Field(16, "Instructions a kernel may have.")


class QueueSize(Register, offset=0x018, access=CONST):
    """Capability: queues and engines."""

    streams = Field(8, "Streams.")
    staging = Field(8, "Entries fetched ahead for each stream.")
    copy_channels = Field(8, "Copy engines.")
    cores = Field(8, "Matrix cores.")


class ProtectionSize(Register, offset=0x01C, access=CONST):
    """Capability: events and contexts."""

    events = Field(16, "Event slots.")
    contexts = Field(8, "Contexts.")
    windows = Field(8, "Access windows of each context.")


class BusSize(Register, offset=0x020, access=CONST):
    """Capability: memory bus and PMU."""

    burst_beats = Field(8, "Greatest number of beats in a burst.")
    outstanding = Field(8, "Bursts in flight for each client.")
    counters = Field(8, "Programmable counters.")
    reserved = Reserved(8)


class Clock(Register, offset=0x024, access=CONST):
    """Capability: reported clock."""

    clock_mhz = Field(32, "MHz.")


class Cycle(Register, offset=0x028, access=RO, width=64):
    """Cycles since reset."""

    cycle = Field(64, "Cycles since reset.")


class Watchdog(Register, offset=0x030, access=RW):
    """How long a busy engine may go without progress."""

    cycles = Field(32, "Cycles; 0: no limit.")


class InterruptContexts(Register, offset=0x034, access=RO):
    """Which contexts have an enabled cause pending."""

    contexts = Field(16, "One bit for each context.")
    reserved = Reserved(16)


class EngineStatus(Register, offset=0x038, access=RO):
    """Which engines have a task."""

    busy = Field(8, "One bit for each engine, copy channels first, then cores, then control.")
    reserved = Reserved(24)


# ------------------------------------------------------------------------------------- events


class EventRecord(Register, offset=0x000, access=WO):
    """Records an event by register, for a stream that has nothing pending."""

    slot = Field(12, "Event slot.")
    generation = Field(20, "Generation.")


class EventSelect(Register, offset=0x004, access=RW):
    """Which slot EventValue and EventTime show, from two cycles after the write on."""

    slot = Field(12, "Event slot.")
    reserved = Reserved(20)


class EventValue(Register, offset=0x008, access=RO):
    """The selected slot."""

    generation = Field(20, "Serial maximum of the generations recorded; 0 after reset.")
    reserved = Reserved(12)


class EventTime(Register, offset=0x010, access=RO, width=64):
    """When the selected slot took that generation."""

    timestamp = Field(64, "Cycle.")


# ---------------------------------------------------------------------------------------- PMU


class PmuControl(Register, offset=0x000, access=RW):
    """Starts and stops counting."""

    enable = Field(1, "Count.")
    reserved = Reserved(31)


class PmuCommand(Register, offset=0x004, access=WO):
    """Orders to all counters at once."""

    clear = Field(1, "Set the counters to zero.")
    snapshot = Field(1, "Copy the counters and the cycle to the registers below, all in one cycle.")
    reserved = Reserved(30)


class PmuCycle(Register, offset=0x008, access=RO, width=64):
    """Cycle of the last snapshot."""

    cycle = Field(64, "Cycle.")


class PmuSelect(Register, offset=0x000, access=RW):
    """What the counter counts. Selecting clears it."""

    event = Field(8, "A PmuEvent.")
    reserved = Reserved(24)


class PmuValue(Register, offset=0x008, access=RO, width=64):
    """The counter at the last snapshot."""

    value = Field(48, "Sum.")
    reserved = Reserved(16)


# ------------------------------------------------------------------------------------ streams


class RingBase(Register, offset=0x000, access=RW, width=64):
    """Where the ring of submission-queue entries lies."""

    address = Field(40, "First entry, 64-byte aligned.")
    reserved = Reserved(24)


class ArgsBase(Register, offset=0x008, access=RW, width=64):
    """Where argument blocks are fetched ahead from."""

    address = Field(40, "Block of ring index 0, 128-byte aligned; 0: none are fetched ahead.")
    reserved = Reserved(24)


class StreamConfig(Register, offset=0x010, access=RW):
    """How a stream runs. Changed only while it is DISABLED."""

    size = Field(4, "Entries of the ring, as a power of two: 1 to 12.")
    priority = Field(3, "0 greatest, 7 least.")
    failure_mode = Field(1, "What its faults stop.", enum=FailureMode)
    context = Field(4, "Context it belongs to.")
    overflow = Field(1, "Report int32 overflow as a fault.")
    reserved = Reserved(19)


class StreamCommand(Register, offset=0x014, access=WO):
    """Orders to a stream."""

    start = Field(1, "DISABLED → ACTIVE, with an empty ring and index 0.")
    abort = Field(1, "Stop the running task and drop what is pending, then DISABLED.")
    reserved = Reserved(30)


class Doorbell(Register, offset=0x018, access=WO):
    """Announces entries."""

    tail = Field(32, "Index behind the last entry; counts on, modulo 2^32, over turns of the ring.")


class Tail(Register, offset=0x01C, access=RO):
    """Last doorbell that was accepted."""

    tail = Field(32, "Index behind the last entry.")


class Head(Register, offset=0x020, access=RO):
    """How far the stream has come."""

    head = Field(32, "Index of the oldest task that has not retired.")


class StreamStatus(Register, offset=0x024, access=RO):
    """What a stream is doing."""

    state = Field(3, "State.", enum=StreamState)
    running = Field(1, "A task of it runs on an engine.")
    staged = Field(1, "Its next task is fetched and decoded.")
    reserved0 = Reserved(3)
    waiting = Field(4, "Which of the next task's event_deps are not recorded yet.")
    reserved1 = Reserved(4)
    engine = Field(8, "Engine of the running task.")
    cause = Field(8, "FaultCause that stopped it.")


class StreamTask(Register, offset=0x028, access=RO, width=64):
    """The task that runs, or else the one that would run next."""

    task_id = Field(64, "Number from the submission-queue entry.")


class StreamWait(Register, offset=0x030, access=RO):
    """The first event that the next task still waits for; 0 when none."""

    slot = Field(12, "Event slot.")
    generation = Field(20, "Generation.")


# ----------------------------------------------------------------------------------- contexts


class CompletionBase(Register, offset=0x000, access=RW, width=64):
    """Where the completion ring of the context lies."""

    address = Field(40, "First entry, 64-byte aligned.")
    reserved = Reserved(24)


class CompletionConfig(Register, offset=0x008, access=RW):
    """The completion ring."""

    size = Field(4, "Entries, as a power of two: 1 to 12; 0: there is no ring.")
    reserved = Reserved(28)


class CompletionCommand(Register, offset=0x00C, access=WO):
    """Orders to the completion ring."""

    restart = Field(1, "Empty the ring: head and tail 0, phase 1.")
    reserved = Reserved(31)


class CompletionHead(Register, offset=0x010, access=WO):
    """Consumer's index: entries before it may be overwritten."""

    head = Field(32, "Index of the oldest entry not yet read, modulo 2^32.")


class CompletionTail(Register, offset=0x014, access=RO):
    """Producer's index."""

    tail = Field(32, "Entries written since the ring was restarted, modulo 2^32.")


class InterruptStatus(Register, offset=0x018, access=W1C):
    """Why the context interrupts."""

    completion = Field(1, "A completion entry was written and answered.")
    fault = Field(1, "A fault was captured or counted.")
    full = Field(1, "The completion ring is full and an entry waits.")
    stopped = Field(1, "A stream has ended an abort.")
    reserved = Reserved(28)


class InterruptEnable(Register, offset=0x01C, access=RW):
    """Which causes raise the interrupt line."""

    completion = Field(1, "Completion entry written.")
    fault = Field(1, "Fault.")
    full = Field(1, "Completion ring full.")
    stopped = Field(1, "Abort ended.")
    reserved = Reserved(28)


class FaultStatus(Register, offset=0x020, access=RO):
    """The first fault of the context since the last clear."""

    valid = Field(1, "A fault is captured; the registers below belong to it.")
    reserved = Reserved(7)
    cause = Field(8, "FaultCause.")
    stream = Field(8, "Stream.")
    engine = Field(8, "Engine; 0xFE the queue fetch, 0xFF the completion writer.")


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
    """State of the unit that faulted."""

    state = Field(32, "Unit-specific; see the unit's docstring.")


class FaultClear(Register, offset=0x064, access=WO):
    """Makes room for the next fault."""

    clear = Field(1, "Forget the captured fault and its count.")
    reserved = Reserved(31)


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


DEVICE = Block(
    "device", 0x0000, 0x100,
    (Identity, Version, Fingerprint, ArraySize, MemorySize, QueueSize, ProtectionSize, BusSize,
     Clock, Cycle, Watchdog, InterruptContexts, EngineStatus),
    "Identity, capabilities and what concerns the whole device.",
)  # fmt: skip
EVENT = Block(
    "event", 0x0100, 0x100, (EventRecord, EventSelect, EventValue, EventTime),
    "The event unit, by register.",
)  # fmt: skip
PMU = Block(
    "pmu", 0x0200, 0x100, (PmuControl, PmuCommand, PmuCycle), "Performance counters.",
)  # fmt: skip
COUNTER = Block(
    "counter", 0x0300, 0x10, (PmuSelect, PmuValue), "One programmable counter.", ("counters",),
)  # fmt: skip
STREAM = Block(
    "stream", 0x4000, 0x100,
    (RingBase, ArgsBase, StreamConfig, StreamCommand, Doorbell, Tail, Head, StreamStatus,
     StreamTask, StreamWait),
    "One stream.", ("streams",),
)  # fmt: skip
CONTEXT = Block(
    "context", 0x8000, 0x100,
    (CompletionBase, CompletionConfig, CompletionCommand, CompletionHead, CompletionTail,
     InterruptStatus, InterruptEnable, FaultStatus, FaultCount, FaultTask, FaultTime,
     FaultAddress, FaultStartPc, FaultPc, FaultInstructionLow, FaultInstructionHigh, FaultState,
     FaultClear),
    "One context: completions, interrupts and its first fault.", ("contexts",),
)  # fmt: skip
WINDOW = Block(
    "window", 0xC000, 0x10, (WindowBase, WindowLimit),
    "One access window; window w of context c is number c × windows + w.",
    ("contexts", "windows"),
)  # fmt: skip

REGISTER_MAP = (DEVICE, EVENT, PMU, COUNTER, STREAM, CONTEXT, WINDOW)
"""The whole control space, in order of addresses."""
