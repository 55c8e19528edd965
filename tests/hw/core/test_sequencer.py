import random

import pytest

from hw.config import NpuConfig
from hw.core.sequencer import Sequencer
from hw.regs.instruction import (
    Address,
    Channel,
    Condition,
    End,
    Fence,
    Grant,
    Load,
    Loop,
    Matmul,
    Next,
    Rotate,
    Skip,
    Source,
    Store,
    Stride,
)
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny")
ARGUMENTS = [0x1000 * n + 0x123_0000_0000 * (n % 3) for n in range(16)]
MEMORY = (1 << 40) - 1
FIELDS = {
    Load: ("memory", "local"),
    Matmul: ("activations", "weights", "accumulators"),
    Channel: ("local",),
    Store: ("memory", "accumulators"),
}
UNIT = {Load: "load", Matmul: "compute", Channel: "store", Store: "store"}


def golden(code):
    """What each unit is told: (index, memory, locals), and how many instructions are issued."""
    told = {"load": [], "compute": [], "store": []}
    registers = [dict(base=0, rotation=0, strides={}) for _ in range(16)]
    loops = []
    at = issued = 0
    while True:
        instruction = code[at]
        issued += 1
        kind = type(instruction)

        def value(n):
            register = registers[n]
            walked = sum(
                loops[level][1] * stride
                for level, stride in register["strides"].items() if level < len(loops)
            )  # fmt: skip
            return (register["base"] + register["rotation"] + walked) & MEMORY

        where = at
        at += 1
        if kind is End:
            return told, issued
        if kind is Loop:
            loops.append([at, 0, instruction.count])
        elif kind is Next:
            loops[-1][1] += 1
            if loops[-1][1] == loops[-1][2]:
                loops.pop()
            else:
                at = loops[-1][0]
        elif kind is Address:
            base = ARGUMENTS[instruction.argument] if instruction.source else 0
            registers[instruction.register] = dict(
                base=base + instruction.offset, rotation=0, strides={}
            )
        elif kind is Stride:
            registers[instruction.register]["strides"][instruction.level] = instruction.stride
        elif kind is Rotate:
            for n in range(16):
                if instruction.registers >> n & 1:
                    turned = registers[n]["rotation"] + instruction.step
                    registers[n]["rotation"] = turned % instruction.size
        elif kind is Skip:
            _, turn, count = loops[instruction.level]
            holds = [turn == 0, turn != 0, turn == count - 1, turn != count - 1]
            at += instruction.count if holds[instruction.condition] else 0
        elif kind in FIELDS:
            values = [value(instruction.as_dict()[name]) for name in FIELDS[kind]]
            memory = values.pop(0) if kind in (Load, Store) else None
            told[UNIT[kind]].append((where, instruction.to_int(), memory, tuple(values)))


STALE = Load(rows=77).to_int()
"""What another kernel left in the code bank, behind the last instruction."""


class Bench:
    """A sequencer with code, arguments and units that take operations at random."""

    def __init__(self, seed=0, pace=1.0):
        self.dut = Sequencer(CONFIG)
        self.random = random.Random(seed)
        self.pace = pace
        self.words = []
        self.told = {}

    def simulate(self, *testbenches):
        simulator = simulator_of(self.dut)
        simulator.add_clock(1e-9)
        simulator.add_testbench(self.memory, background=True)
        for unit in ("load", "compute", "store"):
            simulator.add_testbench(self.unit(unit), background=True)
        for testbench in testbenches:
            simulator.add_testbench(testbench)
        simulator.run()

    async def memory(self, ctx):
        dut = self.dut
        async for _, _, index, argument in ctx.tick().sample(dut.index, dut.argument):
            ctx.set(dut.code, self.words[index] if index < len(self.words) else STALE)
            ctx.set(dut.argument_data, ARGUMENTS[argument])

    def unit(self, name):
        async def testbench(ctx):
            port = getattr(self.dut, name)
            async for _, _, taken, operation in ctx.tick().sample(
                port.valid & port.ready, port.p
            ):
                if taken:
                    self.told[name].append(operation)
                ctx.set(port.ready, self.random.random() < self.pace)

        return testbench

    async def start(self, ctx, code):
        """Starts `code`; afterwards it is the first cycle in which it runs."""
        self.words = [item if isinstance(item, int) else item.to_int() for item in code]
        self.told = {"load": [], "compute": [], "store": []}
        ctx.set(self.dut.length, len(code))
        ctx.set(self.dut.idle, 1)
        await ctx.tick()
        ctx.set(self.dut.start, 1)
        await ctx.tick()
        ctx.set(self.dut.start, 0)

    async def finish(self, ctx, limit=6000):
        """Runs to END or a fault; gives cycles, instructions issued and the fault."""
        dut = self.dut
        issued = 0
        for cycle in range(limit):
            issued += ctx.get(dut.issued)
            fault = (ctx.get(dut.fault.index), ctx.get(dut.fault.word))
            if ctx.get(dut.fault.valid):
                return cycle, issued, fault
            if ctx.get(dut.ended):
                await ctx.tick()
                assert not ctx.get(dut.running)
                return cycle, issued, None
            await ctx.tick()
        raise AssertionError("neither END nor a fault")

    def check(self, expected):
        for name, operations in expected.items():
            told = self.told[name]
            assert [(op.index, op.word) for op in told] == [e[:2] for e in operations]
            for operation, (_, _, memory, local) in zip(told, operations, strict=True):
                assert memory is None or operation.memory == memory
                assert tuple(operation.local[: len(local)]) == local


def random_program(rng):
    """A legal program with nested loops that ends after a bounded time."""
    code = [
        Stride(register=register, level=level, stride=rng.randint(1, 90))
        for register in range(8) for level in range(4)
    ]  # fmt: skip

    def block(depth, turns):
        for _ in range(rng.randint(2, 6)):
            kind = rng.choice(
                [Address, Stride, Stride, Rotate, Load, Matmul, Channel, Store, Loop, Loop, Loop,
                 Skip, Fence]
            )  # fmt: skip
            # r0-r3 stay small and positive for local memories, r4-r7 are for memory.
            if kind is Address and rng.random() < 0.5:
                code.append(Address(register=rng.randrange(4), offset=rng.randint(2000, 9000)))
            elif kind is Address:
                code.append(
                    Address(register=rng.randint(4, 7), source=Source.ARGUMENT,
                            argument=rng.randrange(16), offset=rng.randint(-1 << 39, 1 << 38))
                )  # fmt: skip
            elif kind is Stride and rng.random() < 0.5:
                code.append(
                    Stride(register=rng.randrange(4), level=rng.choice([0, 0, 1, 1, 2, 3, 7]),
                           stride=rng.randint(0, 90))
                )  # fmt: skip
            elif kind is Stride:
                code.append(
                    Stride(register=rng.randint(4, 7), level=rng.choice([0, 0, 1, 1, 2, 3, 7]),
                           stride=rng.randint(-1 << 39, (1 << 39) - 1))
                )  # fmt: skip
            elif kind is Rotate:
                code.append(Rotate(registers=rng.randrange(256), step=rng.randint(1, 7), size=7))
            elif kind in (Load, Store):
                names = FIELDS[kind]
                code.append(
                    kind(**{names[0]: rng.randint(4, 7), names[1]: rng.randrange(4)},
                         rows=rng.randint(1, 9))
                )  # fmt: skip
            elif kind in (Matmul, Channel):
                code.append(kind(**{name: rng.randrange(4) for name in FIELDS[kind]}))
            elif kind is Skip and depth:
                code.append(
                    Skip(condition=rng.choice(list(Condition)), level=rng.randrange(depth),
                         count=rng.randint(1, 2))
                )  # fmt: skip
                code.extend(
                    Load(memory=rng.randint(4, 7), local=rng.randrange(4)) for _ in range(2)
                )
            elif kind is Loop and depth < 4 and turns < 30:
                count = rng.randint(1, 4)
                code.append(Loop(count=count))
                block(depth + 1, turns * count)
                code.append(Next())
            elif kind is Fence:
                code.append(Fence())

    block(0, 1)
    return [*code, End()]


@pytest.mark.parametrize("pace", [1.0, 0.3])
def test_random_programs_give_the_units_what_the_golden_model_says(pace):
    bench = Bench(seed=3, pace=pace)
    rng = random.Random(round(pace * 10))

    async def testbench(ctx):
        for _ in range(14):
            code = random_program(rng)
            expected, count = golden(code)
            await bench.start(ctx, code)
            _, issued, fault = await bench.finish(ctx)
            assert fault is None
            assert issued == count
            bench.check(expected)

    bench.simulate(testbench)


def test_each_instruction_takes_the_cycles_the_contract_states():
    bench = Bench()
    programs = [
        ([End()], 0),
        ([Address(), End()], 2),  # END waits for the address registers
        ([Address(), Stride(), Loop(count=3), Next(), End()], 7),
        ([Grant(), Grant(), End()], 2),
    ]

    async def testbench(ctx):
        for code, cycles in programs:
            await bench.start(ctx, code)
            assert ctx.get(bench.dut.issued) == 1
            assert await bench.finish(ctx) == (cycles, golden(code)[1], None)
        # Operations come out two cycles after their last operand's; one, two or three operands.
        for kind, cycle in ((Channel, 2), (Load, 3), (Store, 3), (Matmul, 4)):
            await bench.start(ctx, [kind(), End()])
            assert ctx.get(bench.dut.issued) == 1
            port = getattr(bench.dut, UNIT[kind])
            for _ in range(cycle):
                assert not ctx.get(port.valid)
                await ctx.tick()
            assert ctx.get(port.valid)
            await bench.finish(ctx)
        code = [Load(), Matmul(), Store(), Load(), Matmul(), Store(), Grant(), End()]
        await bench.start(ctx, code)
        begins = []
        for cycle in range(16):
            if ctx.get(bench.dut.issued):
                begins.append(cycle)
            await ctx.tick()
        assert begins[:7] == [0, 2, 5, 7, 9, 12, 14]

    bench.simulate(testbench)


def test_grant_gives_its_tokens_in_one_cycle():
    bench = Bench()

    async def testbench(ctx):
        await bench.start(ctx, [Grant(load=3, compute=15), End()])
        assert (ctx.get(bench.dut.grant_load), ctx.get(bench.dut.grant_compute)) == (3, 15)
        await ctx.tick()
        assert (ctx.get(bench.dut.grant_load), ctx.get(bench.dut.grant_compute)) == (0, 0)

    bench.simulate(testbench)


def test_end_and_fence_wait_for_units_and_full_queues_block():
    bench = Bench(pace=0.0)
    dut = bench.dut

    async def testbench(ctx):
        for last in (Fence(), End()):
            await bench.start(ctx, [last, End()])
            ctx.set(dut.idle, 0)
            for _ in range(5):
                assert ctx.get(dut.blocked)
                assert not ctx.get(dut.issued)
                await ctx.tick()
            ctx.set(dut.idle, 1)
            assert ctx.get(dut.issued)
            await bench.finish(ctx)
        await bench.start(ctx, [*[Channel()] * 5, End()])
        for _ in range(20):
            await ctx.tick()
        assert ctx.get(dut.blocked)
        assert ctx.get(dut.place) == 4
        assert ctx.get(dut.queued) == 0b100
        ctx.set(dut.abort, 1)
        await ctx.tick()
        ctx.set(dut.abort, 0)
        assert ctx.get(dut.queued) == 0
        assert not ctx.get(dut.running)
        assert not ctx.get(dut.store.valid)
        bench.pace = 1.0
        await bench.start(ctx, [Channel(), End()])
        assert (await bench.finish(ctx))[1:] == (2, None)
        assert len(bench.told["store"]) == 1

    bench.simulate(testbench)


def illegal_programs():
    """Name, code and the index at fault."""
    yield "opcode 0", [0], 0
    yield "unknown opcode", [Address(), 0x7F], 1
    for layout in FIELDS:
        yield f"reserved bit of {layout.__name__}", [layout().to_int() | 1 << 15], 0
    for word, bit in ((End(), 8), (Fence(), 127), (Loop(), 9), (Next(), 40), (Address(), 13),
                      (Stride(), 15), (Rotate(), 8), (Skip(), 10), (Grant(), 16)):  # fmt: skip
        code = [Loop(), word.to_int() | 1 << bit]
        yield f"reserved bit of {type(word).__name__}", code, 1
    yield "count 0", [Loop(count=0)], 0
    yield "too deep", [Loop()] * 9, 8
    yield "NEXT without loop", [Loop(), Next(), Next()], 2
    yield "END inside a loop", [Loop(), End()], 1
    yield "past the end", [Address(), Address()], 2
    yield "skipped past the end", [Loop(), Skip(count=9), Next(), End()], 4
    yield "argument without source", [Address(argument=3)], 0
    yield "SKIP of nothing", [Loop(), Skip(count=0)], 1
    yield "SKIP of a loop not open", [Loop(), Skip(level=1)], 1
    yield "ROTATE by nothing", [Rotate(step=0, size=4)], 0
    yield "ROTATE too far", [Rotate(step=5, size=4)], 0
    yield "rotation above the size", [
        Rotate(registers=4, step=5, size=9), Rotate(registers=4, step=1, size=5), Grant(), End(),
    ], 1  # fmt: skip
    yield "negative word", [Address(register=1, offset=-1), Load(local=1), End()], 1
    yield "word too great", [Address(offset=1 << 24), Grant(), Matmul(weights=0), 0], 2
    yield "accumulator", [Address(register=5, offset=1 << 39 - 1), Store(accumulators=5)], 1


def test_illegal_instructions_fault_with_their_place_and_word():
    bench = Bench()

    async def testbench(ctx):
        for name, code, index in illegal_programs():
            await bench.start(ctx, code)
            _, _, fault = await bench.finish(ctx)
            word = code[index] if index < len(code) else 0
            assert fault == (index, word if isinstance(word, int) else word.to_int()), name
            for _ in range(3):
                await ctx.tick()
                assert not ctx.get(bench.dut.issued), name
            ctx.set(bench.dut.abort, 1)
            await ctx.tick()
            ctx.set(bench.dut.abort, 0)
        await bench.start(ctx, [Address(offset=5), Load(), End()])
        assert (await bench.finish(ctx))[1:] == (3, None)

    bench.simulate(testbench)
