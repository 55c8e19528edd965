import random

import pytest
from amaranth import ResetInserter, Signal

from hw.core.memory import READ_LATENCY, LocalMemory
from tests.simulation import simulate, simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def test_reads_see_earlier_writes_and_keep_their_data():
    """Random writes and reads by two readers, compared with a list every cycle."""
    words = [0] * 16
    memory = LocalMemory(16, 24, 2)
    draw = random.Random(1)

    async def bench(ctx):
        assert READ_LATENCY == 2
        shown = [0, 0]
        pending = [[None] * READ_LATENCY for _ in range(2)]
        for _ in range(400):
            for i, port in enumerate(memory.reads):
                value = pending[i].pop()
                shown[i] = shown[i] if value is None else value
                assert ctx.get(port.data) == shown[i]
                enable, address = draw.random() < 0.6, draw.randrange(16)
                ctx.set(port.enable, enable)
                ctx.set(port.address, address)
                pending[i].insert(0, words[address] if enable else None)
            enable, address, value = draw.random() < 0.6, draw.randrange(16), draw.getrandbits(24)
            ctx.set(memory.write.enable, enable)
            ctx.set(memory.write.address, address)
            ctx.set(memory.write.data, value)
            if enable:
                words[address] = value
            await ctx.tick()

    simulate(memory, bench)


def test_a_scrub_clears_what_was_written_even_before_a_reset():
    """A word a cycle, from the last that was written; the word is not zero before."""
    memory = LocalMemory(16, 24, 1)
    reset = Signal()

    async def write(ctx, address, value):
        ctx.set(memory.write.enable, 1)
        ctx.set(memory.write.address, address)
        ctx.set(memory.write.data, value)
        await ctx.tick()
        ctx.set(memory.write.enable, 0)

    async def bench(ctx):
        port = memory.reads[0]
        assert ctx.get(memory.used) == 0
        for address, used in ((3, 4), (9, 10), (0, 10), (9, 10), (15, 16)):
            await write(ctx, address, 0xABCDEF)
            assert ctx.get(memory.used) == used
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(memory.scrub, 1)
        for used in (16, 15, 14):
            assert ctx.get(memory.used) == used
            await ctx.tick()
        # A pause, and a reset in the middle.
        ctx.set(memory.scrub, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(port.enable, 1)
        ctx.set(port.address, 9)
        await ctx.tick().repeat(READ_LATENCY)
        assert ctx.get(port.data) == 0xABCDEF
        ctx.set(memory.scrub, 1)
        for used in (*range(13, 0, -1), 0, 0):
            assert ctx.get(memory.used) == used
            await ctx.tick()
        ctx.set(memory.scrub, 0)
        for address in range(16):
            ctx.set(port.address, address)
            await ctx.tick().repeat(READ_LATENCY)
            assert ctx.get(port.data) == 0
        await write(ctx, 0, 1)
        assert ctx.get(memory.used) == 1

    simulator = simulator_of(ResetInserter(reset)(memory))
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
