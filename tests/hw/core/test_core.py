import random

import numpy as np
import pytest

from hw.config import NpuConfig
from hw.core.core import MatrixCore
from hw.interface import Status
from hw.regs.core import CoreState
from hw.regs.descriptor import KernelPayload
from hw.regs.fault import FaultCause
from hw.regs.instruction import (
    Address,
    Channel,
    ChannelRecord,
    End,
    Fence,
    Grant,
    KernelHeader,
    Load,
    Loop,
    Matmul,
    Next,
    OutputFormat,
    Source,
    Store,
    Stride,
)
from rt.golden import matmul, requantise
from rt.kernel.assembler import encode
from rt.kernel.gemm import GemmShape, gemm_kernel
from tests.models.draining_port import DrainingReads, DrainingWrites
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny")
KERNEL, A, B, TABLE, C = 0x1000, 0x4000, 0x6000, 0x7800, 0x8000
STREAM, SLOT, CONTEXT = 3, 1, 1


class Bench:
    """A core with one memory behind its three ports, and its argument blocks."""

    def __init__(self, *, seed=None):
        self.dut = dut = MatrixCore(CONFIG)
        self.memory = bytearray(1 << 16)
        rng = None if seed is None else random.Random(seed)
        parts = (DrainingReads, dut.code), (DrainingReads, dut.load), (DrainingWrites, dut.store)
        self.code, self.load, self.store = self.ports = [
            kind(port, CONFIG, self.memory, latency=4, rng=rng) for kind, port in parts
        ]
        self.arguments = [0] * 16
        self.seen = {}
        self.counts = {}

    @property
    def cycle(self):
        return self.store.cycle

    def simulate(self, testbench):
        simulator = simulator_of(self.dut)
        simulator.add_clock(1e-9)
        for port in self.ports:
            simulator.add_testbench(port.serve, background=True)
        simulator.add_testbench(self.serve_arguments, background=True)
        simulator.add_testbench(self.watch, background=True)
        simulator.add_testbench(testbench)
        simulator.run()

    async def serve_arguments(self, ctx):
        port = self.dut.arguments
        async for _, _, stream, slot, word in ctx.tick().sample(port.stream, port.slot, port.word):
            known = (stream, slot) == (STREAM, SLOT)
            ctx.set(port.data, self.arguments[word] if known else 0xDEAD_BEEF_DEAD)

    async def watch(self, ctx):
        engine, activity = self.dut.engine, self.dut.activity
        names = ("started", "ended", "fault")
        cycle = 0
        async for _, _, started, ended, fault, doing in ctx.tick().sample(
            engine.started, engine.ended, engine.fault.valid, activity
        ):
            for name, value in zip(names, (started, ended, fault), strict=True):
                if value:
                    self.seen.setdefault(name, []).append(cycle)
            for name in doing.shape().members:
                self.counts[name] = self.counts.get(name, 0) + doing[name]
            cycle += 1

    def put(self, address, content):
        content = content.tobytes() if isinstance(content, np.ndarray) else bytes(content)
        self.memory[address : address + len(content)] = content

    def get(self, address, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.memory[address : address + size], dtype).reshape(shape)

    def put_kernel(self, code, address=KERNEL):
        self.put(address, encode(code, CONFIG.fingerprint))

    def offer(self, ctx, address=KERNEL, option=1, overflow=0, context=CONTEXT):
        engine = self.dut.engine
        payload = KernelPayload(kernel_address=address, args_address=0x40)
        ctx.set(engine.tasks.p, {
            "type": 2, "stream": STREAM, "context": context, "slot": SLOT, "option": option,
            "overflow": overflow, "payload": payload.to_int(),
        })  # fmt: skip
        ctx.set(engine.tasks.valid, 1)

    async def begin(self, ctx, **options):
        """Offers the task; afterwards it is the cycle after it was taken. Gives that of taking."""
        engine = self.dut.engine
        self.offer(ctx, **options)
        ctx.set(engine.done.ready, 0)
        assert ctx.get(engine.tasks.ready)
        self.seen.clear()
        self.counts.clear()
        taken = self.cycle
        await ctx.tick()
        ctx.set(engine.tasks.valid, 0)
        return taken

    async def finish(self, ctx, limit=4000):
        """Takes `done`; gives its cycle, whether it failed, and the report of a fault."""
        engine = self.dut.engine
        report = None
        ctx.set(engine.done.ready, 1)
        for _ in range(limit):
            assert ctx.get(engine.busy)
            assert ctx.get(engine.tasks.ready) == ctx.get(engine.done.valid)
            if ctx.get(engine.fault.valid):
                assert report is None
                report = ctx.get(engine.fault.report)
            if ctx.get(engine.done.valid):
                cycle, failed = self.cycle, ctx.get(engine.done.p.failed)
                await ctx.tick()
                assert not ctx.get(engine.busy)
                return cycle, failed, report
            await ctx.tick()
        raise AssertionError(f"the task does not end: {self.seen}")

    async def chain(self, ctx, tasks, limit=4000):
        """Runs tasks back to back: each is offered until it is taken. Gives the cycles of that."""
        engine = self.dut.engine
        ctx.set(engine.done.ready, 1)
        self.seen.clear()
        taken = []
        for options in tasks:
            self.offer(ctx, **options)
            while not ctx.get(engine.tasks.ready):
                assert self.cycle < limit
                await ctx.tick()
            if taken:
                assert ctx.get(engine.done.valid)
                assert not ctx.get(engine.done.p.failed)
            taken.append(self.cycle)
            await ctx.tick()
        ctx.set(engine.tasks.valid, 0)
        assert (await self.finish(ctx))[1:] == (0, None)
        return taken

    async def run(self, ctx, code, **options):
        self.put_kernel(code)
        await self.begin(ctx, **options)
        return await self.finish(ctx)


def tile_kernel(turns):
    """C[turns × 4, 4] = A[turns × 4, 8] @ B[8, 4], in tiles of 4 rows, double-buffered."""
    return [
        Grant(load=2, compute=2),
        Address(register=0, source=Source.ARGUMENT, argument=0),
        Stride(register=0, level=0, stride=32),
        Address(register=1, source=Source.ARGUMENT, argument=1),
        Address(register=2, source=Source.ARGUMENT, argument=8),
        Stride(register=2, level=0, stride=64),
        Address(register=3, offset=100),  # weights
        Address(register=4, offset=0),  # activations: 8 words, two of each row
        Stride(register=4, level=0, stride=8),
        Address(register=5, offset=1),
        Stride(register=5, level=0, stride=8),
        Address(register=6, offset=104),
        Address(register=7, offset=0),  # sums
        Stride(register=7, level=0, stride=4),
        Load(memory=1, local=3, rows=8, row_bytes=4, pitch=4),
        Loop(count=turns),
        Load(memory=0, local=4, rows=4, row_bytes=8, pitch=8, wait_next=1, signal_next=1),
        Matmul(activations=4, weights=3, accumulators=7, rows=4, depth=4, pitch=2,
               wait_previous=1, wait_next=1),
        Matmul(activations=5, weights=6, accumulators=7, rows=4, depth=4, pitch=2,
               accumulate=1, signal_previous=1, signal_next=1),
        Store(memory=2, accumulators=7, rows=4, columns=4, pitch=16, wait_previous=1,
              signal_previous=1),
        Next(),
        End(),
    ]  # fmt: skip


def matrices(bench, rng, m, k, n):
    a = rng.integers(-128, 128, (m, k), dtype=np.int8)
    b = rng.integers(-128, 128, (k, n), dtype=np.int8)
    bench.put(A, a)
    bench.put(B, b)
    bench.arguments[0:2] = A, B
    bench.arguments[8] = C
    return a, b


def test_kernels_with_loops_and_tokens_compute_what_numpy_does():
    bench = Bench(seed=1)

    async def testbench(ctx):
        rng = np.random.default_rng(1)
        for turns in (1, 2, 7):
            a, b = matrices(bench, rng, turns * 4, 8, 4)
            _, failed, report = await bench.run(ctx, tile_kernel(turns))
            assert (failed, report) == (0, None)
            assert np.array_equal(bench.get(C, (turns * 4, 4), np.int32), matmul(a, b))
            # What the PMU is told.
            assert bench.counts["instruction"] == 17 + 5 * turns
            assert bench.counts["array_busy"] == 8 * turns
            assert bench.counts["macs"] == turns * 4 * 8 * 4
            assert all(bench.counts[f"{unit}_busy"] for unit in ("load", "compute", "store"))
            assert bench.counts["compute_token_wait"]

    bench.simulate(testbench)


def test_generated_kernels_run():
    bench = Bench(seed=2)

    async def testbench(ctx):
        rng = np.random.default_rng(2)
        for m, k, n in ((5, 9, 6), (1, 1, 1)):
            a, b = matrices(bench, rng, m, k, n)
            shape = GemmShape(m, n, k, k, n, n * 4)
            bench.put(KERNEL, gemm_kernel(shape, CONFIG))
            await bench.begin(ctx)
            assert (await bench.finish(ctx))[1:] == (0, None)
            assert np.array_equal(bench.get(C, (m, n), np.int32), matmul(a, b))

    bench.simulate(testbench)


def test_a_channel_table_requantises():
    bench = Bench()

    async def testbench(ctx):
        rng = np.random.default_rng(3)
        a, b = matrices(bench, rng, 4, 4, 4)
        bias, multiplier = rng.integers(-999, 999, 4), rng.integers(1 << 28, 1 << 30, 4)
        table = [ChannelRecord(bias=int(x), multiplier=int(y), shift=36)
                 for x, y in zip(bias, multiplier, strict=True)]  # fmt: skip
        bench.put(TABLE, b"".join(record.to_bytes() for record in table))
        code = [
            Address(register=0, source=Source.ARGUMENT, argument=0),
            Address(register=1, source=Source.ARGUMENT, argument=1),
            Address(register=2, offset=TABLE), Address(register=3, offset=C),
            Address(register=5, offset=8), Address(register=6, offset=16),
            Load(memory=0, local=4, rows=4, row_bytes=4, pitch=4),
            Load(memory=1, local=5, rows=4, row_bytes=4, pitch=4),
            Load(memory=2, local=6, row_bytes=64), Fence(),
            Matmul(activations=4, weights=5, accumulators=4, rows=4, depth=4),
            Channel(local=6), Fence(),
            Store(memory=3, accumulators=4, rows=4, columns=4, pitch=4,
                  format=OutputFormat.INT8, bias=1, low=-100, high=127), End(),
        ]  # fmt: skip
        assert (await bench.run(ctx, code))[1:] == (0, None)
        expected = requantise(matmul(a, b), bias, multiplier, 36, low=-100)
        assert np.array_equal(bench.get(C, (4, 4), np.int8), expected)

    bench.simulate(testbench)


def test_start_and_end_are_the_cycles_of_the_contract():
    bench = Bench()
    engine = bench.dut.engine

    async def testbench(ctx):
        bench.put_kernel([Grant(), End()])
        taken = await bench.begin(ctx)
        done, _, _ = await bench.finish(ctx)
        # The header's burst is offered in taken + 1 and issued a cycle later.
        assert bench.code.requests[0][0] == taken + 1
        assert bench.seen == {"started": [taken + 2], "ended": [done]}
        # Resident: the first instruction in the cycle after the task was taken, then END.
        taken = await bench.begin(ctx, option=0)
        done, _, _ = await bench.finish(ctx)
        assert done == taken + 2
        assert bench.seen == {"started": [taken + 1], "ended": [done]}
        # With stores: the last response; END follows in the next cycle.
        matrices(bench, np.random.default_rng(0), 8, 8, 4)
        await bench.run(ctx, tile_kernel(2))
        bench.store.responded.clear()
        await bench.begin(ctx, option=0)
        done, _, _ = await bench.finish(ctx)
        assert bench.seen["ended"] == bench.store.responded
        assert done == bench.store.responded[-1] + 1
        # `done` waits to be taken.
        bench.put_kernel([End()])
        await bench.begin(ctx)
        for _ in range(60):
            await ctx.tick()
        assert ctx.get(engine.done.valid)
        assert ctx.get(engine.busy)
        ctx.set(engine.abort, 1)
        await ctx.tick()
        ctx.set(engine.abort, 0)
        assert (await bench.finish(ctx))[1:] == (0, None)

    bench.simulate(testbench)


def test_the_next_task_is_taken_in_the_cycle_in_which_the_one_before_is_done():
    bench = Bench()
    other = 0x2000

    async def testbench(ctx):
        bench.put_kernel([End()])
        bench.put_kernel([Grant(load=3), End()], address=other)
        for address, option in ((KERNEL, 1), (other, 0)):
            await bench.begin(ctx, address=address, option=option)
            await bench.finish(ctx)
        # Both are resident: END retires one or two cycles after a task was taken.
        tasks = [{"address": address, "option": 0} for address in (KERNEL, other) * 4]
        taken = await bench.chain(ctx, tasks)
        assert taken == [taken[0] + 3 * (n // 2) + n % 2 for n in range(8)]
        assert bench.seen["started"] == [cycle + 1 for cycle in taken]
        assert bench.seen["ended"] == [*taken[1:], taken[-1] + 2]
        # With stores: taken in the cycle after the last response, started in the next.
        a, b = matrices(bench, np.random.default_rng(0), 8, 8, 4)
        await bench.run(ctx, tile_kernel(2))
        bench.put(C, bytes(128))
        bench.store.responded.clear()
        taken = await bench.chain(ctx, [{"option": 0}] * 3)
        each = len(bench.store.responded) // 3
        ends = bench.store.responded[each - 1 :: each]
        assert taken[1:] == [end + 1 for end in ends[:2]]
        assert bench.seen["started"] == [taken[0] + 1, ends[0] + 2, ends[1] + 2]
        assert np.array_equal(bench.get(C, (8, 4), np.int32), matmul(a, b))

    bench.simulate(testbench)


def test_a_hinted_kernel_starts_at_once():
    bench = Bench()
    other = 0x2000

    async def testbench(ctx):
        bench.put_kernel([Loop(count=100), Next(), End()])
        bench.put_kernel([Grant(), End()], address=other)
        hint = {"valid": 1, "kernel": {"address": other, "context": CONTEXT, "invalidate": 0}}
        ctx.set(bench.dut.hint, hint)
        await bench.begin(ctx)
        await bench.finish(ctx)
        taken = await bench.begin(ctx, address=other, option=0)
        done, _, _ = await bench.finish(ctx)
        assert bench.seen == {"started": [taken + 1], "ended": [done]}

    bench.simulate(testbench)


SPY = [
    Address(register=0, offset=C), Address(register=1, offset=C + 128),
    Address(register=2, offset=C + 256), Address(register=3), Address(register=4, offset=100),
    Store(memory=0, accumulators=3, rows=4, columns=4, pitch=16),  # the sums
    Store(memory=1, accumulators=3, rows=4, columns=4, pitch=4, format=OutputFormat.INT8,
          bias=1, zero_point=0, low=-128, high=127), Fence(),  # by the channel table
    Load(memory=2, local=4, rows=4, row_bytes=4, pitch=4), Fence(),  # the unit matrix
    Matmul(activations=4, weights=3, accumulators=3, rows=4, depth=4), Fence(),  # the scratchpad
    Store(memory=2, accumulators=3, rows=4, columns=4, pitch=16), End(),
]  # fmt: skip
"""Stores what it finds in the local memories."""


def leaves_behind(bench):
    """A kernel that fills scratchpad, accumulators and channel table."""
    bench.put(A, np.full((16, 4), 7, np.int8))
    record = ChannelRecord(bias=100, multiplier=1 << 20, shift=20).to_bytes()
    bench.put(TABLE, record * 4)
    return [
        Address(register=0, offset=A), Address(register=1, offset=TABLE), Address(register=2),
        Address(register=3, offset=16), Load(memory=1, local=3, row_bytes=64),
        Load(memory=0, local=2, rows=16, row_bytes=4, pitch=4), Fence(),
        Matmul(activations=2, weights=2, accumulators=2, rows=16, depth=4), Channel(local=3), End(),
    ]  # fmt: skip


def test_a_kernel_finds_nothing_of_another_context():
    bench = Bench()
    own, other = 0x2000, 0x3000
    unit = np.eye(4, dtype=np.int8)

    async def testbench(ctx):
        bench.put_kernel(leaves_behind(bench), address=other)
        bench.put_kernel(SPY, address=own)
        cases = (
            (CONTEXT, True, 0), (0, False, 0), (CONTEXT, False, 1 << CONTEXT),
            (CONTEXT, True, None), (0, False, None),
        )  # fmt: skip
        for context, same, changed in cases:
            bench.put(C, np.full(256, 99, np.int8))
            bench.put(C + 256, unit)
            spy = {"address": own, "context": context}
            if changed is None:
                await bench.chain(ctx, [{"address": other}, spy])
            else:
                await bench.begin(ctx, address=other)
                assert (await bench.finish(ctx))[1:] == (0, None)
                ctx.set(bench.dut.changed, changed)
                await ctx.tick()
                ctx.set(bench.dut.changed, 0)
                await bench.begin(ctx, **spy)
                assert (await bench.finish(ctx))[1:] == (0, None)
            found = [bench.get(C + 128 * k, (4, 4), np.int32) for k in (0, 2)]
            assert bool(found[0].all()) is bool(found[1].all()) is same
            assert same or not any(sums.any() for sums in found)
            # The channel table is never that of another task.
            assert not bench.get(C + 128, (4, 4), np.int8).any()

    bench.simulate(testbench)


def test_a_scrub_holds_the_first_instruction_back_for_a_cycle_a_word():
    bench = Bench()
    words = 150

    async def testbench(ctx):
        # Accumulators up to row 19, the scratchpad up to word 149.
        bench.put_kernel([
            Address(register=0, offset=words - 1), Address(register=1, offset=16),
            Address(register=2, offset=A), Load(memory=2, local=0), Fence(),
            Matmul(activations=0, weights=0, accumulators=1, rows=4, depth=1, pitch=0), End(),
        ])  # fmt: skip
        # One code bank for each context.
        for context, option in ((CONTEXT, 1), (0, 0)):
            await bench.begin(ctx, context=context, option=option)
            await bench.finish(ctx)
        for context, cycles in ((CONTEXT, words), (CONTEXT, 0), (0, words), (0, 0)):
            taken = await bench.begin(ctx, context=context, option=0)
            assert ctx.get(bench.dut.engine.progress)  # the watchdog is told
            _, failed, _ = await bench.finish(ctx)
            assert not failed
            assert bench.seen["started"] == [taken + cycles + 1]
        # The same for tasks that are taken as the one before is done.
        contexts = (CONTEXT, CONTEXT, 0, 0, CONTEXT)
        taken = await bench.chain(ctx, [{"context": c, "option": 0} for c in contexts])
        starts = [cycle + 1 for cycle in taken]
        for n in (0, 2, 4):
            starts[n] += words
        assert bench.seen["started"] == starts

    bench.simulate(testbench)


def test_an_abort_ends_a_task_that_waits_for_a_scrub():
    bench = Bench()
    engine = bench.dut.engine
    words = 300

    async def testbench(ctx):
        bench.put_kernel([
            Address(register=0, offset=words - 1), Address(register=1, offset=A),
            Load(memory=1, local=0), End(),
        ])  # fmt: skip
        await bench.begin(ctx)
        await bench.finish(ctx)
        bench.put_kernel(SPY)
        bench.put(C + 256, np.eye(4, dtype=np.int8))
        first = await bench.begin(ctx, context=0)
        await ctx.tick().repeat(100)  # its code is there, its memories are not
        ctx.set(engine.abort, 1)
        await ctx.tick()
        ctx.set(engine.abort, 0)
        _, failed, report = await bench.finish(ctx, limit=20)
        assert (failed, report) == (1, None)
        # The scrub went on; the next task starts when it ends.
        await bench.begin(ctx, context=0, option=0)
        assert (await bench.finish(ctx))[1:] == (0, None)
        assert bench.seen["started"] == [first + words + 1]
        for k in (0, 2):
            assert not bench.get(C + 128 * k, (4, 4), np.int32).any()

    bench.simulate(testbench)


def test_code_that_has_changed_is_read_anew():
    bench = Bench()

    async def testbench(ctx):
        bench.put_kernel([Fence(), End()])
        await bench.begin(ctx)
        await bench.finish(ctx)
        for member, value in (("invalidate", 1), ("changed", 0b01), (None, 0)):
            if member is not None:
                ctx.set(getattr(bench.dut, member), value)
                await ctx.tick()
                ctx.set(getattr(bench.dut, member), 0)
            reads = len(bench.code.requests)
            await bench.begin(ctx, option=0)
            await bench.finish(ctx)
            assert (len(bench.code.requests) > reads) is (member is not None)

    bench.simulate(testbench)


def test_a_report_shows_the_state_of_the_units():
    bench = Bench()
    cases = [
        ([Grant(compute=3), Load(wait_next=1), End()], "END waits",
         dict(load_waiting=1, load_queued=1, running=1, blocked=1, store_to_compute=3)),
        ([Store(rows=0, columns=1), *[Fence()] * 3, End()], "a unit",
         dict(store_busy=1, running=1, blocked=1)),
    ]  # fmt: skip

    async def testbench(ctx):
        for code, name, state in cases:
            _, failed, report = await bench.run(ctx, code)
            assert failed
            assert CoreState.from_int(report.state) == CoreState(**state), name
        bench.put(KERNEL, bytes(64))
        await bench.begin(ctx)
        _, failed, report = await bench.finish(ctx)
        assert CoreState.from_int(report.state) == CoreState(fetching=1)

    bench.simulate(testbench)


def faulty():
    """Name, code, index at fault, cause, address and whether it was a write."""
    address = Address(register=0, offset=A)
    illegal = FaultCause.ILLEGAL_INSTRUCTION
    yield "sequencer", [Fence(), Next(), End()], 1, illegal, 0, 0
    yield "load", [Load(rows=0), End()], 0, illegal, 0, 0
    yield "compute", [Matmul(depth=0), End()], 0, illegal, 0, 0
    yield "store", [Store(rows=0, columns=1), End()], 0, illegal, 0, 0
    yield "token too many", [Grant(load=15), Fence(), Grant(load=1), End()], 2, illegal, 0, 0
    yield "given too often", [
        address, Loop(count=16), Load(memory=0, local=1, signal_next=1), Next(), End(),
    ], None, illegal, 0, 0  # fmt: skip
    yield "END waits for ever", [Load(wait_next=1), End()], 1, illegal, 0, 0
    yield "FENCE waits for ever", [Matmul(wait_previous=1), Fence(), End()], 1, illegal, 0, 0
    yield "full queue", [*[Store(wait_previous=1, columns=1)] * 9, End()], None, illegal, 0, 0
    for status, cause in ((Status.DENIED, FaultCause.ACCESS_VIOLATION),
                          (Status.SLVERR, FaultCause.BUS_SLAVE_ERROR),
                          (Status.DECERR, FaultCause.BUS_DECODE_ERROR)):  # fmt: skip
        yield status, [address, Load(memory=0, local=1), End()], 1, cause, A, 0
        yield status, [
            address, Address(register=1), Store(memory=0, accumulators=1, columns=4), End(),
        ], 2, cause, A, 1  # fmt: skip


def test_every_fault_is_reported_once_and_the_core_goes_on():
    bench = Bench()
    start_pc = KERNEL + KernelHeader.BYTES

    async def testbench(ctx):
        a, b = matrices(bench, np.random.default_rng(4), 8, 8, 4)
        for name, code, index, cause, address, write in faulty():
            failing = {A: name} if isinstance(name, Status) else {}
            bench.load.failing = bench.store.failing = failing
            words = [instruction.to_int() for instruction in code]
            done, failed, report = await bench.run(ctx, code)
            assert failed, name
            assert FaultCause(report.cause) is cause, name
            assert (report.address, report.write, report.execute) == (address, write, 0), name
            assert report.start_pc == start_pc
            place = (report.pc - start_pc) // 16
            assert report.pc == start_pc + 16 * place
            assert index is None or place == index, name
            assert report.instruction == words[place], name
            assert len(bench.seen["fault"]) == 1
            assert bench.seen["ended"][-1] == done - 1
            # No request after the fault; and the next kernel is not disturbed.
            fault = bench.seen["fault"][0]
            assert all(at < fault for port in bench.ports for at, _ in port.requests[-1:]), name
            bench.load.failing = bench.store.failing = {}
            assert (await bench.run(ctx, tile_kernel(2)))[1:] == (0, None)
            assert np.array_equal(bench.get(C, (8, 4), np.int32), matmul(a, b))

    bench.simulate(testbench)


def test_a_kernel_that_cannot_be_had_is_a_fault_of_its_fetch():
    bench = Bench()

    async def testbench(ctx):
        bench.put(KERNEL, bytes(64))
        await bench.begin(ctx)
        _, failed, report = await bench.finish(ctx)
        assert failed
        assert report.cause == FaultCause.ILLEGAL_KERNEL
        assert (report.address, report.execute, report.write) == (KERNEL, 1, 0)
        bench.code.failing = {KERNEL: Status.DENIED}
        await bench.begin(ctx)
        _, failed, report = await bench.finish(ctx)
        assert failed
        assert report.cause == FaultCause.ACCESS_VIOLATION
        assert (report.address, report.execute) == (KERNEL, 1)
        assert bench.code.requests[-1][1].context == CONTEXT

    bench.simulate(testbench)


def test_an_abort_ends_a_task_at_any_time():
    bench = Bench(seed=6)
    engine = bench.dut.engine

    async def testbench(ctx):
        a, b = matrices(bench, np.random.default_rng(5), 12, 8, 4)
        bench.put_kernel(tile_kernel(3))
        for cycles in (0, 3, 17, 90, 110, 125, 140, 155, 170, 185):
            await bench.begin(ctx)
            for _ in range(cycles):
                await ctx.tick()
            assert not ctx.get(engine.done.valid), cycles
            ctx.set(engine.abort, 1)
            await ctx.tick()
            ctx.set(engine.abort, 0)
            done, failed, report = await bench.finish(ctx)
            assert (failed, report) == (1, None), cycles
            assert bench.seen["ended"][-1] == done - 1
        await bench.begin(ctx, option=0)
        assert (await bench.finish(ctx))[1:] == (0, None)
        assert np.array_equal(bench.get(C, (12, 4), np.int32), matmul(a, b))

    bench.simulate(testbench)
