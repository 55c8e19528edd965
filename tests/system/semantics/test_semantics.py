"""Random programs of streams and events, on the functional model and on the gateware.

How many, in every run: 200 on the model, 600 on the gateware, and 150 with memories that stall.
With `-m slow`: `CELOSIA_PROGRAMS` on the gateware, by default 20,000, in blocks of 500 others,
every fourth block with stalls; each block says how many have passed. On pysim: one of each.
"""

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.system.semantics.benches import Gateware, Model
from tests.system.semantics.check import check
from tests.system.semantics.programs import programs

MODEL, FAST, STALLING, PYSIM = 200, 600, 150, 1
PROGRAMS = int(os.environ.get("CELOSIA_PROGRAMS", "20000"))
BLOCK = 500


def check_programs(number, bench, block=0):
    """Checks so many programs, each on a new bench; those of each block are others.

    Returns how many.
    """
    checked = 0

    @seed(block)
    @settings(max_examples=number, suppress_health_check=[HealthCheck.too_slow])
    @given(programs())
    def each(program):
        nonlocal checked
        check(program, bench())
        checked += 1

    each()
    return checked


def on(transport, number):
    """The number of programs for a machine, and a new bench of it."""
    number = number if transport.engine.name == "compiled" else PYSIM
    return number, lambda: Gateware(transport)


def test_programs_on_the_functional_model_mean_what_the_reference_says():
    assert check_programs(MODEL, Model) == MODEL


def test_programs_on_the_gateware_mean_what_the_reference_says(machine):
    number, bench = on(machine, FAST)
    assert check_programs(number, bench) == number


def test_programs_on_memories_that_stall_mean_what_the_reference_says(stalling):
    number, bench = on(stalling, STALLING)
    assert check_programs(number, bench) == number


@pytest.mark.slow
@pytest.mark.parametrize("block", range(1, -(-PROGRAMS // BLOCK) + 1))
def test_thousands_of_programs_mean_what_the_reference_says(machine, stalling, block, capsys):
    number, bench = on(machine if block % 4 else stalling, BLOCK)
    checked = check_programs(number, bench, block)
    with capsys.disabled():
        print(f" {checked} programs, {block} of {-(-PROGRAMS // BLOCK)} blocks", end="")
