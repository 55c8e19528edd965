"""The reference of stream semantics agrees with itself, whatever legal order it runs in."""

import random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.system.semantics.execution import run
from tests.system.semantics.programs import programs
from tests.system.semantics.reference import Reference, members


@settings(max_examples=150, phases=[Phase.generate])
@given(programs(), st.integers(0, 1 << 30))
def test_programs_end_alike_in_any_legal_order_and_keep_what_is_said_of_it(program, seed):
    reference = Reference(len(program.streams), program.graphs, program.calls)
    assert reference.legal
    rng = random.Random(seed)
    first, last, *others = (
        run(reference, choose)
        for choose in (lambda ready: ready[0], lambda ready: ready[-1], rng.choice, rng.choice)
    )
    for result in (first, last, *others):
        assert (result.known == first.known).all()
        assert (result.memory[result.known] == first.memory[result.known]).all()
        assert result.counters == first.counters
        for place, (found, sure) in result.downloads.items():
            assert (sure == first.downloads[place][1]).all()
            assert (found[sure] == first.downloads[place][0][sure]).all()
        places = {task: place for place, task in enumerate(result.order)}
        for task in reference.tasks:
            if not task.dropped:
                before = [reference.tasks[number] for number in members(task.before)]
                assert all(places[other] < places[task] for other in before)
