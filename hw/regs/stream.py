"""Registers of a stream."""

from __future__ import annotations

from .code import Code
from .descriptor import FailureMode
from .layout import Field, Reserved
from .register import Access, Block, Register

__all__ = [
    "ArgsBase", "CallbackReturn", "Doorbell", "Head", "RING_SIZES", "RingBase", "STREAM",
    "StreamCommand", "StreamConfig", "StreamEntry", "StreamState", "StreamStatus", "StreamTask",
    "StreamWait", "Tail", "Wait",
]  # fmt: skip

RO, RW, WO = Access.RO, Access.RW, Access.WO

RING_SIZES = range(1, 13)
"""Sizes that a ring of entries may have, as powers of two."""


class StreamState(Code):
    """What a stream is doing."""

    DISABLED = 0, "Not started; doorbells are ignored."
    ACTIVE = 1, "Runs what its ring holds."
    STOPPED = 2, "Stopped by a fault; nothing more is started until ABORT and START."
    ABORTING = 3, "An abort is under way: the running task is stopped and bursts drain."


class Wait(Code):
    """What the next task of a stream waits for."""

    NONE = 0, "Nothing, or there is no task."
    EVENT = 1, "Events; StreamWait has the first of them."
    NOTIFY = 2, "A counter of the notify unit."
    VALUE = 3, "A value in memory."
    CALLBACK = 4, "A function of the host; CallbackReturn ends it."
    BARRIER = 5, "Tasks of other streams."


class RingBase(Register, offset=0x000, access=RW, width=64):
    """Where the ring of submission-queue entries lies. Counts as it is at START."""

    address = Field(40, "First entry, 64-byte aligned.")
    reserved = Reserved(24)


class ArgsBase(Register, offset=0x008, access=RW, width=64):
    """Where argument blocks are fetched ahead from. Counts as it is at START."""

    address = Field(40, "Block of ring index 0, 128-byte aligned; 0: none are fetched ahead.")
    reserved = Reserved(24)


class StreamConfig(Register, offset=0x010, access=RW, privileged=True):
    """How a stream runs. Counts as it is at START; later changes wait for the next one."""

    size = Field(4, "Entries of the ring, as a power of two: 1 to 12; others are refused.")
    priority = Field(3, "0 greatest, 7 least.")
    failure_mode = Field(1, "What its faults stop.", enum=FailureMode)
    context = Field(4, "Context it belongs to; one that does not exist is refused.")
    overflow = Field(1, "Report int32 overflow as a fault.")
    reserved = Reserved(19)


class StreamCommand(Register, offset=0x014, access=WO):
    """Orders to a stream."""

    start = Field(
        1,
        "DISABLED → ACTIVE, with an empty ring and index 0; ignored in other states. Refused if "
        "StreamConfig is impossible: still DISABLED, and the cause is ILLEGAL_DESCRIPTOR.",
    )
    abort = Field(
        1,
        "Stop the running task, drop what is pending, let all that was written be answered, "
        "completion entries too; then DISABLED.",
    )
    reserved = Reserved(30)


class Doorbell(Register, offset=0x018, access=WO):
    """Announces entries. Ignored unless the stream is ACTIVE."""

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
    called = Field(1, "It runs the list of a CALL.")
    reserved0 = Reserved(2)
    waiting = Field(4, "Which of the next task's event_deps are not recorded yet.")
    wait = Field(4, "What the next task waits for.", enum=Wait)
    engine = Field(8, "Engine of the running task.")
    cause = Field(8, "FaultCause that stopped it, or for which START was refused.")


class StreamTask(Register, offset=0x028, access=RO, width=64):
    """The task that runs, or else the one that would run next."""

    task_id = Field(64, "Number from the submission-queue entry.")


class StreamWait(Register, offset=0x030, access=RO):
    """The first event that the next task still waits for; 0 when none."""

    slot = Field(12, "Event slot.")
    generation = Field(20, "Generation.")


class CallbackReturn(Register, offset=0x034, access=WO):
    """The host has called the function that the stream waits for.

    Ignored unless the stream waits for one, with that number.
    """

    task = Field(31, "Low bits of the HOST_CALLBACK's task_id.")
    failed = Field(1, "The function failed: so does the task, with cause HOST_CALLBACK.")


class StreamEntry(Register, offset=0x038, access=RO):
    """How far the list of a CALL has come."""

    entry = Field(32, "Entries of it that have retired; 0 when none runs.")


STREAM = Block(
    "stream", 0x4000, 0x100,
    (RingBase, ArgsBase, StreamConfig, StreamCommand, Doorbell, Tail, Head, StreamStatus,
     StreamTask, StreamWait, CallbackReturn, StreamEntry),
    "One stream.", ("streams",),
)  # fmt: skip
