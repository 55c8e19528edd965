"""The arbiter against a model of turns."""

import random

import pytest

from hw.arbiter import Arbiter
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize(("width", "levels"), [(1, 1), (5, 1), (6, 3)])
def test_levels_come_first_and_requests_of_a_level_take_turns(width, levels):
    dut = Arbiter(width, levels)

    async def testbench(ctx):
        rng = random.Random(width)
        last = [width - 1] * levels
        for _ in range(400):
            requests = [rng.random() < 0.5 for _ in range(width)]
            priorities = [rng.randrange(levels) for _ in range(width)]
            accept = rng.random() < 0.7
            ctx.set(dut.requests, sum(bit << i for i, bit in enumerate(requests)))
            ctx.set(dut.priorities, priorities)
            ctx.set(dut.accept, accept)
            assert ctx.get(dut.valid) == any(requests)
            if any(requests):
                level = min(p for p, bit in zip(priorities, requests, strict=True) if bit)
                turn = [(last[level] + 1 + i) % width for i in range(width)]
                choice = next(i for i in turn if requests[i] and priorities[i] == level)
                assert ctx.get(dut.index) == choice
                assert ctx.get(dut.grant) == 1 << choice
                if accept:
                    last[level] = choice
            else:
                assert ctx.get(dut.grant) == 0
            await ctx.tick()

    simulate(dut, testbench)
