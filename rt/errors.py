"""Every exception of the driver and the runtime.

`NpuError` is the root. Errors that the ACL runtime knows carry its number in `code`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hw.regs.core import CoreState
from hw.regs.errors import ConfigError, EncodingError, NpuError
from hw.regs.fault import FaultCause

__all__ = [
    "AclError", "CaptureError", "ConfigError", "DeadlockError", "DeviceFault", "EncodingError",
    "FaultRecord", "IncompatibleDevice", "InvalidHandle", "InvalidParameter", "KernelError",
    "MemoryExhausted", "NoContext", "NoEvent", "NoNotify", "NoStream", "NoTimestamp", "NpuError",
    "ReentryError", "StreamAborted", "TransportError", "Unsupported", "WaitTimeout", "WrongContext",
]  # fmt: skip


class KernelError(NpuError, ValueError):
    """A kernel text or binary that is no kernel, or that no device of its sizes could run."""


class TransportError(NpuError):
    """The link to the device failed, or the device answered an access with a bus error."""


class AclError(NpuError):
    """An error with a number of the ACL runtime."""

    code = 507000
    """ACL error number."""

    def __str__(self) -> str:
        return f"{super().__str__()} [{self.code}]"


class InvalidParameter(AclError, ValueError):
    """A value that the call cannot take."""

    code = 107000


class ReentryError(AclError):
    """A function that the device called uses the runtime."""

    code = 107000


class IncompatibleDevice(AclError):
    """The device is none that this driver understands."""

    code = 107001


class NoContext(AclError):
    """The session is closed, or there is no free context for a new one."""

    code = 107002


class WrongContext(AclError, ValueError):
    """A stream, event, buffer or kernel of another session."""

    code = 107003


class NoTimestamp(AclError):
    """The event has no time: it was made without timing, or has not been recorded."""

    code = 107006


class InvalidHandle(AclError, ValueError):
    """A buffer, stream or event that was freed or closed."""

    code = 107017


class StreamAborted(AclError):
    """The stream was aborted; what was pending did not run."""

    code = 107023


class Unsupported(AclError):
    """Something that this device or runtime does not do."""

    code = 207000


class MemoryExhausted(AclError, MemoryError):
    """No room in device memory or in the host memory of the session."""

    code = 207001


class CaptureError(AclError):
    """A call that a capture does not allow, or a capture that gives no graph."""

    DEPENDENCY = 107024
    UNJOINED = 107025
    STREAM = 107027
    EVENT = 107028
    CONFLICT = 107032

    def __init__(self, message: str, code: int = STREAM) -> None:
        super().__init__(message)
        self.code = code


class NoEvent(AclError):
    """Every event slot is in use."""

    code = 207007


class NoStream(AclError):
    """Every hardware stream is in use."""

    code = 207008


class NoNotify(AclError):
    """Every counter of the notify unit is in use."""

    code = 207009


class WaitTimeout(AclError, TimeoutError):
    """A wait lasted longer than its timeout. The message names what the stream waits for."""

    STREAM = 507046
    EVENT = 507047

    def __init__(self, message: str, code: int = STREAM) -> None:
        super().__init__(message)
        self.code = code


class DeadlockError(WaitTimeout):
    """What a wait waits for can never happen. The message names who waits for whom."""


FAULT_CODES: dict[int, int] = {
    FaultCause.ILLEGAL_DESCRIPTOR: 507001,
    FaultCause.CHECKSUM: 507001,
    FaultCause.UNSUPPORTED: 207000,
    FaultCause.ILLEGAL_KERNEL: 507016,
    FaultCause.ILLEGAL_INSTRUCTION: 507015,
    FaultCause.ACCESS_VIOLATION: 507015,
    FaultCause.BUS_SLAVE_ERROR: 507053,
    FaultCause.BUS_DECODE_ERROR: 507053,
    FaultCause.ECC_CORRECTED: 507053,
    FaultCause.ECC_UNCORRECTABLE: 507054,
    FaultCause.WATCHDOG: 507010,
    FaultCause.TASK_TIMEOUT: 507014,
    FaultCause.QUEUE_OVERRUN: 507002,
    FaultCause.EVENT_MISUSE: 507001,
    FaultCause.ARITHMETIC_OVERFLOW: 207003,
    FaultCause.ABORTED: 107022,
    FaultCause.HOST_CALLBACK: 507000,
}
"""ACL number of each fault cause; of an unknown one it is 507000, internal error."""

KNOWN_CAUSES: dict[int, FaultCause] = {cause.value: cause for cause in FaultCause}

COPY_FAULT = 507013
"""ACL number of an access violation by a copy engine."""
WAIT_FAULT = 107020
"""ACL number of a task that gave up waiting, before any engine had it."""


@dataclass(frozen=True)
class FaultRecord:
    """A fault as the device captured it."""

    cause: int
    """A `FaultCause`, or the plain number of one that this driver does not know."""
    engine: str
    """Name of the engine, `queue` (fetch of entries) or `completion` (writer of entries)."""
    stream: int
    """Hardware stream."""
    task_id: int
    context: int
    """Hardware context of the session."""
    address: int
    """Where the failing access went."""
    access: str
    """`read`, `write` or `execute`."""
    start_pc: int
    """Address of the kernel's first instruction; 0 for other tasks."""
    pc: int
    """Address of the failing instruction; 0 for other tasks."""
    instruction: int
    """The failing instruction word, 128 bits."""
    state: int
    """What the engine was doing: of a core a `CoreState`, of others 0."""
    timestamp: int
    """Cycle of the fault."""

    @property
    def name(self) -> str:
        """Name of the cause."""
        known = KNOWN_CAUSES.get(self.cause)
        return known.name if known else f"UNKNOWN_{self.cause}"

    def __str__(self) -> str:
        known = KNOWN_CAUSES.get(self.cause)
        meaning = known.doc if known else "This driver does not know the cause."
        text = (
            f"{self.name} on {self.engine}, stream {self.stream}, task {self.task_id}, context "
            f"{self.context}, cycle {self.timestamp}: {self.access} at 0x{self.address:010x}"
        )
        if self.pc:
            text += (
                f", pc 0x{self.pc:010x} (kernel at 0x{self.start_pc:010x}), "
                f"instruction 0x{self.instruction:032x}"
            )
        text += f", state 0x{self.state:08x}"
        if self.engine.startswith("core"):
            text += f" ({CoreState.from_int(self.state)})"
        return f"{text}. {meaning}"


class DeviceFault(AclError):
    """A task failed on the device. It stays with its session until `Session.recover`.

    `record` is the first fault of the session's context. `name` is what its task is called in a
    graph.
    """

    def __init__(self, record: FaultRecord, remedy: str, name: str = "") -> None:
        meaning = f" Task {record.task_id} is {name}." if name else ""
        super().__init__(f"{record}{meaning} To recover, {remedy}.")
        self.record = record
        self.code = FAULT_CODES.get(record.cause, AclError.code)
        if record.cause == FaultCause.ACCESS_VIOLATION and record.engine.startswith("copy"):
            self.code = COPY_FAULT
        if record.cause == FaultCause.TASK_TIMEOUT and record.engine == "queue":
            self.code = WAIT_FAULT
