"""Why a task, stream or queue failed: the codes in fault records and completion entries."""

from __future__ import annotations

from .code import Code

__all__ = ["FaultCause", "FaultUnit"]


class FaultCause(Code):
    """Cause of a fault, and status of a completion entry."""

    NONE = 0, "No fault; the task ended well."
    ILLEGAL_DESCRIPTOR = 1, "A field of the submission-queue entry has a value without meaning."
    CHECKSUM = 2, "The CRC-32 of the submission-queue entry is wrong."
    UNSUPPORTED = 3, "The task type is defined, but this device does not implement it."
    ILLEGAL_KERNEL = 4, "The kernel header, its size or its CRC-32 is wrong for this device."
    ILLEGAL_INSTRUCTION = 5, "An instruction, a field of it or its place is without meaning."
    ACCESS_VIOLATION = 6, "An access outside the windows of its context; it was not issued."
    BUS_SLAVE_ERROR = 7, "The memory answered SLVERR."
    BUS_DECODE_ERROR = 8, "No memory answers at the address: DECERR."
    ECC_CORRECTED = 9, "A single-bit error in a memory word was corrected."
    ECC_UNCORRECTABLE = 10, "A memory word has an error that cannot be corrected."
    WATCHDOG = 11, "The engine made no progress for as long as the watchdog allows."
    TASK_TIMEOUT = 12, "The task ran longer than its own timeout."
    QUEUE_OVERRUN = 13, "A doorbell announced more entries than the ring holds."
    EVENT_MISUSE = 14, "An event word names a slot that the device does not have."
    ARITHMETIC_OVERFLOW = 15, "An int32 sum overflowed in a stream that reports it."
    ABORTED = 16, "The task was stopped by an abort; not a fault of its own."
    HOST_CALLBACK = 17, "The function of the host failed."


class FaultUnit(Code):
    """What fault records and completion entries name where it was none of the engines."""

    QUEUE = 0xFE, "The queue fetch: entries that were refused, and overruns."
    COMPLETION = 0xFF, "The completion writer."
