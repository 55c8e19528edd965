"""Registers of the whole device: identity, capabilities, events by register, counters."""

from __future__ import annotations

from .instruction import ISA_VERSION
from .layout import Field, Reserved
from .register import Access, Block, Register

__all__ = [
    "ArraySize", "BusSize", "COUNTER", "Clock", "Cycle", "DEVICE", "EVENT", "EngineStatus",
    "EventRecord", "EventSelect", "EventTime", "EventValue", "Fingerprint", "IDENT", "Identity",
    "InterruptContexts", "MemorySize", "NotifySelect", "NotifySet", "NotifyValue", "PMU",
    "PmuCommand", "PmuControl", "PmuCycle", "PmuSelect", "PmuValue", "PollInterval",
    "ProtectionSize", "QueueSize", "VERSION_MAJOR", "VERSION_MINOR", "Version", "Watchdog",
]  # fmt: skip

CONST, RO, RW, WO = Access.CONST, Access.RO, Access.RW, Access.WO

IDENT = int.from_bytes(b"CELO", "little")
VERSION_MAJOR, VERSION_MINOR = 1, 0


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
    """Capability: memory bus, PMU and notify unit."""

    burst_beats = Field(8, "Greatest number of beats in a burst.")
    outstanding = Field(8, "Bursts in flight for each client.")
    counters = Field(8, "Programmable counters.")
    notifies = Field(8, "Counters of the notify unit.")


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

    busy = Field(
        16, "One bit for each engine: copy channels first, then cores, then control, then value."
    )
    reserved = Reserved(16)


class PollInterval(Register, offset=0x03C, access=RW):
    """How often a VALUE_WAIT looks."""

    cycles = Field(32, "Cycles from one read of a value to the next, at least.", reset=64)


class EventRecord(Register, offset=0x000, access=WO):
    """Records an event by register, for a stream that has nothing pending."""

    slot = Field(12, "Event slot; SLVERR if the device does not have it.", below="events")
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


class NotifySelect(Register, offset=0x018, access=RW):
    """Which counter NotifyValue shows and NotifySet sets."""

    counter = Field(8, "Counter; SLVERR if the device does not have it.", below="notifies")
    reserved = Reserved(24)


class NotifyValue(Register, offset=0x01C, access=RO):
    """The selected counter."""

    value = Field(32, "Value.")


class NotifySet(Register, offset=0x020, access=WO):
    """Sets the selected counter."""

    value = Field(32, "Value.")


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


DEVICE = Block(
    "device", 0x0000, 0x100,
    (Identity, Version, Fingerprint, ArraySize, MemorySize, QueueSize, ProtectionSize, BusSize,
     Clock, Cycle, Watchdog, InterruptContexts, EngineStatus, PollInterval),
    "Identity, capabilities and what concerns the whole device.",
)  # fmt: skip
EVENT = Block(
    "event", 0x0100, 0x100,
    (EventRecord, EventSelect, EventValue, EventTime, NotifySelect, NotifyValue, NotifySet),
    "The event unit and the notify unit, by register.",
)  # fmt: skip
PMU = Block(
    "pmu", 0x0200, 0x100, (PmuControl, PmuCommand, PmuCycle), "Performance counters.",
)  # fmt: skip
COUNTER = Block(
    "counter", 0x0300, 0x10, (PmuSelect, PmuValue), "One programmable counter.", ("counters",),
)  # fmt: skip
