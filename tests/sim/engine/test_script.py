# amaranth: UnusedElaboratable=no
"""Scripts of a host, and messages of a board: the same on every engine."""

import re
from pathlib import Path

import pytest
from amaranth.hdl import Assert, Assume, Elaboratable, Format, Module, Print, Signal
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.regs.errors import ConfigError
from sim.engine.base import EngineError
from sim.engine.compiled import CompiledBoard
from sim.engine.pysim import PysimEngine
from sim.engine.script import Peek, Poke, Step, Until, interpreted

ENGINES = [PysimEngine, CompiledBoard]


class Adder(Elaboratable):
    """Adds what is given while it may; `full` for a cycle in sixteen. Says what it is told to."""

    storages = {}

    def __init__(self):
        self.amount = Signal(40)
        self.go = Signal()
        self.telling = Signal(3)
        self.wide = Signal(70)

    def elaborate(self, platform):
        m = Module()
        total = Signal(64)
        count = Signal(16)
        full = Signal()
        parts = Signal(60)
        m.submodules.teller = teller = Module()
        told = Signal(3)
        teller.d.comb += told.eq(self.telling)
        m.d.sync += count.eq(count + 1)
        m.d.comb += [full.eq(count[:4] == 15), parts.eq((count << 44) | total[:44])]
        with m.If(self.go):
            m.d.sync += total.eq(total + self.amount)
        with m.If(self.wide != 0):
            m.d.sync += total.eq(0)
        with teller.If(told == 1):
            teller.d.sync += Print(Format("total {:d}", total))
        with teller.If(told == 2):
            teller.d.sync += Assert(~full, Format("full at {}", count))
        with teller.If(told == 3):
            teller.d.comb += Assume(~full)
        return m


@pytest.fixture(scope="module")
def engines():
    return [make(Adder()) for make in ENGINES]


@pytest.fixture(scope="module", params=[0, 1], ids=["pysim", "compiled"])
def shared(request, engines):
    return engines[request.param]


@pytest.fixture
def engine(shared):
    shared.reset()
    return shared


INPUTS = {"amount": (1 << 40) - 1, "go": 1}
OPERATIONS = st.one_of(
    st.sampled_from(sorted(INPUTS)).flatmap(
        lambda name: st.builds(Poke, st.just(name), st.integers(0, INPUTS[name]))
    ),
    st.sampled_from(sorted(INPUTS)).map(Poke),
    st.builds(Step, st.integers(0, 20)),
    st.builds(Until, st.sampled_from(["full", "go"]), st.integers(0, 20)),
    st.just(Until("full")),
    st.builds(Peek, st.sampled_from(["amount", "go", "total", "count", "full", "parts"])),
)


@settings(max_examples=60)
@given(
    operations=st.lists(OPERATIONS, max_size=12),
    numbers=st.lists(st.integers(0, 20), min_size=36, max_size=36),
)
def test_a_script_is_the_same_whatever_runs_it(engines, operations, numbers):
    """Three calls in a row; the last engine does it with its methods, one by one."""
    pysim, compiled = engines
    outcomes = []
    for engine, make in (
        (pysim, pysim.script), (compiled, compiled.script),
        (compiled, lambda chosen: interpreted(compiled, chosen)),
    ):  # fmt: skip
        engine.reset()
        script = make(operations)
        numbered = iter(numbers)
        outcome = []
        for _ in range(3):
            arguments = []
            for operation in operations:
                match operation:
                    case Poke(name, None):
                        arguments.append(next(numbered) & INPUTS[name])
                    case Until(_, None):
                        arguments.append(next(numbered))
            outcome.append((script(*arguments), engine.now))
        outcomes.append((outcome, [engine.peek(name) for name in ("total", "count", "go")]))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_what_did_not_come_ends_the_script_and_the_next_call_begins_anew(engine):
    script = engine.script([Poke("go", 1), Until("full", 10), Peek("count"), Step()])
    assert (script(), engine.now) == (None, 10)
    assert (script(), engine.now) == ((15,), 16)


def test_a_script_takes_signals_of_at_most_64_bits():
    engine = CompiledBoard(Adder())
    with pytest.raises(ConfigError, match="wide has 70 bits; a script takes at most 64 at once"):
        engine.script([Poke("wide")])(0)


def test_what_is_printed_appears_once_for_each_cycle_and_the_run_goes_on(engine, capsys):
    engine.poke("amount", 3)
    engine.poke("go", 1)
    engine.poke("teller.telling", 1)
    engine.step(3)
    assert engine.script([Step(2), Poke("teller.telling", 0), Step(5), Peek("total")])() == (30,)
    assert not engine.run_until("full", 12)
    assert engine.now == 12
    assert capsys.readouterr().out == "".join(f"total {3 * n}\n" for n in range(5))


def place(text):
    """File and line of a statement above, as errors name them."""
    lines = Path(__file__).read_text().splitlines()
    (line,) = (n for n, each in enumerate(lines, 1) if each.strip().startswith(text))
    return f"{__file__}:{line}"


@pytest.mark.parametrize("run", ["step", "script"])
def test_an_assertion_says_what_did_not_hold_in_which_cycle_and_where(engine, run):
    engine.poke("teller.telling", 2)
    with pytest.raises(EngineError) as caught:
        engine.step(20) if run == "step" else engine.script([Step(), Step(19), Step()])()
    where = " in teller" if engine.name == "compiled" else ""
    source = place("teller.d.sync += Assert(")
    assert str(caught.value).startswith(
        f"Assertion violated: full at 15; cycle 15{where} ({source}): the gateware is at fault"
    )


def test_an_assumption_that_is_always_checked_fails_in_the_cycle_itself(engine):
    engine.poke("teller.telling", 3)
    with pytest.raises(EngineError, match=r"^Assumption violated; cycle 15[ (]"):
        engine.run_until(None, 20)
    assert engine.now == 15


def test_a_script_that_failed_begins_anew(engine):
    script = engine.script([Step(20), Peek("count")])
    engine.poke("teller.telling", 2)
    with pytest.raises(EngineError, match=re.escape("full at 15")):
        script()
    engine.reset()
    assert script() == (20,)
