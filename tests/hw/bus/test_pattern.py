"""The burst generator against rows cut in Python."""

import random

import pytest

from hw.bus.pattern import BurstGenerator
from tests.simulation import simulate, simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def cut(pattern, burst_bytes):
    """The chunks of a pattern: (address, bytes, last_of_row, last)."""
    chunks = []
    for row in range(pattern["rows"]):
        address = (pattern["address"] + row * pattern["pitch"]) % 2**40
        left = pattern["row_bytes"]
        while left:
            count = min(left, burst_bytes - address % burst_bytes)
            left -= count
            last = not left and row == pattern["rows"] - 1
            chunks.append((address, count, int(not left), int(last)))
            address = (address + count) % 2**40
    return chunks


def random_pattern(rng):
    return {
        "address": rng.choice([rng.randrange(2**40), 2**40 - rng.randrange(1, 64), 0]),
        "pitch": rng.choice([0, 1, rng.randrange(2**32), rng.randrange(4096)]),
        "row_bytes": rng.choice([1, 2, rng.randrange(1, 1500), 64, 128]),
        "rows": rng.randrange(1, 6),
        "context": rng.randrange(16),
    }


def fields(p):
    return p.address, p.bytes, p.last_of_row, p.last


@pytest.mark.parametrize("burst_bytes", [64, 4096])
def test_chunks_equal_the_model_with_random_back_pressure(burst_bytes):
    dut = BurstGenerator(burst_bytes)
    rng = random.Random(burst_bytes)
    patterns = [random_pattern(rng) for _ in range(40)]

    async def feed(ctx):
        for pattern in patterns:
            ctx.set(dut.i.p, pattern)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            await ctx.tick().repeat(rng.choice([1, 1, 4]))

    async def check(ctx):
        for pattern in patterns:
            for chunk in cut(pattern, burst_bytes):
                while rng.randrange(3) == 0:
                    await ctx.tick()
                ctx.set(dut.o.ready, 1)
                (p,) = await ctx.tick().sample(dut.o.p).until(dut.o.valid)
                ctx.set(dut.o.ready, 0)
                assert fields(p) == chunk
                assert p.context == pattern["context"]

    sim = simulator_of(dut)
    sim.add_clock(1e-9)
    sim.add_testbench(check)
    sim.add_testbench(feed, background=True)
    sim.run()


def test_first_chunk_one_cycle_after_its_pattern_then_one_a_cycle_across_patterns():
    dut = BurstGenerator(64)

    async def bench(ctx):
        pattern = {"address": 60, "pitch": 100, "row_bytes": 10, "rows": 2, "context": 0}
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.p, pattern)
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        seen = []
        for _ in range(6):
            assert ctx.get(dut.o.valid)
            seen.append(fields(ctx.get(dut.o.p)))
            await ctx.tick()
        assert seen == cut(pattern, 64) * 2

    simulate(dut, bench)


def test_clear_forgets_the_pattern():
    dut = BurstGenerator(64)

    async def bench(ctx):
        ctx.set(dut.i.p, {"address": 0, "row_bytes": 1000, "rows": 9})
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.clear, 1)
        assert ctx.get(dut.o.valid)
        await ctx.tick()
        assert not ctx.get(dut.o.valid)
        assert ctx.get(dut.i.ready)

    simulate(dut, bench)
