import random as python_random
from collections import deque

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib.wiring import connect

from hw.config import NpuConfig
from hw.core.memory import LocalMemory
from hw.core.store import StoreUnit
from hw.interface import Status
from hw.regs.fault import FaultCause
from hw.regs.instruction import Channel, ChannelRecord, OutputFormat, Store
from rt.golden import add_bias, requantise
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset(
    "tiny", scratchpad_words=64, accumulator_rows=16, burst_beats=4, outstanding=4
)
BASE = 0x1000
INT32 = dict(format=OutputFormat.INT32)
INT8 = dict(format=OutputFormat.INT8, low=-128, high=127)
LIMIT = 500
"""Cycles after which something hangs."""


class Machine:
    """The unit with its local memories, on a model of a write port that checks what it sees."""

    def __init__(self, config=CONFIG, seed=None, latency=3):
        self.config = config
        self.unit = unit = StoreUnit(config)
        scratchpad = LocalMemory(config.scratchpad_words, config.word_bytes * 8, 1)
        accumulators = LocalMemory(config.accumulator_rows, config.columns * 32, 1)
        self.scratchpad, self.accumulators = scratchpad.write, accumulators.write
        self.top = m = Module()
        m.submodules.unit = unit
        m.submodules.scratchpad = scratchpad
        m.submodules.accumulators = accumulators
        connect(m, unit.table, scratchpad.reads[0])
        connect(m, unit.accumulators, accumulators.reads[0])

        self.random = None if seed is None else python_random.Random(seed)
        self.latency = latency
        self.memory = bytearray(b"\xa5" * 0x2000)
        self.bursts = deque()
        """Accepted bursts whose data is owed: [address, bytes left, bytes]."""
        self.answers = deque()
        """(cycle, address) of the answers to come."""
        self.errors = {}
        """Status of the answer to a burst at an address, if it is not OKAY."""
        self.faults = []
        """(cause, index, word, address, write) of each fault."""
        self.cycle = 0
        self.log = []
        """(cycle, what) of everything the unit did."""

    def run(self, bench):
        simulate(self.top, bench)

    def draw(self, probability):
        return self.random is None or self.random.random() < probability

    async def tick(self, ctx):
        """One cycle of the port, noted down."""
        unit, port = self.unit, self.unit.memory
        width = self.config.data_bytes
        in_flight = len(self.bursts) + len(self.answers)
        ctx.set(port.requests.ready, in_flight < self.config.outstanding and self.draw(0.5))
        ctx.set(port.data.ready, bool(self.bursts) and self.draw(0.7))
        answered = bool(self.answers) and self.answers[0][0] <= self.cycle and self.draw(0.5)
        ctx.set(port.responses.valid, answered)
        if answered:
            _, address = self.answers.popleft()
            status = self.errors.get(address, Status.OKAY)
            ctx.set(port.responses.p, {"status": status, "address": address})

        flags = {
            "taken": unit.operations.valid & unit.operations.ready, "word": unit.table.enable,
            "row": unit.accumulators.enable, "take": unit.previous.take,
            "give": unit.previous.give, "waiting": unit.waiting, "fault": unit.fault.valid,
            "request": port.requests.valid, "response": unit.response,
            "accepted": port.requests.valid & port.requests.ready,
            "beat": port.data.valid & port.data.ready,
        }  # fmt: skip
        seen = {name for name, flag in flags.items() if ctx.get(flag)}
        if "fault" in seen:
            fault = unit.fault
            parts = (fault.cause, fault.index, fault.word, fault.address, fault.write)
            self.faults.append(tuple(ctx.get(part) for part in parts))
        self.log += [(self.cycle, name) for name in sorted(seen)]
        if not ctx.get(unit.abort):
            assert ctx.get(port.data.valid) == bool(self.bursts), "data waits for data"
        if "beat" in seen:
            burst = self.bursts[0]
            lane = burst[0] % width
            count = min(width - lane, burst[1])
            assert ctx.get(port.data.p.strobe) == ((1 << count) - 1) << lane
            raw = ctx.get(port.data.p.data).to_bytes(width, "little")
            self.memory[burst[0] : burst[0] + count] = raw[lane : lane + count]
            burst[0] += count
            burst[1] -= count
            if not burst[1]:
                self.bursts.popleft()
                self.answers.append((self.cycle + self.latency, burst[2]))
        if "accepted" in seen:
            address, size = ctx.get(port.requests.p.address), ctx.get(port.requests.p.bytes)
            block = self.config.burst_bytes
            assert size
            assert address // block == (address + size - 1) // block
            assert ctx.get(port.requests.p.context) == 5
            self.bursts.append([address, size, address])
        self.cycle += 1
        await ctx.tick()

    def cycles(self, name):
        return [cycle for cycle, what in self.log if what == name]

    async def fill(self, ctx, port, rows):
        for address, row in enumerate(rows):
            ctx.set(port.enable, 1)
            ctx.set(port.address, address)
            ctx.set(port.data, int.from_bytes(bytes(row), "little"))
            await ctx.tick()
        ctx.set(port.enable, 0)

    async def fill_table(self, ctx, records, word=0):
        """Writes `records` from scratchpad word `word` on."""
        raw = b"".join(record.to_bytes() for record in records)
        size = self.config.word_bytes
        rows = [b""] * word + [raw[k : k + size] for k in range(0, len(raw), size)]
        await self.fill(ctx, self.scratchpad, rows)

    def offer(self, ctx, number, word, local, memory=0):
        ctx.set(self.unit.context, 5)
        ctx.set(self.unit.operations.p, {
            "word": word.to_int(), "index": number, "memory": memory, "local": [local, 0, 0],
        })  # fmt: skip
        ctx.set(self.unit.operations.valid, 1)

    async def issue(self, ctx, *operations):
        """Offers (word, local, memory) back to back, and ticks until the last is taken."""
        for number, operation in enumerate(operations):
            self.offer(ctx, number, *operation)
            taken = False
            start = self.cycle
            while not taken:
                assert self.cycle < start + LIMIT, "the operation is not taken"
                await self.tick(ctx)
                taken = (self.cycle - 1, "taken") in self.log[-12:]
        ctx.set(self.unit.operations.valid, 0)

    async def drain(self, ctx):
        start = self.cycle
        while ctx.get(self.unit.busy):
            assert self.cycle < start + LIMIT, "the unit stays busy"
            await self.tick(ctx)
        assert not self.bursts
        assert not self.answers

    async def until_fault(self, ctx, limit=200):
        """The fault that is reported next."""
        count = len(self.faults)
        for _ in range(limit):
            await self.tick(ctx)
            if len(self.faults) > count:
                return self.faults[-1]
        raise AssertionError("no fault")


def draw_table(random, columns):
    return [
        ChannelRecord(
            bias=int(random.integers(-(2**31), 2**31)),
            multiplier=int(random.integers(0, 2**31)),
            shift=int(random.integers(50, 64)),
        )
        for _ in range(columns)
    ]


def golden(memory, sums, table, word, local, address):
    """What a STORE changes in memory."""
    columns = {
        name: np.array([getattr(record, name) for record in table[: word.columns]])
        for name in ("bias", "multiplier", "shift")
    }
    if not word.bias:
        columns["bias"] = np.zeros(word.columns, np.int64)
    rows = sums[local : local + word.rows, : word.columns]
    if word.format == OutputFormat.INT32:
        rows = add_bias(rows, columns["bias"])
    else:
        clamp = {name: getattr(word, name) for name in ("zero_point", "low", "high")}
        rows = requantise(rows, **columns, **clamp)
    for r, row in enumerate(rows):
        start = address + r * word.pitch
        memory[start : start + row.nbytes] = row.tobytes()


def draw_store(random, config):
    rows = int(random.integers(1, 9))
    columns = int(random.integers(1, config.columns + 1))
    local = int(random.integers(0, config.accumulator_rows - rows + 1))
    address = int(random.integers(BASE, BASE + 64))
    fields = dict(rows=rows, columns=columns, bias=int(random.integers(0, 2)))
    size = 4
    if random.random() < 0.6:
        size = 1
        low, high = sorted(int(x) for x in random.integers(-128, 128, 2))
        fields |= dict(
            format=OutputFormat.INT8, low=low, high=high, zero_point=int(random.integers(-128, 128))
        )
    dense = random.random() < 0.5
    fields["pitch"] = columns * size + (0 if dense else int(random.integers(0, 30)))
    return Store(**fields), local, address


@pytest.mark.parametrize(
    ("rows", "columns", "operations"), [(4, 4, 60), (8, 8, 12), (8, 2, 12), (2, 16, 12)]
)
def test_random_stores_write_what_the_golden_functions_say(rows, columns, operations):
    """Any alignment and size, new tables in between, a port that stalls at random."""
    config = NpuConfig.preset(
        "tiny", rows=rows, columns=columns, scratchpad_words=256, accumulator_rows=16,
        burst_beats=4, outstanding=4,
    )  # fmt: skip
    random = np.random.default_rng(columns)
    machine = Machine(config, seed=columns)
    sums = random.integers(-(2**31), 2**31, (16, columns)).astype(np.int32)
    tables = [draw_table(random, columns) for _ in range(2)]
    second = machine.unit.table_words

    async def bench(ctx):
        await machine.fill(ctx, machine.accumulators, sums)
        for which, table in reversed(list(enumerate(tables))):
            await machine.fill_table(ctx, table, which * second)
        expected = bytearray(machine.memory)
        table = [ChannelRecord()] * columns
        for _ in range(operations):
            if random.random() < 0.3:
                which = int(random.integers(0, 2))
                table = tables[which]
                await machine.issue(ctx, (Channel(), which * second))
            word, local, address = draw_store(random, config)
            golden(expected, sums, table, word, local, address)
            await machine.issue(ctx, (word, local, address))
            if random.random() < 0.1:
                await machine.drain(ctx)
        await machine.drain(ctx)
        assert machine.memory == expected

    machine.run(bench)


def test_cycles_of_a_store():
    """Three rows of four bytes in three beats; the port takes and answers at once."""
    machine = Machine()
    word = Store(**INT8, rows=3, columns=4, pitch=8, wait_previous=1, signal_previous=1)

    async def bench(ctx):
        ctx.set(machine.unit.previous.available, 1)
        await machine.issue(ctx, (word, 2, BASE))
        await machine.drain(ctx)
        assert machine.cycles("taken") == [0]
        assert machine.cycles("take") == [1]
        assert machine.cycles("row") == [1, 2, 3]
        assert machine.cycles("give") == [3]
        assert machine.cycles("accepted") == [10, 11, 12]
        assert machine.cycles("beat") == [11, 12, 13]
        assert machine.cycles("response") == [14, 15, 16]
        assert machine.cycle == 17

    machine.run(bench)


def test_cycles_of_a_channel():
    machine = Machine()
    word = Channel(signal_previous=1)
    store = Store(**INT8, rows=1, columns=4, pitch=8)

    async def bench(ctx):
        await machine.issue(ctx, (word, 48), (word, 48))
        await machine.drain(ctx)
        assert machine.cycles("word") == [*range(1, 17), *range(19, 35)]
        assert machine.cycles("give") == [16, 34]
        assert machine.cycles("taken") == [0, 18]
        assert machine.cycle == 37

        # A row that is read in cycle 1 leaves the old table after cycle 6.
        start = machine.cycle
        await machine.issue(ctx, (store, 0, BASE), (word, 48))
        await machine.drain(ctx)
        assert machine.cycles("word")[32] == start + 8

    machine.run(bench)


def test_dense_rows_stream_a_beat_in_each_cycle():
    """Thirty-two beats of two rows each, or two for each row: the bus never waits."""
    config = NpuConfig.preset("tiny", accumulator_rows=64)
    for word, beats in (
        (Store(**INT8, rows=64, columns=4, pitch=4), 32),
        (Store(**INT32, rows=32, columns=4, pitch=16), 64),
    ):
        machine = Machine(config)

        async def bench(ctx, machine=machine, word=word, beats=beats):
            await machine.issue(ctx, (word, 0, BASE))
            await machine.drain(ctx)
            assert len(machine.cycles("accepted")) == beats // config.burst_beats
            cycles = machine.cycles("beat")
            assert len(cycles) == beats
            if word.format == OutputFormat.INT32:
                assert cycles == list(range(cycles[0], cycles[0] + beats))
            assert len(machine.cycles("row")) == word.rows

        machine.run(bench)


def test_rows_of_a_whole_beat_stream_one_in_each_cycle():
    config = NpuConfig.preset("tiny", rows=8, columns=8, accumulator_rows=32)
    machine = Machine(config)

    async def bench(ctx):
        await machine.issue(ctx, (Store(**INT8, rows=32, columns=8, pitch=8), 0, BASE))
        await machine.drain(ctx)
        assert machine.cycles("row") == list(range(1, 33))
        cycles = machine.cycles("beat")
        assert cycles == list(range(cycles[0], cycles[0] + 32))

    machine.run(bench)


def test_a_token_is_awaited():
    machine = Machine()
    word = Store(**INT8, rows=1, columns=4, wait_previous=1)

    async def bench(ctx):
        await machine.issue(ctx, (word, 0, BASE))
        for _ in range(4):
            await machine.tick(ctx)
        assert machine.cycles("waiting") == [1, 2, 3, 4]
        assert machine.cycles("row") == []
        ctx.set(machine.unit.previous.available, 1)
        await machine.drain(ctx)
        assert machine.cycles("take") == machine.cycles("row") == [5]

    machine.run(bench)


FINE = dict(rows=2, columns=4, pitch=8)
ILLEGAL = [
    (Store(**INT8, **{**FINE, "rows": 0}), 0),
    (Store(**INT8, **{**FINE, "columns": 0}), 0),
    (Store(**INT8, **{**FINE, "columns": 5}), 0),
    (Store(**INT8, **FINE), 15),
    (Store(**INT8, **FINE), (1 << 24) - 1),
    (Store(**FINE, format=OutputFormat.INT8, low=1, high=0), 0),
    (Store(**INT32, **FINE, zero_point=1), 0),
    (Store(**INT32, **FINE, low=-1), 0),
    (Store(**INT32, **FINE, high=1), 0),
    (Channel(), 49),
    (Channel(), (1 << 24) - 1),
]


def test_illegal_operations_are_reported_and_nothing_is_written():
    machine = Machine()

    async def bench(ctx):
        for number, (word, local) in enumerate(ILLEGAL):
            machine.offer(ctx, number, word, local, BASE)
            await machine.tick(ctx)
            fault = await machine.until_fault(ctx)
            cause = FaultCause.ILLEGAL_INSTRUCTION
            assert fault == (cause, number, word.to_int(), 0, 0), word
            for _ in range(3):
                await machine.tick(ctx)
            await abort(ctx, machine)
        assert len(machine.cycles("fault")) == len(ILLEGAL)
        assert machine.cycles("request") == machine.cycles("row") == machine.cycles("word") == []
        await machine.issue(ctx, (Store(**INT8, **FINE), 14, BASE), (Channel(), 48))
        await machine.drain(ctx)
        assert len(machine.cycles("fault")) == len(ILLEGAL)

    machine.run(bench)


async def abort(ctx, machine):
    """Aborts, as the port does, what is in flight."""
    ctx.set(machine.unit.operations.valid, 0)
    ctx.set(machine.unit.abort, 1)
    assert ctx.get(machine.unit.memory.abort)
    await machine.tick(ctx)
    ctx.set(machine.unit.abort, 0)
    machine.bursts.clear()
    machine.answers.clear()
    assert not ctx.get(machine.unit.busy)


@pytest.mark.parametrize("bit", [63, 70, 127])
def test_a_table_with_reserved_bits_set_is_reported(bit):
    machine = Machine()

    async def bench(ctx):
        raw = bytearray(64)
        raw[32 + bit // 8] = 1 << bit % 8
        await machine.fill(ctx, machine.scratchpad, [raw[k : k + 4] for k in range(0, 64, 4)])
        machine.offer(ctx, 3, Channel(), 0)
        await machine.tick(ctx)
        ctx.set(machine.unit.operations.valid, 0)
        fault = await machine.until_fault(ctx)
        assert fault == (FaultCause.ILLEGAL_INSTRUCTION, 3, Channel().to_int(), 0, 0)

    machine.run(bench)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (Status.DENIED, FaultCause.ACCESS_VIOLATION),
        (Status.SLVERR, FaultCause.BUS_SLAVE_ERROR),
        (Status.DECERR, FaultCause.BUS_DECODE_ERROR),
    ],
)
def test_a_failed_write_is_reported_with_its_own_instruction(status, cause):
    """The second of three STOREs fails, after the third has read its rows."""
    machine = Machine(latency=30)
    words = [Store(**INT8, rows=rows, columns=4, pitch=8) for rows in (1, 2, 1)]
    operations = [(word, 0, BASE + 64 * k) for k, word in enumerate(words)]
    address = BASE + 64 + 8
    machine.errors = {address: status}

    async def bench(ctx):
        await machine.issue(ctx, *operations)
        fault = await machine.until_fault(ctx)
        assert fault == (cause, 1, words[1].to_int(), address, 1)
        assert ctx.get(machine.unit.busy)
        await abort(ctx, machine)
        machine.errors = {}
        await machine.issue(ctx, *operations)
        await machine.drain(ctx)

    machine.run(bench)


def test_an_int32_that_wraps_is_reported_with_its_own_instruction_and_not_written():
    """The next STORE is in work by then; those before it are written."""
    machine = Machine()
    word = Store(**INT32, rows=1, columns=3, pitch=16, bias=1)
    top = 2**31 - 1
    table = [ChannelRecord(bias=1), ChannelRecord(bias=-1), *[ChannelRecord(bias=5)] * 2]
    # Of the last column nothing is stored.
    sums = np.array([[0, 0, 0, top], [top - 1, -top, 3, top], [4, -top - 1, 4, 0]], np.int32)
    operations = [(word, local, BASE + 64 * k) for k, local in enumerate((0, 1, 2, 0))]

    async def bench(ctx):
        await machine.fill(ctx, machine.accumulators, sums)
        await machine.fill_table(ctx, table)
        await machine.issue(ctx, (Channel(), 0))
        expected = bytearray(machine.memory)
        for operation in operations:
            golden(expected, sums, table, *operation)
        await machine.issue(ctx, *operations)
        await machine.drain(ctx)
        assert machine.memory == expected
        assert machine.faults == []

        ctx.set(machine.unit.overflow, 1)
        machine.memory[:] = b"\xa5" * len(machine.memory)
        await machine.issue(ctx, *operations[:2])
        await machine.drain(ctx)
        row = len(machine.cycles("row"))
        await machine.issue(ctx, operations[2], (word.replace(rows=2), *operations[3][1:]))
        fault = await machine.until_fault(ctx)
        for _ in range(20):
            await machine.tick(ctx)
        assert machine.faults == [fault]
        assert fault == (FaultCause.ARITHMETIC_OVERFLOW, 0, word.to_int(), 0, 0)
        assert machine.cycles("fault") == [machine.cycles("row")[row] + 6]
        assert machine.memory[: BASE + 128] == expected[: BASE + 128]
        assert set(machine.memory[BASE + 128 :]) == {0xA5}
        await abort(ctx, machine)
        # It knows its STOREs afterwards, too.
        await machine.issue(ctx, (word, 0, BASE), (word, 2, BASE))
        assert (await machine.until_fault(ctx))[:2] == (FaultCause.ARITHMETIC_OVERFLOW, 1)

    machine.run(bench)


def test_a_new_task_finds_a_table_of_zeros():
    machine = Machine()
    word = Store(**INT8, rows=1, columns=4, pitch=4, bias=1, zero_point=9)
    table = [ChannelRecord(bias=60, multiplier=1)] * 4

    async def bench(ctx):
        await machine.fill_table(ctx, table)
        await machine.issue(ctx, (Channel(), 0), (word, 0, BASE))
        await machine.drain(ctx)
        assert machine.memory[BASE : BASE + 4] == bytes([69] * 4)
        ctx.set(machine.unit.start, 1)
        await machine.tick(ctx)
        ctx.set(machine.unit.start, 0)
        await machine.issue(ctx, (word, 0, BASE))
        await machine.drain(ctx)
        assert machine.memory[BASE : BASE + 4] == bytes([9] * 4)

    machine.run(bench)


def test_abort_in_the_middle_leaves_nothing_behind():
    random = np.random.default_rng(3)
    machine = Machine()
    sums = random.integers(-(2**31), 2**31, (16, 4)).astype(np.int32)
    word = Store(**INT32, rows=8, columns=4, pitch=20)

    async def bench(ctx):
        await machine.fill(ctx, machine.accumulators, sums)
        for cycles in range(1, 40, 3):
            await machine.issue(ctx, (word, 0, BASE + 3))
            for _ in range(cycles):
                await machine.tick(ctx)
            await abort(ctx, machine)
            log = len(machine.log)
            for _ in range(5):
                await machine.tick(ctx)
            assert len(machine.log) == log
        machine.memory[:] = b"\xa5" * len(machine.memory)
        expected = bytearray(machine.memory)
        golden(expected, sums, [ChannelRecord()] * 4, word, 8, BASE + 1)
        await machine.issue(ctx, (word, 8, BASE + 1))
        await machine.drain(ctx)
        assert machine.memory == expected

    machine.run(bench)
