"""Notifies: counters that streams add to, set and wait for."""

import numpy as np
import pytest

from rt.errors import DeviceFault, InvalidHandle, InvalidParameter, NoNotify, WrongContext
from tests.rt.machine import SPIN, binary, machine


@pytest.fixture
def spin(session):
    kernel = session.load(binary(SPIN, session.device.config))
    return lambda stream, cycles, **more: stream.launch(kernel, scalars=[cycles], **more)


def test_a_counter_orders_two_streams(session, spin):
    one, two = session.stream(), session.stream()
    notify = session.notify()
    two.wait_notify(notify)
    after = two.fill(session.empty(8, np.uint8), 1, profile=True)
    before = spin(one, 500, profile=True)
    one.notify(notify)
    session.synchronise()
    assert after.profile.start > before.profile.end
    assert notify.value == 0


def test_it_counts_so_no_signal_is_lost(session, spin):
    one, two = session.stream(), session.stream()
    notify = session.notify()
    for _ in range(3):
        one.notify(notify, 2)
    one.synchronise()
    assert notify.value == 6
    two.wait_notify(notify, 4)
    two.wait_notify(notify, 2)
    waiting = two.wait_notify(notify, 3)
    one.synchronise()
    assert not two.query()
    one.set_notify(notify, 10)
    waiting.wait()
    assert notify.value == 7


def test_each_of_several_waiters_takes_its_share(session):
    streams = [session.stream() for _ in range(3)]
    notify = session.notify()
    for stream in streams[:2]:
        stream.wait_notify(notify, 2)
    streams[2].notify(notify, 3)
    streams[2].synchronise()
    assert sorted(stream.query() for stream in streams[:2]) == [False, True]
    streams[2].notify(notify)
    session.synchronise()
    assert notify.value == 0


def test_a_wait_that_lasts_too_long_is_a_fault_of_its_own(session):
    stream, notify = session.stream(), session.notify()
    now = session.device.driver.transport.now()
    task = stream.wait_notify(notify, 5, timeout=3000)
    assert stream.describe().endswith(f"task {task.id} waits for notify 0 to be at least 5")
    with pytest.raises(DeviceFault, match="TASK_TIMEOUT on queue, stream 0") as caught:
        stream.synchronise()
    assert caught.value.code == 107020
    assert caught.value.record.task_id == task.id
    assert 3 * 1024 <= caught.value.record.timestamp - now < 3 * 1024 + 100
    session.recover()
    stream.fill(session.empty(8, np.uint8), 1)
    stream.synchronise()


def test_counters_run_out_at_once_and_come_back(device, session):
    notifies = [session.notify() for _ in range(device.config.notifies)]
    assert len({notify.counter.number for notify in notifies}) == device.config.notifies
    now = device.driver.transport.now()
    with pytest.raises(NoNotify, match=r"all 4 counters .* close a notify") as caught:
        device.session().notify()
    assert caught.value.code == 207009
    assert device.driver.transport.now() - now < 200
    notifies[2].close()
    notifies[2].close()
    assert session.notify().counter.number == notifies[2].counter.number


def test_a_counter_is_given_to_nobody_while_a_task_uses_it(device, session, spin):
    stream = session.stream()
    notifies = [session.notify() for _ in range(device.config.notifies)]
    spin(stream, 2000)
    task = stream.notify(notifies[0], 7, profile=True)
    notifies[0].close()
    with pytest.raises(NoNotify):
        session.notify()
    task.wait()
    fresh = session.notify()
    assert fresh.counter.number == notifies[0].counter.number
    assert fresh.value == 0


def test_a_session_gives_its_counters_back(device):
    for _ in range(2):
        with device.session() as session:
            for _ in range(device.config.notifies):
                notify = session.notify()
            session.stream().wait_notify(notify, timeout=1 << 20)
            session.close(drain=False)
    assert len(device.counters.free) == device.config.notifies


def test_closed_and_foreign_notifies_are_refused(device, session):
    stream, notify = session.stream(), session.notify()
    foreign = device.session().notify()
    for use in (stream.notify, stream.wait_notify, lambda notify: stream.set_notify(notify, 1)):
        with pytest.raises(WrongContext, match="notify 1 belongs to another session"):
            use(foreign)
    notify.close()
    for use in (stream.notify, stream.wait_notify, lambda notify: notify.value):
        with pytest.raises(InvalidHandle, match=r"notify 0 is closed; make .* session.notify"):
            use(notify)


def test_bad_amounts_and_timeouts_name_value_and_limit(session):
    stream, notify = session.stream(), session.notify()
    for amount in (-1, 1 << 32):
        with pytest.raises(InvalidParameter, match=rf"is {amount}; .* 0 … 4294967295"):
            stream.notify(notify, amount)
    for timeout in (0, 1 << 43):
        with pytest.raises(InvalidParameter, match=rf"timeout is {timeout} cycles; it must lie"):
            stream.wait_notify(notify, timeout=timeout)
    assert stream.idle


def test_the_largest_device_has_as_many_counters_as_it_says():
    with machine(notifies=64) as device, device.session() as session:
        stream = session.stream()
        notifies = [session.notify() for _ in range(64)]
        for number, notify in enumerate(notifies):
            stream.notify(notify, number)
        stream.synchronise()
        assert [notify.value for notify in notifies] == list(range(64))
