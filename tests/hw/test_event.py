"""The event unit against a model, and its races cycle by cycle."""

import random

import pytest

from hw.config import NpuConfig
from hw.event import EventUnit
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", streams=5)
MODULUS = 1 << 20


def reached(recorded, wanted):
    return (recorded - wanted) % MODULUS < MODULUS // 2


class Model:
    """Slots as {generation, timestamp}."""

    def __init__(self):
        self.generation = [0] * CONFIG.events
        self.timestamp = [0] * CONFIG.events

    def record(self, slot, generation, cycle):
        if (generation - self.generation[slot]) % MODULUS in range(1, MODULUS // 2):
            self.generation[slot] = generation
            self.timestamp[slot] = cycle


class Bench:
    """Drives the unit one cycle at a time; `cycle` is the number shown to the unit."""

    def __init__(self, ctx, dut):
        self.ctx = ctx
        self.dut = dut
        self.cycle = 100
        ctx.set(dut.cycle, self.cycle)

    async def tick(self):
        await self.ctx.tick()
        self.cycle += 1
        self.ctx.set(self.dut.cycle, self.cycle)

    def show(self, s, events):
        waiter = self.dut.waiters[s]
        words = [{"slot": slot, "generation": generation} for slot, generation in events]
        self.ctx.set(waiter.dependencies, len(events))
        self.ctx.set(waiter.events, words + [{"slot": 0, "generation": 0}] * (4 - len(words)))
        self.ctx.set(waiter.valid, 1)

    def ready(self, s):
        return self.ctx.get(self.dut.waiters[s].ready)

    async def record(self, slot, generation):
        self.offer(slot, generation)
        await self.tick()
        self.ctx.set(self.dut.records.valid, 0)

    def offer(self, slot, generation):
        self.ctx.set(self.dut.records.p, {"slot": slot, "generation": generation})
        self.ctx.set(self.dut.records.valid, 1)
        assert self.ctx.get(self.dut.records.ready)
        assert self.ctx.get(self.dut.recorded)

    async def drop(self, s):
        self.ctx.set(self.dut.waiters[s].take, 1)
        await self.tick()
        self.ctx.set(self.dut.waiters[s].take, 0)
        self.ctx.set(self.dut.waiters[s].valid, 0)

    async def selected(self, slot):
        self.ctx.set(self.dut.select, slot)
        await self.tick()
        return (
            self.ctx.get(self.dut.selected.generation), self.ctx.get(self.dut.selected.timestamp),
        )  # fmt: skip


def simulate(behaviour):
    dut = EventUnit(CONFIG)

    async def testbench(ctx):
        await behaviour(Bench(ctx, dut), ctx, dut)

    simulator = simulator_of(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(testbench)
    simulator.run()


def test_one_record_readies_every_waiter_in_the_next_cycle():
    async def behaviour(bench, ctx, dut):
        for dependencies in range(1, 5):
            generation = dependencies
            for s in range(CONFIG.streams):
                bench.show(s, [(slot, generation) for slot in range(dependencies)])
            for _ in range(30):
                await bench.tick()
            for slot in range(dependencies):
                for s in range(CONFIG.streams):
                    assert not bench.ready(s)
                    assert ctx.get(dut.waiters[s].waiting) == (1 << dependencies) - (1 << slot)
                bench.offer(slot, generation)
                assert not any(map(bench.ready, range(CONFIG.streams)))
                await bench.tick()
                ctx.set(dut.records.valid, 0)
            assert all(map(bench.ready, range(CONFIG.streams)))
            for s in range(CONFIG.streams):
                await bench.drop(s)

    simulate(behaviour)


def test_one_record_meets_all_four_dependencies_of_a_waiter():
    async def behaviour(bench, ctx, dut):
        bench.show(1, [(7, 1), (7, 2), (7, 3), (7, 3)])
        for _ in range(8):
            await bench.tick()
        await bench.record(7, 2)
        assert ctx.get(dut.waiters[1].waiting) == 0b1100
        await bench.record(7, 3)
        assert bench.ready(1)

    simulate(behaviour)


def test_a_recorded_dependency_is_looked_up_in_one_cycle_more_than_there_are_dependencies():
    async def behaviour(bench, ctx, dut):
        for slot in range(4):
            await bench.record(slot, 1)
        for dependencies in range(5):
            bench.show(2, [(slot, 1) for slot in range(dependencies)])
            cycles = 0
            while not bench.ready(2):
                await bench.tick()
                cycles += 1
            assert cycles == (dependencies + 1 if dependencies else 0)
            await bench.drop(2)

    simulate(behaviour)


def test_no_alignment_of_record_and_look_up_loses_the_event():
    async def behaviour(bench, ctx, dut):
        generation = 0
        for dependencies in range(1, 5):
            for others in (0, CONFIG.streams - 1):
                for offset in range(-4, 14):
                    generation += 1
                    for s in range(1, 1 + others):
                        bench.show(s, [(15, MODULUS // 4)] * 4)
                    start = bench.cycle + 4
                    while bench.cycle < start + 16:
                        if bench.cycle == start:
                            bench.show(0, [(3, generation)] * dependencies)
                        ctx.set(dut.records.valid, 0)
                        if bench.cycle == start + offset:
                            bench.offer(3, generation)
                        await bench.tick()
                        if bench.cycle > start and offset >= 0:
                            assert bench.ready(0) == (bench.cycle > start + offset)
                    for _ in range(16):
                        await bench.tick()
                    assert bench.ready(0), f"offset {offset}, {dependencies} dependencies"
                    for s in range(1 + others):
                        await bench.drop(s)

    simulate(behaviour)


def test_a_new_head_takes_nothing_over_from_the_one_before():
    async def behaviour(bench, ctx, dut):
        await bench.record(1, 1)
        for age in range(6):
            bench.show(0, [(1, 1)] * 4)
            for _ in range(age):
                await bench.tick()
            ctx.set(dut.waiters[0].take, 1)
            await bench.tick()
            ctx.set(dut.waiters[0].take, 0)
            bench.show(0, [(2, 1)] * 4)
            for _ in range(12):
                assert ctx.get(dut.waiters[0].waiting) == 0b1111
                await bench.tick()
            await bench.drop(0)

    simulate(behaviour)


def test_a_slot_keeps_the_serial_maximum_and_its_cycle_across_the_wrap():
    async def behaviour(bench, ctx, dut):
        model = Model()
        half = MODULUS // 2
        for generation in (
            1, 1, half - 1, half, half + 1, 5, MODULUS - 1, MODULUS - 2, 0, 3, 2, half + 2,
            half + 3,
        ):  # fmt: skip
            model.record(6, generation, bench.cycle)
            await bench.record(6, generation)
            await bench.tick()
            assert await bench.selected(6) == (model.generation[6], model.timestamp[6])
        assert await bench.selected(CONFIG.events) == (0, 0)

    simulate(behaviour)


def test_a_record_by_register_gives_way():
    async def behaviour(bench, ctx, dut):
        ctx.set(dut.register.p, {"slot": 4, "generation": 9})
        ctx.set(dut.register.valid, 1)
        bench.offer(4, 7)
        assert not ctx.get(dut.register.ready)
        await bench.tick()
        ctx.set(dut.records.valid, 0)
        assert ctx.get(dut.register.ready)
        assert ctx.get(dut.recorded)
        taken = bench.cycle
        await bench.tick()
        ctx.set(dut.register.valid, 0)
        assert not ctx.get(dut.recorded)
        assert await bench.selected(4) == (9, taken)

    simulate(behaviour)


def test_random_records_and_waiters_agree_with_the_model():
    async def behaviour(bench, ctx, dut):
        rng = random.Random(2)
        model = Model()
        base = MODULUS - 40
        waiting = [None] * CONFIG.streams
        for slot in range(4):
            model.record(slot, MODULUS // 2 - 1, bench.cycle)
            await bench.record(slot, MODULUS // 2 - 1)
            model.record(slot, base, bench.cycle)
            await bench.record(slot, base)
        for step in range(1500):
            low = base + step // 16
            for s in range(CONFIG.streams):
                ctx.set(dut.waiters[s].take, 0)
                if waiting[s] is None and rng.random() < 0.3:
                    waiting[s] = (bench.cycle, [
                        (rng.randrange(4), (low + rng.randrange(-3, 6)) % MODULUS)
                        for _ in range(rng.randrange(5))
                    ])  # fmt: skip
                    bench.show(s, waiting[s][1])
                if waiting[s] is not None:
                    since, events = waiting[s]
                    met = [reached(model.generation[slot], wanted) for slot, wanted in events]
                    if bench.ready(s):
                        assert all(met)
                        if rng.random() < 0.7:
                            ctx.set(dut.waiters[s].take, 1)
                            waiting[s] = None
                    elif all(met):
                        assert bench.cycle - since <= 4 * CONFIG.streams + 1
            ctx.set(dut.records.valid, 0)
            if rng.random() < 0.4:
                slot, generation = rng.randrange(4), (low + rng.randrange(-2, 3)) % MODULUS
                bench.offer(slot, generation)
                model.record(slot, generation, bench.cycle)
            await bench.tick()
            for s in range(CONFIG.streams):
                if waiting[s] is None:
                    ctx.set(dut.waiters[s].valid, 0)
        ctx.set(dut.records.valid, 0)
        await bench.tick()
        for slot in range(4):
            assert await bench.selected(slot) == (model.generation[slot], model.timestamp[slot])

    simulate(behaviour)
