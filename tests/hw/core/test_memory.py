import random

from amaranth.sim import Simulator

from hw.core.memory import READ_LATENCY, LocalMemory


def test_reads_see_earlier_writes_and_keep_their_data():
    """Random writes and reads by two readers, compared with a list every cycle."""
    words = [0] * 16
    memory = LocalMemory(16, 24, 2)
    draw = random.Random(1)

    async def bench(ctx):
        assert READ_LATENCY == 2
        shown = [0, 0]
        pending = [[None] * READ_LATENCY for _ in range(2)]
        for _ in range(400):
            for i, port in enumerate(memory.reads):
                value = pending[i].pop()
                shown[i] = shown[i] if value is None else value
                assert ctx.get(port.data) == shown[i]
                enable, address = draw.random() < 0.6, draw.randrange(16)
                ctx.set(port.enable, enable)
                ctx.set(port.address, address)
                pending[i].insert(0, words[address] if enable else None)
            enable, address, value = draw.random() < 0.6, draw.randrange(16), draw.getrandbits(24)
            ctx.set(memory.write.enable, enable)
            ctx.set(memory.write.address, address)
            ctx.set(memory.write.data, value)
            if enable:
                words[address] = value
            await ctx.tick()

    simulator = Simulator(memory)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
