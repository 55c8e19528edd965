"""The poller against a model of what each answer means, before a memory that stalls."""

import random
from collections import deque

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hw.config import NpuConfig
from hw.interface import Status
from hw.poll import Poller
from hw.regs.descriptor import Comparison
from tests.models.port import ReadMemory
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", streams=3, columns=16)
STREAMS = range(CONFIG.streams)
MODULUS = 1 << 64


def passes(found, value, mask, operation):
    """What `Comparison` says."""
    mask = mask or MODULUS - 1
    found, value = found & mask, value & mask
    return {
        Comparison.NOT_LESS: (found - value) % MODULUS < MODULUS // 2,
        Comparison.EQUAL: found == value,
        Comparison.AND: found & value != 0,
        Comparison.NOR: ~(found | value) & mask != 0,
    }[operation]


class Bench:
    """Shows requests, and checks in every cycle what the poller says and asks for.

    `reads` lists (cycle, stream) of each read that was taken; `late`, how many answers came when
    their request had gone.
    """

    def __init__(self, ctx, dut, memory, interval):
        self.ctx = ctx
        self.dut = dut
        self.memory = memory
        self.cycle = 0
        self.shown = [None] * CONFIG.streams
        self.since = [None] * CONFIG.streams
        self.state = [None] * CONFIG.streams  # what `met`, `failed` must be
        self.last = [None] * CONFIG.streams  # when the shown request was read last
        self.reads = []
        self.in_flight = deque()
        self.asked = None
        self.late = 0
        self.interval = interval
        ctx.set(dut.interval, interval)

    def show(self, s, address, value=1, mask=0, operation=Comparison.EQUAL):
        self.shown[s] = address, value, mask, operation
        self.since[s] = self.cycle
        self.ctx.set(self.dut.streams[s].request, {
            "address": address, "context": s, "value": value, "mask": mask,
            "operation": operation,
        })  # fmt: skip
        self.ctx.set(self.dut.streams[s].valid, 1)

    def withdraw(self, s):
        self.shown[s] = None
        self.ctx.set(self.dut.streams[s].valid, 0)

    def take(self, s):
        self.ctx.set(self.dut.streams[s].take, 1)

    def settled(self, s):
        port = self.dut.streams[s]
        return self.ctx.get(port.met) or self.ctx.get(port.failed)

    def _forget(self, s):
        self.state[s] = self.last[s] = None
        self.in_flight = deque((n, n != s and live) for n, live in self.in_flight)
        if self.asked is not None and self.asked[0] == s:
            self.asked = s, False

    async def tick(self):
        ctx, memory, streams = self.ctx, self.dut.memory, self.dut.streams
        for s, port in enumerate(streams):
            status = ctx.get(port.status) if ctx.get(port.failed) else None
            assert (ctx.get(port.met), status) == (self.state[s] or (0, None))
        if ctx.get(memory.requests.valid):
            asked = ctx.get(memory.requests.p)
            assert asked.bytes == 8
            s = asked.context
            if self.asked is None:
                assert asked.address == self.shown[s][0]
                assert self.state[s] is None
                assert s not in [n for n, _ in self.in_flight]
                assert self.last[s] is None or self.cycle >= self.last[s] + self.interval
                self.asked = s, True
            assert s == self.asked[0]
            if ctx.get(memory.requests.ready):
                self.reads.append((self.cycle, s))
                self.in_flight.append(self.asked)
                if self.asked[1]:
                    self.last[s] = self.cycle
                self.asked = None
        else:
            assert self.asked is None
        gone = [s for s in STREAMS if ctx.get(streams[s].take) or not ctx.get(streams[s].valid)]
        for s in gone:
            self._forget(s)
        if ctx.get(memory.beats.valid):
            assert ctx.get(memory.beats.ready)
            beat = ctx.get(memory.beats.p)
            s, live = self.in_flight.popleft()
            self.late += not live
            if live:
                found = beat.data >> 8 * beat.offset & (MODULUS - 1)
                met = beat.status == Status.OKAY and passes(found, *self.shown[s][1:])
                failed = None if beat.status == Status.OKAY else beat.status
                self.state[s] = (met, failed) if met or failed else None
        await ctx.tick()
        self.cycle += 1
        for s in gone:
            if ctx.get(streams[s].take):
                ctx.set(streams[s].take, 0)
                self.withdraw(s)


def run(behaviour, *, interval=0, latency=3, rng=None):
    dut = Poller(CONFIG)
    memory = ReadMemory(dut.memory, CONFIG, 256, latency=latency, rng=rng)

    async def testbench(ctx):
        await behaviour(Bench(ctx, dut, memory, interval))

    simulate(dut, testbench, background=[memory.serve])


def put(memory, address, value):
    memory.put(address, value.to_bytes(8, "little"))


def test_a_request_is_read_at_once_and_an_answer_shows_in_the_next_cycle():
    async def behaviour(bench):
        put(bench.memory, 0x28, 1)
        await bench.tick()
        bench.show(1, 0x28)
        await bench.tick()
        assert bench.reads == [(1, 1)]
        for _ in range(2):
            await bench.tick()
        assert not bench.settled(1)
        assert bench.ctx.get(bench.dut.memory.beats.valid)
        await bench.tick()
        assert bench.settled(1)

    run(behaviour)


@pytest.mark.parametrize(("interval", "expected"), [(0, 4), (1, 4), (4, 4), (5, 5), (64, 64)])
def test_reads_of_a_stream_are_as_far_apart_as_the_interval_or_the_answer(interval, expected):
    async def behaviour(bench):
        bench.show(0, 0x10)
        while len(bench.reads) < 4:
            await bench.tick()
        assert bench.reads == [(n * expected, 0) for n in range(4)]

    run(behaviour, interval=interval)


def test_streams_are_read_in_turn():
    async def behaviour(bench):
        for s in STREAMS:
            bench.show(s, 8 * s)
        while len(bench.reads) < 12:
            await bench.tick()
        assert [s for _, s in bench.reads] == [0, 1, 2] * 4
        assert [cycle for cycle, _ in bench.reads[:6]] == [0, 1, 2, 4, 5, 6]

    run(behaviour)


def test_the_next_request_of_a_stream_does_not_wait_for_the_interval():
    async def behaviour(bench):
        put(bench.memory, 8, 1)
        bench.show(2, 8)
        while not bench.settled(2):
            await bench.tick()
        bench.take(2)
        await bench.tick()
        bench.show(2, 0x10)
        for _ in range(40):
            await bench.tick()
        assert bench.reads == [(0, 2), (5, 2)]

    run(behaviour, interval=100)


@pytest.mark.parametrize("status", [Status.DENIED, Status.SLVERR, Status.DECERR])
def test_a_value_that_cannot_be_read_fails_and_is_not_read_again(status):
    async def behaviour(bench):
        put(bench.memory, 0x30, 1)
        bench.memory.failing[0x30] = status
        bench.show(1, 0x30)
        for _ in range(30):
            await bench.tick()
        assert bench.reads == [(0, 1)]
        assert bench.ctx.get(bench.dut.streams[1].status) == status
        bench.withdraw(1)
        await bench.tick()
        assert not bench.settled(1)

    run(behaviour)


@pytest.mark.parametrize("age", range(7))
def test_an_answer_to_a_request_that_has_gone_counts_for_no_other(age):
    async def behaviour(bench):
        put(bench.memory, 0x18, 1)
        bench.show(0, 0x18)
        for _ in range(age):
            await bench.tick()
        bench.withdraw(0)
        await bench.tick()
        bench.show(0, 0x20)
        for _ in range(20):
            await bench.tick()
            assert not bench.settled(0)
        assert bench.late == (0 < age < 5)
        assert {s for _, s in bench.reads} == {0}

    run(behaviour, latency=4)


VALUES = st.one_of(
    st.integers(0, 3), st.integers(MODULUS - 3, MODULUS - 1), st.integers(0, MODULUS - 1),
    st.sampled_from((MODULUS // 2, MODULUS // 2 - 1, 0xFFFF_FFFF, 1 << 32)),
)  # fmt: skip
MASKS = st.one_of(st.just(0), st.just(0xFFFF_FFFF), st.integers(0, 0xFFFF_FFFF))
CASE = st.tuples(VALUES, VALUES, MASKS, st.sampled_from(Comparison))


@example(cases=[
    (5, MODULUS - 5, 0, Comparison.NOT_LESS),
    (MODULUS // 2, 0, 0, Comparison.NOT_LESS),
    (0x1_0000_0007, 7, 0xFFFF_FFFF, Comparison.EQUAL),
    (0x1_0000_0000, 0x1_0000_0000, 0xFFFF_FFFF, Comparison.AND),
    (0xF0, 0x0F, 0xFF, Comparison.NOR),
])  # fmt: skip
@settings(max_examples=10)
@given(cases=st.lists(CASE, min_size=1, max_size=20))
def test_values_compare_as_the_operation_and_the_mask_say(cases):
    async def behaviour(bench):
        for n, (found, value, mask, operation) in enumerate(cases):
            address = 8 * (n % 8)
            put(bench.memory, address, found)
            bench.show(n % 3, address, value, mask, operation)
            for _ in range(3):
                await bench.tick()
            assert bench.settled(n % 3) == passes(found, value, mask, operation)
            bench.take(n % 3)
            await bench.tick()

    run(behaviour, interval=100, latency=1)


@settings(max_examples=12)
@given(seed=st.integers(0, 1 << 32), interval=st.sampled_from((0, 1, 7, 20)))
def test_every_value_that_comes_is_seen_whatever_the_memory_does(seed, interval):
    rng = random.Random(seed)

    async def behaviour(bench):
        met = withdrawn = 0
        while met < 25:
            for s in STREAMS:
                fresh = bench.shown[s] is None and bench.ctx.get(bench.dut.streams[s].valid) == 0
                if fresh and rng.random() < 0.3:
                    bench.show(s, 8 * rng.randrange(32), rng.randrange(1, 4))
                elif bench.settled(s):
                    if rng.random() < 0.5:
                        bench.take(s)
                        met += 1
                elif bench.shown[s] is not None and bench.cycle > bench.since[s]:
                    if rng.random() < 0.02:
                        bench.withdraw(s)
                        withdrawn += 1
                    elif rng.random() < 0.1:
                        put(bench.memory, *bench.shown[s][:2])
                    elif rng.random() < 0.01:
                        bench.memory.failing[bench.shown[s][0]] = Status.SLVERR
            assert bench.cycle < 4000
            await bench.tick()

    run(behaviour, interval=interval, latency=6, rng=rng)


def test_one_stream_is_enough():
    dut = Poller(NpuConfig.preset("tiny", streams=1))
    memory = ReadMemory(dut.memory, dut.config, 64)
    memory.put(8, b"\x05")

    async def testbench(ctx):
        ctx.set(dut.streams[0].request, {
            "address": 8, "context": 0, "value": 5, "mask": 0, "operation": Comparison.NOT_LESS,
        })  # fmt: skip
        ctx.set(dut.streams[0].valid, 1)
        await ctx.tick().until(dut.streams[0].met)

    simulate(dut, testbench, background=[memory.serve])
