"""A stream as its lifecycle sees it: its registers, and its queue."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..layout import struct
from ..regs.descriptor import EventWord
from ..regs.registers import CallbackReturn, StreamConfig, StreamState, Wait

__all__ = ["RingControl", "StreamSignature"]


class StreamSignature(wiring.Signature):
    """Registers of a stream, seen from the scheduler.

    config: the register. settings: what counts: follows the register while DISABLED, then stays
        as it was at the start.
    start, abort: command pulses; abort wins. Start is ignored unless DISABLED. For a context that
        does not exist, or a size that no ring has, it is refused: the stream stays DISABLED, with
        cause ILLEGAL_DESCRIPTOR.
    state, running, staged, waiting, engine, cause, task_id, wait: status.
    wait_kind: what the head waits for. called: the list of a CALL runs, from the cycle after
        `RingControl.enter` on until the CALL is dispatched to retire.
    callback: the head waits for the host, which is asked to call the function. called_host:
        pulses in the first cycle in which it does.
    returned, returned_task, returned_failed: pulse: the host has called the function of the
        task whose number ends so. Ignored unless `callback`, and for another task.
    stopped: pulses when an abort has ended and the stream is DISABLED from the next cycle on.
        Every abort ends so, in whatever state it was ordered. All that the stream's tasks write,
        timed records and completion entries included, has been answered by then.
    """

    def __init__(self):
        super().__init__({
            "config": In(struct(StreamConfig)), "settings": Out(struct(StreamConfig)),
            "start": In(1), "abort": In(1),
            "state": Out(StreamState), "running": Out(1), "staged": Out(1), "waiting": Out(4),
            "engine": Out(8), "cause": Out(8), "task_id": Out(64), "wait": Out(struct(EventWord)),
            "wait_kind": Out(Wait), "called": Out(1),
            "callback": Out(1), "called_host": Out(1),
            "returned": In(1), "returned_task": In(CallbackReturn.task.width),
            "returned_failed": In(1),
            "stopped": Out(1),
        })  # fmt: skip


class RingControl(wiring.Signature):
    """The queue of a stream, seen from the scheduler.

    start: pulse: the start command was accepted; `active` from the next cycle on.
    active: doorbells count and entries are fetched.
    enter: pulse: the head is a CALL and its list begins: it is not taken, but from the next cycle
        on the heads are those of the list, and when all of them have retired it itself, returned.
    retire: pulse: the oldest popped task has ended. Never during `flush`. The next may be popped
        in that very cycle.
    flush: level: drop everything, until `flushed`. No task of the stream runs any more.
    flushed: nothing is staged or in flight; looked at from the second cycle of `flush` on.
    overrun: pulse: a doorbell announced more than the ring holds.
    empty: the ring's head is its tail: no task is left that has not retired.
    """

    def __init__(self):
        super().__init__({
            "start": Out(1), "active": Out(1), "enter": Out(1), "retire": Out(1), "flush": Out(1),
            "flushed": In(1), "overrun": In(1), "empty": In(1),
        })  # fmt: skip
