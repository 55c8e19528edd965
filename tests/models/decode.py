"""Golden model of the check of submission-queue entries."""

from hw.queues.decode import IMPLEMENTED
from hw.regs.descriptor import (
    CopyPayload,
    EventWord,
    KernelPayload,
    Sqe,
    TaskType,
    ValuePayload,
)
from hw.regs.fault import FaultCause

LIMIT = 1 << 40


def cause_of(sqe: Sqe, events: int) -> FaultCause:
    """What a device with that many event slots thinks of an entry in a ring, its CRC aside."""
    try:
        kind = TaskType(sqe.type)
    except ValueError:
        return FaultCause.ILLEGAL_DESCRIPTOR
    if kind not in IMPLEMENTED:
        return FaultCause.UNSUPPORTED
    if not (common_fields_are_legal(sqe, kind) and payload_is_legal(sqe, kind)):
        return FaultCause.ILLEGAL_DESCRIPTOR
    used = [*sqe.event_deps[: sqe.dependencies], *([sqe.record_event] if sqe.record else [])]
    if any(EventWord.from_int(word).slot >= events for word in used):
        return FaultCause.EVENT_MISUSE
    return FaultCause.NONE


def common_fields_are_legal(sqe: Sqe, kind: TaskType) -> bool:
    if sqe.reserved or sqe.relative or sqe.dependencies > 4:
        return False
    if any(sqe.event_deps[sqe.dependencies :]) or (sqe.record_event and not sqe.record):
        return False
    if sqe.counters and not sqe.completion:
        return False
    if sqe.option and kind not in (TaskType.KERNEL, TaskType.EVENT_RECORD):
        return False
    if kind is TaskType.EVENT_RECORD and not sqe.record:
        return False
    return not (kind is TaskType.EVENT_WAIT and not sqe.dependencies)


def payload_is_legal(sqe: Sqe, kind: TaskType) -> bool:
    if kind is TaskType.KERNEL:
        kernel = KernelPayload.from_int(sqe.payload)
        places = (kernel.kernel_address, kernel.args_address)
        return (
            all(place < LIMIT and place % 64 == 0 for place in places)
            and kernel.args_address != 0
            and kernel.block_dim == 1
            and kernel.reserved == 0
        )
    if kind in (TaskType.MEMCPY, TaskType.MEMSET):
        copy = CopyPayload.from_int(sqe.payload)
        plain = kind is TaskType.MEMCPY or (copy.source <= 255 and copy.source_pitch == 0)
        return copy.rows >= 1 and copy.row_bytes >= 1 and plain
    if kind is TaskType.EVENT_RECORD and sqe.option:
        value = ValuePayload.from_int(sqe.payload)
        unused = value.value or value.mask or value.operation
        return value.address < LIMIT and value.address % 16 == 0 and not unused
    return sqe.payload == 0
