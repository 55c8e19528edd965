"""Which submission-queue entries this device accepts, and how it names a bad one."""

from amaranth import Cat, Mux
from amaranth.lib import data

from ..config import ADDRESS_BITS
from ..layout import struct
from ..regs.descriptor import CopyPayload, EventWord, KernelPayload, TaskType, ValuePayload
from ..regs.fault import FaultCause

__all__ = ["IMPLEMENTED", "check"]

IMPLEMENTED = frozenset({
    TaskType.NOP, TaskType.KERNEL, TaskType.MEMCPY, TaskType.MEMSET, TaskType.EVENT_RECORD,
    TaskType.EVENT_WAIT,
})  # fmt: skip
"""Types that this device runs; the other defined ones are UNSUPPORTED."""


def check(sqe, config):
    """The FaultCause of an entry that stands in a ring, its checksum left aside.

    What is said first counts: an unknown type is ILLEGAL_DESCRIPTOR, a type outside
    `IMPLEMENTED` UNSUPPORTED, any other broken rule ILLEGAL_DESCRIPTOR, and an event slot that
    the device does not have EVENT_MISUSE.

    Parameters
    ----------
    sqe: view of a `struct(Sqe)`.
    config: sizes of the device.
    """
    is_type = {kind: sqe.type == kind for kind in TaskType}
    known = Cat(is_type.values()).any()
    implemented = Cat(is_type[kind] for kind in IMPLEMENTED).any()
    illegal = Cat(
        _common_faults(sqe, is_type),
        (is_type[kind] & fault for kind, fault in _payload_faults(sqe).items()),
    ).any()
    misuse = Cat(
        *((i < sqe.dependencies) & _no_slot(word, config) for i, word in enumerate(sqe.event_deps)),
        sqe.record & _no_slot(sqe.record_event, config),
    ).any()
    return Mux(
        ~known, FaultCause.ILLEGAL_DESCRIPTOR, Mux(
        ~implemented, FaultCause.UNSUPPORTED, Mux(
        illegal, FaultCause.ILLEGAL_DESCRIPTOR, Mux(
        misuse, FaultCause.EVENT_MISUSE, FaultCause.NONE))))  # fmt: skip


def _no_slot(word, config):
    return data.View(struct(EventWord), word).slot >= config.events


def _common_faults(sqe, is_type):
    takes_option = is_type[TaskType.KERNEL] | is_type[TaskType.EVENT_RECORD]
    return Cat(
        sqe.reserved != 0,
        sqe.dependencies > 4,
        *((i >= sqe.dependencies) & (word != 0) for i, word in enumerate(sqe.event_deps)),
        ~sqe.record & (sqe.record_event != 0),
        ~sqe.completion & sqe.counters,
        sqe.relative,  # only entries of a CALL list are relative
        ~takes_option & sqe.option,
        is_type[TaskType.EVENT_RECORD] & ~sqe.record,
        is_type[TaskType.EVENT_WAIT] & (sqe.dependencies == 0),
    )


def _payload_faults(sqe):
    kernel = data.View(struct(KernelPayload), sqe.payload)
    copy = data.View(struct(CopyPayload), sqe.payload)
    value = data.View(struct(ValuePayload), sqe.payload)
    not_empty = sqe.payload != 0
    no_bytes = (copy.row_bytes == 0) | (copy.rows == 0)
    untimed = Cat(
        value.address[:4], value.address[ADDRESS_BITS:], value.value, value.mask, value.operation
    ).any()
    return {
        TaskType.NOP: not_empty,
        TaskType.EVENT_WAIT: not_empty,
        TaskType.EVENT_RECORD: Mux(sqe.option, untimed, not_empty),
        TaskType.KERNEL: Cat(
            kernel.kernel_address[:6].any(),
            kernel.kernel_address[ADDRESS_BITS:].any(),
            kernel.args_address[:6].any(),
            kernel.args_address[ADDRESS_BITS:].any(),
            kernel.args_address == 0,
            kernel.block_dim != 1,
            kernel.reserved != 0,
        ).any(),
        TaskType.MEMCPY: no_bytes,
        TaskType.MEMSET: no_bytes | copy.source[8:].any() | (copy.source_pitch != 0),
    }
