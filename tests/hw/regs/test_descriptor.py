"""The bytes that every driver and every device agree on, pinned."""

import zlib

import pytest

from hw.regs.descriptor import (
    Arguments,
    CallPayload,
    Completion,
    CopyPayload,
    EventWord,
    KernelPayload,
    NotifyPayload,
    Sqe,
    TaskType,
    TimedRecord,
    ValuePayload,
    seal,
)
from hw.regs.instruction import INSTRUCTIONS, ChannelRecord, KernelHeader, Opcode

PLACES = {
    Sqe: (64, {
        "type": (0, 8), "dependencies": (8, 3), "record": (11, 1), "completion": (12, 1),
        "counters": (13, 1), "relative": (14, 1), "option": (15, 1), "reserved": (16, 16),
        "timeout": (32, 32), "task_id": (64, 64), "event_deps": (128, 128),
        "record_event": (256, 32), "crc": (288, 32), "payload": (320, 192),
    }),
    KernelPayload: (24, {
        "kernel_address": (0, 64), "args_address": (64, 64), "block_dim": (128, 32),
        "reserved": (160, 32),
    }),
    CopyPayload: (24, {
        "source": (0, 40), "source_pitch": (40, 24), "destination": (64, 40),
        "destination_pitch": (104, 24), "row_bytes": (128, 32), "rows": (160, 32),
    }),
    ValuePayload: (24, {
        "address": (0, 64), "value": (64, 64), "mask": (128, 32), "operation": (160, 32),
    }),
    CallPayload: (24, {
        "list_address": (0, 64), "entries": (64, 32), "epoch": (96, 32), "args_address": (128, 64),
    }),
    NotifyPayload: (24, {
        "counter": (0, 64), "amount": (64, 32), "reserved0": (96, 32), "operation": (128, 32),
        "reserved1": (160, 32),
    }),
    EventWord: (4, {"slot": (0, 12), "generation": (12, 20)}),
    Arguments: (128, {"inputs": (0, 512), "outputs": (512, 256), "scalars": (768, 256)}),
    Completion: (64, {
        "task_id": (0, 64), "start": (64, 64), "end": (128, 64), "counters": (192, 256),
        "phase": (448, 1), "reserved0": (449, 7), "status": (456, 8), "stream": (464, 8),
        "engine": (472, 8), "context": (480, 8), "reserved1": (488, 24),
    }),
    TimedRecord: (16, {"generation": (0, 64), "timestamp": (64, 64)}),
    KernelHeader: (32, {
        "magic": (0, 32), "isa_version": (32, 16), "reserved0": (48, 16),
        "fingerprint": (64, 32), "code_bytes": (96, 32), "crc": (128, 32), "reserved1": (160, 96),
    }),
    ChannelRecord: (16, {
        "bias": (0, 32), "multiplier": (32, 31), "reserved0": (63, 1), "shift": (64, 6),
        "reserved1": (70, 58),
    }),
}  # fmt: skip


@pytest.mark.parametrize("word", PLACES, ids=lambda word: word.__name__)
def test_every_field_has_its_place(word):
    size, places = PLACES[word]
    assert word.BYTES == size
    assert {field.name: (field.offset, field.bits) for field in word.FIELDS} == places


def test_an_entry_in_bytes():
    payload = CopyPayload(
        source=0x01_2345_6789, destination=0xFE_DCBA_9876, row_bytes=0x100, rows=2,
        source_pitch=0x200, destination_pitch=0x300,
    )  # fmt: skip
    entry = Sqe(
        type=TaskType.MEMCPY, dependencies=1, completion=1, timeout=5, task_id=0x1122334455667788,
        event_deps=[EventWord(slot=3, generation=0xABCDE).to_int()],
        record_event=EventWord(slot=0xFFF, generation=1).to_int(), payload=payload.to_int(),
    )  # fmt: skip
    assert entry.to_bytes().hex(" ", 4) == (
        "03110000 05000000 88776655 44332211 03e0cdab 00000000 00000000 00000000 "
        "ff1f0000 00000000 89674523 01000200 7698badc fe000300 00010000 02000000"
    )


def test_a_sealed_entry_carries_the_checksum_of_itself_without_it():
    entry = seal(Sqe(task_id=1, crc=77))
    raw = entry.to_bytes()
    assert int.from_bytes(raw[36:40], "little") == entry.crc
    assert entry.crc == zlib.crc32(raw[:36] + bytes(4) + raw[40:])
    assert seal(entry) == entry


def test_cleared_memory_is_neither_a_task_nor_an_instruction():
    assert 0 not in set(TaskType)
    assert 0 not in set(Opcode)


@pytest.mark.parametrize(
    "payload", [KernelPayload, CopyPayload, ValuePayload, NotifyPayload, CallPayload]
)
def test_payloads_fill_the_entry(payload):
    assert payload.WIDTH == Sqe.payload.width


@pytest.mark.parametrize("opcode", Opcode)
def test_every_opcode_has_a_layout_of_16_bytes_that_begins_with_it(opcode):
    word = INSTRUCTIONS[opcode]
    assert word.BYTES == 16
    assert sum(field.bits for field in word.FIELDS) == 128
    assert word().to_bytes()[0] == opcode


def test_the_magic_number_reads_as_letters():
    assert KernelHeader().to_bytes()[:4] == b"CELK"
