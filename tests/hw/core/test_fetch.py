import random

import pytest

from hw.config import NpuConfig
from hw.core.fetch import KernelFetch
from hw.interface import Status
from hw.regs.fault import FaultCause
from hw.regs.instruction import Grant, KernelHeader
from rt.kernel.assembler import encode
from tests.models.draining_port import DrainingReads
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

SHAPES = [dict(rows=4, columns=4), dict(rows=4, columns=16), dict(rows=4, columns=32),
          dict(rows=4, columns=128)]  # fmt: skip


class Bench:
    def __init__(self, *, rng=None, **changes):
        self.config = NpuConfig.preset("tiny", **changes)
        self.dut = KernelFetch(self.config)
        self.memory = bytearray(1 << 16)
        self.reads = DrainingReads(self.dut.memory, self.config, self.memory, rng=rng)
        self.faults = []

    def simulate(self, testbench):
        simulate(self.dut, testbench, background=[self.reads.serve])

    def put(self, address, count, seed=0):
        """A kernel of so many instructions; gives its words."""
        rng = random.Random(seed)
        code = [Grant(load=rng.randrange(16), compute=rng.randrange(16)) for _ in range(count)]
        binary = encode(code, self.config.fingerprint)
        self.memory[address : address + len(binary)] = binary
        return [instruction.to_int() for instruction in code]

    async def start(self, ctx, address, context=1, invalidate=0, limit=2000):
        """Cycles from the start to `ready`, or the fault."""
        dut = self.dut
        ctx.set(dut.start.p, {"address": address, "context": context, "invalidate": invalidate})
        ctx.set(dut.start.valid, 1)
        for cycle in range(limit):
            if ctx.get(dut.ready):
                await ctx.tick()
                ctx.set(dut.start.valid, 0)
                assert not ctx.get(dut.pending)
                return cycle
            if ctx.get(dut.fault.valid):
                fault = (FaultCause(ctx.get(dut.fault.cause)), ctx.get(dut.fault.address))
                await ctx.tick()
                return fault
            await ctx.tick()
            ctx.set(dut.start.valid, 0)
            assert ctx.get(dut.pending)
        raise AssertionError("neither ready nor a fault")

    async def check(self, ctx, words):
        """`start` left the first word, of index 0, on the port."""
        assert ctx.get(self.dut.length) == len(words)
        for n, word in enumerate(words):
            assert ctx.get(self.dut.word) == word
            ctx.set(self.dut.index, n + 1 if n + 1 < len(words) else 0)
            await ctx.tick()

    async def hint(self, ctx, address, context=1, invalidate=0, cycles=0):
        kernel = {"address": address, "context": context, "invalidate": invalidate}
        ctx.set(self.dut.hint, {"valid": 1, "kernel": kernel})
        for _ in range(cycles):
            await ctx.tick()
            assert not ctx.get(self.dut.fault.valid)


@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_are_read_whole_and_kept_in_two_banks(shape):
    bench = Bench(rng=random.Random(5), **shape)
    size = bench.config.instructions

    async def testbench(ctx):
        one, two = bench.put(0x1040, 7), bench.put(0x2FC0, size, seed=1)
        assert await bench.start(ctx, 0x1040) > 0
        await bench.check(ctx, one)
        assert await bench.start(ctx, 0x2FC0) > 0
        await bench.check(ctx, two)
        asked = len(bench.reads.requests)
        for address, words in ((0x1040, one), (0x2FC0, two), (0x2FC0, two)):
            assert await bench.start(ctx, address) == 0
            await bench.check(ctx, words)
        assert len(bench.reads.requests) == asked
        # Another context has other windows; an invalidated kernel may have been rewritten.
        assert await bench.start(ctx, 0x1040, context=0) > 0
        assert bench.reads.requests[-1][1].context == 0
        one = bench.put(0x1040, 9, seed=2)
        assert await bench.start(ctx, 0x1040, context=0, invalidate=1) > 0
        await bench.check(ctx, one)
        assert await bench.start(ctx, 0x2FC0) > 0

    bench.simulate(testbench)


def test_a_miss_takes_the_cycles_the_contract_states():
    bench = Bench()

    async def testbench(ctx):
        bench.put(0x1000, 4)
        await ctx.tick()
        begin = bench.reads.cycle
        cycles = await bench.start(ctx, 0x1000)
        (header, _), (code, _) = bench.reads.requests
        assert header == begin + 1
        # Latency 2 and four beats of 8 bytes: the header's last beat five cycles after it.
        assert code == header + 5 + 3
        # Eight beats of code.
        assert cycles == code - begin + 9 + 3

    bench.simulate(testbench)


@pytest.mark.parametrize("moment", range(0, 30, 3))
def test_code_is_read_anew_after_rights_have_changed(moment):
    """Whenever that is: before, while or after the second kernel is read."""
    bench = Bench()

    async def testbench(ctx):
        one, two = bench.put(0x1000, 5), bench.put(0x2000, 6, seed=1)
        await bench.start(ctx, 0x1000)
        await bench.hint(ctx, 0x2000, cycles=moment)
        ctx.set(bench.dut.forget, 1)
        await ctx.tick()
        ctx.set(bench.dut.forget, 0)
        changed = bench.reads.cycle
        await bench.check(ctx, one)
        for address, words in ((0x2000, two), (0x1000, one)):
            await bench.start(ctx, address)
            await bench.check(ctx, words)
            again = [at for at, request in bench.reads.requests if request.address == address]
            assert again[-1] >= changed

    bench.simulate(testbench)


def test_hinted_kernels_are_there_when_they_start():
    bench = Bench()
    reads = bench.reads

    async def testbench(ctx):
        one, two = bench.put(0x1000, 5), bench.put(0x2000, 20, seed=1)
        three = bench.put(0x3000, 8, seed=2)
        await bench.start(ctx, 0x1000)
        await bench.hint(ctx, 0x1000, cycles=50)
        assert len(reads.requests) == 2
        await bench.hint(ctx, 0x2000, cycles=150)
        await bench.check(ctx, one)
        assert await bench.start(ctx, 0x2000) == 0
        await bench.check(ctx, two)
        # Started while it is being read: waits only for the rest.
        await bench.hint(ctx, 0x3000, cycles=8)
        assert await bench.start(ctx, 0x3000) > 0
        assert [request.address for _, request in reads.requests].count(0x3000) == 1
        await bench.check(ctx, three)
        # The one in use starts again, another one starts, while a hinted one is being read.
        await bench.hint(ctx, 0x1000, cycles=8)
        assert await bench.start(ctx, 0x3000) == 0
        await bench.check(ctx, three)
        await bench.hint(ctx, 0x1000, cycles=8)
        assert await bench.start(ctx, 0x2000) > 0
        await bench.check(ctx, two)
        # Not read in advance: what may still be written.
        asked = len(reads.requests)
        await bench.hint(ctx, 0x4000, invalidate=1, cycles=30)
        assert len(reads.requests) == asked

    bench.simulate(testbench)


def test_a_bad_hinted_kernel_is_read_once_and_faults_only_when_started():
    bench = Bench()

    async def testbench(ctx):
        one = bench.put(0x1000, 5)
        await bench.start(ctx, 0x1000)
        await bench.hint(ctx, 0x5000, cycles=100)
        assert [r.address for _, r in bench.reads.requests].count(0x5000) == 1
        await bench.check(ctx, one)
        assert await bench.start(ctx, 0x5000) == (FaultCause.ILLEGAL_KERNEL, 0x5000)
        await bench.check(ctx, one)

    bench.simulate(testbench)


def test_what_is_wrong_with_a_kernel_is_a_fault():
    bench = Bench()
    size = KernelHeader.BYTES

    async def testbench(ctx):
        one = bench.put(0x1000, 6)
        binary = bytes(bench.memory[0x1000 : 0x1000 + size + 6 * 16])
        header = KernelHeader.from_bytes(binary)
        full = bench.config.instructions * 16
        headers = [
            header.replace(magic=1), header.replace(isa_version=2),
            header.replace(crc=header.crc ^ 1),
            header.replace(fingerprint=header.fingerprint ^ 1 << 31),
            header.replace(code_bytes=0), header.replace(code_bytes=40),
            header.replace(code_bytes=full + 16), header.replace(code_bytes=1 << 20),
        ]  # fmt: skip
        wrong = [changed.to_bytes() + binary[size:] for changed in headers]
        for bit in (6 * 8, 20 * 8, 31 * 8 + 7, size * 8, size * 8 + 16 * 8 * 6 - 1):
            flipped = int.from_bytes(binary, "little") ^ 1 << bit
            wrong.append(flipped.to_bytes(len(binary), "little"))
        for number, bad in enumerate(wrong):
            bench.memory[0x2000 : 0x2000 + len(bad)] = bad
            found = await bench.start(ctx, 0x2000)
            assert found == (FaultCause.ILLEGAL_KERNEL, 0x2000), number
        bench.memory[0x2000 : 0x2000 + len(binary)] = binary
        for status, cause in (
            (Status.DENIED, FaultCause.ACCESS_VIOLATION),
            (Status.SLVERR, FaultCause.BUS_SLAVE_ERROR),
            (Status.DECERR, FaultCause.BUS_DECODE_ERROR),
        ):
            for address in (0x2000, 0x2020):
                bench.reads.failing = {address: status}
                assert await bench.start(ctx, 0x2000) == (cause, address)
        bench.reads.failing = {}
        assert await bench.start(ctx, 0x2000) > 0
        await bench.check(ctx, one)

    bench.simulate(testbench)


def test_abort_drains_and_forgets_the_start():
    bench = Bench()
    dut = bench.dut

    async def testbench(ctx):
        one = bench.put(0x1000, 30)
        for cycles in range(1, 60, 3):
            ctx.set(dut.start.p, {"address": 0x1000, "context": 1, "invalidate": 1})
            ctx.set(dut.start.valid, 1)
            await ctx.tick()
            ctx.set(dut.start.valid, 0)
            for _ in range(cycles):
                await ctx.tick()
            assert ctx.get(dut.pending)
            ctx.set(dut.abort, 1)
            await ctx.tick()
            ctx.set(dut.abort, 0)
            assert not ctx.get(dut.pending)
            assert ctx.get(dut.draining)
            for _ in range(8):
                await ctx.tick()
                assert not ctx.get(dut.fault.valid)
            assert not ctx.get(dut.draining)
            assert ctx.get(dut.memory.idle)
            if cycles % 2:
                await bench.start(ctx, 0x1000)
                await bench.check(ctx, one)

    bench.simulate(testbench)
