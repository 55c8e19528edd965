"""Among streams of a level that are ready all the time, none starves: they take turns."""

import numpy as np
import pytest

from rt.ops import gemm

ROUNDS = 8


@pytest.fixture
def tasks(session):
    """What keeps an engine busy: a kernel, a copy, a NOTIFY, or a write of a value."""
    a = session.buffer(np.ones((4, 4), np.int8))
    out, x, y = session.empty((4, 4), np.int32), session.empty(256, "u1"), session.empty(256, "u1")
    notify = session.notify()
    gemm(session.stream(), a, a, out)
    session.streams[0].close()
    return {
        "kernel": lambda stream: gemm(stream, a, a, out, profile=True)[0],
        "copy": lambda stream: stream.copy(x, y, profile=True),
        "notify": lambda stream: stream.notify(notify, profile=True),
        "value": lambda stream: stream.write_value(x, 0, 1, profile=True),
    }


def begin_together(session, priorities, submit):
    """Streams of those priorities are given tasks, which begin when all were submitted."""
    gate = session.empty(8, np.uint64)
    session.streams[0].fill(gate, 0)
    session.synchronise()
    streams = [*session.streams, *(session.stream(p, depth=32) for p in priorities)]
    for stream in streams[1:]:
        stream.wait_value(gate, 0, 1)
    submitted = [submit(number, stream) for number, stream in enumerate(streams[1:])]
    streams[0].write_value(gate, 0, 1)
    session.synchronise()
    return submitted


def turns(submitted):
    """Which stream each task is of, in the order of their starts, while all have tasks left."""
    starts = sorted(
        (task.profile.start, number) for number, tasks in enumerate(submitted) for task in tasks
    )
    last = min(max(task.profile.start for task in tasks) for tasks in submitted)
    return [number for start, number in starts if start <= last]


@pytest.mark.parametrize("kind", ["kernel", "copy", "notify", "value"])
@pytest.mark.parametrize("priority", [0, 7])
def test_streams_of_a_level_that_want_the_same_engine_take_turns(session, tasks, kind, priority):
    """Exactly, where tasks last until the next is staged; else each of the others gets at most as
    many between two of a stream as it has staged."""
    session.stream(7)
    submitted = begin_together(
        session, [priority] * 3, lambda _, stream: [tasks[kind](stream) for _ in range(ROUNDS)]
    )
    order = turns(submitted)
    if kind in ("kernel", "copy"):
        assert len(order) >= 3 * ROUNDS - 2
        assert all(len({*order[at : at + 3]}) == 3 for at in range(len(order) - 2)), order
    for stream in range(3):
        places = [place for place, number in enumerate(order) if number == stream]
        assert np.diff(places).max() <= 1 + 2 * session.device.config.staging, order


def test_a_stream_that_waits_again_and_again_gets_its_turn_when_it_is_ready(session, tasks):
    """Each of its kernels waits for a copy of its own, and then for one kernel of others at most,
    and for that which runs."""
    session.stream(0)

    def submit(number, stream):
        if number:
            return [tasks["kernel"](stream) for _ in range(3 * ROUNDS)]
        return [task for _ in range(ROUNDS) for task in (tasks["copy"](stream),
                                                         tasks["kernel"](stream))]  # fmt: skip

    waiter, *others = begin_together(session, [4] * 3, submit)
    starts = sorted(task.profile.start for tasks in others for task in tasks)
    for copy, kernel in zip(waiter[::2], waiter[1::2], strict=True):
        between = [s for s in starts if copy.profile.end < s < kernel.profile.start]
        assert len(between) <= 2, between


def test_a_greater_priority_goes_first_and_the_level_below_shares_the_rest(session, tasks):
    session.stream(0)
    above, *below = begin_together(
        session, [2, 5, 5], lambda _, stream: [tasks["kernel"](stream) for _ in range(ROUNDS)]
    )
    starts = [[task.profile.start for task in tasks] for tasks in below]
    early = sum(start < above[-1].profile.start for each in starts for start in each)
    assert early <= 2
    order = turns(below)
    assert all(one != two for one, two in zip(order[2:], order[3:], strict=False)), order
