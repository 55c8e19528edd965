"""Random designs: every signal and memory is equal on pysim and compiled, after every step."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim.engine.lockstep import lockstep
from sim.engine.model import Model
from sim.engine.program import ALL, compile

from .designs import designs
from .stimuli import joined, number, stimulus

several = st.lists(designs(), min_size=3, max_size=3)
"""One compilation serves them all."""
seeds = st.integers(0, 1 << 32)


def compare(found, seed):
    design, driven = joined(found)
    keep = () if seed % 4 == 1 else ALL
    lockstep(design, stimulus(driven, seed, 12), keep=keep)


@settings(max_examples=20)
@given(several, seeds)
def test_random_designs_are_equal_on_both_engines(found, seed):
    compare(found, seed)


@pytest.mark.slow
@settings(max_examples=300, derandomize=False)
@given(several, seeds)
def test_hundreds_of_random_designs_are_equal_on_both_engines(found, seed):
    compare(found, seed)


def values(model):
    return {name: model.get(slot) for name, slot in model.program.paths.items()}


@settings(max_examples=10)
@given(designs(), seeds)
def test_whole_cycles_are_what_their_edges_are(found, seed):
    design, driven = joined([found])
    program = compile(design)
    assume(len(program.clocks) == 1)
    (clock,) = program.clocks
    edges, cycles = Model(program, optimise=1), Model(program, optimise=1)
    random_ = random.Random(seed)
    for _ in range(12):
        count = random_.choice((0, 1, 1, 2, 5))
        for signal in (*driven["inputs"], *driven["resets"]):
            if random_.random() < 0.3:
                value = number(random_, len(signal))
                for model in (edges, cycles):
                    model.set(program.slot(signal), value)
                    model.settle()
                    while model.edges():  # an asynchronous reset
                        model.settle()
        for _ in range(count):
            for level in (1, 0):
                edges.set(clock, level)
                edges.settle()
                while edges.edges():
                    edges.settle()
        assert cycles.step(count) == count
        assert values(edges) == values(cycles)
    assert edges.snapshot() == cycles.snapshot()
