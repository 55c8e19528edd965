"""The register master against a slave of random patience."""

import random

import pytest

from hw.axi import Response
from sim.board.register_master import RegisterMaster
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

COUNT = 60


def test_commands_become_privileged_accesses_in_order_with_their_answers():
    dut = RegisterMaster()
    chooser = random.Random(5)
    commands = [
        {"write": chooser.random() < 0.5, "address": chooser.randrange(0, 1 << 16, 4),
         "data": chooser.getrandbits(32)}
        for _ in range(COUNT)
    ]  # fmt: skip
    seen, results, answers = [], [], []

    async def host(ctx):
        ctx.set(dut.results.ready, 1)
        for command in commands:
            ctx.set(dut.commands.p, command)
            ctx.set(dut.commands.valid, 1)
            await ctx.tick().until(dut.commands.ready)
            ctx.set(dut.commands.valid, 0)
            (result,) = await ctx.tick().sample(dut.results.p).until(dut.results.valid)
            results.append((result.response.value, result.data if not command["write"] else None))

    async def take(ctx, channel, patience):
        await ctx.tick().repeat(patience + 1)
        ctx.set(channel.ready, 1)
        (payload,) = await ctx.tick().sample(channel.p).until(channel.valid)
        ctx.set(channel.ready, 0)
        return payload

    async def slave(ctx):
        for command in commands:
            channels = ["aw", "w"] if command["write"] else ["ar"]
            chooser.shuffle(channels)
            access = {"write": command["write"]}
            for name in channels:
                payload = await take(ctx, getattr(dut.bus, name), chooser.randrange(3))
                if name == "w":
                    access["data"] = payload.data
                    assert payload.strb == 0xF
                else:
                    access["address"] = payload.addr
                    assert payload.prot == 0b001
            seen.append(access)
            answer = dut.bus.b if command["write"] else dut.bus.r
            response = chooser.choice([Response.OKAY, Response.SLVERR, Response.DECERR])
            data = chooser.getrandbits(32)
            await ctx.tick().repeat(1 + chooser.randrange(3))
            ctx.set(answer.p.resp, response)
            if not command["write"]:
                ctx.set(answer.p.data, data)
            ctx.set(answer.valid, 1)
            await ctx.tick().until(answer.ready)
            ctx.set(answer.valid, 0)
            answers.append((response.value, data if not command["write"] else None))

    sim = simulator_of(dut)
    sim.add_clock(1e-9)
    sim.add_testbench(host)
    sim.add_testbench(slave)
    sim.run_until(COUNT * 40e-9)
    assert results == answers
    assert len(results) == COUNT
    for access, command in zip(seen, commands, strict=True):
        assert access.items() <= command.items()
