"""Golden model of the check of submission-queue entries."""

from hw.config import NpuConfig
from hw.regs.descriptor import (
    Arguments,
    CallPayload,
    Comparison,
    CopyPayload,
    EventWord,
    KernelPayload,
    NotifyOperation,
    NotifyPayload,
    Sqe,
    TaskType,
    ValuePayload,
)
from hw.regs.fault import FaultCause

LIMIT = 1 << 40
GENERATIONS = 1 << 20


def cause_of(sqe: Sqe, config: NpuConfig, *, listed: bool = False) -> FaultCause:
    """What a device thinks of an entry in a ring or in the list of a CALL, its CRC aside."""
    try:
        kind = TaskType(sqe.type)
    except ValueError:
        return FaultCause.ILLEGAL_DESCRIPTOR
    if not (common_fields_are_legal(sqe, kind, listed) and payload_is_legal(sqe, kind)):
        return FaultCause.ILLEGAL_DESCRIPTOR
    used = [*sqe.event_deps[: sqe.dependencies], *([sqe.record_event] if sqe.record else [])]
    if any(EventWord.from_int(word).slot >= config.events for word in used):
        return FaultCause.EVENT_MISUSE
    if kind is TaskType.NOTIFY and NotifyPayload.from_int(sqe.payload).counter >= config.notifies:
        return FaultCause.EVENT_MISUSE
    return FaultCause.NONE


def relocated(sqe: Sqe, epoch: int) -> Sqe:
    """An entry of a list as its stream sees it: the epoch is added if it is relative."""

    def later(word: int) -> int:
        event = EventWord.from_int(word)
        return event.replace(generation=(event.generation + epoch) % GENERATIONS).to_int()

    if not sqe.relative:
        return sqe
    deps = [
        later(word) if i < sqe.dependencies else word for i, word in enumerate(sqe.event_deps)
    ]
    record = later(sqe.record_event) if sqe.record else sqe.record_event
    return sqe.replace(event_deps=deps, record_event=record)


def common_fields_are_legal(sqe: Sqe, kind: TaskType, listed: bool) -> bool:
    if sqe.reserved or sqe.dependencies > 4:
        return False
    if (kind is TaskType.CALL) if listed else sqe.relative:
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
    if kind is TaskType.CALL:
        return call_is_legal(CallPayload.from_int(sqe.payload))
    if kind is TaskType.NOTIFY:
        notify = NotifyPayload.from_int(sqe.payload)
        known = notify.operation in list(NotifyOperation)
        return known and not (notify.reserved0 or notify.reserved1)
    if kind in (TaskType.VALUE_WRITE, TaskType.VALUE_WAIT):
        value = ValuePayload.from_int(sqe.payload)
        waits = kind is TaskType.VALUE_WAIT
        known = value.operation in list(Comparison) if waits else value.operation == 0
        plain = known and (waits or not value.mask)
        return plain and value.address < LIMIT and value.address % 8 == 0
    if kind is TaskType.EVENT_RECORD and sqe.option:
        value = ValuePayload.from_int(sqe.payload)
        unused = value.value or value.mask or value.operation
        return value.address < LIMIT and value.address % 16 == 0 and not unused
    return sqe.payload == 0


def call_is_legal(call: CallPayload) -> bool:
    lists = [(call.list_address, Sqe.BYTES)]
    if call.args_address:
        lists.append((call.args_address, Arguments.BYTES))
    return call.entries >= 1 and all(
        first % size == 0 and first + call.entries * size <= LIMIT for first, size in lists
    )
