"""Completion writer: contents, order, phases, credit, failed writes, and exact cycles."""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from hw.config import NpuConfig
from hw.interface import Status
from hw.queues.completion import CompletionWriter
from hw.regs.descriptor import Completion, TimedRecord
from hw.regs.fault import FaultCause
from tests.models.port import WriteMemory
from tests.simulation import simulate
from tests.streams import put

pytestmark = pytest.mark.usefixtures("engine")

SIZE = 0x8000
RECORDS = 0x4000
TINY = NpuConfig.preset("tiny")
CAUSES = {
    Status.DENIED: FaultCause.ACCESS_VIOLATION,
    Status.SLVERR: FaultCause.BUS_SLAVE_ERROR,
    Status.DECERR: FaultCause.BUS_DECODE_ERROR,
}


def retirement(context=0, *, rng=None, **fields):
    """Fields of a `Retirement`, random where not given."""
    rng = rng or random.Random(0)
    return dict(
        context=context, stream=rng.getrandbits(8), engine=rng.getrandbits(8),
        status=rng.choice([0, 5]), task_id=rng.getrandbits(64), start=rng.getrandbits(64),
        end=rng.getrandbits(64), counters=[rng.getrandbits(32) for _ in range(8)],
        generation=rng.getrandbits(20), timestamp=rng.getrandbits(64),
    ) | {"completion": 1, "timed": 0, "address": 0} | fields  # fmt: skip


def entry_bytes(fields, phase, status=None):
    names = ("stream", "engine", "context", "task_id", "start", "end", "counters")
    common = {name: fields[name] for name in names}
    status = fields["status"] if status is None else status
    return Completion(phase=phase, status=status, **common).to_bytes()


@dataclass
class Ring:
    """What a context's ring must look like, and what its oldest retirement must write next."""

    number: int
    size: int
    tail: int = 0
    head: int = 0
    running: int = 0
    waiting: deque = field(default_factory=deque)
    recorded: bool = False
    cause: int = 0
    pieces: list = field(default_factory=list)

    @property
    def base(self):
        return self.number * 0x400

    def next_write(self):
        """(address, bytes) of the next block, passing over what writes nothing; or None."""
        while self.waiting:
            fields = self.waiting[0]
            if fields["timed"] and not self.recorded:
                record = TimedRecord(
                    generation=fields["generation"], timestamp=fields["timestamp"]
                )
                return fields["address"], record.to_bytes()
            if self.size and (fields["completion"] or self.cause):
                phase = 1 - (self.tail >> self.size) % 2
                address = self.base + self.tail % (1 << self.size) * 64
                return address, entry_bytes(fields, phase, self.cause or None)
            self.finish()
        return None

    def finish(self):
        self.waiting.popleft()
        self.recorded, self.cause = False, 0


class FailingMemory(WriteMemory):
    """Fails some writes at random."""

    def status_of(self, address):
        return self.rng.choice(list(CAUSES)) if self.rng.random() < 0.1 else Status.OKAY


class Scenario:
    """Random retirements of tasks that had credit; every burst, fault and pulse is compared."""

    def __init__(self, config, seed, cycles):
        self.rng = random.Random(seed)
        self.cycles = cycles
        self.dut = CompletionWriter(config, depth=2)
        self.memory = FailingMemory(self.dut.memory, config, SIZE, latency=4, rng=self.rng)
        self.rings = [Ring(i, self.rng.randrange(1, 4)) for i in range(config.contexts)]
        self.rings[-1].size = 0
        self.faults, self.written = deque(), deque()
        self.seen = {"faults": 0, "written": 0, "no credit": 0, "silent": 0}

    def judge_burst(self, request, content, status):
        """A burst of the memory's log against the ring of its context."""
        ring = self.rings[request.context]
        address, block = ring.next_write()
        done = sum(len(piece) for piece, *_ in ring.pieces)
        assert request.address == address + done
        assert content == block[done : done + len(content)]
        ring.pieces.append((content, request.address, status))
        if done + len(content) < len(block):
            return
        bad = [piece for piece in ring.pieces if piece[2] != Status.OKAY]
        ring.pieces = []
        fields = ring.waiting[0]
        cause = 0
        if bad:
            cause = CAUSES[bad[0][2]]
            self.faults.append((ring.number, fields, cause, bad[0][1]))
        if fields["timed"] and not ring.recorded:
            ring.recorded, ring.cause = True, cause
        else:
            assert ring.tail - ring.head < 1 << ring.size, "an unread entry is overwritten"
            if not bad:
                ring.tail += 1
                self.written.append((ring.number, ring.tail))
            ring.finish()

    async def bench(self, ctx):
        dut, rng = self.dut, self.rng
        for ring, queue in zip(self.rings, dut.queues, strict=True):
            ctx.set(queue.base, ring.base + 17)
            ctx.set(queue.size, ring.size)
        counted = [0] * len(self.rings)
        offered = None
        pulses = [s for queue in dut.queues for s in (queue.written, queue.tail)]
        cycle = 0
        while cycle < self.cycles or self.written or self.faults or any(
            ring.waiting or ring.running for ring in self.rings
        ):
            cycle += 1
            assert cycle < 2 * self.cycles
            self.run_tasks(ctx, cycle < self.cycles, offered)
            if offered is None and rng.random() < 0.4:
                offered = self.offer(ctx)
            for ring, queue in zip(self.rings, dut.queues, strict=True):
                moves = counted[ring.number] > ring.head and rng.random() < 0.1
                ctx.set(queue.moved, moves)
                if moves:
                    ring.head = rng.randrange(ring.head, counted[ring.number]) + 1
                    ctx.set(queue.head, ring.head)
            _, _, ready, fault, *states = await ctx.tick().sample(
                dut.entries.ready, dut.fault, *pulses
            )
            if offered and ready:
                if offered["context"] < len(self.rings):
                    self.rings[offered["context"]].waiting.append(offered)
                    self.rings[offered["context"]].running -= 1
                offered = None
                ctx.set(dut.entries.valid, 0)
            for burst in self.memory.bursts:
                self.judge_burst(*burst)
            self.memory.bursts.clear()
            if fault.valid:
                self.check_fault(fault)
            for i in range(len(self.rings)):
                written, tail = states[2 * i : 2 * i + 2]
                if written:
                    counted[i] += 1
                    self.seen["written"] += 1
                    assert self.written.popleft() == (i, counted[i])
                assert tail == counted[i]
            for ring in self.rings:
                ring.next_write()
        assert [ctx.get(queue.tail) for queue in dut.queues] == [r.tail for r in self.rings]

    def run_tasks(self, ctx, start, offered):
        """Tasks start as far as there is credit; some end without a retirement."""
        for ring, credit in zip(self.rings, self.dut.credits, strict=True):
            busy = offered is not None and offered["context"] == ring.number
            if ring.running > busy and self.rng.random() < 0.05:
                ring.running -= 1
                self.seen["silent"] += 1
            ctx.set(credit.running, ring.running)
            left = ctx.get(credit.left)
            self.seen["no credit"] += left == 0
            if start and ring.running < 4 and self.rng.random() < 0.3:
                ring.running += min(left, self.rng.randrange(3))

    def offer(self, ctx):
        """A running task retires, or one of a context that does not exist."""
        rng = self.rng
        context = rng.randrange(len(self.rings) + 1)
        if context < len(self.rings) and not self.rings[context].running:
            return None
        timed = rng.random() < 0.4
        fields = retirement(
            context, rng=rng, timed=timed, stream=context + 32 * rng.randrange(8),
            completion=1 if not timed else rng.randrange(2),
            address=RECORDS + rng.randrange(256) * 16,
        )  # fmt: skip
        ctx.set(self.dut.entries.p, fields)
        ctx.set(self.dut.entries.valid, 1)
        return fields

    def check_fault(self, fault):
        self.seen["faults"] += 1
        context, fields, cause, address = self.faults.popleft()
        assert (fault.context, fault.engine) == (context, 0xFF)
        assert (fault.stream, fault.task_id) == (fields["stream"], fields["task_id"])
        assert (fault.report.cause, fault.report.address) == (cause, address)
        assert fault.report.write == 1


@pytest.mark.parametrize(
    ("config", "cycles"),
    [
        (NpuConfig.preset("tiny", contexts=3), 3000),
        (NpuConfig.preset("large", contexts=3), 1500),
        (NpuConfig(columns=128, contexts=2), 1000),
        (NpuConfig(columns=8, burst_beats=2, contexts=2), 1500),
    ],
    ids=["tiny", "wide", "widest", "short bursts"],
)
def test_random_retirements_are_written_in_order_and_failures_are_reported(config, cycles):
    scenario = Scenario(config, seed=3, cycles=cycles)
    simulate(scenario.dut, scenario.bench, background=[scenario.memory.serve])
    assert not scenario.faults
    assert not scenario.written
    assert min(scenario.seen.values()) > 5, scenario.seen


def started(*, sizes=(1, 1), latency=1, config=TINY):
    dut = CompletionWriter(config)
    memory = WriteMemory(dut.memory, config, SIZE, latency=latency)

    async def start(ctx):
        for i, (queue, size) in enumerate(zip(dut.queues, sizes, strict=True)):
            ctx.set(queue.base, i * 0x400)
            ctx.set(queue.size, size)

    return dut, memory, start


def test_credit_counts_running_tasks_queued_retirements_the_one_in_work_and_unread_entries():
    dut, memory, start = started(sizes=(2, 1), latency=20)

    async def bench(ctx):
        await start(ctx)
        await ctx.tick()
        credit, queue = dut.credits[0], dut.queues[0]
        for count in range(1, 4):
            ctx.set(credit.running, 1)
            assert ctx.get(credit.left) == 4 - count
            await put(ctx, dut.entries, retirement(0))
            ctx.set(credit.running, 0)
            assert ctx.get(credit.left) == 4 - count
        for tail in range(3):
            assert ctx.get(queue.tail) == tail
            await ctx.tick().until(queue.written)
            assert ctx.get(credit.left) == 1
        ctx.set(credit.running, 1)
        ctx.set(credit.starved, 1)
        assert (ctx.get(credit.left), ctx.get(queue.full)) == (0, 1)
        assert (ctx.get(dut.credits[1].left), ctx.get(dut.queues[1].full)) == (2, 0)
        ctx.set(queue.head, 2)
        ctx.set(queue.moved, 1)
        await ctx.tick()
        assert ctx.get(credit.left) == 2

    simulate(dut, bench, background=[memory.serve])


def test_a_task_that_has_no_entry_or_whose_entry_fails_gives_its_credit_back():
    dut, memory, start = started(sizes=(1, 1))
    memory.failing[0] = Status.SLVERR

    async def bench(ctx):
        await start(ctx)
        await ctx.tick()
        for more in (dict(timed=1, completion=0, address=RECORDS), dict(), dict(timed=0)):
            await put(ctx, dut.entries, retirement(0, **more))
            assert ctx.get(dut.credits[0].left) == 1
            await ctx.tick().repeat(30)
            assert ctx.get(dut.credits[0].left) == 2
            assert ctx.get(dut.queues[0].tail) == 0

    simulate(dut, bench, background=[memory.serve])


def test_what_is_held_of_a_stream_shows_until_its_last_answer():
    dut, memory, start = started(latency=9)

    async def bench(ctx):
        await start(ctx)
        await ctx.tick()
        for s in (1, 1, 3):
            await put(ctx, dut.entries, retirement(0, stream=s))
        assert ctx.get(dut.holds) == 0b1010
        for held in (0b1010, 0b1000, 0):
            await ctx.tick().until(dut.queues[0].written)
            assert ctx.get(dut.holds) == held
        await put(ctx, dut.entries, retirement(0, stream=2, timed=1, completion=0,
                                               address=RECORDS))  # fmt: skip
        while ctx.get(dut.holds):
            assert ctx.get(dut.holds) == 0b100
            await ctx.tick()
        assert len(memory.bursts) == 4
        await put(ctx, dut.entries, retirement(0, stream=0))
        assert ctx.get(dut.holds) == 0b1

    simulate(dut, bench, background=[memory.serve])


def test_a_restart_is_carried_out_behind_older_entries():
    dut, memory, start = started(sizes=(3, 0))

    async def bench(ctx):
        await start(ctx)
        tail, restart = dut.queues[0].tail, dut.queues[0].restart
        for moment in range(1, 30):
            for task in range(3):
                await put(ctx, dut.entries, retirement(0, task_id=task))
            await ctx.tick().repeat(moment)
            ctx.set(restart, 1)
            await ctx.tick()
            ctx.set(restart, 0)
            while ctx.get(tail) or not ctx.get(dut.credits[0].left):
                await ctx.tick()
            assert len(memory.bursts) == 3
            await ctx.tick().repeat(20)
            assert ctx.get(tail) == 0
            memory.bursts.clear()
            await put(ctx, dut.entries, retirement(0, task_id=99))
            await ctx.tick().repeat(20)
            assert ctx.get(tail) == 1
            entry = Completion.from_bytes(memory.get(0, 64))
            assert (entry.task_id, entry.phase) == (99, 1)
            ctx.set(restart, 1)
            await ctx.tick()
            ctx.set(restart, 0)
            memory.bursts.clear()

    simulate(dut, bench, background=[memory.serve])


def cycles_of(items, watched=60):
    """Cycles of requests and `written`, counted from the cycle in which the first was taken."""
    dut, memory, start = started(sizes=(3, 3))
    pulses = []

    async def feed(ctx):
        await start(ctx)
        await ctx.tick()
        for fields in items:
            await put(ctx, dut.entries, fields)

    async def watch(ctx):
        for cycle in range(watched):
            if ctx.get(dut.queues[0].written):
                pulses.append(cycle - 1)
            await ctx.tick()

    simulate(dut, feed, watch, background=[memory.serve])
    return [cycle - 1 for cycle, _ in memory.requests], pulses


def test_first_request_is_valid_two_cycles_after_the_retirement_and_entries_take_n_plus_3():
    # Request in 2, eight beats in 3 … 10, the answer in 11.
    requests, pulses = cycles_of([retirement(0)] * 3)
    assert requests == [2, 2 + 11, 2 + 22]
    assert pulses == [12, 12 + 11, 12 + 22]


def test_entry_follows_in_the_cycle_after_its_timed_record_was_answered():
    # Request in 2, two beats in 3 and 4, the answer in 5.
    requests, _ = cycles_of([retirement(0, timed=1, address=RECORDS)])
    assert requests == [2, 6]
    requests, _ = cycles_of([retirement(0, timed=1, completion=0, address=RECORDS)] * 2)
    assert requests == [2, 8]
