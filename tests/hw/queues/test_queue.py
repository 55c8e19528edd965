"""Submission queues: order, contents and causes of heads, arguments, flush, and exact cycles."""

import pytest

from hw.config import NpuConfig
from hw.queues.queue import SubmissionQueues
from hw.regs.descriptor import Sqe, seal
from tests.hw.queues.driver import ARGS, ELSEWHERE, RING, SIZE, kernel
from tests.hw.queues.scenario import Scenario
from tests.models.port import ReadMemory
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

TINY = NpuConfig.preset("tiny")


@pytest.mark.parametrize(
    ("config", "cycles"),
    [
        (TINY, 6000),
        (NpuConfig.preset("large", streams=3, staging=4), 2500),
        (NpuConfig(rows=128, columns=128, streams=2, staging=1, outstanding=1), 1500),
        (NpuConfig(columns=8, burst_beats=2, streams=2, staging=2, outstanding=4), 2500),
    ],
    ids=["tiny", "wide", "widest", "short bursts"],
)
def test_random_work_shows_in_order_with_the_right_causes_and_arguments(config, cycles):
    scenario = Scenario(config, seed=1, cycles=cycles)
    simulate(scenario.dut, scenario.bench, background=[scenario.memory.serve])
    assert scenario.tasks > cycles / 60
    assert len(scenario.seen) == 7
    assert scenario.listed > scenario.tasks / 10
    assert scenario.returns
    assert scenario.flushes_inside


def test_indices_wrap(monkeypatch):
    monkeypatch.setattr("hw.queues.staging.INDEX_BITS", 5)
    config = NpuConfig.preset("tiny", streams=1)
    scenario = Scenario(config, seed=2, cycles=5000, index_bits=5)
    scenario.flush_odds = 0
    simulate(scenario.dut, scenario.bench, background=[scenario.memory.serve])
    assert scenario.tasks > 2 * scenario.modulus


def exact(entries, *, args_base=ARGS, ready=False, cycles=80, config=TINY):
    """Cycles, counted from the doorbell, of requests and of the valid head of stream 0."""
    dut = SubmissionQueues(config)
    memory = ReadMemory(dut.memory, config, SIZE)
    memory.put(RING, b"".join(entry.to_bytes() for entry in entries))
    heads = []

    async def bench(ctx):
        port = dut.rings[0]
        ctx.set(port.base, RING)
        ctx.set(port.args_base, args_base)
        ctx.set(port.size, 3)
        ctx.set(port.start, 1)
        await ctx.tick()
        ctx.set(port.start, 0)
        ctx.set(port.active, 1)
        ctx.set(port.rung, 1)
        ctx.set(port.doorbell, len(entries))
        ctx.set(dut.heads[0].ready, ready)
        rung = memory.cycle
        for cycle in range(cycles):
            if ctx.get(dut.heads[0].valid):
                heads.append(cycle)
            await ctx.tick()
            ctx.set(port.rung, 0)
        memory.requests = [
            (cycle - rung, request.address, request.bytes) for cycle, request in memory.requests
        ]

    simulate(dut, bench, background=[memory.serve])
    return memory.requests, heads


def test_first_request_is_valid_two_cycles_after_the_doorbell_and_one_follows_each_cycle():
    requests, _ = exact([seal(Sqe())] * 2)
    places = [RING, ARGS, ARGS + 64, RING + 64, ARGS + 128, ARGS + 192]
    assert requests == [(2 + i, place, 64) for i, place in enumerate(places)]


def test_head_is_valid_two_cycles_after_the_last_beat_that_it_needs():
    # Request in 2, beats of 8 bytes from 3 on: the entry's last in 10, the block's in 26.
    _, heads = exact([seal(Sqe())])
    assert heads[0] == 10 + 2
    _, heads = exact([kernel(ARGS)])
    assert heads[0] == 26 + 2


def test_block_from_another_place_is_requested_four_cycles_after_the_entry():
    requests, heads = exact([kernel(ELSEWHERE)], args_base=0)
    assert requests == [(2, RING, 64), (14, ELSEWHERE, 64), (15, ELSEWHERE + 64, 64)]
    assert heads[0] == 14 + 16 + 2


def test_without_args_base_no_place_is_the_default_one():
    requests, heads = exact([kernel(0x80)] * 2, args_base=0)
    assert sorted(address for _, address, _ in requests) == [0, 0x40, 0x80, 0x80, 0xC0, 0xC0]
    assert heads


def test_staged_heads_follow_each_other_without_a_bubble():
    dut = SubmissionQueues(TINY)
    memory = ReadMemory(dut.memory, TINY, SIZE)
    memory.put(RING, seal(Sqe()).to_bytes() * 2)

    async def bench(ctx):
        ctx.set(dut.rings[0].size, 3)
        ctx.set(dut.rings[0].active, 1)
        ctx.set(dut.rings[0].rung, 1)
        ctx.set(dut.rings[0].doorbell, 2)
        await ctx.tick()
        ctx.set(dut.rings[0].rung, 0)
        await ctx.tick().repeat(40)
        ctx.set(dut.heads[0].ready, 1)
        seen = []
        for _ in range(3):
            seen.append((ctx.get(dut.heads[0].valid), ctx.get(dut.heads[0].p.slot)))
            await ctx.tick()
        assert seen[:2] == [(1, 0), (1, 1)]
        assert seen[2][0] == 0

    simulate(dut, bench, background=[memory.serve])


def test_doorbells_of_a_stream_that_is_not_active_are_ignored():
    dut = SubmissionQueues(TINY)
    memory = ReadMemory(dut.memory, TINY, SIZE)

    async def bench(ctx):
        ctx.set(dut.rings[1].size, 3)
        ctx.set(dut.rings[1].rung, 1)
        ctx.set(dut.rings[1].doorbell, 9)
        assert ctx.get(dut.overrun) == 0
        await ctx.tick().repeat(3)
        assert ctx.get(dut.rings[1].tail) == 0
        assert ctx.get(dut.rings[1].empty)

    simulate(dut, bench, background=[memory.serve])
    assert not memory.requests
