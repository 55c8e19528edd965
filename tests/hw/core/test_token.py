
import pytest

from hw.core.token import TokenCounter
from hw.regs.instruction import TOKENS
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")


def test_tokens_are_counted_and_one_too_many_is_reported():
    dut = TokenCounter()

    async def testbench(ctx):
        async def step(give=0, take=0, grant=0, clear=0):
            ctx.set(dut.give, give)
            ctx.set(dut.take, take)
            ctx.set(dut.grant, grant)
            ctx.set(dut.clear, clear)
            overflow = ctx.get(dut.overflow)
            await ctx.tick()
            return overflow, ctx.get(dut.pending), ctx.get(dut.available)

        assert await step(give=1) == (0, 1, 1)
        assert await step(give=1, take=1) == (0, 1, 1)
        assert await step(take=1) == (0, 0, 0)
        assert await step(grant=3, give=1) == (0, 4, 1)
        assert await step(grant=11) == (0, TOKENS, 1)
        assert await step(give=1, take=1) == (0, TOKENS, 1)
        assert await step(give=1) == (1, TOKENS, 1)
        assert await step(grant=15, give=1) == (1, TOKENS, 1)
        assert await step(give=1, clear=1) == (1, 0, 0)

    simulate(dut, testbench)
