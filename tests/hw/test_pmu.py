"""The counters against a model that adds up the same random events."""

import random

import pytest

from hw.config import NpuConfig
from hw.pmu import AMOUNT_BITS, Pmu, event_codes
from hw.regs.pmu import PmuEvent
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny")
COUNTERS = range(CONFIG.counters)
ENGINES = len(CONFIG.engines)
CODES = event_codes(CONFIG)


class Model:
    """What the PMU's docstring says, cycle by cycle."""

    def __init__(self):
        self.cycle = 0
        self.counters = [0] * CONFIG.counters
        self.spans = [[0] * CONFIG.counters for _ in range(ENGINES)]
        self.kept = [None] * ENGINES
        self.values = [0] * CONFIG.counters
        self.snapshot_cycle = 0

    def step(self, amounts, selects, selected, *, enable, clear, snapshot, starts, ends):
        """Goes to the next cycle; returns the deltas of this one."""
        if snapshot:
            self.values, self.snapshot_cycle = list(self.counters), self.cycle
        added = [
            1 if enable and select == PmuEvent.CYCLES
            else amounts[select] if enable and select in CODES else 0
            for select in selects
        ]  # fmt: skip
        deltas = []
        for engine in range(ENGINES):
            span = self.spans[engine]
            if starts >> engine & 1:
                span[:], self.kept[engine] = [0] * CONFIG.counters, None
            span[:] = [(total + more) % 2**32 for total, more in zip(span, added, strict=True)]
            if ends >> engine & 1:
                self.kept[engine] = list(span)
            deltas.append(self.kept[engine] or list(span))
        for n in COUNTERS:
            self.counters[n] = (self.counters[n] + added[n]) % 2**48
            if clear or selected[n]:
                self.counters[n] = 0
                for span in self.spans:
                    span[n] = 0
        self.cycle += 1
        return deltas


def simulate(testbench):
    pmu = Pmu(CONFIG)
    simulator = simulator_of(pmu)
    simulator.add_clock(1e-6)

    async def bench(ctx):
        await testbench(ctx, pmu)

    simulator.add_testbench(bench)
    simulator.run()


def test_random_events_agree_with_the_model():
    rng = random.Random(2)

    async def bench(ctx, pmu):
        model = Model()
        selects = [0] * CONFIG.counters
        amounts = {}
        for _ in range(1500):
            code = rng.choice([*CODES, *CODES, rng.randrange(len(pmu.amounts))])
            amounts[code] = rng.choice((0, 1, 16, rng.getrandbits(AMOUNT_BITS)))
            ctx.set(pmu.amounts[code], amounts[code])
            selected = [rng.random() < 0.01 for _ in COUNTERS]
            for n in COUNTERS:
                if selected[n]:
                    selects[n] = rng.choice([*CODES, 0, rng.randrange(256)])
                    ctx.set(pmu.selects[n], selects[n])
                ctx.set(pmu.selected[n], selected[n])
            pulses = {
                "enable": rng.random() < 0.9,
                "clear": rng.random() < 0.02,
                "snapshot": rng.random() < 0.1,
                "starts": rng.getrandbits(ENGINES) if rng.random() < 0.1 else 0,
                "ends": rng.getrandbits(ENGINES) if rng.random() < 0.1 else 0,
            }
            for name, value in pulses.items():
                ctx.set(getattr(pmu, name), value)
            everything = [amounts.get(code, 0) for code in range(len(pmu.amounts))]
            deltas = model.step(everything, selects, selected, **pulses)
            for engine in range(ENGINES):
                assert [ctx.get(pmu.deltas[engine][n]) for n in COUNTERS] == deltas[engine]
            await ctx.tick()
            assert ctx.get(pmu.cycle) == model.cycle
            assert [ctx.get(pmu.values[n]) for n in COUNTERS] == model.values
            assert ctx.get(pmu.snapshot_cycle) == model.snapshot_cycle

    simulate(bench)


def test_every_event_code_is_counted_by_every_counter():
    async def bench(ctx, pmu):
        for code in CODES:
            ctx.set(pmu.amounts[code], code)
        ctx.set(pmu.enable, 1)
        for first in range(len(CODES)):
            chosen = [CODES[(first + n) % len(CODES)] for n in COUNTERS]
            for n in COUNTERS:
                ctx.set(pmu.selects[n], chosen[n])
            ctx.set(pmu.clear, 1)
            await ctx.tick()
            ctx.set(pmu.clear, 0)
            await ctx.tick().repeat(3)
            ctx.set(pmu.snapshot, 1)
            await ctx.tick()
            ctx.set(pmu.snapshot, 0)
            expected = [3 * (1 if code == PmuEvent.CYCLES else code) for code in chosen]
            assert [ctx.get(pmu.values[n]) for n in COUNTERS] == expected

    simulate(bench)


def test_snapshots_do_not_tear():
    async def bench(ctx, pmu):
        rng = random.Random(3)
        for n in COUNTERS:
            ctx.set(pmu.selects[n], PmuEvent.CYCLES if n % 2 else PmuEvent.MACS)
        ctx.set(pmu.amounts[PmuEvent.MACS], 1)
        ctx.set(pmu.enable, 1)
        for _ in range(50):
            await ctx.tick().repeat(rng.randrange(1, 9))
            ctx.set(pmu.snapshot, 1)
            await ctx.tick()
            ctx.set(pmu.snapshot, 0)
            values = {ctx.get(pmu.values[n]) for n in COUNTERS}
            assert values == {ctx.get(pmu.snapshot_cycle)}

    simulate(bench)


def test_a_delta_covers_the_cycles_from_start_to_end():
    async def bench(ctx, pmu):
        delta, other = pmu.deltas[1][3], pmu.deltas[0][3]
        ctx.set(pmu.selects[3], PmuEvent.LOAD_BUSY)
        ctx.set(pmu.amounts[PmuEvent.LOAD_BUSY], 5)
        ctx.set(pmu.enable, 1)
        await ctx.tick().repeat(7)
        for _ in range(2):  # dispatched; first bus address
            ctx.set(pmu.starts, 0b010)
            assert ctx.get(delta) == 5
            await ctx.tick()
        ctx.set(pmu.starts, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(delta) == 25
        for cycles in (5, 9):  # the first and the last end
            ctx.set(pmu.ends, 0b010)
            assert ctx.get(delta) == 5 * cycles
            await ctx.tick()
            ctx.set(pmu.ends, 0)
            await ctx.tick().repeat(3)
            assert ctx.get(delta) == 5 * cycles
        assert ctx.get(other) == 5 * (7 + 2 + 3 + 2 * 4 + 1)
        ctx.set(pmu.clear, 1)
        await ctx.tick()
        ctx.set(pmu.clear, 0)
        assert ctx.get(delta) == 45
        ctx.set(pmu.starts, 0b010)
        ctx.set(pmu.ends, 0b010)
        assert ctx.get(delta) == 5
        await ctx.tick()
        ctx.set(pmu.starts, 0)
        ctx.set(pmu.ends, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(delta) == 5

    simulate(bench)


def test_counters_are_wider_than_32_bits():
    async def bench(ctx, pmu):
        ctx.set(pmu.selects[0], PmuEvent.MACS)
        ctx.set(pmu.amounts[PmuEvent.MACS], 0xFFFF)
        ctx.set(pmu.enable, 1)
        ticks = 0x10010
        await ctx.tick().repeat(ticks)
        ctx.set(pmu.snapshot, 1)
        await ctx.tick()
        assert ctx.get(pmu.values[0]) == ticks * 0xFFFF > 1 << 32
        assert ctx.get(pmu.deltas[0][0]) == (ticks + 2) * 0xFFFF % 2**32

    simulate(bench)


@pytest.mark.parametrize("code", [0, 7, 255, PmuEvent.STREAM_WAIT + CONFIG.streams])
def test_codes_without_meaning_count_nothing(code):
    async def bench(ctx, pmu):
        for amount in pmu.amounts:
            ctx.set(amount, 1)
        ctx.set(pmu.selects[0], code)
        ctx.set(pmu.enable, 1)
        await ctx.tick().repeat(5)
        assert ctx.get(pmu.deltas[0][0]) == 0

    simulate(bench)
