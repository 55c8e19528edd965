"""Many host threads use one device: no lock is held while one waits, and nothing is mixed up."""

import queue
import random
import threading

import numpy as np
import pytest

from rt.errors import AclError, DeviceFault, InvalidHandle, NoContext, StreamAborted, WaitTimeout
from rt.wait import SLICE
from tests.rt.machine import ADD, SPIN, TRAP, binary, machine
from tests.rt.threads import LONG, threads, until

BYTES = np.arange(64, dtype=np.uint8)


@pytest.fixture
def spin(session):
    kernel = session.load(binary(SPIN, session.device.config))
    return lambda stream, cycles, **more: stream.launch(kernel, scalars=[cycles], **more)


def work(session, seed, submissions):
    """So many random tasks on a stream of its own, with random waits; checks every result."""
    rng = random.Random(seed)
    kernel = session.load(binary(ADD, session.device.config))
    with session.stream(rng.randrange(8), depth=rng.choice([2, 8, 64])) as stream:
        buffers = [session.buffer(np.full(64, n, np.uint8)) for n in range(3)]
        expected = [np.full(64, n, np.uint8) for n in range(3)]
        event, downloads, task = session.event(), [], None
        for _ in range(submissions):
            one, two = rng.sample(range(3), 2)
            match rng.randrange(5):
                case 0:
                    data = np.frombuffer(rng.randbytes(64), np.uint8)
                    task = stream.upload(buffers[one], data)
                    expected[one] = data.copy()
                case 1:
                    task = stream.copy(buffers[one], buffers[two])
                    expected[one] = expected[two].copy()
                case 2:
                    task = stream.fill(buffers[one], seed)
                    expected[one] = np.full(64, seed, np.uint8)
                case 3:
                    task = stream.launch(kernel, [buffers[one]], [buffers[two]], [seed, 64])
                    expected[two] = expected[one] + np.uint8(seed)
                case 4:
                    task = stream.download(buffers[one])
                    downloads.append((task, expected[one].copy()))
            match rng.randrange(12):
                case 0:
                    stream.synchronise()
                case 1:
                    task.wait()
                case 2:
                    stream.query()
                case 3:
                    stream.record(event)
                    event.synchronise()
                case 4:
                    other = session.empty(64, np.uint8)
                    stream.copy(other, buffers[one])
                    buffers[one].free()
                    buffers[one] = other
        downloads += [(stream.download(buffers[n]), expected[n]) for n in range(3)]
        for download, values in downloads:
            assert (download.result() == values).all()
        for buffer in buffers:
            buffer.free()


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_submissions_of_eight_threads_in_two_sessions(seed):
    with machine(streams=8, contexts=2, host_bytes=1 << 17, device_bytes=1 << 17) as device:
        sessions = [device.session(), device.session()]
        with threads(*(
            lambda n=n: work(sessions[n % 2], 8 * seed + n, 125) for n in range(8)
        )):  # fmt: skip
            pass
        for session in sessions:
            session.close()
        assert device.device_pool.available == device.device_pool.size
        assert device.host_pool.available == device.host_pool.size
        assert len(device.events.free) == device.config.events


def test_buffers_handed_from_thread_to_thread_by_events(session):
    """A ring of threads: each adds 1 to what the one before has made."""
    kernel = session.load(binary(ADD, session.device.config))
    buffers = [session.buffer(np.zeros(64, np.uint8)) for _ in range(4)]
    mail = [queue.Queue() for _ in range(4)]

    def member(number):
        stream, event = session.stream(), session.event()
        for _ in range(25):
            stream.wait(mail[number].get(timeout=LONG))
            source, result = buffers[number], buffers[(number + 1) % 4]
            stream.launch(kernel, [source], [result], [1, 64])
            stream.record(event)
            mail[(number + 1) % 4].put(event)
        stream.synchronise()

    mail[0].put(session.event())
    with threads(*(lambda n=n: member(n) for n in range(4))):
        pass
    final = session.streams[0].download(buffers[0]).result()
    assert (final == 100).all()


def test_two_threads_synchronise_while_a_third_launches(session, spin):
    one, two, three = (session.stream() for _ in range(3))
    long, launched = spin(one, 20_000_000 // 8, timeout=1 << 24), []
    session.device.patience = 1 << 30
    notify = session.notify()
    two.wait_notify(notify)

    def launch():
        until(lambda: session.device.monitor._users.keys() >= {waiters[0].ident, waiters[1].ident})
        for byte in range(20):
            task = three.fill(session.empty(8, np.uint8), byte)
            task.wait()
            launched.append(long.done)
        three.notify(notify)

    with threads(one.synchronise, two.synchronise) as waiters, threads(launch):
        pass
    assert long.done
    assert launched == [False] * 20  # nobody had to wait for the long one


def test_a_thread_comes_in_within_a_slice_of_another_that_waits(session, spin):
    one, two = session.stream(), session.stream()
    session.device.patience = 1 << 30
    transport, waits = session.device.driver.transport, []
    spin(one, 4_000_000, timeout=1 << 24)

    def ask():
        for _ in range(50):
            before = transport.now()
            two.query()
            waits.append(transport.now() - before)

    with threads(ask):
        one.synchronise()
    assert max(waits) <= 2 * SLICE  # one is under way when `before` is read


def test_threads_share_a_stream_and_its_ring(session):
    stream, notify = session.stream(depth=2), session.notify()

    def add():
        for _ in range(50):
            with stream.batch():
                stream.notify(notify)
                stream.notify(notify, 2)

    with threads(*[add] * 6):
        pass
    stream.synchronise()
    assert notify.value == 6 * 50 * 3


def test_threads_that_want_all_the_host_memory_wait_for_each_other():
    with machine(host_bytes=1 << 16, contexts=1) as device, device.session() as session:
        stream = session.stream(depth=2)
        buffers = [session.empty(20_000, np.uint8) for _ in range(4)]

        def copy(number):
            for turn in range(10):
                data = np.full(20_000, 10 * number + turn, np.uint8)
                stream.upload(buffers[number], data)
                assert (stream.download(buffers[number]).result() == data).all()

        with threads(*(lambda n=n: copy(n) for n in range(4))):
            pass


def test_a_fault_is_raised_in_each_waiter_of_its_session_and_in_no_other(device):
    bad, good = device.session(), device.session()
    kernels = {session: session.load(binary(SPIN, device.config)) for session in (bad, good)}
    trap = bad.load(binary(TRAP, device.config))
    broken, waiting, healthy = bad.stream(), bad.stream(), good.stream()
    gate = bad.notify()
    waiting.wait_notify(gate)
    task = healthy.launch(kernels[good], scalars=[40_000])
    raised = []

    def wait(call):
        with pytest.raises(DeviceFault, match="ILLEGAL_INSTRUCTION") as caught:
            call()
        raised.append(caught.value.record.stream)

    with (
        threads(healthy.synchronise),
        threads(lambda: wait(waiting.synchronise), lambda: wait(bad.synchronise)) as waiters,
    ):
        until(lambda: device.monitor._users.keys() >= {waiter.ident for waiter in waiters})
        broken.launch(trap)
        wait(broken.synchronise)
    assert raised == [broken.number] * 3
    assert task.done
    bad.recover()
    broken.synchronise()


def test_an_abort_ends_the_wait_of_another_thread(session):
    stream, notify = session.stream(), session.notify()
    task = stream.wait_notify(notify)

    def wait(call):
        with pytest.raises(StreamAborted):
            call()

    with threads(lambda: wait(stream.synchronise), lambda: wait(task.wait)):
        until(lambda: len(session.device.monitor._sleepers) == 2)
        stream.abort()
    stream.notify(notify)
    stream.wait_notify(notify)
    stream.synchronise()


def test_every_thread_that_synchronises_is_told_of_an_abort(session):
    stream, notify, told = session.stream(), session.notify(), []
    stream.wait_notify(notify)

    def wait():
        with pytest.raises(StreamAborted):
            stream.synchronise()
        told.append(True)

    with threads(wait, wait, wait):
        until(lambda: len(session.device.monitor._sleepers) == 3)
        stream.abort()
    assert told == [True] * 3
    stream.synchronise()


@pytest.mark.parametrize("what", ["stream", "session", "device"])
def test_whoever_waits_is_told_when_another_thread_closes(what):
    device = machine()
    session = device.session()
    stream, notify = session.stream(), session.notify()
    task = stream.wait_notify(notify)
    close = {
        "stream": lambda: stream.destroy(force=True),
        "session": lambda: session.close(drain=False),
        "device": device.close,
    }[what]

    def wait(call):
        with pytest.raises((StreamAborted, NoContext, InvalidHandle)):
            call()

    with threads(lambda: wait(stream.synchronise), lambda: wait(task.wait)):
        until(lambda: len(device.monitor._sleepers) == 2)
        close()


def test_threads_close_the_same_things_at_once(device):
    session = device.session()
    kernel = session.load(binary(SPIN, device.config))
    streams = [session.stream() for _ in range(4)]
    for stream in streams:
        stream.launch(kernel, scalars=[3000])

    def close():
        for stream in streams:
            stream.close()
        session.close()

    with threads(*[close] * 6):
        pass
    assert device.host_pool.available == device.host_pool.size
    assert len({stream.number for stream in [device.session().stream()]}) == 1


def test_submissions_while_a_stream_is_aborted_run_or_are_dropped(session, spin):
    stream, results = session.stream(), []

    def submit():
        for byte in range(60):
            task = stream.fill(session.empty(8, np.uint8), byte)
            try:
                task.wait()
                results.append(True)
            except StreamAborted:
                results.append(False)

    with threads(submit, submit):
        for _ in range(20):
            spin(stream, 5000)
            stream.abort()
    assert len(results) == 120
    stream.fill(session.empty(8, np.uint8), 1)
    try:
        stream.synchronise()
    except StreamAborted:
        stream.synchronise()
    assert stream.query()


def test_a_thread_that_fails_in_a_call_leaves_the_device_to_others(session):
    stream = session.stream()

    def fail():
        for _ in range(20):
            with pytest.raises(AclError):
                stream.fill(session.empty(8, np.uint8), 999)

    with threads(fail, fail):
        for _ in range(20):
            stream.fill(session.empty(8, np.uint8), 1).wait()
    assert session.device.monitor._owner is None


def test_a_timeout_in_cycles_holds_with_other_threads_too(session, spin):
    one, two = session.stream(), session.stream()
    spin(one, 30_000)
    transport, stop = session.device.driver.transport, threading.Event()

    def ask():
        while not stop.is_set():
            two.query()

    with threads(ask):
        start = transport.now()
        with pytest.raises(WaitTimeout, match=r"limit 5000\).*runs on core0"):
            one.synchronise(timeout=5000)
        assert transport.now() >= start + 5000
        one.synchronise()
        stop.set()


def log_of(seed):
    """Every access of a random program, with its cycle."""
    log = []
    with machine() as device:
        transport = device.driver.transport
        control = transport.control

        def watched(operations):
            log.append((transport.now(), tuple(operations)))
            return control(operations)

        transport.control = watched
        with device.session() as session:
            work(session, seed, 60)
            stream = session.stream()
            stream.launch(session.load(binary(SPIN, device.config)), scalars=[45_000])
    return log


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_do_not_use_the_device_change_no_cycle(seed):
    alone, stop = log_of(seed), threading.Event()
    with threads(lambda: stop.wait(LONG)):
        beside = log_of(seed)
        stop.set()
    assert beside == alone
