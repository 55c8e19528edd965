"""Which kernel the cores are told of."""

from itertools import product

import pytest

from hw.config import NpuConfig
from hw.hint import PrefetchHint
from hw.regs.descriptor import KernelPayload, TaskType
from hw.regs.fault import FaultCause
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

STREAMS = 3


def head(s, *, type=TaskType.KERNEL, cause=FaultCause.NONE, option=0):
    payload = KernelPayload(kernel_address=0x1000 * (s + 1)).to_int()
    return {"sqe": {"type": type, "payload": payload, "option": option}, "cause": cause}


def test_the_kernel_of_the_active_stream_of_the_greatest_priority_is_named():
    dut = PrefetchHint(NpuConfig.preset("tiny", streams=STREAMS))

    async def bench(ctx):
        for s in range(STREAMS):
            ctx.set(dut.heads[s], head(s, option=s == 1))
        for valid, active, *priorities in product(range(8), range(8), (0, 4), (1, 4), (2, 7)):
            ctx.set(dut.valid, valid)
            ctx.set(dut.active, active)
            for s, priority in enumerate(priorities):
                ctx.set(dut.settings[s], {"priority": priority, "context": s + 1})
            ranks = [(priority, s) for s, priority in enumerate(priorities)
                     if valid & active & 1 << s]  # fmt: skip
            hint = ctx.get(dut.hint)
            assert hint.valid == bool(ranks)
            if ranks:
                _, best = min(ranks)
                kernel = hint.kernel
                assert (kernel.address, kernel.context) == (0x1000 * (best + 1), best + 1)
                assert kernel.invalidate == (best == 1)

    simulator = simulator_of(dut)
    simulator.add_testbench(bench)
    simulator.run()


def test_other_tasks_and_bad_entries_are_passed_over():
    dut = PrefetchHint(NpuConfig.preset("tiny", streams=STREAMS))

    async def bench(ctx):
        ctx.set(dut.valid, 0b111)
        ctx.set(dut.active, 0b111)
        ctx.set(dut.heads[0], head(0, type=TaskType.MEMCPY))
        ctx.set(dut.heads[1], head(1, cause=FaultCause.CHECKSUM))
        ctx.set(dut.heads[2], head(2))
        assert ctx.get(dut.hint.kernel.address) == 0x3000
        ctx.set(dut.heads[2], head(2, type=TaskType.NOP))
        assert not ctx.get(dut.hint.valid)

    simulator = simulator_of(dut)
    simulator.add_testbench(bench)
    simulator.run()
