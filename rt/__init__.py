"""Driver and runtime of the NPU. Of the gateware it knows registers and sizes only.

What streams, events and signals mean is what they mean in the ACL runtime, with its recommended
mode of events.

Streams
    A call that submits returns at once and means "submitted". Tasks of a stream run in order,
    those of different streams beside each other; no stream synchronises with another unless it is
    told to. Priority 0 goes first, 7 last; a task that runs is not displaced. `destroy` drains,
    with `force` it drops what is pending; `abort` stops the running task, drops what is pending
    and leaves the stream usable, and the next `synchronise` says so (107023).
Events
    `record` captures what its stream was given so far, and passes when that has ended: at once if
    the stream is idle and waits for nothing. `wait`, `query` and `synchronise` mean the latest
    record at the time of the call; no later one disturbs or releases them. On an event that was
    never recorded they pass at once, so does a wait in the stream that records. A record that an
    abort drops counts as passed for streams, and raises for the host. An event may be dropped,
    and its stream destroyed, while it is pending. Slots are recycled; when all have pending
    records, `record` raises at once (207007). Times are those of the device.
Signals
    A notify counts: no signal is lost, and each is taken by one wait. Waits for notifies, values
    and barriers hold up their own stream only. A barrier waits for all that its session was
    given before it. With a timeout, a wait that is the next task of its stream for so long
    fails (107020).
Graphs
    Tasks that are built once, or captured from streams, and replayed by one entry for each
    stream: see `rt.graph`.
Functions of the host
    `callback` calls them in order with the tasks of its stream, on one thread of the session. The
    device's time stands still meanwhile, for `Device.host_patience` seconds at most: one that
    never returns holds up its stream, and what waits for that gives up and names it. They cannot
    use the runtime (`ReentryError`). One that raises fails its stream; one that is dropped is
    never called. `close` and `destroy` call those that are pending.
Faults
    What fails on the device is raised by the next `synchronise` or `query` of the session, before
    any timeout, and stays until `Session.recover`, which drops all that is pending. The stream
    stops, with FailureMode.STOP every stream of the session; other sessions never notice.
Waits of the host
    Any number of threads may use a device: none holds it while it waits. Timeouts are cycles. A
    wait without one lasts as long as tasks end. When nothing can happen any more on the device
    and no thread is at work, each that waits raises who waits for whom (`DeadlockError`); while
    one is, they wait for it without time passing, for `Device.host_patience` seconds. A deadlock
    ends with an abort of its streams; a wait that runs into its timeout gives the same diagnosis.
"""

from hw.regs.descriptor import Comparison, FailureMode

from .device import Device
from .errors import (
    AclError,
    CaptureError,
    DeadlockError,
    DeviceFault,
    FaultRecord,
    IncompatibleDevice,
    NpuError,
    TransportError,
    WaitTimeout,
)
from .event import Event
from .graph import Graph, Replay, TaskDesc
from .kernel.kernel import Kernel
from .memory import Buffer
from .notify import Notify
from .session import Session
from .stream import Stream
from .task import Download, Profile, Task
from .transport import Transport

__all__ = [
    "AclError", "Buffer", "CaptureError", "Comparison", "DeadlockError", "Device", "DeviceFault",
    "Download", "Event", "FailureMode", "FaultRecord", "Graph", "IncompatibleDevice", "Kernel",
    "Notify", "NpuError", "Profile", "Replay", "Session", "Stream", "Task", "TaskDesc",
    "Transport", "TransportError", "WaitTimeout",
]  # fmt: skip
