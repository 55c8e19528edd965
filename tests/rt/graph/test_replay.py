"""How replays fail, are aborted, and go on over the wrap of what counts them."""

import numpy as np
import pytest

from hw.regs.fault import FaultCause
from hw.regs.registers import EventRecord
from rt.errors import DeadlockError, DeviceFault, StreamAborted, WaitTimeout
from rt.graph import TaskDesc
from tests.rt.machine import ADD, SPIN, TRAP, binary, machine

SIZE = 64
BYTES = np.arange(SIZE, dtype=np.uint8)


@pytest.fixture
def kernels(session):
    """By operation."""
    config = session.device.config
    return {operation: session.load(binary(operation, config)) for operation in (ADD, SPIN, TRAP)}


@pytest.fixture
def pair(session, kernels):
    """Two buffers, and tasks on them: 1 adds to the second, 2 beside it, 3 adds to the first."""
    first, second = session.buffer(np.zeros(SIZE, np.uint8)), session.buffer(BYTES)
    tasks = [
        TaskDesc(1, kernels[ADD], [first], [second], [1, SIZE]),
        TaskDesc(2, kernels[SPIN], [], [], [400]),
        TaskDesc(3, kernels[ADD], [second], [first], [1, SIZE], [1, 2]),
    ]
    return first, tasks


def test_a_fault_names_task_and_graph_and_stays_with_its_replay(session, kernels):
    one, two = session.stream(), session.stream()
    tasks = [
        TaskDesc(10, kernels[SPIN], [], [], [50]),
        TaskDesc(20, kernels[TRAP], [], [], [], [10]),
        TaskDesc(30, kernels[SPIN], [], [], [9], [10]),
        TaskDesc(40, kernels[SPIN], [], [], [9], [20, 30]),
    ]
    graph = session.graph(tasks, streams=2, name="trapped")
    good = one.launch(kernels[SPIN], scalars=[10])
    replay = one.replay(graph, two)
    for wait in (replay.wait, one.synchronise, session.synchronise):
        with pytest.raises(DeviceFault, match=r"Task \d+ is task 20 of trapped\. To rec") as caught:
            wait()
        assert caught.value.record.cause == FaultCause.ILLEGAL_INSTRUCTION
        assert caught.value.record.pc == 0x1040
    assert good.done
    assert not replay.done
    session.recover()
    with pytest.raises(DeviceFault, match="is task 20 of trapped") as caught:
        replay.wait()
    assert caught.value.record.pc == 0x1040
    assert replay.fault is caught.value.record
    graph.close()
    assert len(session.device.events.free) == session.device.config.events


def test_a_graph_goes_on_after_a_fault_elsewhere_and_a_recovery(session, kernels, pair):
    one, two, other = (session.stream() for _ in range(3))
    first, tasks = pair
    graph = session.graph(tasks, streams=2)
    one.replay(graph, two).wait()
    other.launch(kernels[TRAP])
    dropped = [one.replay(graph, two) for _ in range(3)]
    with pytest.raises(DeviceFault):
        other.synchronise()
    session.recover()
    for replay in dropped:
        if not replay.done:
            with pytest.raises(StreamAborted, match="did not run to its end"):
                replay.wait()
    session.buffer(np.zeros(SIZE, np.uint8), one)
    one.fill(first, 0)
    for _ in range(3):
        one.replay(graph, two).wait()
    assert (one.download(first).result() == 6).all()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("replays", [1, 3])
@pytest.mark.parametrize("cycles", [0, 40, 200, 600])
def test_an_abort_of_a_stream_leaves_a_graph_that_can_be_replayed(
    session, pair, which, replays, cycles
):
    streams = [session.stream(), session.stream()]
    first, tasks = pair
    graph = session.graph(tasks, streams=2)
    handles = [streams[0].replay(graph, streams[1]) for _ in range(replays)]
    transport = session.device.driver.transport
    transport.run_until(interrupt=False, cycle=transport.now() + cycles)
    streams[which].abort()
    for stream in streams:
        try:
            stream.synchronise()
        except StreamAborted:
            assert stream is streams[which]
    assert all(handle.over for handle in handles)
    for number, handle in enumerate(handles):
        if not handle.done:
            with pytest.raises(StreamAborted, match=f"replay {number} of graph 1 did not run"):
                handle.wait()
    streams[0].fill(first, 0)
    for _ in range(3):
        streams[0].replay(graph, streams[1])
    assert (streams[0].download(first).result() == 6).all()
    graph.close()
    assert len(session.device.events.free) == session.device.config.events


def test_an_update_that_an_abort_has_dropped_is_made_by_the_next_replay(session, kernels, pair):
    one, two = session.stream(), session.stream()
    first, tasks = pair
    graph = session.graph(tasks, streams=2)
    one.launch(kernels[SPIN], scalars=[10_000])
    graph.update(3, scalars=[5, SIZE])
    one.replay(graph, two)
    one.abort()
    two.replay(graph, session.stream())
    assert (two.download(first).result() == 6).all()


def test_a_replay_waits_for_what_an_abort_has_left_of_those_before():
    with machine(cores=2, contexts=1) as device, device.session() as session:
        one, two, three = (session.stream() for _ in range(3))
        kernel = session.load(binary(SPIN, device.config))
        buffer = session.empty(SIZE, np.uint8)
        with one.capture() as graph:
            one.fill(buffer, 1)
            two.wait(one)
            spin = two.launch(kernel, scalars=[3000], profile=True)
            one.wait(two)
        two.launch(kernel, scalars=[4000])
        broken = [one.replay(graph, two), one.replay(graph, three)]
        transport = device.driver.transport
        transport.run_until(interrupt=False, cycle=transport.now() + 500)
        one.abort()
        last = one.replay(graph, three)
        start = last.profile(spin.id).start
        assert [replay.done for replay in broken] == [True, False]
        (first,), (second,) = (ends_of(replay, spin) for replay in broken)
        assert second < first < start
        with pytest.raises(StreamAborted):
            one.synchronise()


def ends_of(replay, task):
    return [call.profiles[task.id].end for call in replay._calls if task.id in call.profiles]


def test_a_stream_that_is_destroyed_by_force_releases_the_others(session, pair):
    one, two = session.stream(), session.stream()
    first, tasks = pair
    graph = session.graph(tasks, streams=2)
    replay = one.replay(graph, two)
    two.destroy(force=True)
    one.synchronise()
    assert replay.over
    one.fill(first, 0)
    one.replay(graph, session.stream())
    assert (one.download(first).result() == 2).all()


def test_a_stream_that_is_closed_drains_its_part(session, pair):
    one, two = session.stream(), session.stream()
    _, tasks = pair
    replay = one.replay(session.graph(tasks, streams=2), two)
    two.close()
    one.synchronise()
    assert replay.done


@pytest.mark.parametrize("near", [0xFFFFB, 0xFFFFE, 0x7FFFD])
def test_generations_and_epochs_wrap(session, kernels, near):
    """Slots near their wrap, and a count of replays near that of the epoch."""
    one, two = session.stream(), session.stream()
    buffers = [session.buffer(np.zeros(SIZE, np.uint8)) for _ in range(2)]
    add = kernels[ADD]
    tasks = [
        TaskDesc(1, add, [buffers[0]], [buffers[1]], [1, SIZE]),
        TaskDesc(2, kernels[SPIN], [], [], [30]),
        TaskDesc(3, add, [buffers[1]], [buffers[0]], [0, SIZE], [1, 2]),
        TaskDesc(4, add, [buffers[0]], [buffers[1]], [2, SIZE], [3]),
        TaskDesc(5, kernels[SPIN], [], [], [30], [3]),
        TaskDesc(6, add, [buffers[1]], [buffers[0]], [0, SIZE], [4, 5]),
    ]
    driver, events = session.device.driver, session.device.events
    for slot in range(session.device.config.events):
        for generation in (near // 2, near):
            driver.write(EventRecord(slot=slot, generation=generation))
    graph = session.graph(tasks, streams=2)
    parts = graph._lists.image.parts
    assert {part.base for part in parts} == {near}
    assert graph._lists.image.stride >= 2
    for _ in range(6):
        one.replay(graph, two).wait()
    assert (one.download(buffers[0]).result() == 18).all()
    count = (1 << 20) // graph._lists.image.stride - 3
    epoch = (count - 1) * graph._lists.image.stride
    for part in parts:
        for share in (epoch // 2, epoch):
            word = part.word(graph._lists.image.stride, share)
            driver.write(EventRecord(slot=word.slot, generation=word.generation))
    graph._lists.count = count
    for _ in range(8):
        one.replay(graph, two)
    assert (one.download(buffers[0]).result() == 42).all()
    graph.close()
    assert len(events.free) == session.device.config.events
    one.record(event := session.event())
    two.wait(event)
    session.synchronise()


def test_a_timeout_says_where_a_replay_stands(session, kernels):
    one, two = session.stream(), session.stream()
    buffer = session.empty(SIZE, np.uint8)
    with one.capture("slow") as graph:
        long = one.launch(kernels[SPIN], scalars=[20_000])
        two.wait(one)
        fill = two.fill(buffer, 1)
        one.wait(two)
    replay = one.replay(graph, two)
    with pytest.raises(WaitTimeout) as caught:
        replay.wait(timeout=1000)
    text = str(caught.value)
    running = f"task {long.id} (task {long.id} of slow) runs on core0"
    assert f"replay 0 of slow: stream 0 is ACTIVE, 1 task pending: {running}" in text
    assert f"1 task pending: task {fill.id} (task {fill.id} of slow) waits for event slot" in text
    assert f", which stream 0 records (stream 0 is ACTIVE, 1 task pending: {running}" in text
    replay.wait()


def test_a_graph_that_waits_for_what_nobody_does_is_diagnosed(session):
    stream = session.stream()
    notify, buffer = session.notify(), session.empty(SIZE, np.uint8)
    with stream.capture("stuck") as graph:
        stream.fill(buffer, 1)
        task = stream.wait_notify(notify, 3)
    replay = stream.replay(graph)
    title = rf"task {task.id} \(task {task.id} of stuck\)"
    with pytest.raises(DeadlockError, match=f"{title} for notify 0"):
        replay.wait()
    with pytest.raises(WaitTimeout, match=r"of stuck\) waits for notify 0 to be at least 3"):
        replay.wait(timeout=100)
    stream.abort()
    stream.replay(graph)
    other = session.stream()
    other.notify(notify, 3)
    with pytest.raises(StreamAborted):
        stream.synchronise()
    stream.synchronise()


def test_a_barrier_waits_for_a_replay_before_it_and_not_for_one_after_it(session, pair):
    one, two, three = (session.stream() for _ in range(3))
    _, tasks = pair
    graph = session.graph(tasks, streams=2)
    before = one.replay(graph, two)
    three.barrier().wait()
    assert before.over
    two.barrier()
    after = one.replay(graph, two)
    three.barrier()
    session.synchronise()
    assert after.done


def test_a_closed_graph_waits_for_its_replays(session, pair):
    one, two = session.stream(), session.stream()
    _, tasks = pair
    with session.graph(tasks, streams=2) as graph:
        replays = [one.replay(graph, two) for _ in range(3)]
    assert all(replay.done for replay in replays)
    assert len(session.device.events.free) == session.device.config.events
