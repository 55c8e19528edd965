"""The copy engine behind its guards, before a checking memory, against slices in Python."""

import random
from types import SimpleNamespace

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw import axi
from hw.bus.admission import windows_layout
from hw.bus.memory_bus import MemoryBus
from hw.config import NpuConfig
from hw.dma import Dma
from hw.interface import EngineSignature
from hw.regs.descriptor import CopyPayload, TaskType
from hw.regs.fault import FaultCause
from tests.models.axi_memory import AxiMemory
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", outstanding=8)
WIDTH = CONFIG.data_bytes
SOURCE, TARGET, CLOSED = 0x10000, 0x40000, 0x80000


class Bench(wiring.Component):
    """A copy engine on a memory bus of its own."""

    def __init__(self, config=CONFIG):
        self.config = config
        super().__init__({
            "engine": Out(EngineSignature()),
            "memory": Out(axi.Signature(data_bytes=config.data_bytes, id_bits=config.id_bits)),
            "windows": In(windows_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bus = bus = MemoryBus(self.config)
        m.submodules.dma = dma = Dma(self.config)
        connect(m, dma.read, bus.reads[1])
        connect(m, dma.write, bus.writes[1])
        connect(m, dma.engine, flipped(self.engine))
        connect(m, bus.memory, flipped(self.memory))
        m.d.comb += bus.windows.eq(self.windows)
        return m


class Outcome:
    """What an engine showed from the offer of a task (cycle 0) until it was done."""

    def __init__(self):
        self.started = self.ended = self.done = self.failed = self.report = None


async def run_task(ctx, dut, kind, copy, *, abort_at=None, done_wait=0):
    """Offers a task to the idle engine and watches it to its end."""
    engine = dut.engine
    outcome = Outcome()
    ctx.set(engine.tasks.p, {"type": kind, "context": 1, "payload": copy.to_int()})
    ctx.set(engine.tasks.valid, 1)
    assert ctx.get(engine.tasks.ready)
    assert not ctx.get(engine.busy)
    ctx.set(engine.done.ready, 0)
    for cycle in range(20000):
        ctx.set(engine.abort, cycle == abort_at)
        if outcome.done is not None and cycle >= outcome.done + done_wait:
            ctx.set(engine.done.ready, 1)
        _, _, started, ended, done, failed, fault, report, busy, ready = await ctx.tick().sample(
            engine.started, engine.ended, engine.done.valid, engine.done.p.failed,
            engine.fault.valid, engine.fault.report, engine.busy, engine.done.ready,
        )  # fmt: skip
        ctx.set(engine.tasks.valid, 0)
        assert busy == (cycle > 0)
        if started:
            assert outcome.started is None
            outcome.started = cycle
        if ended:
            assert outcome.ended is None
            outcome.ended = cycle
        if fault:
            assert outcome.report is None
            outcome.report = report
        if done:
            assert outcome.ended is not None
            outcome.done = cycle if outcome.done is None else outcome.done
            outcome.failed = failed
            if ready:
                ctx.set(engine.abort, 0)
                ctx.set(engine.done.ready, 0)
                return outcome
    raise AssertionError("the engine hangs")


def simulate(dut, memory, bench, *observers):
    async def with_windows(ctx):
        both = {"base": SOURCE, "limit": CLOSED - 1, "read": 1, "write": 1}
        ctx.set(dut.windows[CONFIG.windows], both)
        await bench(ctx)

    sim = simulator_of(dut)
    sim.add_clock(1e-9)
    for observer in (memory.run, *observers):
        sim.add_testbench(observer, background=True)
    sim.add_testbench(with_windows)
    sim.run()


def copied(memory, copy, fill=None):
    """The content of the memory as it must be after a task."""
    content = dict(memory.content)
    for row in range(copy.rows):
        source = copy.source + row * copy.source_pitch
        target = copy.destination + row * copy.destination_pitch
        for n in range(copy.row_bytes):
            value = memory.content.get(source + n, 0) if fill is None else fill
            content[target + n] = value
    return content


def random_copy(rng, *, fill=False):
    row_bytes = rng.choice([1, 7, 8, rng.randrange(1, 40), rng.randrange(1, 300), 128])
    rows = rng.randrange(1, max(2, min(20, 600 // row_bytes)))
    return CopyPayload(
        source=rng.randrange(256) if fill else SOURCE + rng.randrange(300),
        source_pitch=0 if fill else rng.choice([0, 1, row_bytes, row_bytes + rng.randrange(200)]),
        destination=TARGET + rng.randrange(300),
        destination_pitch=row_bytes + rng.choice([0, 0, 1, rng.randrange(200)]),
        row_bytes=row_bytes,
        rows=rows,
    )


@pytest.mark.parametrize("seed", [None, 5])
def test_copies_and_fills_of_any_alignment_equal_the_model(seed):
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=4, seed=seed)
    rng = random.Random(7)
    memory.load(SOURCE, rng.randbytes(8000))

    async def bench(ctx):
        for _ in range(35):
            fill = rng.randrange(3) == 0
            copy = random_copy(rng, fill=fill)
            expected = copied(memory, copy, copy.source & 0xFF if fill else None)
            kind = TaskType.MEMSET if fill else TaskType.MEMCPY
            outcome = await run_task(ctx, dut, kind, copy, done_wait=rng.randrange(3))
            assert not outcome.failed
            assert outcome.report is None
            assert outcome.done == outcome.ended
            assert memory.content == expected, copy

    simulate(dut, memory, bench)


@pytest.mark.parametrize(("source", "target", "more"), [(0, 0, 0), (3, 6, 1), (6, 3, 2)])
def test_a_long_copy_moves_a_beat_in_each_cycle(source, target, more):
    """Bound: always ready memory, answering after 20 cycles; 256 full beats.

    From the first AR to the last response: 20 for the first beat, 256 for the beats, 20 for the
    last response, 17 because a burst of 16 beats has arrived whole before its AW, two cycles
    after its last beat; a misaligned source or destination has a beat more each.
    """
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=20)
    size = 256 * WIDTH
    memory.load(SOURCE, random.Random(source).randbytes(size + 16))

    async def bench(ctx):
        copy = CopyPayload(source=SOURCE + source, destination=TARGET + target, row_bytes=size)
        expected = copied(memory, copy)
        outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy)
        assert memory.content == expected
        assert outcome.ended - outcome.started == 20 + 256 + 20 + 17 + more

    simulate(dut, memory, bench)


def test_a_long_fill_moves_a_beat_in_each_cycle():
    """Bound: always ready memory; 128 beats in 130 cycles from AW to the last response."""
    dut = Bench()
    memory = AxiMemory(dut.memory)

    async def bench(ctx):
        copy = CopyPayload(source=0xA5, destination=TARGET, row_bytes=128 * WIDTH)
        outcome = await run_task(ctx, dut, TaskType.MEMSET, copy)
        assert memory.dump(TARGET, 128 * WIDTH + 1) == bytes([0xA5]) * 128 * WIDTH + b"\0"
        assert outcome.ended - outcome.started == 1 + 127 + 1

    simulate(dut, memory, bench)


def test_cycles_from_the_offer_to_the_bus_and_from_the_data_to_the_write():
    """One beat, memory answering in the cycle after: every cycle is accounted for."""
    dut = Bench()
    memory = AxiMemory(dut.memory)
    memory.load(SOURCE, b"celosia!")

    async def bench(ctx):
        copy = CopyPayload(source=SOURCE, destination=TARGET, row_bytes=8)
        begin = memory.cycle
        outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy)
        assert memory.reads[0][0] - begin == 2  # offered 0, requested 1, AR 2
        assert outcome.started == 2
        assert memory.writes[0][0] - begin == 5  # R 3, requested 4, AW 5
        assert outcome.ended == 8  # funnel 6, W 7, B 8
        assert outcome.done == 8
        begin = memory.cycle
        outcome = await run_task(ctx, dut, TaskType.MEMSET, copy)
        assert memory.writes[1][0] - begin == 2
        assert (outcome.started, outcome.ended, outcome.done) == (2, 4, 4)

    simulate(dut, memory, bench)


def test_the_next_task_is_on_the_bus_two_cycles_after_the_last_response():
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=3)
    memory.load(SOURCE, random.Random(8).randbytes(4096))
    rng = random.Random(9)
    tasks = []
    for _ in range(20):
        kind = rng.choice((TaskType.MEMCPY, TaskType.MEMSET))
        tasks.append((kind, random_copy(rng, fill=kind == TaskType.MEMSET)))

    async def bench(ctx):
        engine = dut.engine
        model = SimpleNamespace(content=memory.content)
        for kind, copy in tasks:
            fill = copy.source if kind == TaskType.MEMSET else None
            model.content = copied(model, copy, fill)
        left = list(tasks)
        started, ended, cycle = [], [], 0
        ctx.set(engine.done.ready, 1)
        while len(ended) < len(tasks):
            ctx.set(engine.tasks.valid, bool(left))
            if left:
                kind, copy = left[0]
                task = {"type": kind, "context": 1, "payload": copy.to_int()}
                ctx.set(engine.tasks.p, task)
                if ctx.get(engine.tasks.ready):
                    left.pop(0)
            assert ctx.get(engine.ended) == ctx.get(engine.done.valid)
            if ctx.get(engine.started):
                started.append(cycle)
            if ctx.get(engine.ended):
                ended.append(cycle)
            await ctx.tick()
            cycle += 1
        assert [start - end for end, start in zip(ended, started[1:], strict=False)] == [2] * 19
        assert memory.content == model.content

    simulate(dut, memory, bench)


def test_each_error_is_reported_and_the_next_task_runs():
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=6, seed=9)
    memory.load(SOURCE, random.Random(1).randbytes(4096))
    lines = {"row_bytes": 500, "rows": 3, "source_pitch": 512, "destination_pitch": 512}
    cases = [
        # source, destination, errors, cause, address, write
        (CLOSED - 203, TARGET, {}, FaultCause.ACCESS_VIOLATION, CLOSED, 0),
        (SOURCE, CLOSED - 1, {}, FaultCause.ACCESS_VIOLATION, CLOSED, 1),
        (SOURCE - 1, TARGET, {}, FaultCause.ACCESS_VIOLATION, SOURCE - 1, 0),
        (SOURCE + 5, TARGET, {SOURCE + 248: 2}, FaultCause.BUS_SLAVE_ERROR, SOURCE + 248, 0),
        (SOURCE + 5, TARGET, {SOURCE: 3}, FaultCause.BUS_DECODE_ERROR, SOURCE + 5, 0),
        (SOURCE, TARGET + 9, {TARGET + 8: 2}, FaultCause.BUS_SLAVE_ERROR, TARGET + 9, 1),
        (SOURCE, TARGET, {TARGET + 1024: 3}, FaultCause.BUS_DECODE_ERROR, TARGET + 1024, 1),
    ]

    async def bench(ctx):
        for source, target, errors, cause, address, write in cases:
            memory.errors = errors
            copy = CopyPayload(source=source, destination=target, **lines)
            outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy)
            assert outcome.failed
            report = outcome.report
            assert (report.cause, report.address, report.write) == (cause, address, write)
            assert outcome.done == outcome.ended
            memory.errors = {}
            copy = random_copy(random.Random(address))
            expected = copied(memory, copy)
            outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy)
            assert not outcome.failed
            assert memory.content == expected
        assert all(SOURCE <= address < CLOSED for _, _, address, _ in memory.reads)
        assert all(SOURCE <= address < CLOSED for _, _, address, _ in memory.writes)

    simulate(dut, memory, bench)


def test_an_abort_at_any_time_drains_and_leaves_a_working_engine():
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=5, seed=3, stall=0.2)
    rng = random.Random(11)
    memory.load(SOURCE, rng.randbytes(4096))

    async def bench(ctx):
        for abort_at in [1, 2, 3, 4, 5, 8, 12, *(rng.randrange(10, 120) for _ in range(12))]:
            fill = rng.randrange(3) == 0
            copy = CopyPayload(
                source=SOURCE + 3, destination=TARGET + 1, row_bytes=333, rows=5,
                source_pitch=340, destination_pitch=350,
            )  # fmt: skip
            kind = TaskType.MEMSET if fill else TaskType.MEMCPY
            outcome = await run_task(ctx, dut, kind, copy, abort_at=abort_at)
            assert outcome.failed
            assert outcome.report is None
            in_bus = len(memory.reads), len(memory.writes)
            await ctx.tick().repeat(rng.randrange(1, 4))
            assert (len(memory.reads), len(memory.writes)) == in_bus
            copy = random_copy(rng)
            expected = copied(memory, copy)
            outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy)
            assert not outcome.failed
            assert memory.content == expected

    simulate(dut, memory, bench)


def test_reads_stop_when_the_data_queue_is_full_and_go_on_when_writes_do():
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=2)
    memory.load(SOURCE, random.Random(4).randbytes(4096))
    queue = CONFIG.outstanding * CONFIG.burst_beats

    async def release(ctx):
        memory.paused = True
        await ctx.tick().repeat(400)
        assert queue <= sum(beats for *_, beats in memory.reads) < queue + CONFIG.burst_beats
        memory.paused = False

    async def bench(ctx):
        copy = CopyPayload(source=SOURCE + 5, destination=TARGET + 1, row_bytes=3000)
        expected = copied(memory, copy)
        outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy)
        assert memory.content == expected
        assert outcome.ended > 400

    simulate(dut, memory, bench, release)


def test_an_abort_of_an_idle_engine_is_ignored():
    dut = Bench()
    memory = AxiMemory(dut.memory)
    memory.load(SOURCE, b"x")

    async def bench(ctx):
        ctx.set(dut.engine.abort, 1)
        await ctx.tick()
        copy = CopyPayload(source=SOURCE, destination=TARGET, row_bytes=1)
        outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy, abort_at=0)
        assert not outcome.failed
        outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy, abort_at=9, done_wait=3)
        assert not outcome.failed
        assert memory.dump(TARGET, 1) == b"x"

    simulate(dut, memory, bench)


def test_no_write_is_issued_before_its_data_has_arrived():
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=9, seed=21, stall=0.6)
    memory.load(SOURCE, random.Random(2).randbytes(2000))
    size = 1500
    arriving = iter([WIDTH - 1] + [WIDTH] * (size // WIDTH) + [0])
    writing = iter([CONFIG.burst_bytes - 2] + [CONFIG.burst_bytes] * (size // CONFIG.burst_bytes))

    async def watch(ctx):
        arrived = written = 0
        r, aw = dut.memory.r, dut.memory.aw
        async for _, _, beat, taken, address, accepted in ctx.tick().sample(
            r.valid, r.ready, aw.valid, aw.ready
        ):
            if address and accepted:
                written = min(written + next(writing), size)
                assert arrived >= written
            if beat and taken:
                arrived = min(arrived + next(arriving), size)

    async def bench(ctx):
        copy = CopyPayload(source=SOURCE + 1, destination=TARGET + 2, row_bytes=size)
        outcome = await run_task(ctx, dut, TaskType.MEMCPY, copy)
        assert not outcome.failed
        assert len(memory.writes) == 12

    simulate(dut, memory, bench, watch)
