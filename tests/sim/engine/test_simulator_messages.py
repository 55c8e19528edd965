"""What a design prints and checks, with the same output on each engine."""

import traceback

import pytest
from amaranth.hdl import Assert, Assume, Cat, Cover, Format, Module, Print, Signal, signed
from amaranth.lib import data, enum

from tests.simulation import simulate, simulator_of

pytestmark = pytest.mark.usefixtures("engine")


class Colour(enum.Enum, shape=2):
    RED = 0
    BLUE = 2


def ticks(count):
    async def bench(ctx):
        for _ in range(count):
            await ctx.tick()

    return bench


def test_a_print_shows_the_values_before_the_tick_while_its_condition_holds(capsys):
    m = Module()
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    with m.If(count[0]):
        m.d.sync += Print("count", count)
    simulate(m, ticks(4))
    assert capsys.readouterr().out == "count 1\ncount 3\n"


def test_prints_of_one_tick_come_in_the_order_of_the_statements(capsys):
    m = Module()
    m.d.sync += [Print("one", end=" "), Print("two", 2, sep="-"), Print("{three}")]
    simulate(m, ticks(2))
    assert capsys.readouterr().out == "one two-2\n{three}\n" * 2


@pytest.mark.parametrize(
    "text",
    ["{}", "{:d}", "{:+}", "{: }", "{:#x}", "{:06X}", "{:>5}|", "{:<5}|", "{:=5}|", "{:*>6}",
     "{:#010b}", "{:o}", "{:_d}", "{:#_b}", "{:+#07x}", "{:-}"],
)  # fmt: skip
def test_numbers_are_formatted_as_in_python(text, capsys):
    m = Module()
    a, b = Signal(8, init=200), Signal(signed(4), init=-3)
    m.d.sync += Print(Format(text, a), Format(text, b))
    simulate(m, ticks(1))
    assert capsys.readouterr().out == f"{text.format(200)} {text.format(-3)}\n"


def test_characters_text_wide_values_and_structures_are_formatted(capsys):
    m = Module()
    letter, text, wide = Signal(8, init=0x41), Signal(32, init=0x636261), Signal(100, init=1 << 99)
    pair = Signal(data.StructLayout({"colour": Colour, "level": signed(3)}), init={"level": -2})
    m.d.sync += [Print(Format("{:c} {:s}", letter, text)), Print(wide), Print(pair)]
    simulate(m, ticks(1))
    assert capsys.readouterr().out == f"A abc\n{1 << 99}\n{{colour=RED, level=-2}}\n"


def test_a_print_without_a_clock_follows_its_values(capsys):
    m = Module()
    a = Signal(4)
    with m.If(a != 0):
        m.d.comb += Print("a", a)

    async def bench(ctx):
        for value in (3, 3, 0, 5):
            ctx.set(a, value)

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()
    assert capsys.readouterr().out == "a 3\na 5\n"


@pytest.mark.parametrize(("kind", "word"), [(Assert, "Assertion"), (Assume, "Assumption")])
def test_a_property_that_does_not_hold_ends_the_simulation_where_it_is_written(kind, word):
    m = Module()
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    m.d.sync += kind(count != 2, Format("count is {}", count))
    with pytest.raises(AssertionError, match=f"^{word} violated: count is 2$") as caught:
        simulate(m, ticks(9))
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert frame.filename == __file__
    assert "kind(count != 2" in frame.line


def test_a_property_may_be_without_a_message_and_under_a_condition():
    m = Module()
    a, active = Signal(4), Signal()
    with m.If(active):
        m.d.sync += Assert(a < 3)

    async def bench(ctx):
        ctx.set(a, 7)
        await ctx.tick()
        ctx.set(active, 1)
        await ctx.tick()
        raise LookupError

    with pytest.raises(AssertionError, match="^Assertion violated$"):
        simulate(m, bench)


def test_a_property_without_a_clock_fails_the_set_that_violates_it():
    m = Module()
    a, b = Signal(4), Signal(4)
    m.d.comb += Assert(a + b < 20, Format("{:d} and {:d}", a, b))

    async def bench(ctx):
        ctx.set(a, 12)
        with pytest.raises(AssertionError, match="^Assertion violated: 12 and 9$"):
            ctx.set(b, 9)
        ctx.set(Cat(a, b), 0x11)
        assert ctx.get(b) == 1

    sim = simulator_of(m)
    sim.add_testbench(bench)
    sim.run()


def test_what_was_printed_before_a_property_failed_is_shown(capsys):
    m = Module()
    count = Signal(4)
    m.d.sync += [count.eq(count + 1), Print("at", count), Assert(count != 1)]
    with pytest.raises(AssertionError):
        simulate(m, ticks(9))
    assert capsys.readouterr().out == "at 0\nat 1\n"


def test_a_cover_reports_with_its_message_when_it_is_hit(capsys):
    m = Module()
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    m.d.sync += Cover(count == 2, Format("count is {}", count))
    m.d.sync += Cover(count == 1)
    simulate(m, ticks(4))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"Coverage hit at {__file__}:")
    assert lines[0].endswith(": count is 2")
