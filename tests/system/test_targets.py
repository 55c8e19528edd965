"""How soon tasks start after what they depend on, and how well they overlap, on `small`.

Both memories have a latency of 100 cycles and full bandwidth, 8 bytes a beat; kernels are in the
core and all else is staged unless a test says otherwise. Cycles are those of the device's own
timestamps and counters; that the waveform says the very same is asserted in
`tests/sim/test_latency.py`.
"""

import pytest

import sim
from rt.golden import matmul
from sim.board.config import BoardConfig
from sim.latency.events import dependencies, dependents, fan_out
from sim.latency.load import Pipeline, overlap, saturation
from sim.latency.replays import callbacks, nodes
from sim.latency.scene import Scene
from sim.latency.sheet import Sheet
from sim.latency.starts import doorbells, interrupts, successors

LATENCY = 100
ROUNDS = 3


@pytest.fixture(scope="module")
def scene():
    board = BoardConfig(device_latency=LATENCY, host_latency=LATENCY, host_interval=1)
    transport = sim.open("small", board=board, engine="compiled", record=False)
    yield Scene(transport, seed=1)
    transport.close()


def measured(scene, *paths, rounds=ROUNDS):
    """By name what each measure's samples may be, all targets of the command met."""
    sheet = Sheet()
    for _ in range(rounds):
        for path in paths:
            path(scene, sheet)
    for measure in sheet.measures.values():
        assert measure.met, measure.title
    return {name: set(measure.values) for (_, name), measure in sheet.measures.items()}


def test_a_record_starts_what_waits_for_it_after_2_cycles_or_3(scene):
    """At most 4. The event's compare register takes one and the stream is ready in the next, in
    which it is dispatched. A kernel's first instruction comes with the read of the code bank, one
    cycle later; a copy's first address after the burst and the guard's register, two later."""
    assert measured(scene, dependents) == {
        "kernel → kernel, same": {2}, "copy → kernel, other": {2},
        "copy → copy, same": {3}, "kernel → copy, other": {3},
    }  # fmt: skip


def test_one_to_four_dependencies_take_the_same(scene):
    """At most 4, whatever their number: each record is compared with all of them at once."""
    assert measured(scene, dependencies) == {
        "1 dependency": {2}, "2 dependencies": {2}, "3 dependencies": {2}, "4 dependencies": {2},
    }  # fmt: skip


def test_every_stream_that_waits_for_a_record_is_ready_in_the_cycle_after_it(scene):
    """One to seven streams. A kernel starts after 2 cycles and a copy after 3; as one task of a
    kind is dispatched in a cycle, the second copy channel starts one later: at most 4."""
    assert len(scene.streams) == 7
    assert measured(scene, fan_out) == {
        "stream ready": {1}, "first to last ready": {0}, "engine's first start": {2, 3, 4},
    }  # fmt: skip


def test_a_doorbell_starts_a_copy_after_the_latency_and_15_cycles_a_kernel_after_30(scene):
    """At most latency + 20 for a copy: 4 from the doorbell to the address of the fetch, 7 more
    beats of the entry, 2 to the head, and 2 to the copy's first address. At most latency + 30 for
    a kernel, whose arguments are fetched right behind: 16 beats more, and 1 from the head on."""
    assert measured(scene, doorbells) == {"copy": {LATENCY + 15}, "kernel": {LATENCY + 30}}


def test_the_next_task_of_a_stream_starts_2_cycles_after_the_end_on_the_same_engine(scene):
    """At most 2. A copy is done with its last response and a kernel one cycle later; the next task
    is dispatched in that cycle, and starts 1 later if it is a kernel, or 2 if it is a copy."""
    assert measured(scene, successors) == {
        "kernel → kernel": {2}, "copy → copy": {2}, "kernel → copy": {3}, "copy → kernel": {1},
    }  # fmt: skip


def test_a_host_that_sees_the_interrupt_has_its_cause_2_cycles_later(scene):
    """The first access of the host takes two cycles to its answer, and that has the cause. From a
    task's end there is the latency of the completion entry beside, and its beats."""
    assert measured(scene, interrupts) == {"line of a fault": {2}, "end of a task": {LATENCY + 15}}


def test_a_node_of_a_graph_costs_the_24_beats_of_its_entry_and_arguments(scene):
    """At most 24: empty kernels in the core, each behind the one before. 64 bytes of entry and 128
    of arguments are 24 beats; eight entries ahead hide the latency."""
    assert measured(scene, nodes, rounds=1) == {"a node": {24}}


def test_a_function_of_the_host_stands_between_two_tasks_for_a_few_accesses(scene):
    """Interrupt, causes, clearing, who asks, for which task, and the return: 3 cycles each. There
    is no latency of memory in it."""
    ((cycles,),) = measured(scene, callbacks).values()
    assert cycles < 40


def test_uploads_and_kernels_of_equal_length_overlap_1_8_fold(scene):
    """16 stages of each. On one stream they take 32 lengths and on two 17: 1.88 is the most. The
    kernels compute more than they load, so that both can have the bus that they need."""
    found = measured(scene, overlap, rounds=1)
    (ratio,) = found["one ÷ two streams"]
    assert 1.8 <= ratio < 2 * 16 / 17


def test_the_stages_that_overlap_compute_what_they_should(scene):
    pipeline = Pipeline(scene)
    pipeline.run(*scene.streams[:2])
    wanted = pipeline.times * matmul(pipeline.left, pipeline.right)
    for out in pipeline.outs:
        assert (scene.opener.download(out).result() == wanted).all()


def test_copies_and_kernels_at_once_keep_core_and_read_channel_busy(scene):
    """At least 95 % of each. Both copy channels and the core take turns on the read channel, which
    has a beat in every cycle; a kernel follows the one before at once."""
    found = measured(scene, saturation, rounds=1)
    assert min(found["core busy"]) > 99
    assert min(found["read channel beats"]) > 99
