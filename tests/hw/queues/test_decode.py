"""The check of submission-queue entries: every rule at its limits, and random damage."""

import random

import pytest
from amaranth import Module, Signal

from hw.config import NpuConfig
from hw.layout import struct
from hw.queues.decode import check
from hw.regs.descriptor import (
    CallPayload,
    CopyPayload,
    EventWord,
    KernelPayload,
    NotifyPayload,
    Sqe,
    TaskType,
    ValuePayload,
)
from hw.regs.fault import FaultCause
from tests.models.decode import cause_of
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

EVENTS, NOTIFIES = 16, 4
CONFIG = NpuConfig.preset("tiny", events=EVENTS, notifies=NOTIFIES)
NONE, ILLEGAL, MISUSE = (
    FaultCause.NONE,
    FaultCause.ILLEGAL_DESCRIPTOR,
    FaultCause.EVENT_MISUSE,
)


def event(slot, generation=1):
    return EventWord(slot=slot, generation=generation).to_int()


def kernel(**fields):
    payload = dict(kernel_address=0x1000, args_address=0x2000)
    return raw(KernelPayload(**payload), fields)


def copy(**fields):
    return raw(CopyPayload(source=3, destination=5, row_bytes=7), fields)


def value(**fields):
    return raw(ValuePayload(address=0x100), fields)


def notify(**fields):
    return raw(NotifyPayload(counter=1, amount=5), fields)


def call(**fields):
    return raw(CallPayload(list_address=0x1000, entries=3, args_address=0x2000), fields)


def raw(layout, fields):
    """The word with some fields overwritten, reserved ones too."""
    word = layout.to_int()
    for field in layout.FIELDS:
        if field.name in fields:
            mask = ((1 << field.bits) - 1) << field.offset
            word = (word & ~mask) | (field.pack(fields[field.name]) << field.offset)
    return word


def sqe(kind, **fields):
    return Sqe.from_int(raw(Sqe(), {"type": kind, **fields}))


T = TaskType
GOOD = {
    T.NOP: {},
    T.KERNEL: dict(payload=kernel()),
    T.MEMCPY: dict(payload=copy()),
    T.MEMSET: dict(payload=copy(source=255)),
    T.EVENT_RECORD: dict(record=1, record_event=event(3)),
    T.EVENT_WAIT: dict(dependencies=1, event_deps=(event(2), 0, 0, 0)),
    T.NOTIFY: dict(payload=notify()),
    T.VALUE_WRITE: dict(payload=value(value=2**64 - 1)),
    T.VALUE_WAIT: dict(payload=value(value=2**64 - 1, mask=1, operation=3)),
    T.HOST_CALLBACK: {},
    T.BARRIER: {},
    T.CALL: dict(payload=call()),
}
FOUR = tuple(event(i) for i in range(4))
RULES = [
    *((kind, {}, NONE) for kind in GOOD),
    *((kind, {}, ILLEGAL) for kind in (0, 13, 14, 255)),
    *((kind, dict(reserved=1 << 15), ILLEGAL) for kind in GOOD),
    *((kind, dict(relative=1), ILLEGAL) for kind in GOOD),
    *((kind, dict(counters=1), ILLEGAL) for kind in GOOD),
    *((kind, dict(counters=1, completion=1), NONE) for kind in GOOD),
    *((kind, dict(timeout=2**32 - 1, task_id=2**64 - 1, crc=1), NONE) for kind in GOOD),
    *((kind, dict(option=1), ILLEGAL) for kind in GOOD
      if kind not in (T.KERNEL, T.EVENT_RECORD)),
    (T.KERNEL, dict(option=1), NONE),
    (T.NOP, dict(dependencies=4, event_deps=FOUR), NONE),
    (T.NOP, dict(dependencies=5, event_deps=FOUR), ILLEGAL),
    (T.NOP, dict(dependencies=7, event_deps=FOUR), ILLEGAL),
    *((T.NOP, dict(dependencies=n, event_deps=FOUR[: n + 1] + (0,) * (3 - n)), ILLEGAL)
      for n in range(4)),
    (T.NOP, dict(record=1), NONE),
    (T.NOP, dict(record_event=1 << 31), ILLEGAL),
    (T.NOP, dict(record=1, record_event=event(EVENTS - 1)), NONE),
    (T.NOP, dict(record=1, record_event=event(EVENTS)), MISUSE),
    (T.NOP, dict(record=1, record_event=event(4095)), MISUSE),
    *((T.NOP, dict(dependencies=4, event_deps=FOUR[:n] + (event(EVENTS),) + FOUR[n + 1 :]), MISUSE)
      for n in range(4)),
    (T.NOP, dict(record=1, record_event=event(EVENTS), payload=1), ILLEGAL),
    (T.NOP, dict(payload=1 << 191), ILLEGAL),
    (T.EVENT_WAIT, dict(payload=1), ILLEGAL),
    (T.EVENT_WAIT, dict(dependencies=0, event_deps=(0,) * 4), ILLEGAL),
    (T.EVENT_RECORD, dict(record=0, record_event=0), ILLEGAL),
    (T.EVENT_RECORD, dict(payload=0x100), ILLEGAL),
    (T.EVENT_RECORD, dict(option=1, payload=value()), NONE),
    (T.EVENT_RECORD, dict(option=1, payload=value(address=2**40 - 16)), NONE),
    (T.EVENT_RECORD, dict(option=1, payload=value(address=2**40)), ILLEGAL),
    (T.EVENT_RECORD, dict(option=1, payload=value(address=2**63)), ILLEGAL),
    (T.EVENT_RECORD, dict(option=1, payload=value(address=0x108)), ILLEGAL),
    (T.EVENT_RECORD, dict(option=1, payload=value(value=1)), ILLEGAL),
    (T.EVENT_RECORD, dict(option=1, payload=value(mask=1)), ILLEGAL),
    (T.EVENT_RECORD, dict(option=1, payload=value(operation=1)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(kernel_address=2**40 - 64, args_address=64)), NONE),
    (T.KERNEL, dict(payload=kernel(kernel_address=0)), NONE),
    (T.KERNEL, dict(payload=kernel(kernel_address=2**40)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(kernel_address=32)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(args_address=2**40)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(args_address=32)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(args_address=0)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(block_dim=0)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(block_dim=2)), ILLEGAL),
    (T.KERNEL, dict(payload=kernel(reserved=1)), ILLEGAL),
    *((kind, dict(payload=copy(row_bytes=0)), ILLEGAL) for kind in (T.MEMCPY, T.MEMSET)),
    *((kind, dict(payload=copy(rows=0)), ILLEGAL) for kind in (T.MEMCPY, T.MEMSET)),
    (T.MEMCPY, dict(payload=copy(source=2**40 - 1, source_pitch=1)), NONE),
    (T.MEMSET, dict(payload=copy(source=256)), ILLEGAL),
    (T.MEMSET, dict(payload=copy(source_pitch=1)), ILLEGAL),
    *((T.NOTIFY, dict(payload=notify(operation=n)), NONE) for n in range(3)),
    (T.NOTIFY, dict(payload=notify(operation=3)), ILLEGAL),
    (T.NOTIFY, dict(payload=notify(operation=1 << 31)), ILLEGAL),
    (T.NOTIFY, dict(payload=notify(amount=2**32 - 1, counter=NOTIFIES - 1)), NONE),
    (T.NOTIFY, dict(payload=notify(counter=NOTIFIES)), MISUSE),
    (T.NOTIFY, dict(payload=notify(counter=2**63)), MISUSE),
    (T.NOTIFY, dict(payload=notify(counter=NOTIFIES, operation=3)), ILLEGAL),
    (T.NOTIFY, dict(payload=notify(reserved0=1)), ILLEGAL),
    (T.NOTIFY, dict(payload=notify(reserved1=1 << 31)), ILLEGAL),
    *((kind, dict(payload=value(address=2**40 - 8)), NONE)
      for kind in (T.VALUE_WRITE, T.VALUE_WAIT)),
    *((kind, dict(payload=value(address=address)), ILLEGAL)
      for kind in (T.VALUE_WRITE, T.VALUE_WAIT) for address in (2**40, 2**63, 4, 0x101)),
    (T.VALUE_WRITE, dict(payload=value(mask=1)), ILLEGAL),
    (T.VALUE_WRITE, dict(payload=value(operation=1)), ILLEGAL),
    *((T.VALUE_WAIT, dict(payload=value(operation=n)), NONE) for n in range(4)),
    (T.VALUE_WAIT, dict(payload=value(mask=2**32 - 1)), NONE),
    (T.VALUE_WAIT, dict(payload=value(operation=4)), ILLEGAL),
    (T.VALUE_WAIT, dict(payload=value(operation=1 << 31)), ILLEGAL),
    *((kind, dict(payload=1 << bit), ILLEGAL)
      for kind in (T.HOST_CALLBACK, T.BARRIER) for bit in (0, 191)),
    (T.CALL, dict(payload=call(entries=0)), ILLEGAL),
    (T.CALL, dict(payload=call(epoch=2**32 - 1)), NONE),
    (T.CALL, dict(payload=call(args_address=0)), NONE),
    (T.CALL, dict(payload=call(list_address=32)), ILLEGAL),
    (T.CALL, dict(payload=call(args_address=64)), ILLEGAL),
    (T.CALL, dict(payload=call(list_address=2**40)), ILLEGAL),
    (T.CALL, dict(payload=call(args_address=2**40)), ILLEGAL),
    (T.CALL, dict(payload=call(list_address=2**40 - 192)), NONE),
    (T.CALL, dict(payload=call(list_address=2**40 - 128)), ILLEGAL),
    (T.CALL, dict(payload=call(args_address=2**40 - 384)), NONE),
    (T.CALL, dict(payload=call(args_address=2**40 - 256)), ILLEGAL),
    (T.CALL, dict(payload=call(entries=2**32 - 1)), NONE),
]  # fmt: skip
LIST_RULES = [
    *((kind, {}, NONE) for kind in GOOD if kind != T.CALL),
    *((kind, dict(relative=1), NONE) for kind in GOOD if kind != T.CALL),
    *((kind, dict(reserved=1), ILLEGAL) for kind in GOOD),
    (T.CALL, {}, ILLEGAL),
    (T.CALL, dict(relative=1), ILLEGAL),
    (T.NOP, dict(relative=1, record=1, record_event=event(EVENTS)), MISUSE),
]


@pytest.fixture(scope="module")
def verdicts(engine):
    """Runs a list of entries through the gateware in one simulation."""
    m = Module()
    entry = Signal(struct(Sqe))
    listed = Signal()
    cause = Signal(8)
    m.d.comb += cause.eq(check(entry, CONFIG, listed))

    def run(entries, in_list=False):
        found = []

        async def bench(ctx):
            ctx.set(listed, in_list)
            for item in entries:
                ctx.set(entry.as_value(), item.to_int())
                found.append(ctx.get(cause))

        simulator = simulator_of(m)
        simulator.add_testbench(bench)
        simulator.run()
        return found

    return run


@pytest.mark.parametrize(
    ("rules", "listed"), [(RULES, False), (LIST_RULES, True)], ids=["ring", "list"]
)
def test_every_rule_is_kept_at_its_limits(verdicts, rules, listed):
    entries = [sqe(kind, **{**GOOD.get(kind, {}), **fields}) for kind, fields, _ in rules]
    for (kind, fields, expected), entry, found in zip(
        rules, entries, verdicts(entries, listed), strict=True
    ):
        assert found == expected == cause_of(entry, CONFIG, listed=listed), (kind, fields)


@pytest.mark.parametrize("listed", [False, True], ids=["ring", "list"])
def test_single_flipped_bits_are_judged_as_the_model_does(verdicts, listed):
    rng = random.Random(1)
    entries = []
    for kind, fields in GOOD.items():
        word = sqe(kind, **fields).to_int()
        entries += [Sqe.from_int(word ^ (1 << bit)) for bit in range(512)]
        for _ in range(200):
            flips = sum(1 << bit for bit in rng.sample(range(512), rng.randrange(2, 5)))
            entries.append(Sqe.from_int(word ^ flips))
    found = verdicts(entries, listed)
    assert found == [cause_of(entry, CONFIG, listed=listed) for entry in entries]
    assert set(found) == {NONE, ILLEGAL, MISUSE}
