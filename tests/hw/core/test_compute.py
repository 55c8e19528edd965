import numpy as np
import pytest
from amaranth import Module, Signal
from amaranth.lib.wiring import connect

from hw.config import NpuConfig
from hw.core.compute import ComputeUnit
from hw.core.memory import LocalMemory
from hw.regs.fault import FaultCause
from hw.regs.instruction import Matmul
from rt.golden import matmul
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", scratchpad_words=64, accumulator_rows=16)
SUM_DELAY = 3 + CONFIG.rows + CONFIG.columns
"""Cycle in which the sums of row 0 are written, of an operation taken in cycle 0."""
LIMIT = 500
"""Cycles after which something hangs."""


class Machine:
    """The unit with its memories, and what it does in each cycle."""

    def __init__(self, config=CONFIG):
        self.config = config
        self.unit = unit = ComputeUnit(config)
        scratchpad = LocalMemory(config.scratchpad_words, config.word_bytes * 8, 2)
        accumulators = LocalMemory(config.accumulator_rows, config.columns * 32, 2)
        self.fill = scratchpad.write
        self.look = accumulators.reads[1]
        self.top = m = Module()
        m.submodules.unit = unit
        m.submodules.scratchpad = scratchpad
        m.submodules.accumulators = accumulators
        connect(m, unit.activations, scratchpad.reads[0])
        connect(m, unit.weights, scratchpad.reads[1])
        connect(m, unit.read, accumulators.reads[0])
        # The bench writes the accumulators as well, before the unit runs.
        self.preset = Signal()
        self.preset_address = Signal(range(config.accumulator_rows))
        self.preset_data = Signal(config.columns * 32)
        write = accumulators.write
        m.d.comb += [
            write.enable.eq(unit.write.enable | self.preset),
            write.address.eq(unit.write.address | self.preset_address),
            write.data.eq(unit.write.data | self.preset_data),
        ]
        self.cycle = 0
        self.log = []
        """(cycle, what) of everything the unit did."""

    def run(self, bench):
        simulate(self.top, bench)

    async def tick(self, ctx):
        """One cycle, noted down."""
        unit = self.unit
        flags = {
            "taken": unit.operations.valid & unit.operations.ready,
            "weight": unit.weights.enable, "activation": unit.activations.enable,
            "written": unit.write.enable, "row": unit.row, "weight_wait": unit.weight_wait,
            "take_previous": unit.previous.take, "take_next": unit.next.take,
            "give_previous": unit.previous.give, "give_next": unit.next.give,
            "waiting": unit.waiting, "fault": unit.fault.valid,
        }  # fmt: skip
        self.log += [(self.cycle, name) for name, flag in flags.items() if ctx.get(flag)]
        self.cycle += 1
        await ctx.tick()

    def cycles(self, name):
        return [cycle for cycle, what in self.log if what == name]

    async def load(self, ctx, scratchpad, accumulators=None):
        for address, row in enumerate(scratchpad):
            ctx.set(self.fill.enable, 1)
            ctx.set(self.fill.address, address)
            ctx.set(self.fill.data, int.from_bytes(row.tobytes(), "little"))
            await ctx.tick()
        ctx.set(self.fill.enable, 0)
        for address, row in enumerate([] if accumulators is None else accumulators):
            ctx.set(self.preset, 1)
            ctx.set(self.preset_address, address)
            ctx.set(self.preset_data, int.from_bytes(row.tobytes(), "little"))
            await ctx.tick()
        ctx.set(self.preset, 0)
        ctx.set(self.preset_address, 0)
        ctx.set(self.preset_data, 0)

    async def sums(self, ctx):
        rows = []
        for address in range(self.config.accumulator_rows):
            ctx.set(self.look.enable, 1)
            ctx.set(self.look.address, address)
            await ctx.tick().repeat(2)
            raw = ctx.get(self.look.data).to_bytes(self.config.columns * 4, "little")
            rows.append(np.frombuffer(raw, np.int32))
        return np.array(rows)

    def offer(self, ctx, number, local, **fields):
        word = Matmul(**fields).to_int()
        ctx.set(self.unit.operations.p, {"word": word, "index": number, "local": local})
        ctx.set(self.unit.operations.valid, 1)

    async def issue(self, ctx, operations):
        """Offers operations back to back, and ticks until the last is taken."""
        for number, (local, fields) in enumerate(operations):
            self.offer(ctx, number, local, **fields)
            taken = False
            start = self.cycle
            while not taken:
                assert self.cycle < start + LIMIT, "the operation is not taken"
                taken = ctx.get(self.unit.operations.ready)
                await self.tick(ctx)
        ctx.set(self.unit.operations.valid, 0)

    async def drain(self, ctx):
        start = self.cycle
        while ctx.get(self.unit.busy):
            assert self.cycle < start + LIMIT, "the unit stays busy"
            await self.tick(ctx)

    async def until_fault(self, ctx, limit=100):
        report = self.unit.fault
        for _ in range(limit):
            if ctx.get(report.valid):
                return tuple(ctx.get(part) for part in (report.cause, report.index, report.word))
            await self.tick(ctx)
        return None


def golden(scratchpad, sums, operations):
    """What the operations leave in the accumulators."""
    sums = sums.copy()
    for (x, w, a), fields in operations:
        op = Matmul(**fields)
        activations = scratchpad[[x + r * op.pitch for r in range(op.rows)], : op.depth]
        if not op.keep:
            weights = scratchpad[[w + k * op.weight_pitch for k in range(op.depth)]]
        target = sums[a : a + op.rows]
        product = (activations, weights[: op.depth])
        sums[a : a + op.rows] = matmul(*product, target) if op.accumulate else matmul(*product)
    return sums


def draw_operation(random, depth_kept):
    rows = int(random.choice([1, 1, 2, 2, 3, 4, 5, 9]))
    keep = bool(depth_kept) and random.random() < 0.3
    depth = int(random.integers(1, (depth_kept if keep else 4) + 1))
    pitch, weight_pitch = (int(random.integers(0, 6)) for _ in range(2))
    local = (
        int(random.integers(0, 64 - (rows - 1) * pitch)),
        int(random.integers(0, 64 - (depth - 1) * weight_pitch)),
        int(random.integers(0, 16 - rows + 1)) if random.random() < 0.5 else 3,
    )
    return local, dict(
        rows=rows, depth=depth, pitch=pitch, weight_pitch=weight_pitch, keep=keep,
        accumulate=int(random.random() < 0.7),
    )  # fmt: skip


def test_random_operations_equal_the_golden_sums():
    """Few rows, the same accumulators over and over: every distance of dependent rows."""
    random = np.random.default_rng(7)
    machine = Machine()
    scratchpad = random.integers(-128, 128, (64, 4), np.int8)
    sums = random.integers(-(2**31), 2**31, (16, 4)).astype(np.int32)

    async def bench(ctx):
        await machine.load(ctx, scratchpad, sums)
        operations, kept = [], 0
        for _ in range(150):
            operations.append(draw_operation(random, kept))
            if not operations[-1][1]["keep"]:
                kept = operations[-1][1]["depth"]
        number = 0
        while number < len(operations):
            count = int(random.integers(1, 20))
            await machine.issue(ctx, operations[number : number + count])
            number += count
            for _ in range(int(random.integers(0, 4))):
                await machine.tick(ctx)
        await machine.drain(ctx)
        assert np.array_equal(await machine.sums(ctx), golden(scratchpad, sums, operations))

    machine.run(bench)


@pytest.mark.parametrize(("rows", "columns"), [(2, 8), (8, 2)])
def test_arrays_that_are_not_square(rows, columns):
    config = NpuConfig.preset(
        "tiny", rows=rows, columns=columns, scratchpad_words=64, accumulator_rows=16
    )
    random = np.random.default_rng(8)
    machine = Machine(config)
    scratchpad = random.integers(-128, 128, (32, 8), np.int8)
    fields = dict(rows=3, depth=rows, pitch=1, weight_pitch=1)
    operations = [((0, 16, 2), fields), ((5, 20, 3), {**fields, "accumulate": 1})]

    async def bench(ctx):
        await machine.load(ctx, scratchpad)
        await machine.issue(ctx, operations)
        await machine.drain(ctx)
        expected = golden(
            np.pad(scratchpad, ((0, 32), (0, 0))), np.zeros((16, 8), np.int32), operations
        )
        assert np.array_equal(await machine.sums(ctx), expected[:, :columns])

    machine.run(bench)


@pytest.mark.parametrize(("rows", "depth"), [(1, 4), (4, 4), (6, 2)])
def test_cycles_of_an_operation_alone(rows, depth):
    machine = Machine()
    fields = dict(rows=rows, depth=depth, pitch=1, weight_pitch=1, wait_previous=1, wait_next=1,
                  signal_previous=1, signal_next=1)  # fmt: skip

    async def bench(ctx):
        ctx.set(machine.unit.previous.available, 1)
        ctx.set(machine.unit.next.available, 1)
        await machine.issue(ctx, [((0, 16, 0), fields)])
        await machine.drain(ctx)
        last_write = rows - 1 + SUM_DELAY
        assert machine.cycles("taken") == [0]
        assert machine.cycles("weight") == list(range(1, depth + 1))
        assert machine.cycles("activation") == list(range(2, rows + 2))
        assert machine.cycles("row") == list(range(4, rows + 4))
        assert machine.cycles("written") == list(range(SUM_DELAY, rows + SUM_DELAY))
        assert machine.cycles("take_previous") == machine.cycles("take_next") == [1]
        assert machine.cycles("give_previous") == [max(depth, rows + 1)]
        assert machine.cycles("give_next") == [last_write]
        assert machine.cycle == last_write + 1

    machine.run(bench)


def test_operations_follow_each_other_without_a_bubble():
    machine = Machine()
    fields = dict(rows=4, depth=4, pitch=1, weight_pitch=1)
    short = dict(rows=1, depth=3, pitch=1, weight_pitch=1)
    kept = dict(rows=1, depth=4, pitch=1, keep=1)

    async def bench(ctx):
        await machine.issue(ctx, [((0, 16, 0), fields)] * 5 + [((0, 0, 0), kept)] * 4)
        await machine.drain(ctx)
        assert machine.cycles("activation") == list(range(2, 2 + 5 * 4 + 4))
        assert machine.cycles("weight_wait") == [1]

        machine.log.clear()
        start = machine.cycle
        await machine.issue(ctx, [((0, 16, k), short) for k in range(4)])
        await machine.drain(ctx)
        assert machine.cycles("weight") == list(range(start + 1, start + 13))
        assert machine.cycles("activation") == [start + 2, start + 5, start + 8, start + 11]

    machine.run(bench)


def test_dependent_rows_keep_a_distance_of_three_cycles():
    machine = Machine()
    first = dict(rows=1, depth=1)
    again = dict(rows=1, depth=1, keep=1, accumulate=1)

    async def bench(ctx):
        await machine.issue(ctx, [((0, 0, 5), first)] + [((0, 0, 5), again)] * 3)
        await machine.drain(ctx)
        assert machine.cycles("activation") == [2, 5, 8, 11]

    machine.run(bench)


def test_tokens_are_taken_together_before_anything_is_read():
    machine = Machine()
    fields = dict(rows=1, depth=1, wait_previous=1, wait_next=1)

    async def bench(ctx):
        ctx.set(machine.unit.previous.available, 1)
        await machine.issue(ctx, [((0, 0, 0), fields)])
        for _ in range(4):
            await machine.tick(ctx)
        assert machine.cycles("waiting") == [1, 2, 3, 4]
        ctx.set(machine.unit.next.available, 1)
        await machine.drain(ctx)
        assert machine.cycles("take_previous") == machine.cycles("take_next") == [5]
        assert machine.cycles("weight") == [5]
        assert machine.cycles("give_previous") == machine.cycles("give_next") == []

    machine.run(bench)


def test_macs_count_active_rows_times_columns():
    machine = Machine()

    async def bench(ctx):
        macs = 0
        machine.offer(ctx, 0, (0, 0, 0), rows=3, depth=2)
        for _ in range(30):
            macs += ctx.get(machine.unit.macs)
            await ctx.tick()
            ctx.set(machine.unit.operations.valid, 0)
        assert macs == 3 * 2 * 4

    machine.run(bench)


FINE = dict(rows=2, depth=4, pitch=1, weight_pitch=1)


def test_illegal_operations_are_reported_and_forgotten_by_abort():
    machine = Machine()
    illegal = [
        ((0, 0, 0), {**FINE, "depth": 0}),
        ((0, 0, 0), {**FINE, "depth": 5}),
        ((0, 0, 0), {**FINE, "rows": 0}),
        ((0, 0, 0), {**FINE, "keep": 1}),
        ((63, 0, 0), FINE),
        ((1 << 23, 0, 0), FINE),
        ((0, 61, 0), FINE),
        ((0, (1 << 24) - 1, 0), FINE),
        ((0, 0, 15), FINE),
        ((0, 0, 1 << 16), FINE),
        ((0, 0, 0), {**FINE, "pitch": 64}),
        ((0, 0, 0), {**FINE, "weight_pitch": 0xFFFF}),
    ]

    async def bench(ctx):
        for number, (local, fields) in enumerate(illegal):
            machine.offer(ctx, number, local, **fields)
            await machine.tick(ctx)
            ctx.set(machine.unit.operations.valid, 0)
            fault = await machine.until_fault(ctx)
            word = Matmul(**fields).to_int()
            assert fault == (FaultCause.ILLEGAL_INSTRUCTION, number, word), (local, fields)
            await machine.tick(ctx)
            machine.log.clear()
            for _ in range(3):
                await machine.tick(ctx)
            assert {what for _, what in machine.log} <= {"written", "row"}
            ctx.set(machine.unit.abort, 1)
            await machine.tick(ctx)
            ctx.set(machine.unit.abort, 0)
            assert not ctx.get(machine.unit.busy)
        machine.log.clear()
        await machine.issue(ctx, [((0, 0, 0), FINE), ((0, 0, 0), {**FINE, "keep": 1})])
        await machine.drain(ctx)
        assert len(machine.cycles("written")) == 4
        assert machine.cycles("fault") == []

    machine.run(bench)


def test_a_new_task_has_no_weights_to_keep():
    machine = Machine()

    async def bench(ctx):
        await machine.issue(ctx, [((0, 0, 0), FINE)])
        await machine.drain(ctx)
        ctx.set(machine.unit.start, 1)
        await machine.tick(ctx)
        ctx.set(machine.unit.start, 0)
        machine.offer(ctx, 1, (0, 0, 0), **FINE, keep=1)
        fault = await machine.until_fault(ctx)
        assert fault[:2] == (FaultCause.ILLEGAL_INSTRUCTION, 1)

    machine.run(bench)


def test_keep_takes_no_more_depth_than_was_loaded():
    machine = Machine()

    async def bench(ctx):
        await machine.issue(ctx, [((0, 0, 0), {**FINE, "depth": 2})])
        machine.offer(ctx, 1, (0, 0, 0), **FINE, keep=1)
        fault = await machine.until_fault(ctx)
        assert fault[:2] == (FaultCause.ILLEGAL_INSTRUCTION, 1)

    machine.run(bench)


@pytest.mark.parametrize("report", [0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_wraps_is_a_fault_only_where_it_is_reported(report, sign):
    machine = Machine()
    scratchpad = np.zeros((8, 4), np.int8)
    scratchpad[0] = [1, 0, 0, 0]
    scratchpad[4] = [0, 0, sign, 0]
    edge = 2**31 - 1 if sign > 0 else -(2**31)
    sums = np.full((16, 4), edge, np.int32)
    last = {**FINE, "rows": 1, "accumulate": 1}
    operations = [
        ((1, 4, 0), {**FINE, "accumulate": 1}),
        ((0, 4, 2), {**last, "accumulate": 0}),
        ((0, 4, 1), last),
        ((1, 4, 3), last),
    ]

    async def bench(ctx):
        await machine.load(ctx, scratchpad, sums)
        ctx.set(machine.unit.overflow, report)
        await machine.issue(ctx, operations[:-1])
        machine.offer(ctx, 3, operations[-1][0], **operations[-1][1])
        fault = await machine.until_fault(ctx)
        if report:
            word = Matmul(**last).to_int()
            assert fault == (FaultCause.ARITHMETIC_OVERFLOW, 2, word)
        else:
            assert fault is None
            expected = golden(np.pad(scratchpad, ((0, 56), (0, 0))), sums, operations)
            assert expected[1, 2] != edge
            assert np.array_equal(await machine.sums(ctx), expected)

    machine.run(bench)


def test_abort_forgets_rows_on_their_way():
    machine = Machine()

    async def bench(ctx):
        await machine.issue(ctx, [((0, 0, 0), {**FINE, "rows": 9, "signal_next": 1})])
        for _ in range(8):
            await machine.tick(ctx)
        ctx.set(machine.unit.abort, 1)
        await machine.tick(ctx)
        ctx.set(machine.unit.abort, 0)
        machine.log.clear()
        for _ in range(30):
            await machine.tick(ctx)
        assert machine.log == []

    machine.run(bench)
