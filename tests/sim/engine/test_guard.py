"""Registers keep their value whichever way round their condition stands."""

import pytest
from amaranth import ClockDomain, Module, Mux, Signal
from amaranth.hdl._ast import SignalDict

from sim.engine.lockstep import lockstep


def cycles(clock, *, before, count):
    """Inputs that are set once, and edges."""
    yield SignalDict(before)
    for _ in range(count):
        yield SignalDict([(clock, 1)])
        yield SignalDict([(clock, 0)])


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize(
    "hold",
    [
        lambda count, other: Mux(count == 0, count, other),
        lambda count, other: Mux(count != 0, other, count),
        lambda count, other: Mux(count[0] | count[1], other, count),
        lambda count, other: Mux(count == 0, Mux(other[3], count, other), other),
    ],
)
def test_a_counter_stops_at_zero(hold, reloaded):
    m = Module()
    m.domains.sync = domain = ClockDomain()
    load, count = Signal(), Signal(8)
    m.d.sync += count.eq(hold(count, count - 1))
    if reloaded:
        with m.If(load):
            m.d.sync += count.eq(3)
    steps = [
        *cycles(domain.clk, before=[(load, 1), (count, 3)], count=1),
        *cycles(domain.clk, before=[(load, 0)], count=6),
    ]
    assert lockstep(m, steps) > 0
