import subprocess
import sys

import numpy as np
import pytest

from hw.regs.registers import WindowLimit
from rt.errors import InvalidParameter, MemoryExhausted, NoContext, WrongContext
from tests.rt.machine import SPIN, binary, machine

BYTES = np.arange(64, dtype=np.uint8)


def test_there_are_as_many_sessions_as_contexts(device):
    sessions = [device.session() for _ in range(2)]
    with pytest.raises(NoContext, match="all 2 contexts of the device are in use") as caught:
        device.session()
    assert caught.value.code == 107002
    sessions[1].close()
    assert device.session().context == 1


def test_closing_gives_everything_back(device):
    free = device.device_pool.available, device.host_pool.available
    for _ in range(3):
        with device.session() as session:
            stream, event = session.stream(), session.event(timing=True)
            buffer = session.buffer(BYTES)
            download = stream.download(buffer)
            stream.record(event)
        assert (download.result() == BYTES).all()
        with pytest.raises(NoContext, match="the session is closed"):
            session.empty(4, np.int8)
        with pytest.raises(NoContext, match="the session is closed"):
            stream.fill(buffer, 0)
        assert (device.device_pool.available, device.host_pool.available) == free
        assert len(device.events.free) == device.config.events
        assert len(device._streams) == device.config.streams
        model = device.driver.transport
        for window in range(device.config.windows):
            limit = model.get(WindowLimit, session.context * device.config.windows + window)
            assert (limit.read, limit.write, limit.execute) == (0, 0, 0)


def test_an_exception_in_a_session_does_not_wait_for_its_tasks(device):
    with pytest.raises(KeyError), device.session() as session:  # noqa: PT012
        stream = session.stream()
        task = stream.launch(session.load(binary(SPIN, device.config)), scalars=[40_000])
        raise KeyError
    assert not task.done
    assert device.driver.transport.now() < 40_000


def test_memory_is_exhausted_with_sizes_and_limit(session):
    session.empty(300_000, np.uint8)
    with pytest.raises(
        MemoryExhausted,
        match="300032 bytes of the session's device memory were asked for; of 520192 bytes "
        "220160 are free, at most 220160 in one piece",
    ) as caught:
        session.empty(300_000, np.uint8)
    assert caught.value.code == 207001


def test_a_session_may_ask_for_its_share(device):
    large = device.session(device_bytes=900 << 10)
    large.empty(800 << 10, np.uint8)
    with pytest.raises(MemoryExhausted, match="of device memory were asked for"):
        device.session()
    with pytest.raises(InvalidParameter, match="host_bytes is 100; it must be a multiple of 64"):
        device.session(host_bytes=100)
    device.session(device_bytes=64 << 10).close()


def test_a_buffer_may_be_uploaded_in_order_on_a_stream(device, session):
    stream = session.stream()
    buffer = session.buffer(BYTES, stream)
    assert (stream.download(buffer).result() == BYTES).all()
    with pytest.raises(WrongContext, match="belongs to another session"):
        device.session().buffer(BYTES, stream)


def test_uploads_without_a_stream_find_one(session):
    kernel = session.load(binary(SPIN, session.device.config))
    assert not session.streams
    streams = [session.stream() for _ in range(4)]
    for stream in streams:
        stream.launch(kernel, scalars=[300])
    buffer = session.buffer(BYTES)  # all are busy and there is none left
    assert (streams[0].download(buffer).result() == BYTES).all()


def test_two_sessions_work_beside_each_other(device):
    results = []
    sessions = [device.session(), device.session()]
    for number, session in enumerate(sessions):
        stream = session.stream()
        buffer = session.empty(64, np.uint8)
        stream.fill(buffer, number + 1)
        results.append(stream.download(buffer))
    for session in reversed(sessions):
        session.synchronise()
    assert [int(result.result()[5]) for result in results] == [1, 2]


def test_closing_the_device_closes_sessions_and_transport():
    device = machine()
    session = device.session()
    device.close()
    assert session.closed
    assert device.driver.transport.closed


def test_the_runtime_needs_no_amaranth():
    code = (
        "import sys; import rt, rt.ops, rt.kernel.gemm\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('amaranth', 'sim')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda stream, buffer: stream.record(stream), "an event is needed, not Stream; "),
        (lambda stream, buffer: stream.notify(buffer), "a notify is needed, not Buffer; "),
        (lambda stream, buffer: stream.launch(buffer), "a kernel is needed, not Buffer; "),
        (lambda stream, buffer: stream.replay(stream), "a graph is needed, not Stream; "),
        (lambda stream, buffer: stream.fill(stream, 0), "a buffer is needed, not Stream; "),
    ],
)
def test_a_handle_of_another_kind_is_named_with_what_is_needed(session, call, wanted):
    stream, buffer = session.stream(), session.empty(8, np.uint8)
    with pytest.raises(InvalidParameter, match=f"^{wanted}") as caught:
        call(stream, buffer)
    assert caught.value.code == 107000
