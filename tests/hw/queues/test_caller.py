"""Lists of CALL: exact cycles, refusals, faults, epochs, flush, and how fast they are fed."""

from dataclasses import replace

import pytest

from hw.config import NpuConfig
from hw.interface import Status
from hw.queues.caller import Caller
from hw.regs.descriptor import EventWord, Sqe, TaskType, seal
from hw.regs.fault import FaultCause
from tests.hw.queues.driver import ARGS, LISTED, LISTS, RING, TINY, Queue, call, kernel, nop
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

LIST_ARGS = LISTS + 0x8000


def test_list_is_requested_from_two_cycles_after_its_call_shows_one_burst_a_cycle():
    queue = Queue([call(LISTS, 2, args_address=LIST_ARGS)], [nop(1), nop(2)])

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        shown = queue.memory.cycle
        await ctx.tick().repeat(40)
        requests = [(cycle - shown, r.address) for cycle, r in queue.memory.requests[1:]]
        places = [LISTS, LIST_ARGS, LIST_ARGS + 64, LISTS + 64, LIST_ARGS + 128, LIST_ARGS + 192]
        assert requests == [(2 + i, place) for i, place in enumerate(places)]

    queue.run(bench)


def test_entries_of_a_list_are_fetched_before_those_of_the_ring():
    dut = Caller(TINY)
    port, fetch = dut.ring, dut.fetch
    sqe = {"type": TaskType.CALL, "payload": call(LISTS, 1).payload}

    async def bench(ctx):
        ctx.set(port.size, 3)
        ctx.set(port.active, 1)
        ctx.set(port.doorbell, 2)
        ctx.set(port.rung, 1)
        await ctx.tick()
        ctx.set(port.rung, 0)
        ctx.set(fetch.ready, 1)
        await ctx.tick()
        ctx.set(fetch.ready, 0)
        ctx.set(dut.verdict, {"decoded": 1, "complete": 1, "sqe": sqe})
        ctx.set(dut.judged, 1)
        await ctx.tick()
        ctx.set(dut.judged, 0)
        assert ctx.get(dut.tasks.valid)
        assert ctx.get(fetch.source.address) == 64
        await ctx.tick()
        ctx.set(fetch.ready, 1)
        for slot, address in ((LISTED, LISTS), (1, 64)):
            assert ctx.get(fetch.valid)
            assert ctx.get(fetch.source.slot) == slot
            assert ctx.get(fetch.source.address) == address
            await ctx.tick()
        assert not ctx.get(fetch.valid)

    simulate(dut, bench)


def test_call_stays_the_head_until_it_is_entered_and_its_list_shows_in_the_next_cycle():
    queue = Queue([call(LISTS, 2, task_id=9)], [nop(1), nop(2)])

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        for _ in range(60):
            assert queue.shown(ctx) == (9, 0, 0)
            assert not ctx.get(queue.port.called)
            await ctx.tick()
        await queue.enter(ctx)
        assert queue.shown(ctx) == (1, 1, 0)
        assert ctx.get(queue.port.called)
        await queue.pulse(ctx, queue.head.ready)
        assert queue.shown(ctx) == (2, 1, 0)

    queue.run(bench)


def test_list_that_is_entered_in_the_first_cycle_shows_two_cycles_after_its_first_beats():
    # The CALL shows in t, its list is requested in t + 2; eight beats follow from t + 3 on.
    queue = Queue([call(LISTS, 1)], [nop(1)])

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await queue.enter(ctx)
        for _ in range(11):
            assert queue.shown(ctx) is None
            await ctx.tick()
        assert queue.shown(ctx) == (1, 1, 0)

    queue.run(bench)


def test_call_returns_in_the_cycle_after_the_last_retirement_and_the_ring_goes_on():
    queue = Queue([call(LISTS, 2, task_id=9), nop(10)], [nop(1), nop(2)])

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await ctx.tick().repeat(60)
        await queue.enter(ctx)
        for entry in (0, 1):
            assert ctx.get(queue.port.entry) == entry
            await queue.pulse(ctx, queue.head.ready)
            assert queue.shown(ctx) == ((2, 1, 0) if entry == 0 else None)
            await ctx.tick()
            await queue.pulse(ctx, queue.dut.retire)
        assert queue.shown(ctx) == (9, 0, 1)
        assert not ctx.get(queue.port.called)
        assert not ctx.get(queue.port.entry)
        assert ctx.get(queue.port.head) == 0
        await queue.pulse(ctx, queue.head.ready)
        assert queue.shown(ctx) == (10, 0, 0)
        assert not ctx.get(queue.port.empty)
        await queue.pulse(ctx, queue.dut.retire)
        assert ctx.get(queue.port.head) == 1

    queue.run(bench)


def test_tasks_of_the_ring_that_still_run_retire_before_those_of_the_list():
    queue = Queue([nop(8), call(LISTS, 1)], [nop(1)])

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await queue.pulse(ctx, queue.head.ready)
        await queue.until_shown(ctx)
        await queue.enter(ctx)
        await queue.until_shown(ctx)
        await queue.pulse(ctx, queue.head.ready, queue.dut.retire)
        assert ctx.get(queue.port.head) == 1
        assert ctx.get(queue.port.entry) == 0
        await queue.pulse(ctx, queue.dut.retire)
        assert ctx.get(queue.port.head) == 1
        assert queue.shown(ctx) == (0, 0, 1)

    queue.run(bench)


@pytest.mark.parametrize("staging", [1, 2, 8])
def test_list_longer_than_the_staging_comes_in_order_and_the_ring_after_it(staging):
    count = 11
    queue = Queue(
        [nop(50), call(LISTS, count, task_id=51), call(LISTS, 2, task_id=52), nop(53),
         call(LISTS, 1, task_id=54)],
        [nop(i) for i in range(count)],
        config=replace(TINY, staging=staging),
    )  # fmt: skip
    heads = [
        (50, 0, 0), (51, 0, 0), *((i, 1, 0) for i in range(count)), (51, 0, 1),
        (52, 0, 0), (0, 1, 0), (1, 1, 0), (52, 0, 1), (53, 0, 0),
        (54, 0, 0), (0, 1, 0), (54, 0, 1),
    ]  # fmt: skip

    async def bench(ctx):
        await queue.start(ctx)
        shown, slots = await queue.run_all(ctx, len(heads))
        assert shown == heads
        index = {0: 0, 1: 0}
        for (_, listed, returned), slot in zip(shown, slots, strict=True):
            if not listed and not returned:
                index[1] = 0
            place = index[listed] - (0 if listed or not returned else 1)
            assert slot == place % staging + LISTED * listed
            index[listed] += not returned
        assert ctx.get(queue.port.empty)
        assert ctx.get(queue.port.flushed)
        assert ctx.get(queue.port.head) == 5

    queue.run(bench)


def test_bad_calls_are_refused_where_they_stand_and_nothing_is_fetched_for_them():
    queue = Queue([call(LISTS, 0), call(LISTS + 32, 1), call(LISTS, 1, args_address=64)])

    async def bench(ctx):
        await queue.start(ctx)
        for _ in range(3):
            await queue.until_shown(ctx)
            assert ctx.get(queue.head.p.cause) == FaultCause.ILLEGAL_DESCRIPTOR
            await queue.take(ctx)
        assert all(request.address < LISTS for _, request in queue.memory.requests)

    queue.run(bench)


def test_call_inside_a_list_is_a_bad_head_of_the_list():
    queue = Queue([call(LISTS, 2)], [call(LISTS, 1, task_id=1), nop(2)])

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await queue.enter(ctx)
        assert await queue.until_shown(ctx) == (1, 1, 0)
        assert ctx.get(queue.head.p.cause) == FaultCause.ILLEGAL_DESCRIPTOR
        assert ctx.get(queue.head.p.address) == LISTS

    queue.run(bench)


def test_list_that_may_not_be_read_is_a_bad_head_with_its_address():
    queue = Queue([call(LISTS, 2)], [nop(1), nop(2)])
    queue.memory.failing[LISTS] = Status.DENIED

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await queue.enter(ctx)
        await queue.until_shown(ctx)
        assert ctx.get(queue.head.p.cause) == FaultCause.ACCESS_VIOLATION
        assert ctx.get(queue.head.p.listed)
        assert ctx.get(queue.head.p.address) == LISTS
        await queue.take(ctx)
        assert await queue.until_shown(ctx) == (2, 1, 0)

    queue.run(bench)


@pytest.mark.parametrize("epoch", [0, 1, (1 << 20) - 1, (1 << 32) - 1, 0xABC_DEF01])
def test_epoch_is_added_to_the_generations_that_count_modulo_2_to_the_20(epoch):
    generations = (0, 1, (1 << 20) - 1)
    words = [EventWord(slot=i + 1, generation=g).to_int() for i, g in enumerate(generations)]
    fields = dict(dependencies=3, event_deps=[*words, 0], record=1, record_event=words[2])
    plain = Sqe(**fields)
    bare = Sqe(relative=1)
    entries = [seal(plain.replace(relative=1)), seal(plain), seal(bare)]
    queue = Queue([call(LISTS, 3, epoch=epoch)], entries)
    later = [
        EventWord(slot=i + 1, generation=(g + epoch) % (1 << 20)).to_int()
        for i, g in enumerate(generations)
    ]

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await queue.enter(ctx)
        for deps, record in (([*later, 0], later[2]), ([*words, 0], words[2]), ([0] * 4, 0)):
            await queue.until_shown(ctx)
            sqe = ctx.get(queue.head.p.sqe)
            assert ctx.get(queue.head.p.cause) == FaultCause.NONE
            assert [sqe.event_deps[i] for i in range(4)] == deps
            assert sqe.record_event == record
            await queue.take(ctx)

    queue.run(bench)


@pytest.mark.parametrize("entered", [False, True])
def test_flush_in_the_middle_of_a_list_swallows_its_reads_and_the_stream_starts_clean(entered):
    block = bytes(range(128))
    queue = Queue(
        [nop(8), call(LISTS, 5, args_address=LIST_ARGS), nop(10)],
        [nop(i) for i in range(5)],
        [kernel(LIST_ARGS, task_id=20)],
        latency=30,
    )

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await queue.pulse(ctx, queue.head.ready)
        await queue.until_shown(ctx)
        if entered:
            await queue.enter(ctx)
            await queue.until_shown(ctx)
            await queue.pulse(ctx, queue.head.ready)
        await ctx.tick().repeat(8)
        in_flight = len(queue.memory.requests)
        cycles = await queue.flush(ctx)
        assert cycles > 30
        assert queue.shown(ctx) is None
        assert not ctx.get(queue.port.called)
        assert ctx.get(queue.port.head) == ctx.get(queue.port.tail) == 3
        await ctx.tick().repeat(40)
        assert queue.shown(ctx) is None
        assert len(queue.memory.requests) <= in_flight + 2

        queue.put(RING, [call(LISTS + 0x1000, 1, args_address=LIST_ARGS, task_id=11), nop(12)])
        queue.memory.put(LIST_ARGS, block)
        await queue.start(ctx, announced=2)
        shown, _ = await queue.run_all(ctx, 4)
        assert shown == [(11, 0, 0), (20, 1, 0), (11, 0, 1), (12, 0, 0)]
        port = queue.dut.arguments[0]
        ctx.set(port.slot, LISTED)
        for word in range(16):
            ctx.set(port.word, word)
            await ctx.tick()
            assert ctx.get(port.data) == int.from_bytes(block[word * 8 : word * 8 + 8], "little")

    queue.run(bench)


def test_list_of_a_stream_that_has_stopped_is_not_fetched():
    queue = Queue([nop(1), call(LISTS, 1)], [nop(2)])

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await ctx.tick().repeat(40)
        ctx.set(queue.port.active, 0)
        await queue.take(ctx)
        await queue.until_shown(ctx)
        await ctx.tick().repeat(40)
        assert all(request.address < LISTS for _, request in queue.memory.requests)
        await queue.flush(ctx)
        assert ctx.get(queue.port.empty)

    queue.run(bench)


@pytest.mark.parametrize("run", [3, 18])
def test_kernels_of_a_list_are_fed_as_fast_as_memory_answers(run):
    # A slot that is freed in t is requested again in t + 2; on a bus of 16 bytes with a latency
    # of 100, its 12 beats end in t + 113, and its task shows in t + 115. So eight slots feed
    # eight nodes in 114 cycles and one run, or as many as their runs take.
    turn = max(8 * run, 114 + run)
    assert turn <= 8 * 24
    config = NpuConfig.preset("base", streams=1)
    count = 48
    kernels = [kernel(LIST_ARGS + i * 128, task_id=i) for i in range(count)]
    queue = Queue(
        [call(LISTS, count, args_address=LIST_ARGS), nop(99)], kernels,
        config=config, latency=100, args_base=ARGS,
    )  # fmt: skip
    starts = []

    async def bench(ctx):
        await queue.start(ctx)
        await queue.until_shown(ctx)
        await ctx.tick().repeat(300)
        await queue.enter(ctx)
        for i in range(count):
            assert await queue.until_shown(ctx) == (i, 1, 0)
            starts.append(queue.memory.cycle)
            await queue.pulse(ctx, queue.head.ready)
            await ctx.tick().repeat(run - 2)
            await queue.pulse(ctx, queue.dut.retire)

    queue.run(bench)
    assert {later - start for start, later in zip(starts[8:], starts[16:], strict=False)} == {turn}
