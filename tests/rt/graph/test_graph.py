import numpy as np
import pytest

from hw.regs.descriptor import Sqe, TaskType
from rt.errors import (
    InvalidHandle,
    InvalidParameter,
    MemoryExhausted,
    NoEvent,
    WrongContext,
)
from rt.graph import TaskDesc
from tests.rt.machine import ADD, SPIN, binary, machine
from tests.rt.threads import threads

SIZE = 64
BYTES = np.arange(SIZE, dtype=np.uint8)


@pytest.fixture
def add(session):
    """A task of a graph: outputs[0] = inputs[0] + amount."""
    kernel = session.load(binary(ADD, session.device.config))

    def task(task_id, source, result, amount=1, deps=(), **more):
        return TaskDesc(task_id, kernel, [source], [result], [amount, SIZE], deps, **more)

    return task


def diamond(session, add):
    """1 → 2, 3 → 4, on buffers that are returned, too."""
    buffers = [session.buffer(BYTES) for _ in range(5)]
    tasks = [
        add(1, buffers[0], buffers[1], 1),
        add(2, buffers[1], buffers[2], 2, [1]),
        add(3, buffers[1], buffers[3], 3, [1]),
        add(4, buffers[3], buffers[4], 4, [2, 3]),
    ]
    return tasks, buffers


def writes(model):
    """Doorbells that were written, and submission-queue entries by their type."""
    return model.log["Doorbell", "Write"]


def test_a_graph_runs_its_tasks_in_their_order(session, add):
    tasks, buffers = diamond(session, add)
    with session.stream() as one, session.stream() as two, session.graph(tasks, streams=2) as graph:
        assert graph.streams == 2
        assert graph.task_ids == (1, 2, 3, 4)
        one.replay(graph, two).wait()
        results = [one.download(buffer).result() for buffer in buffers]
    for result, amount in zip(results, (0, 1, 3, 4, 8), strict=True):
        assert (result == BYTES + amount).all()


def test_a_replay_rings_one_doorbell_on_each_stream_and_rewrites_no_descriptor(
    session, add, monkeypatch
):
    tasks, _ = diamond(session, add)
    one, two = session.stream(), session.stream()
    graph = session.graph(tasks, streams=2)
    model = session.device.driver.transport
    for idle in (True, False, True):
        if not idle:
            one.launch(session.load(binary(SPIN, session.device.config)), scalars=[500])
        before = writes(model)
        with monkeypatch.context() as patch:
            written = spy_on_writes(patch, model)
            replay = one.replay(graph, two)
        assert writes(model) == before + 2
        raw = b"".join(written)
        types = sorted(Sqe.from_bytes(raw[n : n + 64]).type for n in range(0, len(raw), 64))
        fork = [] if idle else [TaskType.EVENT_RECORD]
        assert types == [*fork, TaskType.CALL, TaskType.CALL]
        replay.wait()
        session.synchronise()


def spy_on_writes(patch, model):
    written = []
    write = model.write_host

    def spy(address, data):
        written.append(bytes(data))
        write(address, data)

    patch.setattr(model, "write_host", spy)
    return written


def test_replays_of_one_stream_need_one_entry_and_one_doorbell(session, add, monkeypatch):
    tasks, buffers = diamond(session, add)
    stream = session.stream()
    graph = session.graph(tasks)
    model = session.device.driver.transport
    before = writes(model)
    with monkeypatch.context() as patch, stream.batch():
        written = spy_on_writes(patch, model)
        for _ in range(3):
            stream.replay(graph)
    assert writes(model) == before + 1
    stream.synchronise()
    assert sum(len(raw) for raw in written) == 3 * 64
    assert (stream.download(buffers[4]).result() == BYTES + 8).all()


def test_what_is_before_and_after_a_replay_keeps_its_order(session, add):
    one, two = session.stream(), session.stream()
    tasks, buffers = diamond(session, add)
    spin = session.load(binary(SPIN, session.device.config))
    with session.graph(tasks, streams=2) as graph:
        for round in range(4):
            one.launch(spin, scalars=[300])
            one.upload(buffers[0], np.full(SIZE, round, np.uint8))
            one.replay(graph, two)
            one.fill(buffers[0], 99)
            result = one.download(buffers[4])
            assert (result.result() == round + 8).all()


def test_replays_from_different_streams_run_one_after_the_other(session, add):
    streams = [session.stream() for _ in range(4)]
    buffer = session.buffer(np.zeros(SIZE, np.uint8))
    other = session.empty(SIZE, np.uint8)
    tasks = [add(1, buffer, other, 1), add(2, other, buffer, 2, [1]), add(3, other, other, 0, [1])]
    tasks[2] = add(3, buffer, session.empty(SIZE, np.uint8), 0, [2])
    graph = session.graph(tasks, streams=2)
    replays = []
    for first in (0, 1, 2, 3, 1, 0):
        origin, second, *_ = streams[first:] + streams[:first]
        replays.append(origin.replay(graph, second))
    session.synchronise()
    assert all(replay.done for replay in replays)
    assert [replay.number for replay in replays] == list(range(6))
    assert (streams[0].download(buffer).result() == 18).all()


def test_more_dependencies_than_an_entry_has_room_for():
    with machine(streams=8, contexts=1) as device, device.session() as session:
        kernel = session.load(binary(ADD, device.config))
        buffers = [session.buffer(BYTES) for _ in range(8)]
        spin = session.load(binary(SPIN, device.config))
        tasks = [TaskDesc(n, spin, [], [], [100 * n + 1]) for n in range(7)]
        tasks.append(
            TaskDesc(7, kernel, [buffers[0]], [buffers[1]], [5, SIZE], range(7), profile=True)
        )
        streams = [session.stream() for _ in range(7)]
        graph = session.graph(tasks, streams=7)
        for _ in range(3):
            replay = streams[0].replay(graph, *streams[1:])
            assert replay.profile(7).cycles >= 50
        assert (streams[0].download(buffers[1]).result() == BYTES + 5).all()


@pytest.mark.parametrize("streams", [1, 2])
def test_arguments_are_updated_between_replays_in_the_order_of_the_stream(session, add, streams):
    tasks, buffers = diamond(session, add)
    others = [session.stream() for _ in range(streams)]
    graph = session.graph(tasks, streams=streams)
    more = session.buffer(BYTES + 100)
    downloads = [(replay_and_read(graph, others, buffers[4]), 8)]
    graph.update(3, scalars=[30, SIZE])
    downloads.append((replay_and_read(graph, others, buffers[4]), 35))
    graph.update(1, inputs=[more])
    graph.update(4, scalars=[0, SIZE])
    downloads.append((replay_and_read(graph, others, buffers[4]), 131))
    downloads.append((replay_and_read(graph, others, buffers[4]), 131))
    graph.update(4, outputs=[buffers[0]])
    replay_and_read(graph, others, buffers[4])
    downloads.append((others[0].download(buffers[0]), 131))
    for download, amount in downloads:
        assert (download.result() == BYTES + np.uint8(amount)).all()


def replay_and_read(graph, streams, buffer):
    streams[0].replay(graph, *streams[1:])
    return streams[0].download(buffer)


def test_an_update_takes_one_copy_and_keeps_one_doorbell(session, add, monkeypatch):
    """A list is read ahead once its CALL is next: what stands before that lets the copy end."""
    tasks, _ = diamond(session, add)
    one, two = session.stream(), session.stream()
    graph = session.graph(tasks, streams=2)
    model = session.device.driver.transport
    one.replay(graph, two)
    graph.update(1, scalars=[9, SIZE])
    graph.update(4, scalars=[8, SIZE])
    before = writes(model)
    with monkeypatch.context() as patch:
        written = spy_on_writes(patch, model)
        one.replay(graph, two)
    assert writes(model) == before + 2
    _, *rings = ([Sqe.from_bytes(raw[n : n + 64]) for n in range(0, len(raw), 64)]
                 for raw in written)  # fmt: skip
    first, second = sorted(rings, key=len, reverse=True)
    copy, fork, call = first
    wait, other = second
    types = [TaskType.MEMCPY, TaskType.NOP, TaskType.CALL, TaskType.EVENT_WAIT, TaskType.CALL]
    assert [entry.type for entry in (copy, fork, call, wait, other)] == types
    assert copy.dependencies == 1  # the end of the replay before
    assert wait.event_deps[0] == fork.record_event
    assert not other.dependencies
    session.synchronise()


def test_threads_replay_and_change_one_graph(session, add):
    """Each replay adds what its thread, or the other, has given it last."""
    total, step = session.buffer(np.zeros(SIZE, np.uint8)), session.empty(SIZE, np.uint8)
    tasks = [add(1, total, step, 1), add(2, step, total, 0, [1])]
    graph = session.graph(tasks, streams=2)

    def work(amount):
        def replay():
            with session.stream(depth=4) as one, session.stream(depth=4) as two:
                for _ in range(8):
                    graph.update(1, scalars=[amount, SIZE])
                    one.replay(graph, two)

        return replay

    with threads(work(1), work(1)):
        pass
    with session.stream() as stream:
        assert (stream.download(total).result() == 16).all()


def test_bad_updates_change_nothing(device, session, add):
    tasks, buffers = diamond(session, add)
    stream = session.stream()
    graph = session.graph(tasks)
    with pytest.raises(InvalidParameter, match="has no task 9; it has 1, 2, 3, 4"):
        graph.update(9, scalars=[1])
    with pytest.raises(InvalidParameter, match="5 outputs were given; a kernel takes 4"):
        graph.update(1, outputs=[buffers[0]] * 5)
    with pytest.raises(WrongContext):
        graph.update(1, inputs=[device.session().empty(4, np.uint8)])
    before = stream._tail
    stream.replay(graph)
    assert stream._tail == before + 1
    assert (stream.download(buffers[4]).result() == BYTES + 8).all()


def test_a_description_is_checked(device, session, add):
    one, two = session.empty(SIZE, np.uint8), session.empty(SIZE, np.uint8)
    cases = [
        ([], "the graph has no task"),
        ([one], "made of TaskDesc, not Buffer"),
        ([add(1, one, two), add(1, two, one)], "two tasks of the graph have the task_id 1"),
        ([add(1, one, two, 1, [2])], "task 1 waits for task 2, which is not in the graph"),
        ([add(1, one, two, 1, [3]), add(2, one, two, 1, [1]), add(3, one, two, 1, [2])],
         "wait for each other: 1 for 3, which waits for 2, which waits for 1; take"),
        ([add(1, one, two, 1 << 64)], "does not fit 64 bits"),
        ([add(1, one, two, timeout=0)], "the timeout is 0 cycles"),
        ([TaskDesc(1, add(1, one, two).kernel, [one] * 9)], "9 inputs were given; a kernel takes"),
    ]  # fmt: skip
    for tasks, message in cases:
        with pytest.raises(InvalidParameter, match=message):
            session.graph(tasks)
    for streams in (0, 5):
        with pytest.raises(InvalidParameter, match=f"{streams} streams; it must be 1 … 4"):
            session.graph([add(1, one, two)], streams=streams)
    foreign = device.session().empty(SIZE, np.uint8)
    with pytest.raises(WrongContext, match="belongs to another session"):
        session.graph([add(1, foreign, two)])
    one.free()
    with pytest.raises(InvalidHandle, match="was freed"):
        session.graph([add(1, one, two)])
    assert not session.graphs


def test_streams_of_a_replay_are_checked(device, session, add):
    tasks, _ = diamond(session, add)
    one, two = session.stream(), session.stream()
    graph = session.graph(tasks, streams=2, name="diamond")
    with pytest.raises(InvalidParameter, match="diamond takes 2 streams and 1 were given"):
        one.replay(graph)
    with pytest.raises(InvalidParameter, match="stream 0 was given twice"):
        one.replay(graph, one)
    with pytest.raises(WrongContext, match="another session than diamond"):
        one.replay(graph, device.session().stream())
    two.close()
    with pytest.raises(InvalidHandle, match="stream 1 is closed"):
        one.replay(graph, two)
    assert one.idle


def test_a_graph_keeps_its_buffers_and_slots_until_it_is_closed(session, add):
    tasks, buffers = diamond(session, add)
    one, two = session.stream(), session.stream()
    free = len(session.device.events.free), session._pool.available
    graph = session.graph(tasks, streams=2)
    assert len(session.device.events.free) < free[0]
    place = buffers[2].address
    buffers[2].free()
    one.replay(graph, two)
    assert session.empty(SIZE, np.uint8).address != place
    graph.close()
    assert one.query()
    assert graph.closed
    assert len(session.device.events.free) == free[0]
    assert session.empty(SIZE, np.uint8).address == place
    graph.close()
    with pytest.raises(InvalidHandle, match="graph 1 is closed; build it again"):
        one.replay(graph, two)


def test_memory_that_only_graphs_hold_is_not_waited_for():
    with machine(device_bytes=1 << 16, contexts=1) as device, device.session() as session:
        kernel = session.load(binary(ADD, device.config))
        buffer = session.empty(40_000, np.uint8)
        graph = session.graph([TaskDesc(1, kernel, [buffer], [buffer], [0, 64])])
        buffer.free()
        now = device.driver.transport.now()
        with pytest.raises(MemoryExhausted):
            session.empty(40_000, np.uint8)
        assert device.driver.transport.now() == now
        graph.close()
        session.empty(40_000, np.uint8)


def test_a_replay_without_slots_submits_nothing(session, add):
    tasks, buffers = diamond(session, add)
    one, two, busy = session.stream(), session.stream(), session.stream()
    graph = session.graph(tasks, streams=2)
    busy.launch(session.load(binary(SPIN, session.device.config)), scalars=[20_000])
    while session.device.events.free:
        busy.record(session.event())
    graph.update(1, scalars=[2, SIZE])
    tails, free = (one._tail, two._tail), session._staging.available
    with pytest.raises(NoEvent, match="1 of the 16 event slots must be free, and 0 are"):
        one.replay(graph, two)
    assert (one._tail, two._tail) == tails
    assert session._staging.available == free
    session.synchronise()
    one.replay(graph, two)
    assert (one.download(buffers[4]).result() == BYTES + 9).all()


def test_a_ring_that_is_too_short_is_named(session, add):
    tasks, _ = diamond(session, add)
    one, two = session.stream(depth=2), session.stream(depth=2)
    graph = session.graph(tasks, streams=2)
    for _ in range(3):
        one.replay(graph, two)
    graph.update(1, scalars=[2, SIZE])
    with pytest.raises(InvalidParameter, match="3 entries .* has 2; make the stream with"):
        one.replay(graph, two)
    session.synchronise()


def test_a_session_closes_its_graphs(device, add, session):
    tasks, _ = diamond(session, add)
    one, two = session.stream(), session.stream()
    graph = session.graph(tasks, streams=2)
    one.replay(graph, two)
    session.close()
    assert graph.closed
    assert len(device.events.free) == device.config.events
    assert device.device_pool.available == device.device_pool.size
