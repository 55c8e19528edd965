"""Assignments to bits at a computed offset."""

import pytest
from amaranth.hdl import Cat, ClockDomain, Module, Signal
from amaranth.hdl._ast import SignalDict

from sim.engine.lockstep import lockstep
from sim.engine.program import compile

SIZES = [(64, 8), (130, 1), (130, 4), (130, 70), (200, 130), (10, 3), (5, 5)]


@pytest.mark.parametrize("domain", ["comb", "sync"])
def test_parts_of_all_sizes_are_assigned_as_on_pysim(domain):
    m = Module()
    offset, value, test = Signal(8), Signal(130), Signal()
    for size, width in SIZES:
        targets = [Signal(size, name=f"{name}{size}_{width}") for name in "abcdefg"]
        a, b, c, d, e, f, g = targets
        other = Signal(3, name=f"other{size}_{width}")
        m.d[domain] += [
            a.bit_select(offset, width).eq(value),
            b.word_select(offset, width).eq(value),
            c[2 : size - 1].bit_select(offset, width).eq(value),
            d.bit_select(offset, width)[width // 2 :].eq(value),
            Cat(other, e).bit_select(offset, width).eq(value),
            f.eq(value),
            f.bit_select(offset, width).eq(~value),
            f.bit_select(~offset, 3).eq(value),
        ]
        with m.If(test):
            m.d[domain] += g.bit_select(offset + 2, width).eq(value)
    clocked = ClockDomain("sync", reset_less=True)
    if domain == "sync":
        m.domains += clocked

    def steps():
        for at in range(256):
            mixed = (at * 0x123456789 << 64) + ~at
            yield SignalDict([(offset, at), (value, mixed), (test, at % 3)])
            if domain == "sync":
                yield SignalDict([(clocked.clk, 1)])
                yield SignalDict([(clocked.clk, 0)])

    assert lockstep(m, steps()) > 256 * 7 * len(SIZES)


def test_a_part_is_shifted_into_its_place():
    m = Module()
    offset, value, target = Signal(8), Signal(70), Signal(130)
    m.d.comb += target.bit_select(offset, 70).eq(value)
    assert sum(map(len, compile(m).sources)) < 6000


def test_a_signal_without_bits_chooses_the_first_part():
    m = Module()
    offset, value, target = Signal(0), Signal(70), Signal(130)
    m.d.comb += target.bit_select(offset, 70).eq(value)
    assert lockstep(m, [SignalDict([(value, 5)]), SignalDict([(value, (1 << 70) - 1)])])


def test_a_part_may_depend_on_another_part_of_the_same_signal():
    m = Module()
    first, second, source, target = Signal(2), Signal(2), Signal(4), Signal(8)
    m.d.comb += [
        target[:4].bit_select(first, 2).eq(source),
        target[4:].bit_select(second, 2).eq(target[:2]),
    ]
    steps = [
        SignalDict([(first, n & 3), (second, n >> 2 & 3), (source, n >> 4)]) for n in range(256)
    ]
    assert lockstep(m, steps)


def test_a_part_without_bits_changes_nothing():
    m = Module()
    offset, value, target = Signal(4), Signal(8), Signal(10, init=5)
    m.d.comb += target.bit_select(offset, 2)[2:].eq(value)
    steps = [SignalDict([(offset, n), (value, 255)]) for n in range(16)]
    assert lockstep(m, steps, optimise=0)
    assert "window" not in compile(m).sources[0]
