"""What is in a waveform, and what it is called."""

import io

import pytest
from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Format, Fragment
from amaranth.lib import data, enum
from vcd import VCDWriter

from hw.config import ConfigError
from sim.engine.variables import (
    Label,
    check_scopes,
    chosen,
    declare,
    tabulated,
    variables,
    within,
)  # fmt: skip


class Kind(enum.Enum, shape=2):
    NONE = 0
    SOME = 2


class Fields(data.Struct):
    kind: Kind
    rest: 4


class Block(Elaboratable):
    def __init__(self):
        self.fields = Signal(Fields)
        self.copy = Signal(Fields)
        self.wide = Signal(70, decoder=lambda number: f"number {number}")
        self.state = Signal(2, decoder={0: "idle", 1: "in work"}.__getitem__)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Module()
        seen = Signal(6)
        m.d.comb += self.copy.eq(self.fields)
        inner.d.comb += seen.eq(self.fields)
        inner.d.sync += [self.state.eq(seen), self.wide.eq(self.copy.rest)]
        return m


@pytest.fixture(scope="module")
def found():
    return variables(Fragment.get(Block(), None).prepare())


def names(found):
    """Names of each variable, without bench and top."""
    return [[".".join(name[2:-1]) + name[-1] for name in variable.names] for variable in found]


def test_names_of_the_same_wires_share_a_variable_with_fields_and_labels(found):
    assert ["copy", "fields", "inner.copy", "inner.fields", "inner.seen"] in [
        sorted(group) for group in names(found)
    ]
    flat = names(found)
    for suffix in (".kind", ".kind.label", ".rest"):
        (group,) = [group for group in flat if f"fields{suffix}" in group]
        assert f"copy{suffix}" in group


def test_scopes_choose_names_and_keep_the_clock_of_the_top(found):
    some = chosen(found, ["inner.seen", "fields.kind"])
    assert names(some)[0] == ["clk"]
    assert {name for group in names(some)[1:] for name in group} == {"inner.seen"}
    assert names(chosen(found, [])) == names(found)
    check_scopes(found, ["inner", "fields"])
    with pytest.raises(ConfigError, match="no scope is called 'inn'; scopes are those"):
        check_scopes(found, ["inner", "inn"])


@pytest.mark.parametrize(
    ("name", "scopes", "inside"),
    [("a.b", (), True), ("a.b", ("a",), True), ("ab.c", ("a",), False), ("a", ("a.b",), False)],
)
def test_a_scope_ends_at_a_point(name, scopes, inside):
    assert within(name, scopes) is inside


def test_labels_are_texts_without_spaces_and_unknown_without_a_name():
    states = Label({0: "idle", 1: "in\twork now"}, 2, signed=False)
    assert [states.text(bits) for bits in range(3)] == ["idle", "in______work_now", "unknown"]
    assert Label({-1: "minus"}, 3, signed=True).text(7) == "minus"

    def decode(number):
        return {-4: "low"}[number]

    table = Label(decode, 3, signed=True).tabulated()
    assert not callable(table.names)
    assert [table.text(bits) for bits in range(8)] == ["unknown"] * 4 + ["low"] + ["unknown"] * 3
    with pytest.raises(ConfigError, match="13 bits has a function as decoder.* at most 12 bits"):
        Label(decode, 13, signed=False).tabulated()


def test_decoders_of_wide_signals_give_no_labels(found):
    (wide,) = [group for group in names(found) if "inner.wide" in group]
    assert [name for name in wide if "label" in name] == []
    labels = {variable.names[0][-2:]: variable.label for variable in found if variable.label}
    assert labels["state", ".label"].text(1) == "in_work"
    assert len(tabulated(found)) == len(found)


def test_a_writer_is_told_all_names_and_initial_values(found):
    text = io.StringIO()
    writer = VCDWriter(text, timescale="1 fs", date="")
    declared = declare(writer, chosen(found, ["inner.state"]), lambda variable: 1)
    writer.close()
    assert len(declared) == 3
    assert "$var wire 2 \" state $end\n$var string 1 # \\state.label $end" in text.getvalue()
    assert "$dumpvars\n1!\nb1 \"\nsin_work #\n$end\n" in text.getvalue()


def test_formats_that_are_no_structure_have_no_fields():
    signal = Signal(8)
    signal._format = Format.Struct(
        signal, {"low": Format("{:x}", signal[:4]), "text": Format("{}/{}", signal[0], signal[1])}
    )
    m = Module()
    m.d.sync += signal.eq(1)
    flat = [name for group in names(variables(Fragment.get(m, None).prepare())) for name in group]
    assert [name for name in flat if "signal" in name] == ["signal", "signal.low"]
