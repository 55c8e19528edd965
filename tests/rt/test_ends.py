"""Whatever fails on the way, nothing is left half made or half closed."""

import numpy as np
import pytest

from hw.regs.registers import InterruptEnable, StreamState, WindowLimit
from rt.context import COMPLETIONS
from rt.errors import InvalidParameter, MemoryExhausted, NoStream, WaitTimeout, WrongContext
from rt.finish import finish
from rt.ring import CompletionRing
from rt.transport import TransportError
from tests.rt.machine import SPIN, binary, machine

BYTES = np.arange(64, dtype=np.uint8)


@pytest.fixture
def deaf(device, monkeypatch):
    """Called with a stream: it does not end its abort, until `hear()`."""
    tasks = device.driver.transport.tasks
    command = type(tasks).command
    numbers = set()

    def ignore(stream, order):
        if stream.number not in numbers:
            command(tasks, stream, order)

    def hear():
        for number in sorted(numbers):
            numbers.remove(number)
            tasks.command(tasks.streams[number], type("Abort", (), dict(start=0, abort=1)))

    monkeypatch.setattr(tasks, "command", ignore)
    deafen = lambda stream: numbers.add(stream.number)  # noqa: E731
    deafen.hear = hear
    return deafen


def memory(device):
    return device.device_pool.available, device.host_pool.available


def rights(device, context):
    """Whether any window of the context is open."""
    model, windows = device.driver.transport, device.config.windows
    return any(model.get(WindowLimit, context * windows + n) != WindowLimit()
               for n in range(windows))  # fmt: skip


def test_every_step_is_taken_and_the_first_error_raised():
    taken = []

    def step(number):
        taken.append(number)
        if number % 2:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        finish(*(lambda number=number: step(number) for number in range(5)))
    assert taken == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        (dict(host_bytes=64), MemoryExhausted),
        (dict(host_bytes=CompletionRing.size_bytes(COMPLETIONS) - 64), MemoryExhausted),
        (dict(host_bytes=2 << 20), MemoryExhausted),
        (dict(device_bytes=2 << 20), MemoryExhausted),
        (dict(device_bytes=0), InvalidParameter),
        (dict(host_bytes=100), InvalidParameter),
    ],
)
def test_a_session_that_does_not_open_leaves_nothing(device, sizes, error):
    before = memory(device)
    for _ in range(2 * device.config.contexts):
        with pytest.raises(error):
            device.session(**sizes)
    assert memory(device) == before
    assert not rights(device, 0)
    with device.session() as session:
        assert (session.stream().download(session.buffer(BYTES)).result() == BYTES).all()


def test_a_session_that_opens_half_is_closed_again(device, monkeypatch):
    before, write = memory(device), device.driver.write

    def fail(*values, index=0):
        if any(isinstance(value, InterruptEnable) and value.fault for value in values):
            raise TransportError("the link is broken")
        write(*values, index=index)

    monkeypatch.setattr(device.driver, "write", fail)
    with pytest.raises(TransportError, match="the link is broken"):
        device.session()
    assert memory(device) == before
    assert not rights(device, 0)


def test_a_stream_that_does_not_open_gives_everything_back(device, session, monkeypatch):
    before = session._staging.available
    for _ in range(2 * device.config.streams):
        with pytest.raises(InvalidParameter, match="mode is 5; choose one of CONTINUE, STOP of"):
            session.stream(failure_mode=5)
        with pytest.raises(InvalidParameter, match="the timeout is 0 cycles"):
            session.stream(timeout=0)

    def fail(*values, index=0):
        raise TransportError("the link is broken")

    with monkeypatch.context() as patch:
        patch.setattr(device.driver, "write", fail)
        for _ in range(2 * device.config.streams):
            with pytest.raises(TransportError):
                session.stream()
    assert session._staging.available == before
    assert len([session.stream() for _ in range(device.config.streams)]) == 4
    with pytest.raises(NoStream):
        session.stream()


def test_a_buffer_that_is_not_filled_is_freed(device, session):
    stream, before = session.stream(), session._pool.available
    with pytest.raises(WrongContext):
        device.session().buffer(BYTES, stream)
    session.host_memory(session._staging.largest)
    with pytest.raises(MemoryExhausted, match="the session's host memory"):
        session.buffer(BYTES)
    with pytest.raises(MemoryExhausted, match="the session's host memory"):
        session.buffer(BYTES, stream)
    with pytest.raises(MemoryExhausted, match="the session's host memory"):
        session.load(binary(SPIN, device.config))
    assert (session._pool.available, session._pool.deferred) == (before, 0)


def test_a_session_closes_although_streams_do_not_end_their_abort(device, deaf):
    before = memory(device)
    session = device.session()
    kernel = session.load(binary(SPIN, device.config))
    streams = [session.stream() for _ in range(3)]
    for stream in streams:
        stream.launch(kernel, scalars=[40_000])
        stream.record(session.event())
    deaf(streams[0])
    deaf(streams[1])
    with pytest.raises(WaitTimeout, match="the abort of stream 0"):
        session.close(drain=False)
    assert session.closed
    assert all(stream.closed for stream in streams)
    assert memory(device) != before  # the device may still use it
    assert not rights(device, session.context)
    assert device.driver.read(InterruptEnable, session.context) == InterruptEnable()

    # What a stream still runs in is given to nobody, until its abort has ended.
    other = device.session()
    assert other.context != session.context
    assert {other.stream().number, other.stream().number} == {2, 3}
    with pytest.raises(NoStream):
        other.stream()
    deaf.hear()
    assert {other.stream().number, other.stream().number} == {0, 1}
    other.close()
    assert memory(device) == before
    assert device.session().context == session.context
    assert len(device.events.free) == device.config.events


def test_a_stream_that_does_not_end_its_abort_is_closed_and_later_given_back(session, deaf):
    before = session._staging.available
    stream, waiter = session.stream(timeout=1 << 22), session.stream()
    event = session.event()
    stream.launch(session.load(binary(SPIN, session.device.config)), scalars=[1 << 20])
    stream.record(event)
    waiter.wait(event)
    task = waiter.fill(session.empty(8, np.uint8), 1)
    deaf(stream)
    with pytest.raises(WaitTimeout, match="the abort of stream 0"), stream:
        raise KeyError
    assert stream.closed
    assert not task.done
    deaf.hear()
    session.stream().close()  # looks what has come back, and releases who waits for it
    session.synchronise()
    assert task.done
    waiter.close()
    assert session._staging.available == before


def test_the_device_closes_every_session_and_the_link(deaf, device):
    sessions = [device.session() for _ in range(2)]
    deaf(sessions[0].stream())
    with pytest.raises(WaitTimeout, match="the abort of stream 0"):
        device.close()
    assert [session.closed for session in sessions] == [True, True]
    assert device.driver.transport.closed


def test_a_fault_at_the_end_is_raised_after_closing():
    with machine() as device:
        session = device.session()
        stream = session.stream()
        stream.launch(session.load(binary(SPIN, device.config)), scalars=[5000], timeout=1024)
        with pytest.raises(Exception, match="TASK_TIMEOUT"):
            session.close()
        assert session.closed
        assert device.driver.stream_state(stream.number) is StreamState.DISABLED
