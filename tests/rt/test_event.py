import numpy as np
import pytest

from hw.regs.registers import EventRecord
from rt.errors import NoEvent, NoTimestamp, StreamAborted, WaitTimeout, WrongContext
from tests.rt.machine import ADD, SPIN, binary

BYTES = np.arange(64, dtype=np.uint8)


@pytest.fixture
def spin(session):
    kernel = session.load(binary(SPIN, session.device.config))
    return lambda stream, cycles, **more: stream.launch(kernel, scalars=[cycles], **more)


def test_a_wait_orders_two_streams(session):
    copies, work = session.stream(), session.stream()
    kernel = session.load(binary(ADD, session.device.config))
    source, result = session.empty(64, np.uint8), session.empty(64, np.uint8)
    there, ready = session.event(), session.event()
    copies.upload(source, BYTES)
    copies.record(there)
    work.wait(there)
    work.launch(kernel, [source], [result], [1, 64])
    work.record(ready)
    copies.wait(ready)
    assert (copies.download(result).result() == BYTES + 1).all()


def test_a_record_is_part_of_the_task_before_it_in_a_batch(session, spin):
    stream, other = session.stream(), session.stream()
    event = session.event()
    with stream.batch():
        task = spin(stream, 100, profile=True)
        stream.record(event)
    other.wait(event)
    after = spin(other, 10, profile=True)
    session.synchronise()
    assert event.cycle == task.profile.end
    assert event.cycle < after.profile.start <= event.cycle + 4


def test_a_later_record_neither_disturbs_nor_releases_an_older_wait(session, spin):
    one, two = session.stream(), session.stream()
    event = session.event()
    first = spin(one, 300, profile=True)
    one.record(event)
    two.wait(event)
    waiter = session.buffer(BYTES, one)
    task = two.fill(waiter, 1, profile=True)
    spin(one, 3000)
    one.record(event)
    task.wait()
    assert first.profile.end <= task.profile.start < first.profile.end + 1000
    session.synchronise()


def test_a_record_on_another_stream_takes_a_fresh_slot(session, spin):
    one, two = session.stream(), session.stream()
    event = session.event()
    spin(one, 3000)
    one.record(event)
    slot = event.record.slot
    two.record(event)
    assert event.record.slot is not slot
    event.synchronise()  # only the last record counts
    assert not one.query()
    session.synchronise()


def test_waits_that_need_nothing_are_dropped(session, spin):
    stream = session.stream()
    event = session.event()
    assert event.query()
    event.synchronise()
    stream.wait(event)
    spin(stream, 100)
    stream.record(event)
    stream.wait(event)
    before = stream._tail
    session.synchronise()
    assert stream._tail == before


def test_more_waits_than_an_entry_has_room_for(session, spin):
    streams = [session.stream() for _ in range(3)]
    events = [session.event(timing=True) for _ in range(11)]
    for number, event in enumerate(events):
        stream = streams[number % 2]
        spin(stream, 20)
        stream.record(event)
    for event in events:
        streams[2].wait(event)
    last = streams[2].fill(session.empty(8, np.uint8), 1, profile=True)
    session.synchronise()
    assert last.profile.start > max(event.cycle for event in events)


def test_a_record_on_an_empty_stream_keeps_its_earlier_waits(session, spin):
    one, two = session.stream(), session.stream()
    first, second = session.event(), session.event()
    spin(one, 800)
    one.record(first)
    two.wait(first)
    two.record(second)
    assert not second.query()
    second.synchronise()
    assert first.query()


def test_a_wait_alone_is_kept_by_synchronise(session, spin):
    one, two = session.stream(), session.stream()
    event = session.event()
    task = spin(one, 800)
    one.record(event)
    two.wait(event)
    two.synchronise()
    assert task.done


def test_elapsed_cycles_come_from_the_device(session, spin):
    stream = session.stream()
    start, end = session.event(timing=True), session.event(timing=True)
    stream.record(start)
    spin(stream, 1234)
    stream.record(end)
    stream.synchronise()
    assert 1234 <= start.elapsed(end) <= 1234 + 20
    spin(stream, 1)
    stream.record(start)
    with pytest.raises(NoTimestamp, match="synchronise before"):
        start.elapsed(end)
    stream.synchronise()
    assert start.elapsed(end) < 0
    with pytest.raises(NoTimestamp, match="timing=True"):
        session.event().elapsed(end)
    with pytest.raises(NoTimestamp, match="not been recorded"):
        _ = session.event(timing=True).cycle


def test_an_untimed_cycle_is_lost_when_its_slot_is_used_again(session):
    stream = session.stream()
    event, others = session.event(), session.event()
    stream.record(event)
    stream.synchronise()
    for _ in range(20):
        stream.record(others)
        stream.synchronise()
    with pytest.raises(NoTimestamp, match=r"recorded again as generation \d+"):
        _ = event.cycle


def test_slots_run_out_at_once_and_come_back(session, spin):
    stream = session.stream()
    spin(stream, 20_000)
    slots = session.device.config.events
    for _ in range(slots):
        stream.record(session.event())
    now = session.device.driver.transport.now()
    with pytest.raises(NoEvent, match=f"all {slots} event slots have pending records") as caught:
        stream.record(session.event())
    assert caught.value.code == 207007
    assert session.device.driver.transport.now() == now
    stream.synchronise()
    stream.record(session.event())
    stream.synchronise()


@pytest.mark.parametrize("idle", [True, False])
def test_slots_whose_records_have_passed_in_another_session_are_free(device, session, spin, idle):
    stream, buffer = session.stream(), session.empty(8, np.uint8)
    spin(stream, 3000)
    for _ in range(device.config.events):
        with stream.batch():
            stream.fill(buffer, 1)
            stream.record(session.event())
    transport = device.driver.transport
    transport.run_until(interrupt=False, cycle=transport.now() + 5000)
    other = device.session()
    assert not device.events.free
    waiter, event = other.stream(), other.event()
    if not idle:
        waiter.fill(other.empty(8, np.uint8), 1)
    waiter.record(event)
    event.synchronise()
    assert stream.idle


def test_a_record_without_a_slot_leaves_nothing(session, spin):
    stream, busy = session.stream(), session.stream()
    spin(busy, 20_000)
    for _ in range(session.device.config.events):
        busy.record(session.event())
    spin(stream, 50)
    free, event = session._staging.available, session.event(timing=True)
    for _ in range(3):
        with pytest.raises(NoEvent):
            stream.record(event)
    assert (session._staging.available, session._staging.deferred) == (free, 0)
    assert event.record is None


def test_a_wait_that_finds_no_room_changes_nothing(session, spin):
    one, two = session.stream(), session.stream(depth=2)
    events = [session.event() for _ in range(5)]
    for event in events:
        spin(one, 4000)
        one.record(event)
    with two.batch():
        for _ in range(2):
            spin(two, 20_000)
        session.device.patience = 1
        for event in events[:4]:
            two.wait(event)
        for _ in range(2):
            with pytest.raises(WaitTimeout, match="room in the ring of 2 entries"):
                two.wait(events[4])
        session.device.patience = 100_000
        two.wait(events[4])
        after = two.fill(session.empty(8, np.uint8), 9, profile=True)
    session.synchronise()
    assert after.profile.start > events[4].cycle


def test_one_event_may_be_recorded_more_often_than_there_are_slots(session, spin):
    stream = session.stream()
    event = session.event()
    spin(stream, 2000)
    for _ in range(40):
        stream.record(event)
    event.synchronise()
    assert stream.query()


def test_generations_wrap(session, spin):
    driver = session.device.driver
    for generation in (0x7FFFF, 0xFFFFD):
        driver.write(EventRecord(slot=0, generation=generation))
    one, two = session.stream(), session.stream()
    event = session.event()
    spin(one, 200)
    for expected in (0xFFFFE, 0xFFFFF, 0, 1):
        one.record(event)
        assert event.record.word.as_dict() == dict(slot=0, generation=expected)
    two.wait(event)
    task = two.fill(session.empty(8, np.uint8), 0, profile=True)
    session.synchronise()
    assert task.profile.start > event.cycle


def test_a_timeout_names_the_event_and_who_records_it(session, spin):
    one, two = session.stream(), session.stream()
    event = session.event()
    running = spin(one, 40_000)
    one.record(event)
    two.wait(event)
    waiting = two.fill(session.empty(8, np.uint8), 0)
    word = event.record.word
    with pytest.raises(WaitTimeout) as caught:
        two.synchronise(timeout=500)
    text = str(caught.value)
    assert f"stream 1 is ACTIVE, 1 task pending: task {waiting.id} waits for event slot" in text
    assert f"slot {word.slot} generation {word.generation}, which stream 0 records" in text
    assert f"task {running.id} runs on core0" in text
    with pytest.raises(WaitTimeout, match="event slot .* which stream 0 records") as caught:
        event.synchronise(timeout=500)
    assert caught.value.code == 507047


def test_records_dropped_by_an_abort_release_those_who_wait(session, spin):
    one, two = session.stream(), session.stream()
    event = session.event()
    spin(one, 40_000)
    one.record(event)
    two.wait(event)
    two.fill(session.empty(8, np.uint8), 0)
    one.abort()
    two.synchronise()
    with pytest.raises(StreamAborted, match="was dropped when stream 0 was aborted"):
        event.synchronise()


def test_an_event_outlives_its_stream(session, spin):
    stream = session.stream()
    event = session.event()
    spin(stream, 500)
    stream.record(event)
    stream.close()
    assert event.query()


def test_events_of_another_session_are_refused(device, session):
    event = device.session().event()
    stream = session.stream()
    for use in (stream.record, stream.wait):
        with pytest.raises(WrongContext, match="another session"):
            use(event)


def test_a_record_on_an_idle_stream_passes_at_once(session, spin):
    stream, other = session.stream(), session.stream()
    start, end = session.event(timing=True), session.event(timing=True)
    stream.record(start)
    assert start.query()
    spin(stream, 100)
    stream.synchronise()
    stream.record(end)
    assert end.query()
    assert start.elapsed(end) >= 100
    other.wait(end)
    assert other.idle
