"""What all exports share: which formats, codes and constants there are, and their names."""

from __future__ import annotations

import enum
import inspect

from ...config import ADDRESS_BITS, HOST_BASE, NpuConfig
from ..capability import capabilities
from ..core import CoreState
from ..descriptor import (
    Arguments,
    CallPayload,
    Completion,
    CopyPayload,
    EventWord,
    KernelPayload,
    Sqe,
    TimedRecord,
    ValuePayload,
)
from ..fault import FaultCause, FaultUnit
from ..instruction import (
    ADDRESS_REGISTERS,
    INSTRUCTIONS,
    ISA_VERSION,
    KERNEL_MAGIC,
    LOOP_DEPTH,
    TOKENS,
    ChannelRecord,
    KernelHeader,
    Opcode,
)
from ..layout import Layout
from ..pmu import PmuEvent
from ..register import Access, Register
from ..registers import REGISTER_MAP

__all__ = ["FORMATS", "NUMBERS", "enumerations", "paragraph", "resets"]

FORMATS: tuple[type[Layout], ...] = (
    Sqe, KernelPayload, CopyPayload, ValuePayload, CallPayload, EventWord, Arguments, Completion,
    TimedRecord, KernelHeader, ChannelRecord, *INSTRUCTIONS.values(), CoreState,
)  # fmt: skip
"""Everything that lies in memory, and the state of a core in a fault record."""

NUMBERS = {
    "ADDRESS_BITS": ADDRESS_BITS,
    "HOST_BASE": HOST_BASE,
    "ISA_VERSION": ISA_VERSION,
    "LOOP_DEPTH": LOOP_DEPTH,
    "ADDRESS_REGISTERS": ADDRESS_REGISTERS,
    "TOKENS": TOKENS,
    "KERNEL_MAGIC": KERNEL_MAGIC,
}
"""Constants that a program needs beside the layouts."""


def enumerations() -> list[type[enum.IntEnum]]:
    """Every set of codes: those of fields, causes and units of faults, events of the PMU."""
    words = [*(register for block in REGISTER_MAP for register in block), *FORMATS]
    found = [field.enum for word in words for field in word.FIELDS if field.enum is not None]
    return list(dict.fromkeys([*found, FaultCause, FaultUnit, PmuEvent, Opcode]))


def paragraph(item: type) -> str:
    """The docstring as one paragraph."""
    return " ".join((inspect.getdoc(item) or "").split())


def resets(config: NpuConfig) -> dict[type[Register], Register | None]:
    """What a register reads as after reset; None: what the device shows, or nothing."""
    contents: dict[type[Register], Register | None] = {
        register: register() if register.ACCESS in (Access.RW, Access.W1C) else None
        for block in REGISTER_MAP
        for register in block
    }
    contents.update(capabilities(config))
    return contents
