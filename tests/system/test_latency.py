"""Cycles between what depends on each other, exact, on the whole machine.

Each is stated with the least that its path needs. All tasks are staged and kernels resident in a
code bank before the measured moment, and the bus is quiet: nothing is left but the path itself.
"""

import numpy as np
import pytest

from rt import Device
from rt.ops import gemm
from sim.timeline import Timeline
from sim.wave import Waveform
from tests.system.recording import AR, CONTROL_W, channel, record

GATE = 1024
"""Bytes of a fill that lasts until everything behind it is staged: a beat of 8 a cycle."""

RECORD_TO_KERNEL = 2
"""The compare register of the event unit, the read of the code bank."""
RECORD_TO_COPY = 3
"""The compare register of the event unit, the copy engine's burst, the guard's address register."""
RECORD_TO_RECORD = 2
"""The compare register of the event unit, the control engine."""


class Scene:
    """Four streams, buffers, a kernel in the code bank, and a gate that holds the first stream."""

    def __init__(self, transport):
        self.transport = transport
        self.session = session = Device(transport, patience=20_000, watchdog=5_000).session()
        self.streams = [session.stream() for _ in range(4)]
        self.gate = session.empty(GATE, "u1")
        self.x, self.y, self.z = (session.empty(64, "u1") for _ in range(3))
        self.a = session.buffer(np.ones((4, 4), np.int8))
        self.out = session.empty((4, 4), np.int32)
        self.launch(self.streams[1])
        session.synchronise()

    def close_gate(self, stream):
        """The stream is busy until all the others have staged what they are given next."""
        stream.fill(self.gate, 0)

    def launch(self, stream):
        (task,) = gemm(stream, self.a, self.a, self.out, profile=True)
        return task

    def copy(self, stream):
        return stream.copy(self.y, self.x, profile=True)

    def fill(self, stream):
        return stream.fill(self.z, 1, profile=True)


@pytest.fixture(scope="module")
def scene(machine):
    machine.reset()
    return Scene(machine)


@pytest.mark.parametrize("before", ["copy", "launch"])
@pytest.mark.parametrize(
    ("after", "cycles"),
    [("launch", RECORD_TO_KERNEL), ("copy", RECORD_TO_COPY), ("fill", RECORD_TO_COPY)],
)
def test_a_task_starts_so_many_cycles_after_the_record_of_what_it_waits_for(
    scene, before, after, cycles
):
    first, second = scene.streams[:2]
    event = scene.session.event(timing=True)
    with first.batch():
        scene.close_gate(first)
        getattr(scene, before)(first)
        first.record(event)
    second.wait(event)
    task = getattr(scene, after)(second)
    scene.session.synchronise()
    assert task.profile.start - event.cycle == cycles


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_last_of_several_records_counts_whatever_their_number(scene, count):
    first, second = scene.streams[:2]
    events = [scene.session.event(timing=True) for _ in range(count)]
    with first.batch():
        scene.close_gate(first)
        for event in events:
            first.record(event)
    for event in events:
        second.wait(event)
    task = scene.launch(second)
    scene.session.synchronise()
    cycles = [event.cycle for event in events]
    assert cycles == sorted(set(cycles))
    assert task.profile.start - cycles[-1] == RECORD_TO_KERNEL


@pytest.mark.oracle
def test_all_streams_that_wait_for_a_record_are_released_in_the_same_cycle(scene):
    """Kernel, copy and record at their own latency; a second copy one cycle later, as one task of
    a kind is dispatched in a cycle."""
    first, *others = scene.streams
    gate, chained = (scene.session.event(timing=True) for _ in range(2))
    with first.batch():
        scene.close_gate(first)
        first.record(gate)
    for stream in others:
        stream.wait(gate)
    kernel, copy, fill = (
        scene.launch(others[0]), scene.copy(others[1]), scene.fill(others[2])
    )  # fmt: skip
    scene.session.synchronise()
    starts = [task.profile.start - gate.cycle for task in (kernel, copy, fill)]
    assert starts == [RECORD_TO_KERNEL, RECORD_TO_COPY, RECORD_TO_COPY + 1]

    with first.batch():
        scene.close_gate(first)
        first.record(gate)
    for stream in others:
        stream.wait(gate)
    others[0].record(chained)
    kernel, copy = scene.launch(others[1]), scene.copy(others[2])
    scene.session.synchronise()
    starts = [task.profile.start - gate.cycle for task in (kernel, copy)]
    assert starts == [RECORD_TO_KERNEL, RECORD_TO_COPY]
    assert chained.cycle - gate.cycle == RECORD_TO_RECORD


def test_records_of_the_past_are_looked_up_one_a_cycle(scene, tmp_path):
    """A task whose n events were recorded before its head shows waits for n + 1 cycles: n slots
    are read one after the other, and the last one is compared in the cycle after its read."""
    first, second = scene.streams[:2]
    for count in range(1, 5):
        events = [scene.session.event() for _ in range(count)]
        scene.close_gate(first)
        for event in events:
            first.record(event)
        scene.transport.run_until(interrupt=False, cycle=scene.transport.now() + 400)
        for event in events:
            second.wait(event)
        with record(scene.transport, tmp_path / "run.vcd") as vcd:
            task = scene.fill(second)
            second.synchronise()
        timeline = Timeline(vcd)
        ((shown, released),) = timeline.waits(second.number)
        assert released - shown == count + 1
        assert task.profile.start - released == RECORD_TO_COPY - 1
        scene.session.synchronise()


@pytest.mark.parametrize(
    ("before", "after", "cycles"),
    [("copy", "copy", 2), ("copy", "launch", 1), ("launch", "launch", 2), ("launch", "copy", 3)],
)
def test_the_next_task_of_a_stream_starts_so_many_cycles_after_the_end_of_the_one_before(
    scene, before, after, cycles
):
    """From the last write response: none until a copy, one until a kernel is done and retires. The
    next is dispatched in that cycle, then it is 1 to a kernel's first instruction (the code bank)
    or 2 to a copy's first address on the bus (the burst, the guard's register)."""
    stream, gate = scene.streams[:2]
    event = scene.session.event()
    with gate.batch():
        scene.close_gate(gate)
        gate.record(event)
    stream.wait(event)
    with stream.batch():
        one, other = getattr(scene, before)(stream), getattr(scene, after)(stream)
    scene.session.synchronise()
    assert other.profile.start - one.profile.end == cycles


@pytest.mark.parametrize(("name", "beats", "dispatch"), [("copy", 8, 2), ("launch", 24, 1)])
def test_a_doorbell_starts_a_fetch_and_the_fetched_entry_its_task(
    scene, tmp_path, name, beats, dispatch
):
    """From the doorbell's write on the control port to the address of the entry's fetch on the
    bus: the register, the ring's tail, the fetcher, the guard's register.

    From there to the start: the latency of the memory, 8 beats of the entry and for a kernel 16
    of its arguments, the checksum's register and the head's, and from the dispatch on 1 to a
    kernel's first instruction or 2 to a copy's first address on the bus.
    """
    stream = scene.streams[1]
    with record(scene.transport, tmp_path / "run.vcd") as vcd:
        task = getattr(scene, name)(stream)
        stream.synchronise()
    wave = Waveform(vcd)
    written, fetched = (
        wave.first + int(np.flatnonzero(channel(wave, name)[0])[0]) for name in (CONTROL_W, AR)
    )
    assert fetched - written == 4
    latency = scene.transport.board_config.host_latency
    assert task.profile.start - fetched == latency + (beats - 1) + 2 + dispatch
