"""The order of write data: fixed as soon as an address is offered, taken or not."""

import random

import pytest

from hw.bus.order import WriteOrder
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")


def test_a_turn_begins_one_cycle_after_its_address_was_offered_though_it_is_not_taken():
    dut = WriteOrder(8, 3, 2)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.p, {"address": 0x55, "source": 2})
        assert ctx.get(dut.o.valid)
        assert ctx.get(dut.o.p) == 0x55
        assert not ctx.get(dut.turns.valid)
        for _ in range(3):
            await ctx.tick()
            assert (ctx.get(dut.turns.valid), ctx.get(dut.turns.p)) == (1, 2)
            assert ctx.get(dut.o.valid)
        # Its turn may even be over before the address is taken, and comes only once.
        ctx.set(dut.turns.ready, 1)
        await ctx.tick()
        assert not ctx.get(dut.turns.valid)
        assert not ctx.get(dut.i.ready)
        ctx.set(dut.o.ready, 1)
        assert ctx.get(dut.i.ready)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        assert not ctx.get(dut.turns.valid)

    simulate(dut, bench)


def test_an_address_is_held_back_while_all_turns_are_open_but_never_retracted():
    dut = WriteOrder(8, 2, 2)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.o.valid)
        assert not ctx.get(dut.i.ready)
        ctx.set(dut.o.ready, 0)
        ctx.set(dut.turns.ready, 1)
        await ctx.tick()
        ctx.set(dut.turns.ready, 0)
        assert ctx.get(dut.o.valid)
        await ctx.tick()  # the offer itself takes the place that was free
        for _ in range(3):
            assert ctx.get(dut.o.valid)
            await ctx.tick()

    simulate(dut, bench)


def test_turns_have_the_order_of_the_addresses_whatever_stalls():
    dut = WriteOrder(8, 5, 3)
    rng = random.Random(4)
    addresses, turns = [], []
    sent = [{"address": n, "source": rng.randrange(5)} for n in range(200)]

    async def bench(ctx):
        waiting = iter(sent)
        offered = None
        while len(turns) < len(sent):
            if offered is None and rng.randrange(2) and (offered := next(waiting, None)):
                ctx.set(dut.i.p, offered)
                ctx.set(dut.i.valid, 1)
            ctx.set(dut.o.ready, rng.randrange(3) == 0)
            ctx.set(dut.turns.ready, rng.randrange(3) == 0)
            _, _, taken, passes, address, turn, source = await ctx.tick().sample(
                dut.i.ready, dut.o.valid & dut.o.ready, dut.o.p,
                dut.turns.valid & dut.turns.ready, dut.turns.p,
            )  # fmt: skip
            if offered is not None and taken:
                offered = None
                ctx.set(dut.i.valid, 0)
            if passes:
                addresses.append(address)
            if turn:
                turns.append(source)

    simulate(dut, bench)
    assert addresses == list(range(200))
    assert turns == [each["source"] for each in sent]
