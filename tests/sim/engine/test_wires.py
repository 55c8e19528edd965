"""Signals are followed to the wires that they are names of, and no further than that holds."""

import pytest
from amaranth import C, Cat, Module, Signal, signed
from amaranth.hdl import Fragment

from sim.engine.wires import Wires

A, B = Signal(8, name="a"), Signal(8, name="b")
CHOICE = Signal(name="choice")


def parts(build, signal):
    """(signal or value, first bit, bits) of each part of a signal of a design."""
    m = Module()
    build(m)
    wires = Wires(Fragment.get(m, None).prepare(ports=[("signal", signal, None)]))
    return [
        (part.start, part.width) if part.signal is None else
        (part.signal.name, part.start, part.width)
        for part in wires.parts(signal)
    ]  # fmt: skip


def comb(*pairs):
    """Unconditional assignments."""

    def build(m):
        m.d.comb += [target.eq(source) for target, source in pairs]

    return build


@pytest.fixture
def wire():
    return Signal(8, name="wire")


def test_an_unconditional_copy_is_its_source_through_any_number_of_names(wire):
    between = Signal(8, name="between")
    assert parts(comb((wire, between), (between, A)), wire) == [("a", 0, 8)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (A[2:6], [("a", 2, 4), (0, 4)]),
        (Cat(A[:4], A[4:]), [("a", 0, 8)]),
        (Cat(A[:3], B), [("a", 0, 3), ("b", 0, 5)]),
        (Cat(C(5, 3), C(2, 3), A), [(21, 6), ("a", 0, 2)]),
        (A.as_signed(), [("a", 0, 8)]),
        (C(-2, 8), [(254, 8)]),
        (A[:4].as_signed(), [("wire", 0, 8)]),
        (A + B, [("wire", 0, 8)]),
        (A.bit_select(B, 8), [("wire", 0, 8)]),
    ],
)
def test_cuts_and_joins_are_followed_and_computed_values_are_not(wire, source, expected):
    assert parts(comb((wire, source)), wire) == expected


def test_parts_of_a_target_have_their_own_sources(wire):
    assert parts(comb((wire[1:3], A[6:]), (wire[4:], B[:4])), wire) == [
        ("wire", 0, 1), ("a", 6, 2), ("wire", 3, 1), ("b", 0, 4)
    ]  # fmt: skip
    number = Signal(signed(8), name="number")
    assert parts(comb((number.as_unsigned()[:4], A[:4])), number) == [
        ("a", 0, 4), ("number", 4, 4)
    ]  # fmt: skip


def test_what_depends_on_a_condition_is_a_wire_of_its_own(wire):
    def build(m):
        m.d.comb += wire.eq(A)
        with m.If(CHOICE):
            m.d.comb += wire[0].eq(1)

    assert parts(build, wire) == [("wire", 0, 8)]


def test_what_is_assigned_twice_is_a_wire_of_its_own(wire):
    pairs = (wire[:4], A[:4]), (wire[4:], A[4:]), (wire[3], B[0])
    assert parts(comb(*pairs), wire) == [("wire", 0, 4), ("a", 4, 4)]


def test_a_target_at_a_computed_place_is_a_wire_of_its_own(wire):
    pairs = (wire, A), (wire.bit_select(B[:3], 1), CHOICE)
    assert parts(comb(*pairs), wire) == [("wire", 0, 8)]
    assert parts(comb((Cat(wire, CHOICE), A)), wire) == [("wire", 0, 8)]


def test_registers_are_wires_of_their_own(wire):
    def build(m):
        m.d.sync += wire.eq(A)

    assert parts(build, wire) == [("wire", 0, 8)]


def test_a_signal_that_is_a_chain_of_its_own_bits_is_no_loop(wire):
    pairs = (wire[0], A[5]), *((wire[bit + 1], wire[bit]) for bit in range(7))
    found = parts(comb(*pairs), wire)
    assert found[0] == ("a", 5, 1)
    assert sum(part[-1] for part in found) == 8
