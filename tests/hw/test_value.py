"""The value engine behind its guard, before a checking memory."""

import random

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from hypothesis import given, settings
from hypothesis import strategies as st

from hw import axi
from hw.axi import Response
from hw.bus.admission import windows_layout
from hw.bus.memory_bus import MemoryBus
from hw.config import NpuConfig
from hw.interface import EngineSignature
from hw.regs.descriptor import TaskType, ValuePayload
from hw.regs.fault import FaultCause
from hw.value import ValueEngine
from tests.models.axi_memory import AxiMemory
from tests.models.port import WriteMemory
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

OPEN, CLOSED = 0x10000, 0x20000
LATENCY = 5


class Bench(wiring.Component):
    """A value engine on a memory bus of its own."""

    def __init__(self):
        self.config = config = NpuConfig.preset("tiny")
        super().__init__({
            "engine": Out(EngineSignature()),
            "memory": Out(axi.Signature(data_bytes=config.data_bytes, id_bits=config.id_bits)),
            "windows": In(windows_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bus = bus = MemoryBus(self.config)
        m.submodules.value = value = ValueEngine(self.config)
        connect(m, value.memory, bus.writes[self.config.write_clients.index("value")])
        connect(m, value.engine, flipped(self.engine))
        connect(m, bus.memory, flipped(self.memory))
        m.d.comb += bus.windows.eq(self.windows)
        return m


def run(testbench, *, seed=None):
    """Runs `testbench(ctx, engine, memory)`; context 1 may write from OPEN up to CLOSED."""
    dut = Bench()
    memory = AxiMemory(dut.memory, latency=LATENCY, seed=seed)

    async def bench(ctx):
        window = {"base": OPEN, "limit": CLOSED - 1, "write": 1}
        ctx.set(dut.windows[dut.config.windows], window)
        await testbench(ctx, dut.engine, memory)

    simulate(dut, bench, background=[memory.run])


def offer(ctx, engine, address, value):
    payload = ValuePayload(address=address, value=value)
    ctx.set(engine.tasks.p, {
        "type": TaskType.VALUE_WRITE, "context": 1, "payload": payload.to_int(),
    })  # fmt: skip
    ctx.set(engine.tasks.valid, 1)


async def watch(ctx, engine, *, abort_at=None, done_wait=0):
    """From the cycle of an offer (0) to that in which `done` is taken: cycle of each thing."""
    seen = {}
    assert ctx.get(engine.tasks.ready)
    for cycle in range(1, 2000):
        await ctx.tick()
        ctx.set(engine.tasks.valid, 0)
        ctx.set(engine.abort, cycle == abort_at)
        waited = "done" in seen and cycle >= seen["done"] + done_wait
        ctx.set(engine.done.ready, waited or not done_wait)
        assert ctx.get(engine.busy)
        leaves = ctx.get(engine.done.ready) & ctx.get(engine.done.valid)
        assert ctx.get(engine.tasks.ready) == leaves
        for name in ("started", "ended"):
            if ctx.get(getattr(engine, name)):
                assert name not in seen
                seen[name] = cycle
        if ctx.get(engine.fault.valid):
            assert "fault" not in seen
            seen["fault"], seen["report"] = cycle, ctx.get(engine.fault.report)
        if ctx.get(engine.done.valid):
            seen.setdefault("done", cycle)
            assert "ended" in seen
            if leaves:
                seen["failed"] = ctx.get(engine.done.p.failed)
                return seen
    raise AssertionError("the engine hangs")


async def leave(ctx, engine):
    """Goes to the cycle after the one in which `done` is taken."""
    await ctx.tick()
    ctx.set(engine.done.ready, 0)
    ctx.set(engine.abort, 0)
    ctx.set(engine.tasks.valid, 0)


def written(memory, address):
    return int.from_bytes(bytes(memory.content.get(address + n, 0) for n in range(8)), "little")


def test_cycles_from_the_offer_to_the_bus_and_from_the_answer_to_done():
    async def testbench(ctx, engine, memory):
        offer(ctx, engine, OPEN, 7)
        seen = await watch(ctx, engine)
        # Offered in 0, requested in 1, AW in 2, W in 3.
        end = 3 + LATENCY
        assert seen == {"started": 2, "ended": end, "done": end, "failed": 0}
        assert written(memory, OPEN) == 7

    run(testbench)


def test_the_next_task_is_taken_in_the_cycle_of_the_answer():
    async def testbench(ctx, engine, memory):
        offer(ctx, engine, OPEN, 1)
        for n in range(3):
            seen = await watch(ctx, engine)
            assert seen == {
                "started": 2, "ended": 3 + LATENCY, "done": 3 + LATENCY, "failed": 0,
            }  # fmt: skip
            offer(ctx, engine, OPEN + 8 * (n + 1), n + 2)
        await leave(ctx, engine)
        ctx.set(engine.done.ready, 1)
        while ctx.get(engine.busy):
            await ctx.tick()
        assert [written(memory, OPEN + 8 * n) for n in range(4)] == [1, 2, 3, 4]

    run(testbench)


def test_done_stays_until_it_is_taken():
    async def testbench(ctx, engine, memory):
        for wait in (1, 2, 9):
            offer(ctx, engine, OPEN, wait)
            assert not (await watch(ctx, engine, done_wait=wait))["failed"]
            await leave(ctx, engine)
            assert not ctx.get(engine.busy)

    run(testbench)


@settings(max_examples=10)
@given(
    columns=st.sampled_from((4, 16, 32)),
    seed=st.integers(0, 1 << 16),
    values=st.lists(
        st.tuples(st.integers(0, 15), st.integers(0, (1 << 64) - 1)), min_size=1, max_size=12
    ),
)
def test_values_are_written_in_their_place_on_every_width(columns, seed, values):
    dut = ValueEngine(NpuConfig.preset("tiny", columns=columns))
    memory = WriteMemory(dut.memory, dut.config, 128, latency=LATENCY, rng=random.Random(seed))
    expected = bytearray(128)

    async def testbench(ctx):
        for place, value in values:
            offer(ctx, dut.engine, 8 * place, value)
            assert not (await watch(ctx, dut.engine, done_wait=place % 3))["failed"]
            await leave(ctx, dut.engine)
            expected[8 * place : 8 * place + 8] = value.to_bytes(8, "little")
            assert memory.data == expected

    simulate(dut, testbench, background=[memory.serve])


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize(("address", "response", "cause"), [
    (OPEN + 24, Response.SLVERR, FaultCause.BUS_SLAVE_ERROR),
    (OPEN + 24, Response.DECERR, FaultCause.BUS_DECODE_ERROR),
    (CLOSED, None, FaultCause.ACCESS_VIOLATION),
])  # fmt: skip
def test_a_failed_write_is_a_fault_and_the_next_task_runs(address, response, cause, seed):
    async def testbench(ctx, engine, memory):
        if response is not None:
            memory.errors[address] = response
        offer(ctx, engine, address, 5)
        seen = await watch(ctx, engine)
        assert ("started" in seen) == (response is not None)
        assert seen["failed"]
        assert seen["fault"] == seen["ended"] == seen["done"] - 1
        report = seen["report"]
        assert (report.cause, report.address, report.write) == (cause, address, 1)
        await leave(ctx, engine)
        offer(ctx, engine, OPEN, 6)
        assert not (await watch(ctx, engine))["failed"]
        assert written(memory, OPEN) == 6

    run(testbench, seed=seed)


@pytest.mark.parametrize("seed", [None, 9])
def test_an_abort_at_any_time_drains_and_leaves_a_working_engine(seed):
    async def testbench(ctx, engine, memory):
        ends = set()
        for abort_at in range(1, 4 + LATENCY):
            offer(ctx, engine, OPEN, abort_at)
            seen = await watch(ctx, engine, abort_at=abort_at, done_wait=2)
            assert "fault" not in seen
            ends.add(seen["failed"])
            if not seen["failed"]:
                assert seen["ended"] <= abort_at
                assert written(memory, OPEN) == abort_at
            await leave(ctx, engine)
            offer(ctx, engine, OPEN + 8, 100 + abort_at)
            assert not (await watch(ctx, engine))["failed"]
            assert written(memory, OPEN + 8) == 100 + abort_at
            await leave(ctx, engine)
        if seed is None:
            assert ends == {0, 1}

    run(testbench, seed=seed)


def test_an_abort_of_an_idle_engine_is_ignored():
    async def testbench(ctx, engine, memory):
        ctx.set(engine.abort, 1)
        await ctx.tick()
        assert not ctx.get(engine.busy)
        ctx.set(engine.abort, 0)
        offer(ctx, engine, OPEN, 1)
        assert not (await watch(ctx, engine))["failed"]

    run(testbench)


def test_the_report_names_the_value_while_its_write_is_in_work():
    async def testbench(ctx, engine, memory):
        assert ctx.get(engine.fault.report.address) == 0
        offer(ctx, engine, OPEN + 16, 1)
        await ctx.tick()
        report = ctx.get(engine.fault.report)
        assert (report.cause, report.address, report.write) == (0, OPEN + 16, 1)

    run(testbench)
