"""Submission queues: order, contents and causes of heads, arguments, flush, and exact cycles."""

import random
import zlib
from collections import deque
from dataclasses import dataclass, field

import pytest

from hw.config import NpuConfig
from hw.interface import Status
from hw.queues.queue import SubmissionQueues
from hw.regs.descriptor import CopyPayload, EventWord, KernelPayload, Sqe, TaskType, seal
from hw.regs.fault import FaultCause
from tests.models.decode import cause_of
from tests.models.port import ReadMemory
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

RING = 0x0000
ARGS = 0x4000
ELSEWHERE = 0xC000
SIZE = 0x10000
CAUSES = {
    Status.DENIED: FaultCause.ACCESS_VIOLATION,
    Status.SLVERR: FaultCause.BUS_SLAVE_ERROR,
    Status.DECERR: FaultCause.BUS_DECODE_ERROR,
}
TINY = NpuConfig.preset("tiny")


def kernel(args_address, **fields):
    payload = KernelPayload(kernel_address=0x40, args_address=args_address).to_int()
    return seal(Sqe(type=TaskType.KERNEL, payload=payload, **fields))


@dataclass
class Expected:
    sqe: int
    cause: int
    slot: int
    address: int
    block: bytes | None


@dataclass
class Ring:
    """The driver's and the scheduler's side of one stream, with what it expects to see."""

    number: int
    size: int
    args: bool
    tail: int = 0
    shown: int = 0
    head: int = 0
    expected: deque = field(default_factory=deque)
    blocks_left: deque = field(default_factory=deque)
    running: int = 0
    active: bool = False
    flushing: bool = False
    flush_cycles: int = 0

    @property
    def base(self):
        return RING + self.number * 0x1000

    @property
    def args_base(self):
        return ARGS + self.number * 0x2000 if self.args else 0


class Scenario:
    """Random work for every stream, one cycle after the other."""

    def __init__(self, config, seed, cycles, index_bits=32):
        self.config = config
        self.modulus = 1 << index_bits
        self.rng = random.Random(seed)
        self.cycles = cycles
        self.dut = SubmissionQueues(config)
        self.memory = ReadMemory(self.dut.memory, config, SIZE, latency=6, rng=self.rng)
        self.rings = [Ring(i, self.rng.randrange(1, 4), i % 3 != 1) for i in range(config.streams)]
        self.elsewhere = 0
        self.seen = set()
        self.tasks = 0
        self.flush_odds = 0.001

    def spoil(self, address, count):
        """Makes one beat of a part fail; returns its address and the cause."""
        unit = min(self.config.data_bytes, 64)
        bad = address + self.rng.randrange(count // unit) * unit
        status = self.rng.choice(list(CAUSES))
        self.memory.failing[bad] = status
        return bad, CAUSES[status]

    def heal(self, address, count):
        for at in range(address, address + count, 8):
            self.memory.failing.pop(at, None)

    def submit(self, ring):
        """Writes the next entry and notes what the device must make of it."""
        rng = self.rng
        place = ring.tail % (1 << ring.size)
        address = ring.base + place * 64
        default = ring.args_base + place * 128
        self.heal(address, 64)
        kind = rng.choice(["nop", "copy", "kernel", "kernel", "far", "damaged", "bad", "misuse"])
        common = dict(task_id=rng.getrandbits(64), timeout=rng.getrandbits(32))
        block = None
        if kind in ("kernel", "far"):
            if kind == "kernel" and ring.args:
                source = default
            else:
                self.elsewhere = (self.elsewhere + 192) % (SIZE - ELSEWHERE - 256)
                source = ELSEWHERE + self.elsewhere
            block = rng.randbytes(128)
            sqe = kernel(source, **common)
        elif kind == "copy":
            payload = CopyPayload(source=rng.getrandbits(40), row_bytes=5, rows=2).to_int()
            sqe = seal(Sqe(type=TaskType.MEMCPY, payload=payload, **common))
        elif kind == "misuse":
            word = EventWord(slot=self.config.events, generation=1).to_int()
            sqe = seal(Sqe(record=1, record_event=word, **common))
        elif kind == "bad":
            sqe = seal(Sqe(type=rng.choice([TaskType.BARRIER, TaskType.KERNEL]), **common))
        else:
            sqe = seal(Sqe(**common))
        content = sqe.to_bytes()
        if kind == "damaged":
            bit = rng.randrange(512)
            content = (sqe.to_int() ^ (1 << bit)).to_bytes(64, "little")
        sqe = Sqe.from_bytes(content)
        good = zlib.crc32(sqe.to_bytes()[:36] + bytes(4) + sqe.to_bytes()[40:]) == sqe.crc
        cause = cause_of(sqe, self.config) if good else FaultCause.CHECKSUM
        where = address
        self.memory.put(address, content)
        if ring.args:
            self.heal(default, 128)
            self.memory.put(default, rng.randbytes(128))
            if rng.random() < 0.1 and (block is None or source != default):
                self.spoil(default, 128)
        if block is not None:
            self.heal(source, 128)
            self.memory.put(source, block)
        if rng.random() < 0.1:
            where, cause = self.spoil(address, 64)
        elif block is not None and rng.random() < 0.15:
            where, cause = self.spoil(source, 128)
        if cause != FaultCause.NONE:
            block = None
        slot = ring.tail % self.config.staging
        ring.expected.append(Expected(sqe.to_int(), cause, slot, where, block))
        ring.tail += 1
        self.seen.add(cause)

    async def bench(self, ctx):
        for ring, port in zip(self.rings, self.dut.rings, strict=True):
            ctx.set(port.size, ring.size)
        lookups = deque()
        answer = None
        for _ in range(self.cycles):
            retire = 0
            for i, ring in enumerate(self.rings):
                retire |= self.stream_cycle(ctx, i, ring, lookups) << i
            ctx.set(self.dut.retire, retire)
            port = self.dut.arguments[0]
            asked = lookups.popleft() if lookups else None
            if asked:
                ring, slot, word, _ = asked
                ctx.set(port.stream, ring.number)
                ctx.set(port.slot, slot)
                ctx.set(port.word, word)
            await ctx.tick()
            if answer:
                ring, _, word, block = answer
                if word == 15:
                    ring.blocks_left.popleft()
            answer = asked
            if answer:
                _, _, word, block = answer
                wanted = int.from_bytes(block[word * 8 : word * 8 + 8], "little")
                assert ctx.get(port.data) == wanted

    def stream_cycle(self, ctx, i, ring, lookups):
        """Sets the inputs of one stream for this cycle; returns whether a task retires."""
        rng, port, head = self.rng, self.dut.rings[i], self.dut.heads[i]
        ctx.set(port.rung, 0)
        ctx.set(port.start, 0)
        ctx.set(head.ready, 0)
        assert ctx.get(port.tail) == ring.tail % self.modulus
        if ring.flushing:
            ring.flush_cycles += 1
            assert ring.flush_cycles < 1000
            if ctx.get(port.flushed):
                ring.flushing, ring.flush_cycles = False, 0
                ring.expected.clear()
                ring.head = ring.tail
                ctx.set(port.flush, 0)
                assert ctx.get(port.head) == ring.tail % self.modulus
            return 0
        assert ctx.get(port.head) == ring.head % self.modulus
        assert ctx.get(port.empty) == (ring.head == ring.tail)
        if not ring.active:
            # Where the ring lies counts in the cycle of the start alone.
            if rng.random() < 0.1:
                ctx.set(port.start, 1)
                ctx.set(port.base, ring.base + 63)
                ctx.set(port.args_base, ring.args_base)
                ring.active = True
                ring.tail = ring.head = 0
            return 0
        ctx.set(port.active, 1)
        ctx.set(port.base, 0x15_5555_5540)
        ctx.set(port.args_base, 0x2A_AAAA_AA80)
        if rng.random() < self.flush_odds and not ring.running:
            ctx.set(port.flush, 1)
            ctx.set(port.active, 0)
            ring.active, ring.flushing = False, True
            return 0
        if rng.random() < 0.05:
            ctx.set(port.rung, 1)
            if rng.random() < 0.2:
                wrong = rng.choice([ring.head + (1 << ring.size) + 1, ring.head - 1, ring.tail - 1])
                ctx.set(port.doorbell, wrong % self.modulus)
                assert ctx.get(self.dut.overrun) >> i & 1
            else:
                for _ in range(rng.randrange(ring.head + (1 << ring.size) - ring.tail + 1)):
                    self.submit(ring)
                ctx.set(port.doorbell, ring.tail % self.modulus)
                assert not ctx.get(self.dut.overrun) >> i & 1
        if ctx.get(head.valid):
            self.check_head(ctx.get(head.p), ring.expected[0])
            if rng.random() < 0.3:
                ctx.set(head.ready, 1)
                self.tasks += 1
                ring.running += 1
                expected = ring.expected.popleft()
                if expected.block:
                    ring.blocks_left.append(ring.running)
                    lookups.extend((ring, expected.slot, w, expected.block) for w in range(16))
        elif ring.running and not ring.blocks_left and rng.random() < 0.3:
            ring.running -= 1
            ring.head += 1
            return 1
        return 0

    def check_head(self, shown, expected):
        assert shown.sqe.as_bits() == expected.sqe or expected.cause in CAUSES.values()
        assert FaultCause(shown.cause) == expected.cause
        assert shown.slot == expected.slot
        assert shown.address == expected.address


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
