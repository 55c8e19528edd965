"""Fault capture against a model; supervision to the cycle."""

import random

import pytest

from hw.config import NpuConfig
from hw.fault import FaultCapture, Supervisor
from hw.regs.fault import FaultCause
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", contexts=3)
SOURCES = 4


def random_event(rng):
    return {
        "valid": rng.random() < 0.2,
        "context": rng.randrange(CONFIG.contexts + 1),
        "stream": rng.randrange(256),
        "engine": rng.randrange(256),
        "task_id": rng.randrange(1 << 64),
        "report": {
            "cause": rng.randrange(1, 17), "address": rng.randrange(1 << 40), "write": 1,
            "execute": 0, "start_pc": rng.randrange(1 << 40), "pc": rng.randrange(1 << 40),
            "instruction": rng.randrange(1 << 128), "state": rng.randrange(1 << 32),
        },
    }  # fmt: skip


def test_the_first_fault_of_each_context_is_kept_and_all_are_counted():
    dut = FaultCapture(CONFIG, SOURCES)

    async def testbench(ctx):
        rng = random.Random(1)
        first = [None] * CONFIG.contexts
        count = [0] * CONFIG.contexts
        for cycle in range(400):
            events = [random_event(rng) for _ in range(SOURCES)]
            clear = sum((rng.random() < 0.1) << c for c in range(CONFIG.contexts))
            ctx.set(dut.cycle, cycle)
            ctx.set(dut.clear, clear)
            for port, event in zip(dut.events, events, strict=True):
                ctx.set(port, event)
            valid = [event for event in events if event["valid"]]
            assert ctx.get(dut.amount) == len(valid)
            for c in range(CONFIG.contexts):
                hits = [event for event in valid if event["context"] == c]
                assert ctx.get(dut.raised[c]) == bool(hits)
                if clear >> c & 1:
                    first[c], count[c] = None, 0
                if hits and first[c] is None:
                    first[c] = (cycle, hits[0])
                count[c] += len(hits)
            await ctx.tick()
            for c, record in enumerate(dut.records):
                assert ctx.get(record.count) == count[c]
                assert ctx.get(record.valid) == (first[c] is not None)
                if first[c] is not None:
                    time, event = first[c]
                    assert ctx.get(record.time) == time
                    for name in ("stream", "engine", "task_id"):
                        assert ctx.get(record[name]) == event[name]
                    for name, value in event["report"].items():
                        assert ctx.get(record.report[name]) == value

    simulate(dut, testbench)


def test_the_count_of_faults_saturates():
    dut = FaultCapture(CONFIG, SOURCES)

    async def testbench(ctx):
        ctx.set(dut.records[1].count, (1 << 32) - 3)
        for source in range(2):
            ctx.set(dut.events[source].valid, 1)
            ctx.set(dut.events[source].context, 1)
        for expected in ((1 << 32) - 1, (1 << 32) - 1):
            await ctx.tick()
            assert ctx.get(dut.records[1].count) == expected

    simulate(dut, testbench)


async def cycles_to_expiry(ctx, dut, timeout, watchdog, progress=lambda cycle: False, limit=5000):
    """Cycle after the dispatch in which the supervisor speaks, and what it says."""
    ctx.set(dut.timeout, timeout)
    ctx.set(dut.watchdog, watchdog)
    ctx.set(dut.dispatch, 1)
    await ctx.tick()
    ctx.set(dut.dispatch, 0)
    ctx.set(dut.running, 1)
    found = None
    for cycle in range(1, limit):
        ctx.set(dut.progress, progress(cycle))
        if ctx.get(dut.expired) != FaultCause.NONE:
            found = cycle, ctx.get(dut.expired)
            break
        await ctx.tick()
    ctx.set(dut.running, 0)
    assert ctx.get(dut.expired) == FaultCause.NONE
    await ctx.tick()
    return found


def test_timeouts_and_the_watchdog_are_exact():
    dut = Supervisor()

    async def testbench(ctx):
        timeout, watchdog = FaultCause.TASK_TIMEOUT, FaultCause.WATCHDOG
        assert await cycles_to_expiry(ctx, dut, 1, 0) == (1024, timeout)
        assert await cycles_to_expiry(ctx, dut, 2, 0) == (2048, timeout)
        assert await cycles_to_expiry(ctx, dut, 0, 0, limit=1500) is None
        assert await cycles_to_expiry(ctx, dut, 0, 1) == (2, watchdog)
        assert await cycles_to_expiry(ctx, dut, 0, 20) == (21, watchdog)
        assert await cycles_to_expiry(ctx, dut, 0, 20, lambda cycle: cycle == 15) == (36, watchdog)
        assert await cycles_to_expiry(ctx, dut, 1, 20, lambda cycle: cycle % 20 == 0) == (
            1024, timeout,
        )  # fmt: skip
        assert await cycles_to_expiry(ctx, dut, 1, 1023) == (1024, timeout)
        assert await cycles_to_expiry(ctx, dut, 1, 1022) == (1023, watchdog)

    simulate(dut, testbench)
