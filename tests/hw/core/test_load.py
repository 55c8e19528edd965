import random

import pytest

from hw.config import NpuConfig
from hw.core.load import LoadUnit
from hw.interface import Status
from hw.regs.fault import FaultCause
from hw.regs.instruction import Load
from tests.models.draining_port import DrainingReads
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")


class Bench:
    """A load unit with memory, scratchpad and a source of operations."""

    def __init__(self, *, rng=None, **changes):
        self.config = NpuConfig.preset("tiny", **changes)
        self.dut = LoadUnit(self.config)
        self.memory = bytearray(random.Random(1).randbytes(1 << 14))
        self.reads = DrainingReads(self.dut.memory, self.config, self.memory, latency=3, rng=rng)
        self.scratchpad = {}
        self.writes = []
        self.given = []
        self.taken = 0
        self.faults = []

    def simulate(self, testbench):
        simulate(self.dut, testbench, background=[self.reads.serve, self.watch])

    async def watch(self, ctx):
        dut = self.dut
        cycle = 0
        async for _, _, enable, address, data, give, take, fault, cause, place, index, word in (
            ctx.tick().sample(
                dut.write.enable, dut.write.address, dut.write.data, dut.next.give, dut.next.take,
                dut.fault.valid, dut.fault.cause, dut.fault.address, dut.fault.index,
                dut.fault.word,
            )
        ):  # fmt: skip
            if enable:
                self.writes.append(cycle)
                self.scratchpad[address] = data.to_bytes(self.config.word_bytes, "little")
            if give:
                self.given.append((cycle, enable, len(self.writes)))
            self.taken += take
            if fault:
                self.faults.append((FaultCause(cause), place, index, word))
            cycle += 1

    async def offer(self, ctx, load, memory, local, index=0):
        """Offers an operation until it is taken or the unit has faulted."""
        dut = self.dut
        ctx.set(dut.operations.p, {
            "word": load.to_int(), "index": index, "memory": memory, "local": [local, 0, 0],
        })  # fmt: skip
        ctx.set(dut.operations.valid, 1)
        taken = False
        while not taken and not self.faults:
            taken = ctx.get(dut.operations.ready)
            await ctx.tick()
        ctx.set(dut.operations.valid, 0)

    async def settle(self, ctx):
        await ctx.tick()
        while ctx.get(self.dut.busy) and not self.faults:
            await ctx.tick()

    def expect(self, load, memory, local):
        """What the scratchpad must hold afterwards."""
        width = self.config.word_bytes
        expected = {}
        for row in range(load.rows):
            at = memory + row * load.pitch
            for start in range(0, load.row_bytes, width):
                piece = self.memory[at + start : at + min(start + width, load.row_bytes)]
                expected[local] = bytes(piece).ljust(width, b"\0")
                local += 1
        return expected


@pytest.mark.parametrize("shape", [dict(), dict(rows=4, columns=16), dict(rows=16, columns=4)])
def test_random_loads_fill_the_scratchpad(shape):
    rng = random.Random(7)
    bench = Bench(rng=rng, **shape)
    words = bench.config.scratchpad_words

    async def testbench(ctx):
        expected = {}
        ctx.set(bench.dut.next.available, 1)
        signals = waits = 0
        for number in range(40):
            load = Load(rows=rng.randint(1, 6), row_bytes=rng.randint(1, 90),
                        pitch=rng.choice([0, rng.randint(0, 200)]),
                        wait_next=rng.randrange(2), signal_next=rng.randrange(2))  # fmt: skip
            memory, local = rng.randrange(1 << 13), rng.randrange(words - 200)
            expected.update(bench.expect(load, memory, local))
            signals += load.signal_next
            waits += load.wait_next
            await bench.offer(ctx, load, memory, local, number)
            if rng.random() < 0.3:
                await bench.settle(ctx)
        await bench.settle(ctx)
        assert bench.scratchpad == expected
        assert (len(bench.given), bench.taken) == (signals, waits)
        assert all(enable for _, enable, _ in bench.given)
        assert not bench.faults

    bench.simulate(testbench)


def test_latencies_are_those_of_the_contract():
    bench = Bench(rows=8, columns=8)
    reads, dut = bench.reads, bench.dut

    async def testbench(ctx):
        await ctx.tick()
        begin = reads.cycle
        load = Load(rows=1, row_bytes=512, signal_next=1)
        await bench.offer(ctx, load, 0x100, 16)
        await bench.settle(ctx)
        assert reads.requests[0][0] == begin + 1
        # Latency 3 from the first request, then a beat a cycle: a word for each, without a gap.
        first = begin + 1 + 3 + 1
        assert bench.writes == list(range(first, first + 64))
        assert [cycle for cycle, _, _ in bench.given] == [first + 63]
        assert reads.cycle == first + 64
        # Instructions behind each other: no gap either.
        bench.writes.clear()
        for n in range(4):
            await bench.offer(ctx, Load(rows=8, row_bytes=8, pitch=8), 64 * n, 64 * n)
        assert ctx.get(dut.busy)
        await bench.settle(ctx)
        assert bench.writes == list(range(bench.writes[0], bench.writes[0] + 32))

    bench.simulate(testbench)


def test_a_load_waits_for_its_token():
    bench = Bench()
    dut = bench.dut

    async def testbench(ctx):
        ctx.set(dut.operations.p.word, Load(wait_next=1).to_int())
        ctx.set(dut.operations.valid, 1)
        for _ in range(5):
            assert ctx.get(dut.waiting)
            assert not ctx.get(dut.operations.ready)
            assert not ctx.get(dut.busy)
            await ctx.tick()
        ctx.set(dut.next.available, 1)
        assert ctx.get(dut.next.take)
        assert not ctx.get(dut.waiting)
        await ctx.tick()
        ctx.set(dut.operations.valid, 0)
        assert ctx.get(dut.busy)
        await bench.settle(ctx)
        assert bench.taken == 1

    bench.simulate(testbench)


def test_faults_are_precise_and_abort_makes_it_start_anew():
    bench = Bench()
    dut, reads = bench.dut, bench.reads
    words = bench.config.scratchpad_words
    good = Load(rows=3, row_bytes=30, pitch=32)

    async def recover(ctx):
        await ctx.tick()
        asked = len(reads.requests)
        for _ in range(10):
            await ctx.tick()
        assert len(reads.requests) == asked
        assert len(bench.faults) == 1
        ctx.set(dut.abort, 1)
        await ctx.tick()
        ctx.set(dut.abort, 0)
        assert not ctx.get(dut.busy)
        while not ctx.get(dut.memory.idle):
            await ctx.tick()
        bench.faults.clear()
        bench.scratchpad.clear()
        reads.failing = {}
        await bench.offer(ctx, good, 100, 7)
        await bench.settle(ctx)
        assert bench.scratchpad == bench.expect(good, 100, 7)

    async def testbench(ctx):
        illegal = [
            (Load(rows=0), 0), (Load(row_bytes=0), 0), (Load(rows=2), words - 1),
            (Load(row_bytes=5), words - 1), (Load(), words), (Load(), (1 << 24) - 1),
            (Load(rows=65535, row_bytes=(1 << 32) - 1), 0),
            (Load(row_bytes=(words + 1) * 4), 0),
        ]  # fmt: skip
        for load, local in illegal:
            asked = len(reads.requests)
            await bench.offer(ctx, load, 0, local, index=9)
            assert bench.faults == [(FaultCause.ILLEGAL_INSTRUCTION, 0, 9, load.to_int())]
            assert len(reads.requests) == asked
            await recover(ctx)
        last = Load(row_bytes=8)
        bench.scratchpad.clear()
        await bench.offer(ctx, last, 64, words - 2)
        await bench.settle(ctx)
        assert bench.scratchpad == bench.expect(last, 64, words - 2)
        for status, cause in (
            (Status.DENIED, FaultCause.ACCESS_VIOLATION),
            (Status.SLVERR, FaultCause.BUS_SLAVE_ERROR),
            (Status.DECERR, FaultCause.BUS_DECODE_ERROR),
        ):
            # The one before ends well, although both are in work when the bad beat comes.
            reads.failing = {0x1080: status}
            bench.scratchpad.clear()
            await bench.offer(ctx, good, 100, 7, index=3)
            bad = Load(row_bytes=300)
            await bench.offer(ctx, bad, 0x1003, 100, index=4)
            await bench.settle(ctx)
            assert bench.faults == [(cause, 0x1080, 4, bad.to_int())]
            expected = bench.expect(good, 100, 7)
            assert {k: v for k, v in bench.scratchpad.items() if k < 100} == expected
            await recover(ctx)

    bench.simulate(testbench)
