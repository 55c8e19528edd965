"""A run stops where what it waits for holds, however its signals are stored."""

import pytest
from amaranth import C, Cat, Module, Signal
from hypothesis import given
from hypothesis import strategies as st

from sim.engine.conditions import Term, known, met, untils
from sim.engine.model import Model
from sim.engine.program import compile

WIDTHS = {"count": 5, "wide": 70, "joined": 9, "mixed": 12, "fixed": 6}


@pytest.fixture(scope="module")
def model():
    """Registers of one and of several words, parts of both put together, and a constant."""
    m = Module()
    signals = {name: Signal(width, name=name) for name, width in WIDTHS.items()}
    count, wide = signals["count"], signals["wide"]
    m.d.sync += [count.eq(count + 1), wide.eq(Cat(count[:2], wide[:68]))]
    m.d.comb += [
        signals["joined"].eq(Cat(count[1:4], wide[62:68])),
        signals["mixed"].eq(Cat(count, C(5, 3), wide[:2])),
        signals["fixed"].eq(C(0x2A, 6)),
    ]
    return Model(compile(m), optimise=0)


def values(model):
    return {name: model.get(model.program.slot(name)) for name in WIDTHS}


def holds(now, wanted):
    return any(
        all((now[term.signal] == term.value) is term.equal for term in terms) for terms in wanted
    )


seen = st.integers(0, 60)
terms = st.lists(
    st.tuples(st.sampled_from(sorted(WIDTHS)), seen, st.booleans()), min_size=1, max_size=3
)


@given(chosen=st.lists(terms, min_size=1, max_size=3), odd=st.integers(0, 9))
def test_a_run_stops_in_the_first_cycle_in_which_a_condition_holds(model, chosen, odd):
    model.reset()
    history = []
    for _ in range(62):
        history.append(values(model))
        model.step(1)
    wanted = [
        [Term(name, history[cycle][name] + (odd == 0) * 1000, equal) for name, cycle, equal in some]
        for some in chosen
    ]
    model.reset()
    conditions = untils(model, wanted)
    done = model.run_until(conditions, 61)
    expected = next((cycle for cycle, now in enumerate(history) if holds(now, wanted)), 61)
    assert done == expected
    assert met(model, conditions) is holds(history[done], wanted)


def test_a_model_knows_what_it_keeps(model):
    assert known(model, [[Term("count", 1)], [Term("wide", 2), Term("fixed", 3)]])
    assert not known(model, [[Term("count", 1), Term("nothing", 2)]])
    assert known(model, [])
    assert not met(model, untils(model, []))
