"""The bundles that cross from one block of the NPU to another.

Memory clients use a `ReadPort` or `WritePort`: requests of whole bursts in bytes, answers in
order. Behind the port stand the guard, the outstanding-burst bookkeeping and the AXI bus, so a
client never sees IDs, 4 KiB borders (its bursts respect `NpuConfig.burst_bytes`) or aborts of
others. Engines take tasks from the scheduler through `EngineSignature`.
"""

from amaranth import Mux
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .config import ADDRESS_BITS
from .layout import struct
from .regs.descriptor import GENERATION_BITS, Completion, EventWord, Sqe
from .regs.fault import FaultCause

__all__ = [
    "ArgumentPort", "BarrierSignature", "BurstRequest", "CreditSignature", "DELTAS", "DISPATCHES",
    "EngineSignature", "FaultEvent", "FaultSignature", "Head", "NotifyChange", "NotifySignature",
    "PollRequest", "PollSignature", "ReadPort", "Report", "Retirement", "Status", "Task",
    "WaiterSignature", "WritePort", "WriteResponse", "access_cause", "read_beat", "write_beat",
]  # fmt: skip


class Status(enum.Enum, shape=2):
    """How an access ended: AXI's codes, with EXOKAY's for what the guard refused."""

    OKAY = 0
    DENIED = 1
    SLVERR = 2
    DECERR = 3


def access_cause(status):
    """The FaultCause of an access that ended with `status`; NONE for OKAY."""
    first = FaultCause.ACCESS_VIOLATION - Status.DENIED.value
    assert FaultCause.BUS_SLAVE_ERROR == first + Status.SLVERR.value
    assert FaultCause.BUS_DECODE_ERROR == first + Status.DECERR.value
    return Mux(status == Status.OKAY, FaultCause.NONE, first + status.as_value())


class BurstRequest(data.Struct):
    """One burst: `bytes` bytes from `address` on, any alignment.

    It lies within one aligned block of `NpuConfig.burst_bytes`. `context` selects the windows
    it is checked against.
    """

    address: ADDRESS_BITS
    bytes: 13
    context: 4


def read_beat(data_bytes):
    """A beat of read data: `count` valid bytes from byte lane `offset` on.

    `address` is that of the first valid byte; `last` ends the burst. With a status other than
    OKAY the data means nothing; a denied burst has as many beats as it asked for.
    """
    return data.StructLayout({
        "data": data_bytes * 8, "offset": range(data_bytes), "count": range(data_bytes + 1),
        "last": 1, "status": Status, "address": ADDRESS_BITS,
    })  # fmt: skip


def write_beat(data_bytes):
    """A beat of write data with its byte strobes; the port itself knows the last one."""
    return data.StructLayout({"data": data_bytes * 8, "strobe": data_bytes})


class WriteResponse(data.Struct):
    """Answer to one write burst; `address` is that of its request."""

    status: Status
    address: ADDRESS_BITS


class ReadPort(wiring.Signature):
    """Reads, seen from the client.

    requests: bursts. Accepted while fewer than `outstanding` are in flight and the port is not
        draining. A request accepted in cycle t is on the AR channel in cycle t + 1 if the bus
        is free. The client has room for all that it requests: `beats` should not stall for long.
    beats: answers, in the order of the requests.
    issued: pulses in the cycle in which a burst's address is taken by the bus.
    abort: pulse; requests in that cycle and until `idle` are not taken, beats still in flight
        are swallowed. The client may start anew as soon as `idle`.
    idle: no burst is in flight.
    """

    def __init__(self, data_bytes):
        super().__init__({
            "requests": Out(stream.Signature(BurstRequest)),
            "beats": In(stream.Signature(read_beat(data_bytes))),
            "issued": In(1),
            "abort": Out(1),
            "idle": In(1),
        })  # fmt: skip


class WritePort(wiring.Signature):
    """Writes, seen from the client.

    requests: bursts, as in `ReadPort`. The client asks only when all the data of the burst is
        secured: `data` follows without waiting for anything but the bus.
    data: beats of the accepted bursts, in order; lanes outside the burst have no strobe.
    responses: one for each burst, in order. The client always takes them.
    abort: as in `ReadPort`; data still owed is completed with strobes off, answers are swallowed.
    """

    def __init__(self, data_bytes):
        super().__init__({
            "requests": Out(stream.Signature(BurstRequest)),
            "data": Out(stream.Signature(write_beat(data_bytes))),
            "responses": In(stream.Signature(WriteResponse)),
            "issued": In(1),
            "abort": Out(1),
            "idle": In(1),
        })  # fmt: skip


class Head(data.Struct):
    """The next task of a stream, fetched and checked. `cause` other than NONE: a bad one.

    `slot` is its staging slot, which holds its argument block: those of lists have the greatest
    bit set. `address` is that of its entry. listed: it stands in the list of a CALL; the epoch has
    been added. returned: a CALL whose list has ended: nothing is left but to retire it.
    """

    sqe: struct(Sqe)
    cause: 8
    slot: 5
    address: ADDRESS_BITS
    listed: 1
    returned: 1


class Task(data.Struct):
    """What an engine is told of a task."""

    type: 8
    stream: 5
    context: 4
    slot: 5
    option: 1
    overflow: 1
    payload: 192


class Report(data.Struct):
    """What an engine knows of a fault. Zero where it has no meaning."""

    cause: 8
    address: ADDRESS_BITS
    write: 1
    execute: 1
    start_pc: ADDRESS_BITS
    pc: ADDRESS_BITS
    instruction: 128
    state: 32


class FaultSignature(wiring.Signature):
    """A fault, for one cycle."""

    def __init__(self):
        super().__init__({"valid": Out(1), "report": Out(Report)})


class FaultEvent(data.Struct):
    """A fault with whom it concerns, as the capture unit records it."""

    valid: 1
    context: 4
    stream: 8
    engine: 8
    task_id: 64
    report: Report


class EngineSignature(wiring.Signature):
    """An engine, seen from itself.

    tasks: taken while idle, and in the cycle in which the `done` of the former one is. `valid` does
        not wait for `ready`.
    started: pulses in the cycle of the task's first bus address or first instruction issued.
    ended: pulses in the cycle of the last write response of its data (or, without writes, of the
        last thing it does), before or in the first cycle in which `done` is valid.
    done: exactly one for each task; the payload says whether it failed.
    fault: pulses when the engine finds a fault, together with the last act of the task: no new
        bus request from the next cycle on; then it drains and is done, failed. While a task is
        in work, the report also says without `valid` what the engine is at, with no cause.
    abort: pulse; a task in work ends the same way, without a fault. Ignored while idle, and once
        `done` is valid.
    progress: something was achieved in this cycle: a beat, an instruction, a row.
    busy: a task is in work, `done` not yet taken.
    """

    def __init__(self):
        super().__init__({
            "tasks": In(stream.Signature(Task)),
            "started": Out(1),
            "ended": Out(1),
            "done": Out(stream.Signature(data.StructLayout({"failed": 1}))),
            "fault": Out(FaultSignature()),
            "abort": In(1),
            "progress": Out(1),
            "busy": Out(1),
        })  # fmt: skip


class ArgumentPort(wiring.Signature):
    """Reads a 64-bit word of a staged argument block, seen from the core; data one cycle later."""

    def __init__(self):
        super().__init__({"stream": Out(5), "slot": Out(5), "word": Out(4), "data": In(64)})


class WaiterSignature(wiring.Signature):
    """One stream at the event unit, seen from the scheduler.

    valid, dependencies, events: the stream's head; constant from `valid` until `take`.
    take: the head leaves in this cycle; the next one, if any, shows in the next.
    ready: valid and every dependency is recorded; registered, so from the cycle after a record.
    waiting: dependencies that are not recorded (or not looked up) yet.
    """

    def __init__(self):
        super().__init__({
            "valid": Out(1),
            "dependencies": Out(3),
            "events": Out(data.ArrayLayout(struct(EventWord), 4)),
            "take": Out(1),
            "ready": In(1),
            "waiting": In(4),
        })  # fmt: skip


class NotifyChange(data.Struct):
    """A NOTIFY that adds or sets: `operation` is a `NotifyOperation`."""

    counter: 8
    amount: 32
    operation: 2


class NotifySignature(wiring.Signature):
    """One stream at the notify unit, seen from the scheduler.

    valid, counter, amount: the stream's head waits for that counter to be at least that.
    ready: valid and it is, combinational.
    take: the head leaves in this cycle: the amount is subtracted.
    """

    def __init__(self):
        super().__init__({
            "valid": Out(1), "counter": Out(8), "amount": Out(32), "ready": In(1), "take": Out(1),
        })  # fmt: skip


class PollRequest(data.Struct):
    """A value in memory to look at until it compares; fields as in `ValuePayload`."""

    address: ADDRESS_BITS
    context: 4
    value: 64
    mask: 32
    operation: 2


class PollSignature(wiring.Signature):
    """One stream at the poller, seen from the scheduler.

    valid, request: constant until `take`, or withdrawn by `valid` = 0 for at least a cycle.
    met: it has compared. failed: it could not be read, `status` says why. Either stays until
        `take` or `valid` = 0.
    take: the head leaves in this cycle; the next request, if any, may show in the next.
    """

    def __init__(self):
        super().__init__({
            "valid": Out(1), "request": Out(PollRequest), "take": Out(1),
            "met": In(1), "failed": In(1), "status": In(Status),
        })  # fmt: skip


class BarrierSignature(wiring.Signature):
    """One stream at the barrier unit, seen from the scheduler.

    valid, task_id: the stream's head is a BARRIER with that number; `valid` falls for at least a
        cycle between two. context: of the stream.
    met: registered: no stream of the context has a task with a lesser number left. It stays until
        `valid` = 0.
    pending: the ring has a task that has not retired. known: it is fetched, `oldest` is the number
        of the oldest such; while a list runs that of its CALL.
    """

    def __init__(self):
        super().__init__({
            "valid": Out(1), "task_id": Out(64), "context": Out(4), "met": In(1),
            "pending": Out(1), "known": Out(1), "oldest": Out(64),
        })  # fmt: skip


DELTAS = data.ArrayLayout(Completion.counters.width, Completion.counters.count)
"""What the PMU's counters have added in a task."""


class Retirement(data.Struct):
    """A task that has ended, for the completion writer.

    With `timed`, {generation, timestamp} is written to `address` first; with `completion`, an
    entry to the ring of the context.
    """

    context: 4
    stream: 8
    engine: 8
    status: 8
    task_id: 64
    start: 64
    end: 64
    completion: 1
    counters: DELTAS
    timed: 1
    address: ADDRESS_BITS
    generation: GENERATION_BITS
    timestamp: 64


DISPATCHES = 5
"""Tasks that the scheduler hands out in one cycle at most."""


class CreditSignature(wiring.Signature):
    """Completion entries that a context may still promise, seen from its completion ring.

    left: how many of its tasks may be dispatched in this cycle; `DISPATCHES` stands for that
        many or more.
    running: its tasks, each from the cycle after its dispatch to that in which it retires.
    starved: a task of it would be dispatched, but `left` is 0.
    """

    def __init__(self):
        super().__init__({"left": Out(range(DISPATCHES + 1)), "running": In(4), "starved": In(1)})
