"""Waveforms, with the same content on each engine."""

import io
import re

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory, MemoryData

from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")


class Colour(enum.Enum, shape=2):
    RED = 0
    BLUE = 2


def waves(text):
    """Values over time of each variable of a VCD, by its path: {path: [(time, value), …]}."""
    head, body = text.split("$enddefinitions $end")
    names, scope = {}, []
    for line in head.splitlines():
        match line.split():
            case ["$scope", _, name, "$end"]:
                scope.append(name)
            case ["$upscope", "$end"]:
                scope.pop()
            case ["$var", _, _, identifier, *name, "$end"]:
                names[".".join([*scope, re.sub(r" ?\[\d+:0\]$", "", " ".join(name))])] = identifier
    time, values = 0, {}
    for line in body.splitlines():
        if line.startswith("#"):
            time = int(line[1:])
        elif line and not line.startswith("$"):
            value, identifier = line.split() if line[0] in "bs" else (line[0], line[1:])
            values.setdefault(identifier, {})[time] = value.lstrip("bs")
    return {name: _changes(values[identifier]) for name, identifier in names.items()}


def _changes(values):
    """Without the times at which the value stayed the same."""
    changes = []
    for time, value in sorted(values.items()):
        if not changes or changes[-1][1] != value:
            changes.append((time, value))
    return changes


def record(m, *benches, clocked=True, gtkw=None, **options):
    """The waves of a simulation."""
    sim = simulator_of(m)
    if clocked:
        sim.add_clock(2e-15)
    for bench in benches:
        sim.add_testbench(bench)
    file = io.StringIO()
    file.close, file.name = lambda: None, "waves.vcd"
    with sim.write_vcd(file, gtkw, **options):
        sim.run()
    return waves(file.getvalue())


def ticks(count):
    async def bench(ctx):
        await ctx.tick().repeat(count)

    return bench


def test_registers_and_logic_of_all_modules_are_in_the_waveform_by_their_names():
    m = Module()
    m.submodules.inner = inner = Module()
    count = Signal(3)
    double = Signal(4)
    initial = Signal(4)
    inner.d.sync += count.eq(count + 1)
    m.d.comb += [double.eq(count * 2), initial.eq(5)]
    found = record(m, ticks(3))
    assert found["bench.top.clk"] == [(0, "0"), (1, "1"), (2, "0"), (3, "1"), (4, "0"), (5, "1")]
    assert found["bench.top.inner.count"] == [(0, "0"), (1, "1"), (3, "10"), (5, "11")]
    assert found["bench.top.double"] == [(0, "0"), (1, "10"), (3, "100"), (5, "110")]
    assert found["bench.top.initial"] == [(0, "101")]
    assert found["bench.top.inner.clk"] == found["bench.top.clk"]


def test_fields_enumerations_and_signs_are_shown():
    m = Module()
    layout = data.StructLayout({"colour": Colour, "level": signed(3)})
    pair = Signal(layout)
    plain = Signal(Colour)
    level = Signal(signed(3))
    decoded = Signal(2, decoder=lambda value: f"no {value}")
    m.d.comb += [plain.eq(pair.colour), level.eq(pair.level), decoded.eq(pair.as_value()[:2])]

    async def bench(ctx):
        ctx.set(pair, {"colour": Colour.RED, "level": 1})
        await ctx.delay(3e-15)
        ctx.set(pair, {"colour": Colour.BLUE, "level": -2})
        await ctx.delay(1e-15)

    found = record(m, bench, clocked=False)
    assert found["bench.top.pair"] == [(0, "100"), (3, "11010")]
    assert found["bench.top.\\pair.colour"] == [(0, "RED"), (3, "BLUE")]
    assert found["bench.top.\\pair.level"] == [(0, "1"), (3, "110")]
    assert found["bench.top.plain"] == [(0, "RED"), (3, "BLUE")]
    assert found["bench.top.level"] == [(0, "1"), (3, "110")]
    assert found["bench.top.decoded"] == [(0, r"no\x200"), (3, r"no\x202")]


def test_rows_of_memories_are_shown_when_the_design_or_a_bench_writes_them():
    m = Module()
    m.submodules.memory = memory = Memory(shape=signed(4), depth=2, init=[3])
    port = memory.write_port()

    async def bench(ctx):
        ctx.set(port.addr, 1)
        ctx.set(port.data, -3)
        ctx.set(port.en, 1)
        await ctx.tick().repeat(2)
        ctx.set(memory.data[0], 1)

    found = record(m, bench)
    assert found["bench.top.\\memory[0]"] == [(0, "11"), (3, "1")]
    assert found["bench.top.\\memory[1]"] == [(0, "0"), (1, "1101")]


def test_traces_add_what_the_design_does_not_have_and_fill_the_view():
    class Source(wiring.Component):
        o: wiring.Out(stream.Signature(4))

        def elaborate(self, platform):
            m = Module()
            m.d.sync += self.o.payload.eq(self.o.payload + 1)
            return m

    source = Source()
    note = Signal(4)
    notes = MemoryData(shape=4, depth=2, init=[])

    async def bench(ctx):
        await ctx.tick()
        ctx.set(note, 9)
        ctx.set(notes[1], 5)
        await ctx.tick()
        ctx.set(note, 0)

    gtkw = io.StringIO()
    gtkw.close = lambda: None
    found = record(
        source, bench, gtkw=gtkw, traces=[source.o, {"notes": (note, notes)}, notes[0]]
    )
    assert found["bench.note"] == [(0, "0"), (1, "1001"), (3, "0")]
    assert found["bench.\\notes[1]"] == [(0, "0"), (1, "101")]
    assert found["bench.top.o__payload"] == [(0, "0"), (1, "1"), (3, "10")]
    shown = [line for line in gtkw.getvalue().splitlines() if line and line[0] not in "[*@"]
    assert shown == [
        "-interface", "bench.top.o__payload[3:0]", "bench.o__valid", "bench.o__ready",
        "-interface", "-notes", "bench.note[3:0]", "bench.\\notes[0][3:0]",
        "bench.\\notes[1][3:0]", "-notes", "bench.\\notes[0][3:0]",
    ]  # fmt: skip


def test_a_waveform_is_written_into_files_by_name(tmp_path):
    m = Module()
    count = Signal(3)
    m.d.sync += count.eq(count + 1)
    sim = simulator_of(m)
    sim.add_clock(2e-15)
    sim.add_testbench(ticks(2))
    with sim.write_vcd(str(tmp_path / "a.vcd"), str(tmp_path / "a.gtkw"), traces=[count]):
        sim.run()
    found = waves((tmp_path / "a.vcd").read_text())
    assert found["bench.top.count"] == [(0, "0"), (1, "1"), (3, "10")]
    assert "bench.top.count[2:0]" in (tmp_path / "a.gtkw").read_text()


def test_a_waveform_begins_at_the_start_only():
    m = Module()
    m.d.sync += Signal().eq(1)
    sim = simulator_of(m)
    sim.add_clock(1e-9)
    sim.add_testbench(ticks(1))
    sim.run()
    with pytest.raises(ValueError, match=r"^Cannot start writing waveforms after advancing"):
        sim.write_vcd(io.StringIO())


def test_a_waveform_holds_what_happened_before_an_error():
    m = Module()
    count = Signal(3)
    m.d.sync += count.eq(count + 1)

    async def bench(ctx):
        await ctx.tick().repeat(2)
        raise LookupError

    sim = simulator_of(m)
    sim.add_clock(2e-15)
    sim.add_testbench(bench)
    file = io.StringIO()
    file.close = lambda: None
    with pytest.raises(LookupError), sim.write_vcd(file):
        sim.run()
    assert waves(file.getvalue())["bench.top.count"] == [(0, "0"), (1, "1"), (3, "10")]
