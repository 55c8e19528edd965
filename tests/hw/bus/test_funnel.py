"""The byte funnel against a list of bytes."""

import random

import pytest

from hw.bus.funnel import ByteFunnel
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize(("i_bytes", "o_bytes"), [(8, 8), (8, 4), (4, 16), (16, 16)])
def test_bytes_come_out_in_order_whatever_the_pieces(i_bytes, o_bytes):
    dut = ByteFunnel(i_bytes, o_bytes)
    rng = random.Random(i_bytes * 100 + o_bytes)

    async def bench(ctx):
        queue = b""
        for cycle in range(1500):
            offset = rng.randrange(i_bytes)
            count = rng.randrange(i_bytes - offset + 1)
            lanes = rng.randbytes(i_bytes)
            pop = rng.choice([0, rng.randrange(o_bytes + 1), o_bytes])
            pop = min(pop, len(queue))
            clear = rng.randrange(200) == 0
            offered = rng.randrange(4) != 0
            ctx.set(dut.i.p.data, int.from_bytes(lanes, "little"))
            ctx.set(dut.i.p.offset, offset)
            ctx.set(dut.i.p.count, count)
            ctx.set(dut.i.valid, offered)
            ctx.set(dut.pop, pop)
            ctx.set(dut.clear, clear)
            ready = ctx.get(dut.i.ready)
            assert ctx.get(dut.level) == len(queue)
            assert ready == (len(queue) <= dut.capacity - i_bytes)
            shown = ctx.get(dut.data).to_bytes(o_bytes, "little")
            assert shown == queue[:o_bytes].ljust(o_bytes, b"\0"), cycle
            queue = queue[pop:]
            if offered and ready:
                queue += lanes[offset : offset + count]
            if clear:
                queue = b""
            await ctx.tick()

    simulate(dut, bench)


def test_sustains_a_full_piece_in_and_a_full_word_out_each_cycle():
    dut = ByteFunnel(8, 8)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.p.count, 3)
        await ctx.tick()
        ctx.set(dut.i.p.count, 8)
        await ctx.tick()
        for _ in range(50):
            assert ctx.get(dut.i.ready)
            assert ctx.get(dut.level) >= 8
            ctx.set(dut.pop, 8)
            await ctx.tick()

    simulate(dut, bench)
