"""The CRC-32 register against zlib."""

import random
import zlib

import pytest

from hw.crc import Crc32
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("data_bytes", [8, 32, 64])
def test_sums_equal_zlibs_whatever_the_gaps(data_bytes):
    dut = Crc32(data_bytes)
    rng = random.Random(data_bytes)

    async def bench(ctx):
        for _ in range(20):
            text = rng.randbytes(data_bytes * rng.randrange(1, 6))
            begun = rng.randrange(2)
            if not begun:
                ctx.set(dut.start, 1)
                await ctx.tick()
            for at in range(0, len(text), data_bytes):
                ctx.set(dut.start, begun and at == 0)
                ctx.set(dut.valid, 1)
                ctx.set(dut.data, int.from_bytes(text[at : at + data_bytes], "little"))
                await ctx.tick()
                assert ctx.get(dut.crc) == zlib.crc32(text[: at + data_bytes])
                ctx.set(dut.valid, 0)
                ctx.set(dut.start, 0)
                for _ in range(rng.randrange(3)):
                    await ctx.tick()
            assert ctx.get(dut.crc) == zlib.crc32(text)

    simulate(dut, bench)
