"""Random graphs, given and captured, against numpy: in each replay tasks run in their order."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rt.errors import StreamAborted
from rt.graph import TaskDesc
from tests.rt.machine import ADD, SPIN, binary, machine

SIZE = 32
BUFFERS = 4


@dataclass
class Step:
    """result = source + amount, or with no result a spin of `amount` cycles."""

    source: int
    result: int | None
    amount: int
    extra: frozenset[int]
    """Steps before it for which it waits without need."""
    lane: int

    def run(self, arrays):
        if self.result is not None:
            arrays[self.result] = arrays[self.source] + np.uint8(self.amount)


buffers = st.integers(0, BUFFERS - 1)
steps = st.lists(
    st.builds(
        Step, buffers, st.none() | buffers | buffers, st.integers(0, 255),
        st.frozensets(st.integers(0, 11), max_size=4), st.integers(0, 2),
    ),
    min_size=1, max_size=12,
)  # fmt: skip
replays = st.lists(
    st.tuples(
        st.permutations(range(3)),
        st.none() | st.tuples(st.integers(0, 11), st.integers(0, 255)),
        st.none() | st.tuples(st.integers(0, 2), st.integers(0, 800)),
        st.booleans(),
    ),
    min_size=1, max_size=6,
)  # fmt: skip
"""Of each: on which streams, which amount is changed before it, an abort after it, a wait."""


def dependencies(program):
    """By step: those before it that touch what it writes, or write what it reads."""
    found = {}
    for number, step in enumerate(program):
        deps = {other for other in step.extra if other < number}
        for earlier, other in enumerate(program[:number]):
            if other.result is not None and step.result is not None:
                touched, written = {step.source, step.result}, {other.result}
                if touched & written or step.result == other.source:
                    deps.add(earlier)
        found[number] = deps
    return found


class Bench:
    """Streams, kernels and buffers of a session, and what the buffers must hold."""

    def __init__(self, device):
        self.session = device.session()
        self.streams = [self.session.stream(depth=16) for _ in range(3)]
        self.add = self.session.load(binary(ADD, device.config))
        self.spin = self.session.load(binary(SPIN, device.config))
        self.expected = [np.full(SIZE, 40 * n, np.uint8) for n in range(BUFFERS)]
        self.buffers = [self.session.buffer(array) for array in self.expected]

    def arguments(self, step):
        """kernel, inputs, outputs, scalars."""
        if step.result is None:
            return self.spin, [], [], [step.amount]
        scalars = [step.amount, SIZE]
        return self.add, [self.buffers[step.source]], [self.buffers[step.result]], scalars

    def given(self, program, streams):
        """A graph of descriptions, and what `Graph.update` calls its steps."""
        tasks = [
            TaskDesc(100 - number, *self.arguments(program[number]),
                     event_deps=[100 - dep for dep in deps])
            for number, deps in dependencies(program).items()
        ]  # fmt: skip
        graph = self.session.graph(tasks[::-1], streams=streams)
        return graph, [100 - number for number in range(len(program))]

    def captured(self, program):
        """A graph captured from all streams, the first of which pulls the others in."""
        deps = dependencies(program)
        events = [self.session.event() for _ in program]
        fork, tasks = self.session.event(), []
        origin, *others = self.streams
        with origin.capture() as graph:
            origin.record(fork)
            for stream in others:
                stream.wait(fork)
            for number, step in enumerate(program):
                stream = self.streams[step.lane]
                for dep in deps[number]:
                    stream.wait(events[dep])
                tasks.append(stream.launch(*self.arguments(step)).id)
                stream.record(events[number])
            for stream in others:
                origin.wait(stream)
        return graph, tasks

    def reset(self):
        """All buffers hold what they began with."""
        self.expected = [np.full(SIZE, 40 * n, np.uint8) for n in range(BUFFERS)]
        for buffer, array in zip(self.buffers, self.expected, strict=True):
            self.streams[0].upload(buffer, array)
        self.streams[0].synchronise()

    def replay(self, graph, program, names, plan):
        for order, change, abort, wait in plan:
            origin, *others = (self.streams[n] for n in order)
            if change is not None and change[0] < len(program):
                step = program[change[0]]
                step.amount = change[1]
                graph.update(names[change[0]], scalars=self.arguments(step)[3])
            replay = origin.replay(graph, *others)
            for step in program:
                step.run(self.expected)
            if abort is not None:
                self.abort(replay, *abort)
            elif wait:
                self.check(origin)
        for stream in self.streams:
            stream.synchronise()
        self.check(self.streams[0])

    def abort(self, replay, number, cycles):
        transport = self.session.device.driver.transport
        transport.run_until(interrupt=False, cycle=transport.now() + cycles)
        self.streams[number].abort()
        for stream in self.streams:
            try:
                stream.synchronise()
            except StreamAborted:
                assert stream is self.streams[number]
        assert replay.over
        self.reset()

    def check(self, stream):
        downloads = [stream.download(buffer) for buffer in self.buffers]
        for download, array in zip(downloads, self.expected, strict=True):
            assert (download.result() == array).all()

    def close(self, graph):
        device = self.session.device
        graph.close()
        assert len(device.events.free) == device.config.events
        self.session.close()
        assert device.device_pool.available == device.device_pool.size


@given(steps, replays, st.integers(1, 3))
def test_given_graphs_equal_numpy(program, plan, streams):
    with machine(device_bytes=1 << 16, host_bytes=1 << 16) as device:
        bench = Bench(device)
        graph, names = bench.given(program, streams)
        bench.replay(graph, program, names, plan)
        bench.close(graph)


@given(steps, replays)
def test_captured_graphs_equal_numpy(program, plan):
    with machine(device_bytes=1 << 16, host_bytes=1 << 16) as device:
        bench = Bench(device)
        graph, names = bench.captured(program)
        bench.replay(graph, program, names, plan)
        bench.close(graph)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500))
def test_more_graphs_equal_numpy(seed):
    rng = np.random.default_rng(seed)

    def number(limit):
        return int(rng.integers(limit))

    program = [
        Step(number(BUFFERS), None if not number(3) else number(BUFFERS), number(256),
             frozenset(number(12) for _ in range(number(4))), number(3))
        for _ in range(1 + number(12))
    ]  # fmt: skip
    plan = [
        (list(rng.permutation(3)), (number(12), number(256)) if number(2) else None,
         (number(3), number(800)) if not number(3) else None, bool(number(2)))
        for _ in range(1 + number(8))
    ]  # fmt: skip
    with machine(device_bytes=1 << 16, host_bytes=1 << 16) as device:
        bench = Bench(device)
        graph, names = bench.given(program, 1 + number(3)) if seed % 2 else bench.captured(program)
        bench.replay(graph, program, names, plan)
        bench.close(graph)
