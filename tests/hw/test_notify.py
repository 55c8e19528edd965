"""The notify unit against a model, and what may happen in one cycle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.config import NpuConfig
from hw.notify import NotifyUnit
from hw.regs.descriptor import NotifyOperation
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", streams=3, notifies=3)
STREAMS, COUNTERS = range(CONFIG.streams), range(CONFIG.notifies)
MODULUS = 1 << 32
ADD, SET = NotifyOperation.ADD, NotifyOperation.SET


class Bench:
    def __init__(self, ctx, dut):
        self.ctx = ctx
        self.dut = dut

    def wait(self, s, counter, amount):
        waiter = self.dut.waiters[s]
        self.ctx.set(waiter.counter, counter)
        self.ctx.set(waiter.amount, amount)
        self.ctx.set(waiter.valid, 1)

    def ready(self):
        return [self.ctx.get(waiter.ready) for waiter in self.dut.waiters]

    def take(self, s):
        self.ctx.set(self.dut.waiters[s].take, 1)

    def change(self, counter, amount, operation=ADD):
        self.ctx.set(
            self.dut.changes.p, {"counter": counter, "amount": amount, "operation": operation}
        )
        self.ctx.set(self.dut.changes.valid, 1)
        assert self.ctx.get(self.dut.changes.ready)

    def set(self, value):
        self.ctx.set(self.dut.set, 1)
        self.ctx.set(self.dut.set_value, value)

    def value(self, counter):
        self.ctx.set(self.dut.select, counter)
        return self.ctx.get(self.dut.value)

    async def tick(self):
        """Goes to the next cycle: heads that were taken leave, pulses end."""
        await self.ctx.tick()
        for waiter in self.dut.waiters:
            if self.ctx.get(waiter.take):
                self.ctx.set(waiter.valid, 0)
                self.ctx.set(waiter.take, 0)
        self.ctx.set(self.dut.changes.valid, 0)
        self.ctx.set(self.dut.set, 0)


def run(behaviour):
    dut = NotifyUnit(CONFIG)

    async def testbench(ctx):
        await behaviour(Bench(ctx, dut))

    simulate(dut, testbench)


def test_one_change_readies_every_waiter_in_the_next_cycle():
    async def behaviour(bench):
        for s in STREAMS:
            bench.wait(s, 1, 5)
        await bench.tick()
        bench.change(1, 4)
        await bench.tick()
        bench.change(1, 1)
        assert bench.ready() == [0, 0, 0]
        await bench.tick()
        assert bench.ready() == [1, 1, 1]

    run(behaviour)


def test_a_waiter_that_shows_up_later_is_ready_at_once():
    async def behaviour(bench):
        bench.change(2, 7, SET)
        await bench.tick()
        bench.wait(0, 2, 7)
        bench.wait(1, 2, 8)
        bench.wait(2, 1, 0)
        assert bench.ready() == [1, 0, 1]

    run(behaviour)


def test_what_one_waiter_takes_the_next_does_not_find():
    async def behaviour(bench):
        bench.change(0, 3)
        bench.wait(0, 0, 2)
        bench.wait(2, 0, 2)
        await bench.tick()
        assert bench.ready() == [1, 0, 1]
        bench.take(2)
        await bench.tick()
        assert bench.ready() == [0, 0, 0]
        assert bench.value(0) == 1

    run(behaviour)


def test_take_change_and_set_of_one_cycle_count_in_that_order():
    async def behaviour(bench):
        for operation, amount, value, expected in (
            (ADD, 7, None, 17 - 10 + 7), (SET, 7, None, 7), (ADD, 7, 99, 99), (None, 0, 99, 99),
        ):  # fmt: skip
            bench.change(1, 17, SET)
            bench.wait(0, 1, 10)
            await bench.tick()
            bench.value(1)
            bench.take(0)
            if operation is not None:
                bench.change(1, amount, operation)
            if value is not None:
                bench.set(value)
            await bench.tick()
            assert bench.value(1) == expected

    run(behaviour)


def test_take_change_and_set_of_three_counters_all_count():
    async def behaviour(bench):
        bench.change(0, 5, SET)
        bench.wait(1, 0, 5)
        await bench.tick()
        bench.value(2)
        bench.take(1)
        bench.change(1, 6)
        bench.set(8)
        await bench.tick()
        assert [bench.value(n) for n in COUNTERS] == [0, 6, 8]

    run(behaviour)


def test_a_counter_wraps():
    async def behaviour(bench):
        bench.change(0, MODULUS - 1, SET)
        await bench.tick()
        bench.wait(0, 0, MODULUS - 1)
        assert bench.ready()[0]
        bench.change(0, 3)
        await bench.tick()
        assert bench.value(0) == 2
        assert not bench.ready()[0]

    run(behaviour)


AMOUNTS = st.one_of(st.integers(0, 4), st.integers(MODULUS - 3, MODULUS - 1))
CYCLE = st.fixed_dictionaries({
    "wait": st.none() | st.tuples(st.sampled_from(STREAMS), st.sampled_from(COUNTERS), AMOUNTS),
    "change": st.none() | st.tuples(
        st.sampled_from(COUNTERS), AMOUNTS, st.sampled_from((ADD, ADD, SET))),
    "set": st.none() | AMOUNTS,
    "select": st.sampled_from(COUNTERS),
    "take": st.sampled_from((None, *STREAMS)),
    "withdraw": st.sampled_from((None, None, *STREAMS)),
})  # fmt: skip


@settings(max_examples=15)
@given(cycles=st.lists(CYCLE, min_size=20, max_size=60))
def test_random_cycles_agree_with_the_model(cycles):
    async def behaviour(bench):
        counters = [0] * CONFIG.notifies
        waiting = [None] * CONFIG.streams
        for cycle in cycles:
            if cycle["wait"] is not None and waiting[cycle["wait"][0]] is None:
                s, *wanted = cycle["wait"]
                waiting[s] = wanted
                bench.wait(s, *wanted)
            assert bench.value(cycle["select"]) == counters[cycle["select"]]
            ready = [w is not None and counters[w[0]] >= w[1] for w in waiting]
            assert bench.ready() == ready
            s = cycle["take"]
            if s is not None and ready[s]:
                bench.take(s)
                counters[waiting[s][0]] -= waiting[s][1]
                waiting[s] = None
            if cycle["change"] is not None:
                counter, amount, operation = cycle["change"]
                bench.change(counter, amount, operation)
                kept = counters[counter] if operation == ADD else 0
                counters[counter] = (kept + amount) % MODULUS
            if cycle["set"] is not None:
                bench.set(cycle["set"])
                counters[cycle["select"]] = cycle["set"]
            await bench.tick()
            s = cycle["withdraw"]
            if s is not None:
                waiting[s] = None
                bench.ctx.set(bench.dut.waiters[s].valid, 0)

    run(behaviour)
