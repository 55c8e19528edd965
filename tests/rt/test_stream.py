import numpy as np
import pytest

from hw.regs.descriptor import EventWord
from hw.regs.registers import InterruptStatus
from rt.errors import (
    InvalidHandle,
    InvalidParameter,
    MemoryExhausted,
    NoStream,
    StreamAborted,
    WaitTimeout,
    WrongContext,
)
from rt.wait import QUIET
from tests.rt.machine import ADD, SPIN, binary, machine

BYTES = np.arange(100, dtype=np.uint8)


def test_an_array_comes_back_as_it_went(session):
    stream = session.stream()
    array = np.arange(35, dtype=np.int32).reshape(5, 7)
    buffer = session.empty((5, 7), np.int32)
    stream.upload(buffer, array)
    array[:] = 0  # the call has read it already
    download = stream.download(buffer)
    stream.synchronise()
    assert (download.result() == np.arange(35).reshape(5, 7)).all()
    assert download.result().dtype == np.int32


def test_result_waits_by_itself(session):
    buffer = session.buffer(BYTES)
    assert (session.stream().download(buffer).result() == BYTES).all()


def test_copies_and_fills_between_buffers(session):
    stream = session.stream()
    one, two = session.buffer(BYTES), session.empty(100, np.uint8)
    stream.fill(two, 0xA5)
    stream.copy(two.part(10, 20, np.uint8), one.part(50, 20, np.uint8))
    expected = np.full(100, 0xA5, np.uint8)
    expected[10:30] = BYTES[50:70]
    assert (stream.download(two).result() == expected).all()


def test_rows_with_pitches(session):
    stream = session.stream()
    one, two = session.empty(100, np.uint8), session.empty(100, np.uint8)
    stream.fill(one, 1)
    stream.fill(two, 2)
    stream.upload_2d(one, BYTES[:12].reshape(3, 4), pitch=10, offset=5)
    stream.copy_2d(two, one, rows=3, row_bytes=4, source_pitch=10, destination_pitch=20,
                   source_offset=5, destination_offset=1)  # fmt: skip
    stream.fill_2d(two, 9, rows=2, row_bytes=3, pitch=30, offset=70 - 40)
    rows = stream.download_2d(two, (3, 4), pitch=20, offset=1).result()
    whole = stream.download(two).result()
    assert (rows == BYTES[:12].reshape(3, 4)).all()
    expected = np.full(100, 2, np.uint8)
    for row in range(3):
        expected[1 + 20 * row : 5 + 20 * row] = BYTES[4 * row : 4 * row + 4]
    expected[30:33] = expected[60:63] = 9
    assert (whole == expected).all()


def test_a_kernel_gets_its_arguments_and_is_measured(session):
    stream = session.stream()
    kernel = session.load(binary(ADD, session.device.config))
    source, result = session.buffer(BYTES), session.empty(100, np.uint8)
    task = stream.launch(kernel, [source], [result], [7, 100], profile=True)
    assert (stream.download(result).result() == BYTES + 7).all()
    assert task.profile.cycles > 100
    assert task.profile.engine == "core0"
    assert task.profile.counters == (task.profile.cycles,) * 8


def test_a_profile_must_be_asked_for(session):
    task = session.stream().fill(session.buffer(BYTES), 0)
    with pytest.raises(InvalidParameter, match="without profile=True"):
        _ = task.profile


def test_a_batch_rings_one_doorbell_and_asks_for_one_completion(session):
    stream, model = session.stream(), session.device.driver.transport
    buffer = session.buffer(BYTES)
    before = model.log["Doorbell", "Write"]
    tail = model.tasks.contexts[session.context].tail
    with stream.batch():
        for byte in range(10):
            stream.fill(buffer, byte)
    assert model.log["Doorbell", "Write"] == before + 1
    stream.synchronise()
    assert model.tasks.contexts[session.context].tail == tail + 1


def test_synchronising_inside_a_batch_commits_it(session):
    stream = session.stream()
    buffer = session.buffer(BYTES)
    with stream.batch():
        stream.fill(buffer, 3)
        stream.synchronise()
        assert stream.download(buffer).result()[0] == 3


@pytest.mark.parametrize("depth", [2, 4, 64])
def test_a_full_ring_waits_and_loses_nothing(session, depth):
    stream = session.stream(depth=depth)
    buffer = session.empty(200, np.uint8)
    with stream.batch():
        for byte in range(200):
            stream.fill(buffer.part(byte, 1, np.uint8), byte)
    assert (stream.download(buffer).result() == np.arange(200)).all()


def test_many_completions_turn_the_ring(session):
    stream = session.stream()
    buffer = session.buffer(BYTES)
    for byte in range(300):
        stream.fill(buffer, byte % 256)
    stream.synchronise()
    assert session.device.driver.transport.tasks.contexts[session.context].tail >= 300


def test_a_full_completion_ring_is_emptied_by_its_interrupt(device):
    session = device.session()
    streams = [session.stream() for _ in range(3)]
    buffer = session.empty(256, np.uint8)
    for _ in range(40):
        for stream in streams:
            stream.fill(buffer, 1)
    model = device.driver.transport
    model.run_until(interrupt=False, cycle=model.now() + 50_000)
    assert model.get(InterruptStatus, session.context).full
    ring = model.tasks.contexts[session.context]
    assert (ring.tail, ring.head) == (64, 0)
    session.synchronise()
    assert ring.tail == 120


def test_query_lets_time_pass_and_ends(session):
    stream = session.stream()
    stream.launch(session.load(binary(SPIN, session.device.config)), scalars=[500])
    polls = 0
    while not stream.query():
        polls += 1
        assert polls < 500
    assert polls > 1


def test_streams_overlap(session):
    one, two = session.stream(), session.stream()
    buffers = [session.empty(4000, np.uint8) for _ in range(2)]
    tasks = [one.fill(buffers[0], 1, profile=True), two.fill(buffers[1], 2, profile=True)]
    session.synchronise()
    first, second = (task.profile for task in tasks)
    assert second.start < first.end


def test_the_greater_priority_goes_first(session):
    kernel = session.load(binary(SPIN, session.device.config))
    low, high, busy = session.stream(7), session.stream(0), session.stream(3)
    busy.launch(kernel, scalars=[500])
    tasks = [stream.launch(kernel, scalars=[10], profile=True) for stream in (low, high)]
    session.synchronise()
    assert tasks[1].profile.end <= tasks[0].profile.start


def test_priorities_reach_from_the_greatest_to_the_least(device, session):
    greatest, least = device.priority_range()
    assert (greatest, least) == (0, 7)
    assert [session.stream(p).priority for p in (greatest, least)] == [0, 7]


def test_abort_drops_what_is_pending_and_the_stream_goes_on(session):
    stream = session.stream()
    buffer = session.buffer(BYTES)
    stream.launch(session.load(binary(SPIN, session.device.config)), scalars=[40_000])
    dropped = stream.fill(buffer, 9)
    stream.abort()
    with pytest.raises(StreamAborted, match=r"stream \d was aborted"):
        stream.synchronise()
    with pytest.raises(StreamAborted, match="did not run to its end"):
        dropped.wait()
    assert (stream.download(buffer).result() == BYTES).all()
    stream.synchronise()


def test_a_timeout_names_stream_state_and_task(session):
    stream = session.stream()
    kernel = session.load(binary(SPIN, session.device.config))
    task = stream.launch(kernel, scalars=[40_000])
    state = "the tasks of stream 0: stream 0 is ACTIVE, 1 task pending"
    text = rf"limit 1000\) for {state}: task {task.id} runs on core0"
    with pytest.raises(WaitTimeout, match=text) as caught:
        stream.synchronise(timeout=1000)
    assert caught.value.code == 507046
    stream.synchronise()


def test_patience_starts_anew_with_progress():
    with machine(patience=3000) as device, device.session() as session:
        stream = session.stream(timeout=1 << 20)
        kernel = session.load(binary(SPIN, device.config))
        with stream.batch():
            for _ in range(8):
                stream.launch(kernel, scalars=[2000])
        stream.synchronise()
        stream.launch(kernel, scalars=[10_000])
        with pytest.raises(WaitTimeout, match="runs on core0"):
            stream.synchronise()
        stream.abort()
        with pytest.raises(StreamAborted):
            stream.synchronise()


def test_freed_memory_is_not_reused_while_a_task_needs_it(session):
    stream, other = session.stream(), session.stream()
    stream.launch(session.load(binary(SPIN, session.device.config)), scalars=[5000])
    first = session.empty(1000, np.uint8)
    place = first.address
    stream.fill(first, 1)
    first.free()
    second = session.empty(1000, np.uint8)
    assert second.address != place
    other.fill(second, 2)
    stream.synchronise()
    assert session.empty(1000, np.uint8).address == place


def test_allocation_waits_for_memory_that_pending_tasks_give_back():
    with machine(device_bytes=1 << 16, contexts=1) as device, device.session() as session:
        stream = session.stream()
        for byte in range(5):
            buffer = session.empty(40_000, np.uint8)
            stream.fill(buffer, byte)
            download = stream.download(buffer)
            buffer.free()
        assert (download.result() == 4).all()


def test_uploads_larger_together_than_host_memory_wait_for_each_other():
    with machine(host_bytes=1 << 16, contexts=1) as device, device.session() as session:
        stream = session.stream(depth=8)
        buffer = session.empty(20_000, np.uint8)
        for byte in range(8):
            stream.upload(buffer, np.full(20_000, byte, np.uint8))
        assert (stream.download(buffer).result() == 7).all()
        with pytest.raises(MemoryExhausted, match=r"80000 bytes of the session's host memory"):
            stream.upload(session.empty(80_000, np.uint8), np.zeros(80_000, np.uint8))


def test_a_closed_stream_gives_its_number_back(session):
    streams = [session.stream() for _ in range(4)]
    with pytest.raises(NoStream, match=r"all 4 streams .* in use; close one"):
        session.stream()
    buffer = session.buffer(BYTES)
    task = streams[2].fill(buffer, 4)
    streams[2].close()
    assert task.done
    with pytest.raises(InvalidHandle, match="stream 2 is closed"):
        streams[2].fill(buffer, 4)
    assert session.stream().number == 2


def test_bad_arrays_name_value_and_remedy(session):
    stream = session.stream()
    buffer = session.empty((4, 6), np.int8)
    cases = [
        (np.zeros((4, 6), np.int16), "dtype int16, the buffer int8"),
        (np.zeros((6, 4), np.int8), r"shape \(6, 4\), the buffer \(4, 6\)"),
        (np.zeros((6, 4), np.int8).T, "np.ascontiguousarray"),
        (np.zeros((4, 6), np.int8, order="F"), r"strides \(1, 4\), it is not contiguous"),
        (np.zeros((4, 12), np.int8)[:, ::2], "np.ascontiguousarray"),
        (np.zeros((4, 6), np.int8)[::-1], "np.ascontiguousarray"),
        (np.zeros((0, 6), np.int8), r"shape \(0, 6\), the buffer \(4, 6\)"),
        (np.zeros((4, 6), np.uint8), r"dtype uint8, the buffer int8; .* array.astype\(np.int8\)"),
        ([1, 2], "not list; use np.asarray"),
    ]
    for array, message in cases:
        with pytest.raises(InvalidParameter, match=message):
            stream.upload(buffer, array)
    cases = [
        (np.zeros((6, 4), np.int8).T, "np.ascontiguousarray"),
        (np.zeros((6, 0), np.int8), "at least one size"),
        (np.int8(3), "not int8; use np.asarray"),
        (np.array(3, np.int8), "at least one size"),
        (np.zeros(4, ">i4"), "choose a little-endian"),
        (np.array(["a"]), "choose a little-endian"),
    ]
    for array, message in cases:
        with pytest.raises(InvalidParameter, match=message):
            session.buffer(array)
    for array, message in (
        (np.zeros((2, 3, 4), np.int8), "it needs rows and columns"),
        (np.zeros((0, 4), np.int8), "it needs rows and columns"),
        (np.zeros((4, 2), np.int8, order="F"), "np.ascontiguousarray"),
        (np.zeros((2, 4), np.int16), "dtype int16, the buffer int8"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            stream.upload_2d(buffer, array, pitch=8)
    for shape, message in (((0, 4), "at least one size"), ((2, 2, 2), "it needs rows")):
        with pytest.raises(InvalidParameter, match=message):
            stream.download_2d(buffer, shape, pitch=8)
    for shape in (0, (), (3, 0), (2, -1), (1.5,)):
        with pytest.raises(InvalidParameter, match="at least one size"):
            session.empty(shape, np.int8)
    for dtype in (object, ">i4", "complex64", "nonsense"):
        with pytest.raises(InvalidParameter, match="choose a little-endian"):
            session.empty(4, dtype)


def test_bad_copies_name_value_and_remedy(session):
    stream = session.stream()
    one, two = session.empty(64, np.int8), session.empty(65, np.int8)
    with pytest.raises(InvalidParameter, match="source has 65 bytes, the destination 64"):
        stream.copy(one, two)
    with pytest.raises(InvalidParameter, match="overlap"):
        stream.copy(two.part(0, 40, np.int8), two.part(20, 40, np.int8))
    with pytest.raises(InvalidParameter, match="the byte is 256"):
        stream.fill(one, 256)
    with pytest.raises(InvalidParameter, match="0 rows of 4 bytes"):
        stream.fill_2d(one, 1, rows=0, row_bytes=4, pitch=4)
    with pytest.raises(InvalidParameter, match="pitch of the destination is 3"):
        stream.fill_2d(one, 1, rows=2, row_bytes=4, pitch=3)
    with pytest.raises(InvalidParameter, match="covers bytes 60 to 67 of a buffer of 64"):
        stream.fill_2d(one, 1, rows=2, row_bytes=4, pitch=4, offset=60)
    with pytest.raises(InvalidParameter, match="covers bytes 60 to 67"):
        one.part(60, 8, np.int8)


def test_bad_launches_name_value_and_limit(session):
    stream = session.stream()
    kernel, buffer = session.load(binary(SPIN, session.device.config)), session.empty(4, np.int8)
    with pytest.raises(InvalidParameter, match="9 inputs were given; a kernel takes 8"):
        stream.launch(kernel, [buffer] * 9)
    with pytest.raises(InvalidParameter, match="does not fit 64 bits"):
        stream.launch(kernel, scalars=[1 << 64])
    with pytest.raises(InvalidParameter, match="the timeout is 0 cycles"):
        stream.launch(kernel, timeout=0)
    for wrong in (dict(priority=8), dict(depth=3), dict(depth=1), dict(failure_mode=5)):
        value = next(iter(wrong.values()))
        with pytest.raises(InvalidParameter, match=f"is {value}; (it must|choose)"):
            session.stream(**wrong)


def test_freed_and_foreign_handles_are_refused(device, session):
    stream, other = session.stream(), device.session()
    buffer, foreign = session.empty(4, np.int8), other.empty(4, np.int8)
    with pytest.raises(WrongContext, match="belongs to another session"):
        stream.fill(foreign, 0)
    with pytest.raises(WrongContext, match="belongs to another session"):
        stream.launch(other.load(binary(SPIN, device.config)))
    buffer.free()
    for use in (lambda: stream.fill(buffer, 0), buffer.free, lambda: buffer.part(0, 1, np.int8)):
        with pytest.raises(InvalidHandle, match="was freed"):
            use()


def test_a_stream_says_what_the_device_has_not_seen_yet(session):
    stream = session.stream()
    assert stream.describe() == "stream 0 is ACTIVE, 0 tasks pending"
    with stream.batch():
        task = stream.fill(session.empty(8, np.uint8), 1)
        assert stream.describe().endswith(f"1 task pending: task {task.id} is not fetched yet")


def test_a_wait_that_nothing_can_end_gives_up_early_and_says_for_what():
    with machine(patience=10_000_000) as device, device.session() as session:
        stream = session.stream()
        stream._events[3] = EventWord(slot=3, generation=7)  # a record that nobody submits
        stream.fill(session.empty(8, np.uint8), 0)
        with pytest.raises(WaitTimeout, match="nothing runs on the device") as caught:
            stream.synchronise()
        assert "waits for event slot 3 generation 7, which no stream" in str(caught.value)
        assert device.driver.transport.now() < 3 * QUIET
        stream.abort()
        with pytest.raises(StreamAborted):
            stream.synchronise()


def test_an_abort_of_nothing_does_not_hide_one_that_dropped_tasks(session):
    stream = session.stream()
    stream.wait_notify(session.notify())
    stream.abort()
    stream.abort()
    with pytest.raises(StreamAborted):
        stream.synchronise()
    stream.abort()
    stream.synchronise()
