"""What the bundles between the blocks mean."""

import pytest
from amaranth import Module, Signal

from hw.interface import Status, access_cause
from hw.regs.fault import FaultCause
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")


def test_each_failed_access_has_its_cause():
    m = Module()
    status = Signal(Status)
    cause = Signal(8)
    m.d.comb += cause.eq(access_cause(status))
    expected = {
        Status.OKAY: FaultCause.NONE,
        Status.DENIED: FaultCause.ACCESS_VIOLATION,
        Status.SLVERR: FaultCause.BUS_SLAVE_ERROR,
        Status.DECERR: FaultCause.BUS_DECODE_ERROR,
    }

    async def bench(ctx):
        for given, wanted in expected.items():
            ctx.set(status, given)
            assert ctx.get(cause) == wanted

    simulator = simulator_of(m)
    simulator.add_testbench(bench)
    simulator.run()
