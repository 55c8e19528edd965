"""Interrupts of both contexts by cause, and what happens when a completion ring is full."""

import numpy as np
import pytest

from hw.regs.descriptor import TaskType
from hw.regs.registers import (
    CompletionCommand,
    CompletionConfig,
    CompletionHead,
    CompletionTail,
    Head,
    InterruptContexts,
    InterruptEnable,
    InterruptStatus,
    StreamCommand,
)
from rt.ring import CompletionRing
from rt.transport import Reason
from tests.system.faults import EVERY_CAUSE, submit, works

NEVER = 150
"""Cycles in which every cause has long come."""


def shrink(session):
    """A completion ring of two entries."""
    driver = session.device.driver
    session._ring = CompletionRing(driver.transport, session._ring.base, 1)
    driver.write(CompletionConfig(size=1), CompletionCommand(restart=1), index=session.context)


def cause_completion(session, stream):
    submit(stream, type=TaskType.NOP)


def cause_fault(session, stream):
    submit(stream, type=TaskType.CALL)


def cause_full(session, stream):
    shrink(session)
    for _ in range(3):
        submit(stream, type=TaskType.NOP)


def cause_stopped(session, stream):
    session.device.driver.write(StreamCommand(abort=1), index=stream.number)


CAUSES = {
    "completion": cause_completion, "fault": cause_fault, "full": cause_full,
    "stopped": cause_stopped,
}  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_is_pending_whatever_the_mask_says_and_interrupts_only_with_it(device, cause):
    driver, transport = device.driver, device.driver.transport
    sessions = [device.session() for _ in range(2)]
    streams = [session.stream() for session in sessions]

    def line():
        return transport.run_until(interrupt=True, cycle=transport.now()).reason is Reason.INTERRUPT

    for session, stream, other in zip(sessions, streams, reversed(sessions), strict=True):
        context = session.context
        for each in sessions:
            driver.mute(each.context)
        CAUSES[cause](session, stream)
        stop = transport.run_until(interrupt=True, cycle=transport.now() + NEVER)
        assert stop.reason is Reason.CYCLE
        pending = driver.read(InterruptStatus, context)
        assert getattr(pending, cause)
        assert driver.read(InterruptStatus, other.context) == InterruptStatus()
        assert driver.read(InterruptContexts).contexts == 0

        quiet = {name: 1 - getattr(pending, name) for name in EVERY_CAUSE}
        driver.write(InterruptEnable(**quiet), index=context)
        assert not line()
        driver.write(InterruptEnable(**{cause: 1}), index=context)
        assert line()
        assert driver.read(InterruptContexts).contexts == 1 << context
        driver.write(InterruptStatus(**{**EVERY_CAUSE, cause: 0}), index=context)
        assert driver.read(InterruptStatus, context) == InterruptStatus(**{cause: 1})
        if cause == "full":  # it is set for as long as the ring is full
            driver.write(InterruptStatus(full=1), index=context)
            assert line()
            driver.write(CompletionHead(head=2), index=context)
            transport.run_until(interrupt=False, cycle=transport.now() + NEVER)
        driver.write(InterruptStatus(**{cause: 1}), index=context)
        assert not getattr(driver.read(InterruptStatus, context), cause)
        assert not line()


@pytest.mark.oracle
def test_the_line_rises_while_the_cause_is_enabled_and_comes_again(device):
    driver, transport = device.driver, device.driver.transport
    session = device.session()
    stream = session.stream()
    for _ in range(2):
        driver.write(InterruptStatus(completion=1), index=session.context)
        assert transport.run_until(interrupt=True, cycle=transport.now()).reason is Reason.CYCLE
        cause_completion(session, stream)
        stop = transport.run_until(interrupt=True, cycle=transport.now() + NEVER)
        assert stop.reason is Reason.INTERRUPT
        assert driver.read(InterruptStatus, session.context) == InterruptStatus(completion=1)


@pytest.mark.parametrize("context", [0, 1])
def test_a_full_completion_ring_stalls_its_own_context_and_loses_nothing(device, context):
    driver, transport = device.driver, device.driver.transport
    sessions = [device.session(), device.session()]
    session, other = sessions[context], sessions[1 - context]
    stream, copies = session.stream(), other.stream()
    driver.write(InterruptEnable(), index=context)  # nobody empties the ring
    shrink(session)
    tasks = [submit(stream, type=TaskType.NOP) for _ in range(16)]
    transport.run_until(interrupt=False, cycle=transport.now() + 300)
    assert driver.read(CompletionTail, context).tail == 2
    assert driver.read(InterruptStatus, context).full
    stalled = driver.read(Head, stream.number).head
    assert 2 <= stalled <= 7  # two in the ring; others may wait in the writer

    data = np.arange(100, dtype=np.uint8)
    buffer = other.buffer(data, copies)
    assert (copies.download(buffer).result() == data).all()
    works(other)
    assert driver.read(Head, stream.number).head == stalled
    assert driver.read(CompletionTail, context).tail == 2

    driver.write(InterruptEnable(**EVERY_CAUSE), index=context)
    stream.synchronise()
    assert all(task.done for task in tasks)
    transport.run_until(interrupt=False, cycle=transport.now() + 50)  # the last one's answer
    assert driver.read(CompletionTail, context).tail == session._ring.head == len(tasks)
    works(session)
