"""Which submission-queue entries this device accepts, and how it names a bad one."""

from amaranth import Cat, Mux
from amaranth.lib import data

from ..config import ADDRESS_BITS
from ..layout import struct
from ..regs.descriptor import (
    CallPayload,
    Comparison,
    CopyPayload,
    EventWord,
    KernelPayload,
    NotifyOperation,
    NotifyPayload,
    TaskType,
    ValuePayload,
)
from ..regs.fault import FaultCause

__all__ = ["check"]

ENTRY_BITS, BLOCK_BITS = 6, 7
"""log2 of the bytes of an entry and of an argument block, to which lists are aligned."""


def check(sqe, config, listed):
    """The FaultCause of an entry, its checksum left aside.

    What is said first counts: an unknown type and any other broken rule are ILLEGAL_DESCRIPTOR,
    an event slot or a notify counter that the device does not have EVENT_MISUSE.

    Parameters
    ----------
    sqe: view of a `struct(Sqe)`.
    config: sizes of the device.
    listed: it stands in the list of a CALL, not in a ring: it may be relative, but no CALL.
    """
    is_type = {kind: sqe.type == kind for kind in TaskType}
    illegal = Cat(
        ~Cat(is_type.values()).any(),
        _common_faults(sqe, is_type, listed),
        (is_type[kind] & fault for kind, fault in _payload_faults(sqe).items()),
    ).any()
    notify = data.View(struct(NotifyPayload), sqe.payload)
    misuse = Cat(
        *((i < sqe.dependencies) & _no_slot(word, config) for i, word in enumerate(sqe.event_deps)),
        sqe.record & _no_slot(sqe.record_event, config),
        is_type[TaskType.NOTIFY] & (notify.counter >= config.notifies),
    ).any()
    return Mux(
        illegal, FaultCause.ILLEGAL_DESCRIPTOR, Mux(
        misuse, FaultCause.EVENT_MISUSE, FaultCause.NONE))  # fmt: skip


def _no_slot(word, config):
    return data.View(struct(EventWord), word).slot >= config.events


def _common_faults(sqe, is_type, listed):
    takes_option = is_type[TaskType.KERNEL] | is_type[TaskType.EVENT_RECORD]
    return Cat(
        sqe.reserved != 0,
        sqe.dependencies > 4,
        *((i >= sqe.dependencies) & (word != 0) for i, word in enumerate(sqe.event_deps)),
        ~sqe.record & (sqe.record_event != 0),
        ~sqe.completion & sqe.counters,
        sqe.relative & ~listed,
        is_type[TaskType.CALL] & listed,
        ~takes_option & sqe.option,
        is_type[TaskType.EVENT_RECORD] & ~sqe.record,
        is_type[TaskType.EVENT_WAIT] & (sqe.dependencies == 0),
    )


def _payload_faults(sqe):
    kernel = data.View(struct(KernelPayload), sqe.payload)
    copy = data.View(struct(CopyPayload), sqe.payload)
    value = data.View(struct(ValuePayload), sqe.payload)
    notify = data.View(struct(NotifyPayload), sqe.payload)
    call = data.View(struct(CallPayload), sqe.payload)
    not_empty = sqe.payload != 0
    no_bytes = (copy.row_bytes == 0) | (copy.rows == 0)
    untimed = Cat(
        value.address[:4], value.address[ADDRESS_BITS:], value.value, value.mask, value.operation
    ).any()
    no_value = Cat(value.address[:3], value.address[ADDRESS_BITS:]).any()
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
        TaskType.NOTIFY: Cat(
            notify.reserved0, notify.reserved1, notify.operation > max(NotifyOperation)
        ).any(),
        TaskType.VALUE_WRITE: Cat(no_value, value.mask, value.operation).any(),
        TaskType.VALUE_WAIT: no_value | (value.operation > max(Comparison)),
        TaskType.HOST_CALLBACK: not_empty,
        TaskType.BARRIER: not_empty,
        TaskType.CALL: Cat(
            call.entries == 0,
            _outside(call.list_address, call.entries, ENTRY_BITS),
            (call.args_address != 0) & _outside(call.args_address, call.entries, BLOCK_BITS),
        ).any(),
        TaskType.MEMCPY: no_bytes,
        TaskType.MEMSET: no_bytes | copy.source[8:].any() | (copy.source_pitch != 0),
    }


def _outside(address, count, size_bits):
    """`count` items do not all lie below 2^40, aligned to their size of `1 << size_bits` bytes."""
    first = address[size_bits:ADDRESS_BITS]
    return Cat(
        address[:size_bits], address[ADDRESS_BITS:], first + count > 1 << ADDRESS_BITS - size_bits
    ).any()
