import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rt.errors import InvalidParameter
from rt.graph.dag import assign, order, plan

graphs = st.lists(st.sets(st.integers(0, 14), max_size=5), min_size=1, max_size=15).map(
    lambda sets: {task: tuple(sorted(d for d in deps if d < task))
                  for task, deps in enumerate(sets)}
)  # fmt: skip


def ancestors(deps):
    """By task: all that must have ended before it starts."""
    found = {}
    for task in order(deps):
        found[task] = {a for dep in deps[task] for a in (dep, *found[dep])}
    return found


def waits_of(planned):
    """The order that streams and waits ensure, as dependencies."""
    return {
        task: (*lane[max(0, place - 1) : place], *planned.waits[task])
        for lane in planned.lanes for place, task in enumerate(lane)
    }  # fmt: skip


def test_tasks_stand_behind_those_that_they_wait_for_else_in_the_order_given():
    assert order({3: (), 1: (2,), 2: (), 9: (3, 1)}) == [3, 2, 1, 9]


def test_a_cycle_is_named_in_its_order():
    deps = {1: (), 2: (1, 5), 3: (2,), 5: (3,), 7: (5,), 8: (7,)}
    text = "wait for each other: 2 for 5, which waits for 3, which waits for 2; take one"
    with pytest.raises(InvalidParameter, match=text):
        order(deps)


def test_a_cycle_behind_which_others_wait_is_found_from_them():
    with pytest.raises(InvalidParameter, match="wait for each other: 3 for 2, which waits for 3;"):
        order({1: (3,), 3: (2,), 2: (3,)})


def test_a_task_that_waits_for_itself_is_a_cycle():
    with pytest.raises(InvalidParameter, match="wait for each other: 4 for 4; take one"):
        order({4: (4,)})


def test_chains_stay_on_their_streams_and_need_no_waits():
    deps = {chain * 10 + step: (chain * 10 + step - 1,) if step else ()
            for step in range(4) for chain in range(3)}  # fmt: skip
    planned = plan(deps, assign(deps, 3))
    assert sorted(planned.lanes) == [tuple(range(c, c + 4)) for c in (0, 10, 20)]
    assert not planned.steps
    assert planned.stride == 1


def test_the_longest_way_goes_first():
    deps = {0: (), 1: (), 2: (), 10: (), 11: (10,), 12: (11,)}
    assert assign(deps, 2) == [[10, 11, 12], [0, 1, 2]]


def test_a_diamond_needs_two_waits_on_two_streams_and_none_on_one():
    deps = {1: (), 2: (1,), 3: (1,), 4: (2, 3)}
    planned = plan(deps, assign(deps, 2))
    assert planned.lanes == ((1, 2), (3, 4))
    assert planned.waits == {1: (), 2: (), 3: (1,), 4: (2,)}
    assert planned.steps == {1: 1, 2: 2}
    assert planned.stride == 3
    assert not plan(deps, assign(deps, 1)).steps


def test_what_another_wait_ensures_is_not_waited_for():
    deps = {1: (), 2: (1,), 3: (1, 2), 4: (1, 2, 3)}
    planned = plan(deps, [[1], [2], [3, 4]])
    assert planned.waits == {1: (), 2: (1,), 3: (2,), 4: ()}


def test_of_several_in_one_stream_the_last_is_waited_for():
    planned = plan({1: (), 2: (), 3: (1, 2)}, [[1, 2], [3]])
    assert planned.waits[3] == (2,)
    assert planned.steps == {2: 1}


@given(graphs, st.integers(1, 5), st.integers(0, 1 << 32))
def test_streams_and_waits_ensure_every_dependency(deps, streams, seed):
    for lanes in (assign(deps, streams), random_lanes(deps, streams, seed)):
        planned = plan(deps, lanes)
        assert len(lanes) <= streams
        assert sorted(task for lane in lanes for task in lane) == sorted(deps)
        ensured = ancestors(waits_of(planned))
        assert all(set(before) <= ensured[task] for task, before in deps.items())
        lane_of = {task: n for n, lane in enumerate(lanes) for task in lane}
        for task, awaited in planned.waits.items():
            others = [lane_of[dep] for dep in awaited]
            assert len(set(others)) == len(others)
            assert lane_of[task] not in others
            for dep in awaited:  # none can be left out
                less = waits_of(planned)
                less[task] = tuple(other for other in less[task] if other != dep)
                assert dep not in ancestors(less)[task]
        assert set(planned.steps) == {dep for all_ in planned.waits.values() for dep in all_}


def random_lanes(deps, streams, seed):
    rng = random.Random(seed)
    lanes = [[] for _ in range(streams)]
    for task in order(deps):
        rng.choice(lanes).append(task)
    return [lane for lane in lanes if lane]
