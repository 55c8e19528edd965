"""Driver and runtime of the NPU. Of the gateware it knows registers and sizes only."""

from hw.regs.descriptor import FailureMode

from .device import Device
from .errors import (
    AclError,
    DeviceFault,
    FaultRecord,
    IncompatibleDevice,
    NpuError,
    TransportError,
    WaitTimeout,
)
from .event import Event
from .kernel.kernel import Kernel
from .memory import Buffer
from .session import Session
from .stream import Stream
from .task import Download, Profile, Task
from .transport import Transport

__all__ = [
    "AclError", "Buffer", "Device", "DeviceFault", "Download", "Event", "FailureMode",
    "FaultRecord", "IncompatibleDevice", "Kernel", "NpuError", "Profile", "Session", "Stream",
    "Task", "Transport", "TransportError", "WaitTimeout",
]  # fmt: skip
