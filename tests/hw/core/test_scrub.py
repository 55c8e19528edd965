from amaranth.sim import Simulator

from hw.config import NpuConfig
from hw.core.scrub import Scrub, scrub_cycles

CONFIG = NpuConfig.preset("tiny", scratchpad_words=64, accumulator_rows=16, contexts=3)
CYCLES = 64


class Bench:
    """The unit of a core that is idle unless a test says otherwise, and what it writes."""

    def __init__(self):
        self.dut = Scrub(CONFIG)
        self.writes = []
        self.cycle = 0

    def simulate(self, testbench):
        async def whole(ctx):
            ctx.set(self.dut.idle, 1)
            await testbench(ctx)

        simulator = Simulator(self.dut)
        simulator.add_clock(1e-9)
        simulator.add_testbench(whole)
        simulator.run()

    async def tick(self, ctx, cycles=1, **pulses):
        """Some cycles; inputs that are named are set in the first. Gives its `holds`."""
        for name, value in pulses.items():
            ctx.set(getattr(self.dut, name), value)
        held = ctx.get(self.dut.holds)
        for _ in range(cycles):
            if ctx.get(self.dut.busy):
                self.writes.append((self.cycle, ctx.get(self.dut.address)))
            self.cycle += 1
            await ctx.tick()
            for name in pulses:
                ctx.set(getattr(self.dut, name), 0)
        return held

    async def take(self, ctx, context):
        """A task of that context is taken; its kernel starts as soon as it may."""
        held = await self.tick(ctx, takes=1, context=context)
        ctx.set(self.dut.idle, 0)
        while ctx.get(self.dut.holds):
            await self.tick(ctx)
        await self.tick(ctx, starts=1)
        return held

    async def end(self, ctx):
        """The task ends, and much time passes; gives the writes since the last call."""
        ctx.set(self.dut.idle, 1)
        await self.tick(ctx, CYCLES + 4)
        writes, self.writes = self.writes, []
        return writes


def scrub(first):
    return [(first + k, k) for k in range(CYCLES)]


def test_memories_are_scrubbed_after_reset():
    bench = Bench()

    async def testbench(ctx):
        assert scrub_cycles(CONFIG) == CYCLES
        for cycle in range(CYCLES + 4):
            # Nothing may start before the cycle of the last write.
            assert await bench.tick(ctx) == (cycle < CYCLES)
        assert await bench.end(ctx) == scrub(1)

    bench.simulate(testbench)


def test_a_task_of_another_context_scrubs_and_one_of_the_same_does_not():
    bench = Bench()

    async def testbench(ctx):
        await bench.end(ctx)
        for context, scrubs in ((1, False), (1, False), (2, True), (0, True), (0, False)):
            begin = bench.cycle
            assert await bench.take(ctx, context) == scrubs
            assert bench.cycle == begin + (CYCLES if scrubs else 1) + 1
            assert await bench.end(ctx) == (scrub(begin + 1) if scrubs else [])

    bench.simulate(testbench)


def test_memories_that_no_kernel_has_used_are_not_scrubbed_again():
    bench = Bench()

    async def testbench(ctx):
        await bench.end(ctx)
        assert not await bench.tick(ctx, takes=1, context=1)  # ends before its kernel starts
        assert not await bench.take(ctx, 2)
        assert await bench.end(ctx) == []
        # The same in the middle of a scrub, which goes on.
        begin = bench.cycle
        assert await bench.tick(ctx, takes=1, context=1)
        await bench.tick(ctx, 5)
        assert await bench.take(ctx, 0)
        assert await bench.end(ctx) == scrub(begin + 1)
        assert await bench.take(ctx, 1)

    bench.simulate(testbench)


def test_memories_are_scrubbed_when_the_windows_of_their_owner_change():
    bench = Bench()

    async def testbench(ctx):
        await bench.end(ctx)
        await bench.take(ctx, 1)
        await bench.tick(ctx, 3, changed=0b101)
        assert await bench.end(ctx) == []
        # While its kernel runs: in the first cycle afterwards, even if it is that of a task.
        for follows in (False, True):
            await bench.take(ctx, 1)
            await bench.tick(ctx, 3, changed=0b010)
            assert not ctx.get(bench.dut.holds)
            begin = bench.cycle
            ctx.set(bench.dut.idle, 1)
            if follows:
                assert await bench.take(ctx, 1)
            assert await bench.end(ctx) == scrub(begin + 1)
        # While the core is idle: from the next cycle on.
        begin = bench.cycle
        await bench.tick(ctx, changed=0b010)
        assert await bench.end(ctx) == scrub(begin + 2)
        await bench.tick(ctx, changed=0b111)
        assert not await bench.take(ctx, 1)
        assert await bench.end(ctx) == []
        # In the very cycle in which a task is taken.
        ctx.set(bench.dut.changed, 0b100)
        assert await bench.take(ctx, 2)
        ctx.set(bench.dut.changed, 0)
        bench.writes.clear()
        begin = bench.cycle
        assert await bench.end(ctx) == scrub(begin + 1)

    bench.simulate(testbench)
