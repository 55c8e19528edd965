"""What the device reads and writes in memory for each task: SQE, arguments, completion entry.

All little-endian. The sizes and places of the fields are a contract between every driver and
every device; a test pins them.
"""

from __future__ import annotations

import enum
import zlib

from .code import Code
from .layout import Array, Field, Layout, Reserved

__all__ = [
    "Arguments", "CallPayload", "Comparison", "Completion", "CopyPayload", "EventWord",
    "FailureMode", "KernelPayload", "NotifyOperation", "NotifyPayload", "Sqe", "TaskType",
    "TimedRecord", "ValuePayload", "seal",
]  # fmt: skip

SLOT_BITS = 12
GENERATION_BITS = 20


class TaskType(Code):
    """What a submission-queue entry asks for. 0 is no task: cleared memory is a fault."""

    NOP = 1, "Nothing; waits and records as any task does."
    KERNEL = 2, "Run a kernel binary on a core."
    MEMCPY = 3, "Copy rows of bytes."
    MEMSET = 4, "Fill rows of bytes with src's low 8 bits."
    EVENT_RECORD = 5, "Record an event; with OPTION also write it and its time to memory."
    EVENT_WAIT = 6, "Wait for one to four events."
    NOTIFY = 7, "Add to, set or wait for a counter of the notify unit."
    VALUE_WRITE = 8, "Write a value of 8 bytes to memory."
    VALUE_WAIT = 9, "Wait until a value in memory compares."
    HOST_CALLBACK = 10, "Wait until the host has called a function and says so."
    BARRIER = 11, "Wait until each task of the context with a lesser task_id has ended."
    CALL = 12, "Run a list of entries as if they stood in the ring; not inside a list."


class NotifyOperation(Code):
    """What a NOTIFY does with its counter."""

    ADD = 0, "Add the amount, modulo 2^32."
    SET = 1, "Become the amount."
    WAIT = 2, "Wait until it is at least the amount, then subtract that."


class Comparison(Code):
    """When a VALUE_WAIT passes. With `v` what is in memory and `w` the value, both masked."""

    NOT_LESS = 0, "v - w is not negative in two's complement: that goes on over a wrap."
    EQUAL = 1, "v equals w."
    AND = 2, "v & w is not 0."
    NOR = 3, "A bit of the mask is 0 in v | w."


class FailureMode(enum.IntEnum):
    """What a fault stops beside its own stream."""

    CONTINUE = 0
    STOP = 1


class EventWord(Layout):
    """A point in time of one event slot. Generations are compared serially, modulo 2^20."""

    slot = Field(SLOT_BITS, "Event slot.")
    generation = Field(GENERATION_BITS, "Which use of the slot.")


class KernelPayload(Layout):
    """Payload of KERNEL."""

    kernel_address = Field(64, "Kernel binary (header first), 64-byte aligned.")
    args_address = Field(64, "Argument block of 128 bytes, 64-byte aligned.")
    block_dim = Field(32, "Cores to use; must be 1.", reset=1)
    reserved = Reserved(32)


class CopyPayload(Layout):
    """Payload of MEMCPY and MEMSET."""

    source = Field(40, "First byte to read; for MEMSET the fill byte.")
    source_pitch = Field(24, "Bytes from one row to the next at the source; 0 for MEMSET.")
    destination = Field(40, "First byte to write.")
    destination_pitch = Field(24, "Bytes from one row to the next at the destination.")
    row_bytes = Field(32, "Bytes of a row, at least 1.")
    rows = Field(32, "Rows, at least 1.", reset=1)


class ValuePayload(Layout):
    """Payload of EVENT_RECORD with OPTION (address only), VALUE_WRITE and VALUE_WAIT."""

    address = Field(64, "Where; 8-byte aligned, for a timed record 16-byte aligned.")
    value = Field(64, "The 8 bytes that are written or compared.")
    mask = Field(32, "VALUE_WAIT: bits of the low 4 bytes that count; 0: all 8 bytes count.")
    operation = Field(32, "VALUE_WAIT: how it is compared.", enum=Comparison)


class NotifyPayload(Layout):
    """Payload of NOTIFY."""

    counter = Field(64, "Counter of the notify unit.")
    amount = Field(32, "What is added, set or waited for.")
    reserved0 = Reserved(32)
    operation = Field(32, "What is done.", enum=NotifyOperation)
    reserved1 = Reserved(32)


class CallPayload(Layout):
    """Payload of CALL."""

    list_address = Field(64, "First entry of the list, 64-byte aligned.")
    entries = Field(32, "Entries in the list, at least 1.")
    epoch = Field(32, "Added to the generations of entries with RELATIVE.")
    args_address = Field(
        64, "Argument block of the first entry, 128-byte aligned; 0: none are fetched ahead."
    )


class Sqe(Layout):
    """Submission-queue entry, 64 bytes.

    The first `dependencies` words of `event_deps` must be recorded before the task starts;
    the others are 0. `crc` is the CRC-32 (ISO-HDLC, as zlib's) of the 64 bytes with crc = 0.
    """

    type = Field(8, "Kind of task.", enum=TaskType, reset=TaskType.NOP)
    dependencies = Field(3, "How many of event_deps are valid, 0 to 4.")
    record = Field(1, "The task records record_event when it ends well.")
    completion = Field(1, "Write a completion entry also when the task ends well.")
    counters = Field(1, "The completion entry carries the task's deltas of the eight counters.")
    relative = Field(1, "In a CALL list: the epoch is added to all its generations.")
    option = Field(1, "KERNEL: discard prefetched code first. EVENT_RECORD: write it to memory.")
    reserved = Reserved(16)
    timeout = Field(
        32,
        "Longest run in units of 1,024 cycles; 0: no limit. It counts from the dispatch, of "
        "EVENT_WAIT, NOTIFY, VALUE_WAIT, HOST_CALLBACK and BARRIER from when they are next.",
    )
    task_id = Field(64, "Number given by the runtime; reported back.")
    event_deps = Array(32, "Event words to wait for.", count=4)
    record_event = Field(32, "Event word to record.")
    crc = Field(32, "CRC-32 of the entry.")
    payload = Field(192, "By type: a Kernel-, Copy-, Value-, Notify- or CallPayload.")


class Arguments(Layout):
    """Argument block of a kernel, 128 bytes: sixteen 64-bit words, numbered in this order."""

    inputs = Array(64, "Addresses of the inputs: words 0 to 7.", count=8)
    outputs = Array(64, "Addresses of the outputs: words 8 to 11.", count=4)
    scalars = Array(64, "Plain numbers: words 12 to 15.", count=4)


class Completion(Layout):
    """Completion entry, 64 bytes, written to the ring of the task's context.

    Bytes are written in ascending order, the last eight at once: whoever sees the new phase sees
    the whole entry.
    """

    task_id = Field(64, "Number from the submission-queue entry.")
    start = Field(64, "Cycle of the first bus address or the first instruction issued.")
    end = Field(64, "Cycle of the last write response of the task's data.")
    counters = Array(
        32, "What the eight counters added from start to end, both included, if asked for.", count=8
    )
    phase = Field(1, "Flips at each turn of the ring; the first turn writes 1.")
    reserved0 = Reserved(7)
    status = Field(8, "A FaultCause; NONE: the task ended well.")
    stream = Field(8, "Stream of the task.")
    engine = Field(8, "Number of the engine that ran it, or the FaultUnit that refused it.")
    context = Field(8, "Context of the stream.")
    reserved1 = Reserved(24)


class TimedRecord(Layout):
    """What a timed EVENT_RECORD writes to memory, 16 bytes."""

    generation = Field(64, "Generation recorded.")
    timestamp = Field(64, "Cycle in which the event unit took the record.")


def seal(sqe: Sqe) -> Sqe:
    """`sqe` with its checksum filled in."""
    return sqe.replace(crc=zlib.crc32(sqe.replace(crc=0).to_bytes()))
