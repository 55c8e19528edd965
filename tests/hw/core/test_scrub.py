
import pytest

from hw.config import NpuConfig
from hw.core.scrub import Scrub
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", contexts=3)
WORDS = 5
"""How many a kernel leaves behind."""


class Bench:
    """The unit of a core that is idle unless a test says otherwise, with a memory to scrub."""

    def __init__(self, left=0):
        self.dut = Scrub(CONFIG)
        self.left = left
        self.cleared = []
        """Cycles in which a word was cleared."""
        self.cycle = 0

    def simulate(self, testbench):
        async def whole(ctx):
            ctx.set(self.dut.idle, 1)
            await testbench(ctx)

        simulate(self.dut, whole)

    def show(self, ctx):
        ctx.set(self.dut.dirty, self.left > 0)
        ctx.set(self.dut.last, self.left <= 1)

    async def tick(self, ctx, cycles=1, **pulses):
        """Some cycles; inputs that are named are set in the first. Gives its `holds`."""
        for name, value in pulses.items():
            ctx.set(getattr(self.dut, name), value)
        self.show(ctx)
        held = ctx.get(self.dut.holds)
        for _ in range(cycles):
            if ctx.get(self.dut.busy):
                self.cleared.append(self.cycle)
                self.left -= 1
            self.cycle += 1
            await ctx.tick()
            self.show(ctx)
            for name in pulses:
                ctx.set(getattr(self.dut, name), 0)
        return held

    async def take(self, ctx, context, words=WORDS, **more):
        """A task is taken; its kernel starts as soon as it may. Gives when, after how long."""
        begin = self.cycle
        held = await self.tick(ctx, takes=1, context=context, **more)
        ctx.set(self.dut.idle, 0)
        while held:
            held = await self.tick(ctx)
        waited = self.cycle - 1 - begin
        self.left = max(self.left, words)
        return begin, waited

    async def end(self, ctx):
        """The task ends, and much time passes; gives the cycles of words cleared since then."""
        ctx.set(self.dut.idle, 1)
        self.cleared.clear()
        await self.tick(ctx, WORDS + 4)
        return list(self.cleared)


def scrub(begin):
    return [begin + 1 + k for k in range(WORDS)]


def test_what_lies_in_the_memories_after_reset_is_cleared():
    bench = Bench(left=WORDS)

    async def testbench(ctx):
        # Nothing may start before the cycle of the last word.
        for cycle in range(WORDS + 3):
            assert await bench.tick(ctx) == (cycle < WORDS)
        assert bench.cleared == scrub(0)

    bench.simulate(testbench)


def test_a_task_of_another_context_waits_for_a_scrub_and_one_of_the_same_does_not():
    bench = Bench()

    async def testbench(ctx):
        for context, scrubs in ((1, False), (1, False), (2, True), (0, True), (0, False)):
            bench.cleared.clear()
            begin, waited = await bench.take(ctx, context)
            assert waited == (WORDS if scrubs else 0)
            assert bench.cleared == (scrub(begin) if scrubs else [])
            assert await bench.end(ctx) == []

    bench.simulate(testbench)


def test_a_single_word_costs_a_single_cycle_and_none_costs_none():
    bench = Bench()

    async def testbench(ctx):
        for context, words, expected in ((1, 1, 0), (2, 0, 1), (0, 0, 0), (1, 0, 0)):
            assert (await bench.take(ctx, context, words=words))[1] == expected
            await bench.end(ctx)

    bench.simulate(testbench)


def test_a_scrub_goes_on_when_its_task_ends():
    bench = Bench()

    async def testbench(ctx):
        await bench.take(ctx, 0)
        await bench.end(ctx)
        begin = bench.cycle
        assert await bench.tick(ctx, takes=1, context=1)
        await bench.tick(ctx)
        assert await bench.take(ctx, 0) == (begin + 2, WORDS - 2)
        assert bench.cleared == scrub(begin)

    bench.simulate(testbench)


def test_memories_are_scrubbed_when_the_windows_of_their_owner_change():
    bench = Bench()

    async def testbench(ctx):
        await bench.take(ctx, 1)
        await bench.tick(ctx, 3, changed=0b101)
        assert await bench.end(ctx) == []
        # While its kernel runs: in the first cycle afterwards, even if a task is taken in it.
        for follows in (False, True):
            await bench.take(ctx, 1)
            await bench.tick(ctx, 3, changed=0b010)
            begin = bench.cycle
            ctx.set(bench.dut.idle, 1)
            bench.cleared.clear()
            if follows:
                assert await bench.take(ctx, 1) == (begin, WORDS)
                assert bench.cleared == scrub(begin)
            else:
                assert await bench.end(ctx) == scrub(begin)
        # While the core is idle: from the next cycle on.
        assert await bench.end(ctx) == []
        begin = bench.cycle
        bench.cleared.clear()
        await bench.tick(ctx, WORDS + 4, changed=0b010)
        assert bench.cleared == scrub(begin + 1)
        # In the very cycle in which a task is taken.
        await bench.take(ctx, 2, changed=0b100)
        begin = bench.cycle
        assert await bench.end(ctx) == scrub(begin)

    bench.simulate(testbench)
