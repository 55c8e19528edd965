"""The guards: windows, order, annotations, aborts and exact cycles, against a model."""

import random
from collections import deque

import pytest

from hw.bus.guard import ReadGuard, WriteGuard
from hw.config import NpuConfig
from hw.interface import Status
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny")
WIDTH = CONFIG.data_bytes
WINDOWS = {
    # number: (base, limit, read, write, execute); two contexts of four windows
    0: (0x1000, 0x1FFF, 1, 1, 0),
    1: (0x2000, 0x2FFF, 1, 0, 0),
    2: (0x3000, 0x3FFF, 0, 1, 1),
    3: (0x8003, 0x8010, 1, 1, 1),
    4: (0x5000, 0x5FFF, 1, 1, 1),
    6: (0, 0xFFFFFFFFFF, 0, 0, 0),
    7: (0xFFFFFFF000, 0xFFFFFFFFFF, 1, 1, 0),
}
RIGHTS = {"read": 2, "write": 3, "execute": 4}


def allowed(right, context, address, count):
    return any(
        number // CONFIG.windows == context
        and window[0] <= address
        and address + count - 1 <= window[1]
        and window[RIGHTS[right]]
        for number, window in WINDOWS.items()
    )


def set_windows(ctx, dut):
    for number, (base, limit, read, write, execute) in WINDOWS.items():
        ctx.set(dut.windows[number], {
            "base": base, "limit": limit, "read": read, "write": write, "execute": execute,
        })  # fmt: skip


def random_burst(rng):
    """(context, address, bytes) around the borders of the windows, within a block."""
    base = rng.choice([0x1000, 0x1000, 0x2000, 0x3000, 0x4000, 0x8000, 0x5000, 0xFFFFFFF000])
    address = base + rng.choice([0, 0xFC0, rng.randrange(0x1000), rng.randrange(32)])
    room = CONFIG.burst_bytes - address % CONFIG.burst_bytes
    count = rng.choice([1, room, rng.randrange(1, room + 1), min(room, 8), min(room, 14)])
    return rng.choice([0, 0, 0, 1, 1, rng.randrange(16)]), address, count


def beats_of(address, count):
    """(address, offset, count) of each beat of a burst."""
    beats = []
    while count:
        part = min(count, WIDTH - address % WIDTH)
        beats.append((address, address % WIDTH, part))
        address, count = address + part, count - part
    return beats


def contents(address):
    """What the memory holds in the beat at `address`."""
    return (address * 0x9E3779B97F4A7C15 + 1) % (1 << (WIDTH * 8))


def error_of(address):
    """A response other than OKAY for a few places."""
    return {5: 2, 11: 3, 17: 1}.get(address // WIDTH % 64, 0)


STATUS = {0: Status.OKAY, 1: Status.OKAY, 2: Status.SLVERR, 3: Status.DECERR}


def request(ctx, dut, context, address, count):
    ctx.set(dut.client.requests.p, {"context": context, "address": address, "bytes": count})
    ctx.set(dut.client.requests.valid, 1)


@pytest.mark.parametrize("execute", [False, True])
def test_reads_are_checked_annotated_and_in_order_through_aborts(execute):
    dut = ReadGuard(CONFIG, execute=execute)
    rng = random.Random(int(execute))
    right = "execute" if execute else "read"
    expected = deque()  # beats that the client is owed
    on_bus = deque()  # bursts that must come on AR
    answers = deque()  # (beat address, epoch)
    epochs = []

    async def bus(ctx):
        waiting = None
        while True:
            if waiting is None and answers and rng.randrange(3):
                waiting = answers.popleft()
                address, epoch = waiting
                ctx.set(dut.bus.r.p, {
                    "data": contents(address), "resp": error_of(address), "epoch": epoch,
                })  # fmt: skip
                ctx.set(dut.bus.r.valid, 1)
            accept = rng.randrange(3) != 0
            ctx.set(dut.bus.ar.ready, accept)
            _, _, valid, p, taken, issued = await ctx.tick().sample(
                dut.bus.ar.valid, dut.bus.ar.p, dut.bus.r.ready, dut.client.issued
            )
            assert issued == (valid and accept)
            if issued:
                address, beats = on_bus.popleft()
                assert (p.addr, p.len + 1) == (address, beats)
                epochs.append(p.epoch)
                answers.extend((address + n * WIDTH, p.epoch) for n in range(beats))
            if waiting is not None and taken:
                waiting = None
                ctx.set(dut.bus.r.valid, 0)

    async def client(ctx):
        set_windows(ctx, dut)
        burst = None
        accepted = 0
        while accepted < 500:
            if burst is None and rng.randrange(3):
                burst = random_burst(rng)
                request(ctx, dut, *burst)
            ready = rng.randrange(4) != 0
            abort = rng.randrange(60) == 0
            ctx.set(dut.client.beats.ready, ready)
            ctx.set(dut.client.abort, abort)
            _, _, taken, valid, p = await ctx.tick().sample(
                dut.client.requests.ready, dut.client.beats.valid, dut.client.beats.p
            )
            if valid and ready:
                address, offset, count, last, status, data = expected.popleft()
                assert (p.address, p.offset, p.count, p.last) == (address, offset, count, last)
                assert p.status == status
                if status == Status.OKAY:
                    assert p.data == data
            if burst is not None and taken:
                assert not abort
                accepted += 1
                context, address, count = burst
                ctx.set(dut.client.requests.valid, 0)
                burst = None
                good = allowed(right, context, address, count)
                beats = beats_of(address, count)
                if good:
                    on_bus.append((address - address % WIDTH, len(beats)))
                for n, (start, offset, part) in enumerate(beats):
                    line = start - start % WIDTH
                    status = STATUS[error_of(line)] if good else Status.DENIED
                    expected.append(
                        (start, offset, part, n == len(beats) - 1, status, contents(line))
                    )
            if abort:
                expected.clear()
                ctx.set(dut.client.abort, 0)
                ctx.set(dut.client.requests.valid, 0)
                burst = None
                if rng.randrange(2):
                    await ctx.tick().until(dut.client.idle)
                    assert not answers

    simulate(dut, client, background=[bus])
    assert set(epochs) == {0, 1}


def test_a_read_is_on_the_bus_after_one_cycle_and_bursts_follow_without_a_bubble():
    dut = ReadGuard(CONFIG)

    async def bench(ctx):
        set_windows(ctx, dut)
        ctx.set(dut.bus.ar.ready, 1)
        ctx.set(dut.client.beats.ready, 1)
        for n in range(5):
            request(ctx, dut, 0, 0x1000 + 16 * n, 16)
            assert ctx.get(dut.client.requests.ready)
            assert ctx.get(dut.bus.ar.valid) == (n > 0)
            assert ctx.get(dut.client.issued) == (n > 0)
            await ctx.tick()
        ctx.set(dut.client.requests.valid, 0)
        assert ctx.get(dut.bus.ar.valid)
        await ctx.tick()
        assert not ctx.get(dut.bus.ar.valid)
        ctx.set(dut.bus.r.valid, 1)
        for n in range(10):
            assert ctx.get(dut.client.beats.valid)
            assert ctx.get(dut.client.beats.p.last) == n % 2
            assert not ctx.get(dut.client.idle)
            await ctx.tick()
        assert ctx.get(dut.client.idle)
        assert not ctx.get(dut.client.beats.valid)

    simulate(dut, bench)


def test_outstanding_limits_the_reads_in_flight():
    dut = ReadGuard(CONFIG)

    async def bench(ctx):
        set_windows(ctx, dut)
        ctx.set(dut.bus.ar.ready, 1)
        request(ctx, dut, 0, 0x1000, 8)
        for _ in range(CONFIG.outstanding):
            assert ctx.get(dut.client.requests.ready)
            await ctx.tick()
        for _ in range(3):
            assert not ctx.get(dut.client.requests.ready)
            await ctx.tick()

    simulate(dut, bench)


def test_a_denied_read_is_answered_from_the_next_cycle_on_and_never_issued():
    dut = ReadGuard(CONFIG)

    async def bench(ctx):
        set_windows(ctx, dut)
        ctx.set(dut.bus.ar.ready, 1)
        ctx.set(dut.client.beats.ready, 1)
        request(ctx, dut, 0, 0x4005, 20)
        await ctx.tick()
        ctx.set(dut.client.requests.valid, 0)
        for n in range(4):
            assert not ctx.get(dut.bus.ar.valid)
            assert ctx.get(dut.client.beats.valid)
            assert ctx.get(dut.client.beats.p.status) == Status.DENIED
            assert ctx.get(dut.client.beats.p.last) == (n == 3)
            await ctx.tick()
        assert ctx.get(dut.client.idle)

    simulate(dut, bench)


def test_answers_that_nobody_waits_for_are_swallowed():
    dut = ReadGuard(CONFIG)

    async def bench(ctx):
        ctx.set(dut.bus.r.valid, 1)
        for epoch in (0, 1):
            ctx.set(dut.bus.r.p.epoch, epoch)
            assert ctx.get(dut.bus.r.ready)
            await ctx.tick()
            assert not ctx.get(dut.client.beats.valid)
        # An old answer does not pass for the one that is awaited.
        set_windows(ctx, dut)
        ctx.set(dut.bus.ar.ready, 1)
        ctx.set(dut.client.beats.ready, 1)
        ctx.set(dut.bus.r.valid, 0)
        request(ctx, dut, 0, 0x1000, 8)
        await ctx.tick()
        ctx.set(dut.client.requests.valid, 0)
        await ctx.tick()
        ctx.set(dut.bus.r.valid, 1)
        ctx.set(dut.bus.r.p.epoch, 1)
        assert ctx.get(dut.bus.r.ready)
        assert not ctx.get(dut.client.beats.valid)
        ctx.set(dut.bus.r.p.epoch, 0)
        assert ctx.get(dut.client.beats.valid)

    simulate(dut, bench)


def test_writes_are_checked_completed_and_answered_in_order_through_aborts():
    dut = WriteGuard(CONFIG)
    rng = random.Random(3)
    owed = deque()  # beats of data that the client has to send: (denied, data, strobe)
    on_bus = deque()  # bursts that must come on AW
    data_on_bus = deque()  # (data, strobe, last), in the order of the bursts
    responses = deque()
    unanswered = deque()  # [address, epoch, beats still to come]
    epochs = set()
    aborted = False

    async def bus(ctx):
        waiting = None
        while True:
            if waiting is None and unanswered and not unanswered[0][2] and rng.randrange(3):
                waiting = unanswered.popleft()
                address, epoch, _ = waiting
                ctx.set(dut.bus.b.p, {"resp": error_of(address), "epoch": epoch})
                ctx.set(dut.bus.b.valid, 1)
            accept = rng.randrange(3) != 0
            # The interconnect takes data only after its address.
            take = any(burst[2] for burst in unanswered) and rng.randrange(4) != 0
            ctx.set(dut.bus.aw.ready, accept)
            ctx.set(dut.bus.w.ready, take)
            _, _, valid, p, w_valid, w, answered = await ctx.tick().sample(
                dut.bus.aw.valid, dut.bus.aw.p, dut.bus.w.valid, dut.bus.w.p, dut.bus.b.ready
            )
            if valid and accept:
                address, beats = on_bus.popleft()
                assert (p.addr, p.len + 1) == (address, beats)
                epochs.add(p.epoch)
                unanswered.append([address, p.epoch, beats])
            if w_valid and take:
                data, strobe, last = data_on_bus.popleft()
                if w.strb or strobe == 0:
                    assert (w.strb, w.last) == (strobe, last)
                    assert strobe == 0 or w.data == data
                else:
                    assert aborted
                burst = next(burst for burst in unanswered if burst[2])
                burst[2] -= 1
                assert w.last == (burst[2] == 0)
            if waiting is not None and answered:
                waiting = None
                ctx.set(dut.bus.b.valid, 0)

    async def client(ctx):
        nonlocal aborted
        set_windows(ctx, dut)
        ctx.set(dut.client.responses.ready, 1)
        burst, beat = None, None
        accepted = 0
        while accepted < 500:
            if burst is None and rng.randrange(3):
                burst = random_burst(rng)
                request(ctx, dut, *burst)
            if beat is None and owed and rng.randrange(4):
                beat = owed.popleft()
                ctx.set(dut.client.data.p, {"data": beat[1], "strobe": beat[2]})
                ctx.set(dut.client.data.valid, 1)
            abort = rng.randrange(60) == 0
            ctx.set(dut.client.abort, abort)
            _, _, taken, data_taken, answered, p = await ctx.tick().sample(
                dut.client.requests.ready, dut.client.data.ready,
                dut.client.responses.valid, dut.client.responses.p,
            )  # fmt: skip
            if answered:
                assert (p.status, p.address) == responses.popleft()
            if beat is not None and data_taken:
                beat = None
                ctx.set(dut.client.data.valid, 0)
            if burst is not None and taken:
                accepted += 1
                context, address, count = burst
                ctx.set(dut.client.requests.valid, 0)
                burst = None
                good = allowed("write", context, address, count)
                beats = beats_of(address, count)
                line = address - address % WIDTH
                if good:
                    on_bus.append((line, len(beats)))
                for n, (_, offset, part) in enumerate(beats):
                    data = rng.getrandbits(WIDTH * 8)
                    strobe = ((1 << part) - 1) << offset
                    owed.append((not good, data, strobe))
                    if good:
                        data_on_bus.append((data, strobe, n == len(beats) - 1))
                responses.append((STATUS[error_of(line)] if good else Status.DENIED, address))
            if abort:
                aborted = True
                responses.clear()
                owed.clear()
                burst, beat = None, None
                ctx.set(dut.client.abort, 0)
                ctx.set(dut.client.requests.valid, 0)
                ctx.set(dut.client.data.valid, 0)
                await ctx.tick().until(dut.client.idle)
                assert not data_on_bus
                assert not on_bus
                aborted = False

    simulate(dut, client, background=[bus])
    assert epochs == {0, 1}


def test_a_write_is_on_the_bus_after_one_cycle_and_its_beats_follow_without_a_bubble():
    dut = WriteGuard(CONFIG)

    async def bench(ctx):
        set_windows(ctx, dut)
        ctx.set(dut.bus.aw.ready, 1)
        ctx.set(dut.bus.w.ready, 1)
        ctx.set(dut.client.data.valid, 1)
        ctx.set(dut.client.data.p, {"data": 7, "strobe": 0xFF})
        for n in range(6):
            request(ctx, dut, 0, 0x1000 + 8 * n, 8)
            assert ctx.get(dut.client.requests.ready)
            assert ctx.get(dut.bus.aw.valid) == (n > 0)
            assert ctx.get(dut.client.data.ready) == (n > 0)
            assert ctx.get(dut.bus.w.valid) == (n > 1)
            await ctx.tick()
        assert ctx.get(dut.bus.w.p.last)

    simulate(dut, bench)


def test_a_denied_write_swallows_its_data_and_is_then_answered():
    dut = WriteGuard(CONFIG)

    async def bench(ctx):
        set_windows(ctx, dut)
        ctx.set(dut.bus.aw.ready, 1)
        ctx.set(dut.client.responses.ready, 1)
        request(ctx, dut, 0, 0x2000, 16)
        await ctx.tick()
        ctx.set(dut.client.requests.valid, 0)
        await ctx.tick().repeat(3)
        ctx.set(dut.client.data.valid, 1)
        for _ in range(2):
            assert not ctx.get(dut.client.responses.valid)
            assert ctx.get(dut.client.data.ready)
            await ctx.tick()
        assert ctx.get(dut.client.responses.valid)
        assert ctx.get(dut.client.responses.p.status) == Status.DENIED
        assert ctx.get(dut.client.responses.p.address) == 0x2000
        await ctx.tick()
        assert ctx.get(dut.client.idle)
        assert not ctx.get(dut.bus.aw.valid)
        assert not ctx.get(dut.bus.w.valid)

    simulate(dut, bench)


def test_a_beat_that_the_bus_has_seen_is_not_changed_by_an_abort():
    dut = WriteGuard(CONFIG)

    async def bench(ctx):
        set_windows(ctx, dut)
        ctx.set(dut.bus.aw.ready, 1)
        request(ctx, dut, 0, 0x1000, 24)
        await ctx.tick()
        ctx.set(dut.client.requests.valid, 0)
        ctx.set(dut.client.data.valid, 1)
        ctx.set(dut.client.data.p, {"data": 42, "strobe": 0xFF})
        await ctx.tick()
        ctx.set(dut.client.data.valid, 0)
        ctx.set(dut.client.abort, 1)
        await ctx.tick()
        ctx.set(dut.client.abort, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.bus.w.valid)
        ctx.set(dut.bus.w.ready, 1)
        strobes = []
        for _ in range(3):
            p = ctx.get(dut.bus.w.p)
            assert ctx.get(dut.bus.w.valid)
            strobes.append((p.strb, p.last))
            await ctx.tick()
        assert strobes == [(0xFF, 0), (0, 0), (0, 1)]
        assert not ctx.get(dut.client.idle)
        ctx.set(dut.bus.b.valid, 1)
        assert ctx.get(dut.bus.b.ready)
        assert not ctx.get(dut.client.responses.valid)
        await ctx.tick()
        assert ctx.get(dut.client.idle)

    simulate(dut, bench)
