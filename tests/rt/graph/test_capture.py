import threading

import numpy as np
import pytest

from rt.errors import CaptureError, DeviceFault, InvalidHandle, InvalidParameter, NoContext
from tests.rt.machine import ADD, SPIN, binary

SIZE = 64
BYTES = np.arange(SIZE, dtype=np.uint8)


@pytest.fixture
def kernel(session):
    return session.load(binary(ADD, session.device.config))


def test_a_stream_is_captured_and_replayed(session, kernel):
    stream = session.stream()
    source, result, copied = (session.empty(SIZE, np.uint8) for _ in range(3))
    array = BYTES.copy()
    with stream.capture() as graph:
        stream.upload(source, array)
        stream.launch(kernel, [source], [result], [3, SIZE])
        stream.copy(copied, result)
        stream.fill(result, 0)
    array[:] = 0  # it was read at once
    assert stream.idle
    assert graph.streams == 1
    for _ in range(3):
        stream.fill(copied, 9)
        stream.replay(graph)
        assert (stream.download(copied).result() == BYTES + 3).all()
        assert not stream.download(result).result().any()


def test_waits_for_captured_events_pull_streams_in(session, kernel):
    one, two, three = (session.stream() for _ in range(3))
    buffers = [session.buffer(BYTES), *(session.empty(SIZE, np.uint8) for _ in range(3))]
    fork, joins = session.event(), [session.event(), session.event()]
    with one.capture() as graph:
        one.launch(kernel, [buffers[0]], [buffers[1]], [1, SIZE])
        one.record(fork)
        for stream, buffer, join in zip((two, three), buffers[2:], joins, strict=True):
            stream.wait(fork)
            stream.launch(kernel, [buffers[1]], [buffer], [10 * stream.number, SIZE])
            stream.record(join)
            one.wait(join)
    assert graph.streams == 3
    one.replay(graph)
    for buffer, stream in zip(buffers[2:], (two, three), strict=True):
        expected = BYTES + np.uint8(1 + 10 * stream.number)
        assert (one.download(buffer).result() == expected).all()
    three.close()
    with pytest.raises(InvalidParameter, match="graph 1 takes 3 streams and 2 were given"):
        one.replay(graph)
    two.replay(graph, session.stream(), one).wait()


def test_streams_wait_for_captured_streams(session, kernel):
    one, two = session.stream(), session.stream()
    first, second = session.buffer(BYTES), session.empty(SIZE, np.uint8)
    with one.capture() as graph:
        one.launch(kernel, [first], [second], [5, SIZE])
        two.wait(one)
        two.launch(kernel, [second], [first], [6, SIZE])
        one.wait(two)
    for _ in range(2):
        one.replay(graph)
    assert (one.download(first).result() == BYTES + 22).all()


def test_a_stream_without_tasks_hands_its_waits_on(session):
    one, two, three = (session.stream() for _ in range(3))
    buffer = session.empty(SIZE, np.uint8)
    events = [session.event() for _ in range(3)]
    with one.capture() as graph:
        one.fill(buffer, 1)
        one.record(events[0])
        two.wait(events[0])
        two.record(events[1])
        three.wait(events[1])
        three.fill(buffer, 2)
        three.record(events[2])
        two.wait(events[2])
        one.wait(two)
        one.fill(buffer.part(0, 8, np.uint8), 3)
    assert graph.streams == 2
    one.replay(graph)
    assert (one.download(buffer).result() == [3] * 8 + [2] * 56).all()


def test_every_kind_of_task_is_captured(session):
    one, two = session.stream(), session.stream()
    notify, called = session.notify(), []
    words, fork = session.buffer(np.zeros(4, np.uint64)), session.event()
    with one.capture() as graph:
        one.record(fork)
        one.callback(called.append, 7)
        one.write_value(words, 8, 5)
        one.notify(notify, 2)
        two.wait(fork)
        two.wait_notify(notify, 2)
        two.wait_value(words, 8, 5)
        two.write_value(words, 16, 6)
        two.set_notify(notify, 9)
        one.wait(two)
        one.callback(called.append, 8)
    for count in range(1, 4):
        one.fill(words, 0)
        notified = one.set_notify(notify, 0)
        notified.wait()
        one.replay(graph).wait()
        assert called == [7, 8] * count
        assert (one.download(words).result() == [0, 5, 6, 0]).all()
        assert notify.value == 9


def test_arguments_of_a_captured_kernel_can_be_updated(session, kernel):
    stream = session.stream()
    source, result = session.buffer(BYTES), session.empty(SIZE, np.uint8)
    with stream.capture() as graph:
        task = stream.launch(kernel, [source], [result], [3, SIZE], profile=True)
        fill = stream.fill(source, 1)
    graph.update(task.id, scalars=[4, SIZE])
    assert stream.replay(graph).profile(task.id).cycles > SIZE
    assert (stream.download(result).result() == BYTES + 4).all()
    with pytest.raises(InvalidParameter, match=f"task {fill.id} of graph 1 is no kernel"):
        graph.update(fill.id, scalars=[])
    with pytest.raises(InvalidParameter, match=f"task {fill.id} is in graph 1 without profile"):
        stream.replay(graph).profile(fill.id)


def test_what_was_pending_before_a_capture_runs_beside_it(session):
    one, two = session.stream(), session.stream()
    buffer, event = session.empty(SIZE, np.uint8), session.event()
    spin = session.load(binary(SPIN, session.device.config))
    before = two.launch(spin, scalars=[5000])
    two.record(event)
    one.wait(event)
    with one.capture() as graph:
        one.fill(buffer, 1)
        session.buffer(BYTES)
        assert not before.done
    after = one.fill(buffer, 2, profile=True)  # keeps the wait of before
    after.wait()
    assert before.done
    one.replay(graph)
    assert (one.download(buffer).result() == 1).all()


def test_unjoined_streams_are_named_with_their_last_task(session):
    one, two, three = (session.stream() for _ in range(3))
    buffer, event = session.empty(SIZE, np.uint8), session.event()
    slots, free = len(session.device.events.free), session._pool.available
    with pytest.raises(CaptureError) as caught, one.capture():  # noqa: PT012
        one.fill(buffer, 1)
        one.record(event)
        two.wait(event)
        two.fill(buffer, 2)
        three.wait(event)
        three.fill(buffer, 2)
        one.wait(three)
        last = two.fill(buffer, 3)
    assert caught.value.code == 107025
    assert f"stream 1 (last task {last.id}) of the capture must be joined" in str(caught.value)
    assert (len(session.device.events.free), session._pool.available) == (slots, free)
    works(one, two, three)


def works(*streams):
    """The streams run what they are given."""
    for stream in streams:
        buffer = stream.session.empty(8, np.uint8)
        stream.fill(buffer, 7)
        assert (stream.download(buffer).result() == 7).all()
        buffer.free()


def test_calls_that_wait_spoil_a_capture(session):
    one, two = session.stream(), session.stream()
    buffer, event, outside = session.buffer(BYTES), session.event(), session.event()
    two.launch(session.load(binary(SPIN, session.device.config)), scalars=[2000])
    two.record(outside)
    calls = {
        "stream 0 was to be synchronised": one.synchronise,
        "stream 0 was to be queried": one.query,
        "stream 0 was to be aborted": one.abort,
        "stream 0 was to be closed": one.close,
        "stream 0 was to download": lambda: one.download(buffer),
        "stream 0 was to wait at a barrier": one.barrier,
        "stream 0 was to begin another capture": lambda: one.capture().__enter__(),
        "event that was recorded outside": lambda: one.wait(outside),
        "stream 0 was to wait for stream 1, which is not": lambda: one.wait(two),
        "stream 0 was to wait with a timeout": lambda: one.wait(event, timeout=5),
        "the event was recorded in a capture, where it only orders": event.synchronise,
        "the event was recorded in a capture, where": event.query,
    }
    for text, call in calls.items():
        whole = f"the capture is invalid, since .*{text}"
        with pytest.raises(CaptureError, match=whole), one.capture():  # noqa: PT012
            one.fill(buffer, 1)
            one.record(event)
            with pytest.raises(CaptureError, match=text):
                call()
            with pytest.raises(CaptureError, match="invalid, since .*; leave its block"):
                one.fill(buffer, 2)
        works(one)
    assert (one.download(buffer).result() == BYTES).all()


def test_a_graph_cannot_be_replayed_inside_a_capture_nor_before_it_is_built(session):
    stream, other = session.stream(), session.stream()
    buffer = session.empty(SIZE, np.uint8)
    with stream.capture() as graph:
        stream.fill(buffer, 1)
        with pytest.raises(InvalidHandle, match="graph 1 is not built; leave the block"):
            other.replay(graph)
    with pytest.raises(CaptureError, match="was to replay graph 1"), stream.capture("second"):
        stream.replay(graph)


def test_an_exception_ends_the_capture_and_streams_go_on(session):
    one, two = session.stream(), session.stream()
    buffer, event = session.empty(SIZE, np.uint8), session.event()
    before = session._pool.available, session._staging.available
    with pytest.raises(KeyError), one.capture() as graph:  # noqa: PT012
        one.upload(buffer, BYTES)
        one.record(event)
        two.wait(event)
        two.fill(buffer, 0)
        raise KeyError
    assert (session._pool.available, session._staging.available) == before
    with pytest.raises(InvalidHandle, match="is not built"):
        one.replay(graph)
    works(one, two)
    for use in (event.query, event.synchronise, lambda: two.wait(event), lambda: event.cycle):
        with pytest.raises(CaptureError, match="only orders tasks; record it outside") as caught:
            use()
        assert caught.value.code == 107028
    one.record(event)
    two.wait(event)
    assert event.query()


def test_events_and_tasks_of_a_capture_mean_nothing_outside(session):
    one, two = session.stream(), session.stream()
    buffer, event = session.empty(SIZE, np.uint8), session.event()
    with one.capture():
        task = one.fill(buffer, 1)
        one.record(event)
    with pytest.raises(CaptureError, match=f"task {task.id} was captured and runs in replays"):
        task.wait()
    assert not task.done
    with pytest.raises(CaptureError, match="event of another capture"), two.capture():
        two.wait(event)
    works(one, two)


def test_two_captures_are_kept_apart(session):
    one, two = session.stream(), session.stream()
    buffer, event = session.empty(SIZE, np.uint8), session.event()
    with one.capture() as first:
        one.fill(buffer, 1)
        one.record(event)
        with pytest.raises(CaptureError, match="another capture") as caught, two.capture():
            two.wait(event)
        assert caught.value.code == 107032
        with two.capture() as second:
            two.fill(buffer, 2)
    for graph, value in ((first, 1), (second, 2)):
        two.replay(graph)
        assert (two.download(buffer).result() == value).all()


def test_a_capture_without_tasks_gives_no_graph(session):
    stream = session.stream()
    with pytest.raises(CaptureError, match="nothing was captured"), stream.capture():
        pass
    works(stream)


def test_streams_and_sessions_that_close_end_the_capture(device):
    for close, error in (
        (lambda stream: stream.destroy(force=True), CaptureError),
        (lambda stream: stream.session.close(drain=False), (CaptureError, NoContext)),
    ):
        session = device.session()
        stream = session.stream()
        buffer = session.empty(8, np.uint8)
        with pytest.raises(error), stream.capture():  # noqa: PT012
            stream.fill(buffer, 1)
            close(stream)
        session.close()
    assert device.device_pool.available == device.device_pool.size


def test_a_function_that_fails_names_its_task_of_the_graph(session):
    def broken():
        raise ValueError("broken")

    stream = session.stream()
    with stream.capture("pipeline") as graph:
        task = stream.callback(broken)
    replay = stream.replay(graph)
    with pytest.raises(DeviceFault, match=f"{task.id} is task {task.id} of pipeline") as caught:
        replay.wait()
    assert isinstance(caught.value.__cause__, ValueError)


def test_other_threads_submit_while_a_stream_is_captured(session):
    one, two = session.stream(), session.stream()
    buffer = session.empty(SIZE, np.uint8)
    with one.capture() as graph:
        one.fill(buffer, 1)
        thread = threading.Thread(target=works, args=(two,))
        thread.start()
        thread.join()
        one.fill(buffer, 2)
    one.replay(graph).wait()
