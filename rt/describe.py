"""What a stream is doing, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hw.regs.descriptor import EventWord
from hw.regs.registers import StreamState, StreamStatus, StreamWait, Wait

if TYPE_CHECKING:
    from .queue import Queue

__all__ = ["describe"]


def describe(stream: Queue) -> str:
    """What a stream is doing and what it waits for, from its registers."""
    return _describe(stream, waits=True)


def _describe(stream: Queue, *, waits: bool) -> str:
    """What a stream is doing. waits: if it waits, for what."""
    session = stream.session
    if stream not in session.streams:
        return f"{stream} is closed"
    status, number, wait = session.device.driver.stream_wait(stream.number)
    doing = ""
    if status.running:
        engine = session.device.driver.engine_name(status.engine)
        doing = f": task {session.title(number)} runs on {engine}"
    elif waits and status.waiting:
        doing = f": task {session.title(number)} waits for {_event(stream, wait)}"
    elif waits and status.wait:
        doing = f": task {session.title(number)} waits for {_condition(stream, number, status)}"
    elif number:
        doing = f": task {session.title(number)} is next"
    elif stream.pending:
        doing = f": task {stream.pending[0].id} is not fetched yet"
    state = {state.value: state.name for state in StreamState}.get(status.state, "?")
    count = len(stream.pending)
    return f"{stream} is {state}, {count} task{'' if count == 1 else 's'} pending{doing}"


def _event(stream: Queue, wait: StreamWait) -> str:
    """An event, with the stream of the session that records it and what that does."""
    wanted = EventWord(slot=wait.slot, generation=wait.generation)
    recorder = "no stream of the session records"
    for other in stream.session.streams:
        if any(task.records(wanted) for task in other.pending):
            recorder = f"{other} records ({_describe(other, waits=False)})"
            break
    return f"event slot {wait.slot} generation {wait.generation}, which {recorder}"


def _condition(stream: Queue, number: int, status: StreamStatus) -> str:
    """What the next task waits for beside events."""
    kind = {wait.value: wait.name.lower() for wait in Wait}.get(status.wait, "?")
    return next(filter(None, (task.waiting(number) for task in stream.pending)), f"a {kind}")
