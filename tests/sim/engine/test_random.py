"""Random designs: every signal and memory is equal on pysim and compiled, after every step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.lockstep import lockstep

from .designs import designs
from .stimuli import joined, stimulus

several = st.lists(designs(), min_size=3, max_size=3)
"""One compilation serves them all."""
seeds = st.integers(0, 1 << 32)


def compare(found, seed):
    design, driven = joined(found)
    lockstep(design, stimulus(driven, seed, 12))


@settings(max_examples=20)
@given(several, seeds)
def test_random_designs_are_equal_on_both_engines(found, seed):
    compare(found, seed)


@pytest.mark.slow
@settings(max_examples=300, derandomize=False)
@given(several, seeds)
def test_hundreds_of_random_designs_are_equal_on_both_engines(found, seed):
    compare(found, seed)
