"""The barrier unit against a model, and its cycles."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.config import NpuConfig
from hw.schedule.barrier import BarrierUnit
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny", streams=4)
STREAMS = range(CONFIG.streams)


class Bench:
    def __init__(self, ctx, dut):
        self.ctx = ctx
        self.streams = dut.streams

    def set(self, s, **members):
        for name, value in members.items():
            self.ctx.set(getattr(self.streams[s], name), value)

    def wait(self, s, task_id, context=0):
        self.set(s, valid=1, task_id=task_id, context=context)

    def holds(self, s, oldest, context=0):
        """Stream `s` has tasks; the oldest is not fetched yet if it is None."""
        known = oldest is not None
        self.set(s, pending=1, known=known, oldest=oldest or 0, context=context)

    def met(self):
        return {s for s in STREAMS if self.ctx.get(self.streams[s].met)}

    async def tick(self, cycles=1):
        await self.ctx.tick().repeat(cycles)


def run(behaviour):
    dut = BarrierUnit(CONFIG)

    async def testbench(ctx):
        await behaviour(Bench(ctx, dut))

    simulate(dut, testbench)


def test_a_barrier_that_is_alone_is_met_in_the_cycle_after_the_last_task_has_gone():
    async def behaviour(bench):
        bench.holds(1, 4)
        bench.wait(2, 5)
        await bench.tick(9)
        assert not bench.met()
        bench.set(1, pending=0)
        assert not bench.met()
        await bench.tick()
        assert bench.met() == {2}
        bench.set(2, valid=0)
        await bench.tick()
        bench.wait(2, 6)
        assert not bench.met()
        await bench.tick()
        assert bench.met() == {2}

    run(behaviour)


@pytest.mark.parametrize(("oldest", "passes"), [
    (None, False), (0, False), (99, False), (100, False), (101, True), ((1 << 64) - 1, True),
])  # fmt: skip
def test_only_a_task_that_is_known_and_younger_lets_it_pass(oldest, passes):
    async def behaviour(bench):
        bench.holds(3, oldest)
        bench.wait(0, 100)
        await bench.tick(5)
        assert bench.met() == ({0} if passes else set())

    run(behaviour)


def test_numbers_are_compared_in_all_64_bits():
    async def behaviour(bench):
        bench.wait(0, 1 << 63)
        bench.holds(1, (1 << 63) - 1)
        await bench.tick(5)
        assert not bench.met()
        bench.holds(1, (1 << 63) + 1)
        await bench.tick()
        assert bench.met() == {0}

    run(behaviour)


def test_other_contexts_and_the_own_stream_do_not_count():
    async def behaviour(bench):
        bench.holds(0, 1, context=1)
        bench.holds(1, 7)
        bench.wait(1, 7)
        await bench.tick()
        assert bench.met() == {1}
        bench.set(1, valid=0)
        await bench.tick()
        bench.holds(0, 1, context=0)
        bench.wait(1, 7)
        await bench.tick(5)
        assert not bench.met()

    run(behaviour)


def test_the_next_head_takes_nothing_over_from_the_one_before():
    async def behaviour(bench):
        bench.holds(2, 10)
        bench.wait(0, 9)
        await bench.tick()
        assert bench.met() == {0}
        bench.set(0, valid=0)
        await bench.tick()
        bench.wait(0, 11)
        for _ in range(5):
            assert not bench.met()
            await bench.tick()

    run(behaviour)


def test_all_that_wait_have_their_turn():
    async def behaviour(bench):
        for s in STREAMS:
            bench.wait(s, s + 1)
        seen = []
        for _ in STREAMS:
            await bench.tick()
            seen.append(bench.met())
        assert seen == [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}]

    run(behaviour)


STEP = st.fixed_dictionaries({
    "stream": st.sampled_from(STREAMS),
    "what": st.sampled_from(("submit", "submit", "barrier", "retire", "retire", "fetch")),
    "cycles": st.integers(0, 4),
})  # fmt: skip


@settings(max_examples=20)
@given(
    steps=st.lists(STEP, max_size=80),
    contexts=st.lists(st.integers(0, 1), min_size=4, max_size=4),
)
def test_random_streams_agree_with_the_model(steps, contexts):
    """Every BARRIER passes if no task before it is left, and soon."""

    async def behaviour(bench):
        queues = [[] for _ in STREAMS]  # (number, whether it is a BARRIER)
        fetched = [0] * CONFIG.streams
        number = 0

        def show():
            for s, queue in enumerate(queues):
                head = queue[0] if fetched[s] else None
                barrier = head is not None and head[1]
                bench.set(s, context=contexts[s], pending=bool(queue), known=head is not None)
                bench.set(s, oldest=head[0] if head else 0, valid=barrier)
                bench.set(s, task_id=head[0] if barrier else 0)

        def free(s):
            return all(
                contexts[other] != contexts[s] or other == s
                or not queues[other] or queues[other][0][0] > queues[s][0][0]
                for other in STREAMS
            )  # fmt: skip

        async def settle(cycles):
            for _ in range(cycles):
                await bench.tick()
                for s in bench.met():
                    assert queues[s][0][1]
                    assert free(s)

        async def retire(s):
            queues[s].pop(0)
            fetched[s] -= 1
            bench.set(s, valid=0)
            await bench.tick()
            show()

        for step in steps:
            s = step["stream"]
            match step["what"]:
                case "submit" | "barrier" as what:
                    number += 1
                    queues[s].append((number, what == "barrier"))
                case "fetch":
                    fetched[s] = len(queues[s])
                case "retire" if fetched[s] and (not queues[s][0][1] or s in bench.met()):
                    await retire(s)
            show()
            await settle(step["cycles"])
        for s in STREAMS:
            fetched[s] = len(queues[s])
        show()
        while any(queues):
            await settle(CONFIG.streams + 1)
            able = [s for s in STREAMS if queues[s] and (not queues[s][0][1] or s in bench.met())]
            blocked = [s for s in STREAMS if queues[s] and s not in able]
            assert not any(free(s) for s in blocked)
            await retire(able[0])

    run(behaviour)
