"""Completion rings: credit, indices, changes in order with entries, and when a ring is full."""

import random

import pytest

from hw.interface import DISPATCHES
from hw.queues.ring import CompletionRing
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

HELD = 5


def simulate(bench):
    dut = CompletionRing(HELD)
    simulator = simulator_of(dut)
    simulator.add_clock(1e-9)

    async def testbench(ctx):
        await bench(ctx, dut)

    simulator.add_testbench(testbench)
    simulator.run()


class Golden:
    """What counts of a ring, and the tasks and entries that rely on it."""

    def __init__(self):
        self.base = self.size = self.tail = self.consumed = 0
        self.running = self.held = 0
        self.written = self.restarting = False

    def left(self, base, size, restart):
        if restart or self.restarting or (base, size) != (self.base, self.size):
            return 0
        if not self.size:
            return DISPATCHES
        used = self.tail - self.consumed + self.running + self.held
        return min(max((1 << self.size) - used, 0), DISPATCHES)

    @property
    def place(self):
        return (self.base + self.tail % (1 << self.size)) * 64 % (1 << 40)


def test_random_tasks_and_changes_never_leave_an_entry_without_room():
    async def bench(ctx, dut):
        rng, golden = random.Random(4), Golden()
        registers, credit = dut.registers, dut.credit
        base = size = 0
        seen = dict.fromkeys(("full", "turns", "restarts", "resized", "delayed", "early"), 0)
        for _ in range(6000):
            restart = rng.random() < 0.01
            if rng.random() < 0.01:
                base, size = rng.getrandbits(34), rng.randrange(5)
            moves = rng.random() < 0.1
            # The entry in work may be seen before it is answered.
            last = golden.tail + (golden.held > 0)
            head = rng.randrange(golden.consumed, max(last, golden.consumed) + 1)
            sense = rng.random() < 0.8 and last >= golden.consumed
            if not sense:
                head = rng.choice((golden.consumed - 1, last + 1)) % (1 << 32)
            starved = rng.random() < 0.5
            ends = golden.held and rng.random() < 0.4
            counts = bool(ends and golden.size and rng.random() < 0.9)
            for signal, value in (
                (registers.base, base * 64 + rng.randrange(64)), (registers.size, size),
                (registers.restart, restart), (registers.moved, moves), (registers.head, head),
                (credit.starved, starved), (credit.running, golden.running),
                (dut.held, golden.held), (dut.count, counts),
            ):  # fmt: skip
                ctx.set(signal, value)
            left = golden.left(base, size, restart)
            changing = restart or golden.restarting or (base, size) != (golden.base, golden.size)
            unread = golden.tail - golden.consumed
            full = bool(starved and golden.size and unread > 0 and not changing)
            seen["early"] += unread < 0
            assert ctx.get(credit.left) == left
            assert ctx.get(registers.full) == full
            assert ctx.get(registers.tail) == golden.tail
            assert ctx.get(registers.written) == golden.written
            assert ctx.get(dut.exists) == (golden.size > 0)
            if golden.size:
                assert ctx.get(dut.place) == golden.place
                assert ctx.get(dut.phase) == 1 - (golden.tail >> golden.size) % 2
            await ctx.tick()

            idle = not golden.running and not golden.held
            seen["full"] += full and not left
            seen["turns"] += golden.size > 0 and golden.tail >> golden.size > 1
            seen["delayed"] += changing and not idle
            # Unread entries stay also if a smaller ring is chosen: then there is no credit.
            assert not golden.held or not golden.size or unread < 1 << golden.size
            golden.written = counts
            if moves and sense:
                golden.consumed = head
            golden.tail += counts
            golden.restarting |= restart
            if changing and idle:
                seen["resized"] += size != golden.size
                golden.base, golden.size = base, size
                if golden.restarting:
                    golden.tail = golden.consumed = 0
                    golden.restarting = False
                    seen["restarts"] += 1
            if ends:
                golden.held -= 1
            if golden.running and golden.held < HELD and rng.random() < 0.4:
                golden.running -= 1
                golden.held += rng.random() < 0.8
            started = min(left, rng.choice((0, 0, 0, 1, 2, 4)))
            golden.running += started if golden.running + started < 10 else 0
        assert min(seen.values()) > 20, seen

    simulate(bench)


def test_a_restart_waits_for_older_tasks_and_entries_and_holds_newer_ones_back():
    async def bench(ctx, dut):
        registers, credit = dut.registers, dut.credit
        ctx.set(registers.size, 2)
        await ctx.tick()
        ctx.set(credit.running, 1)
        assert ctx.get(credit.left) == 3
        ctx.set(registers.restart, 1)
        assert ctx.get(credit.left) == 0
        await ctx.tick()
        ctx.set(registers.restart, 0)
        ctx.set(credit.running, 0)
        ctx.set(dut.held, 1)
        await ctx.tick()
        ctx.set(dut.count, 1)
        await ctx.tick()
        ctx.set(dut.count, 0)
        ctx.set(dut.held, 0)
        assert (ctx.get(registers.tail), ctx.get(registers.written)) == (1, 1)
        assert ctx.get(credit.left) == 0
        await ctx.tick()
        assert (ctx.get(registers.tail), ctx.get(registers.written)) == (0, 0)
        assert (ctx.get(credit.left), ctx.get(dut.phase)) == (4, 1)

    simulate(bench)
