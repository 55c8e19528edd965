"""What a link to one NPU offers. The driver does not know whether a simulation is behind it."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .errors import TransportError

__all__ = ["Operation", "Read", "Reason", "Stop", "Transport", "TransportError", "Write"]


@dataclass(frozen=True, slots=True)
class Read:
    """Read of a 32-bit word of control space."""

    address: int


@dataclass(frozen=True, slots=True)
class Write:
    """Write of a 32-bit word of control space."""

    address: int
    value: int


Operation = Read | Write


class Reason(enum.Enum):
    """Why `Transport.run_until` came back."""

    INTERRUPT = "interrupt"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class Stop:
    """Where `Transport.run_until` stopped. The interrupt wins when both happen at once."""

    reason: Reason
    cycle: int


@runtime_checkable
class Transport(Protocol):
    """One NPU with its memories. Time passes only inside `control` and `run_until`.

    Whatever the link or the device refuses raises `TransportError`, which names the address.
    Calls are not thread-safe: one caller at a time.
    """

    @property
    def host_bytes(self) -> int:
        """Size of host memory, which the device sees from `HOST_BASE` on."""
        ...

    @property
    def device_bytes(self) -> int:
        """Size of device memory, which the device sees from 0 on."""
        ...

    def control(self, operations: Sequence[Operation]) -> list[int]:
        """Does the operations in order, each when the one before has been answered.

        Returns the values of the reads, in order. The first operation that the device answers
        with SLVERR or DECERR raises, and those after it are not done.
        """
        ...

    def read_host(self, address: int, size: int) -> bytes:
        """Bytes of host memory; `address` is as the device sees it. No time passes."""
        ...

    def write_host(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Sets bytes of host memory; `address` is as the device sees it. No time passes."""
        ...

    def run_until(self, *, interrupt: bool, cycle: int | None) -> Stop:
        """Lets time pass until the interrupt line is high (if asked for) or until that cycle.

        Returns at once when the line is high or the cycle is reached already. Waiting for
        nothing at all (neither `interrupt` nor `cycle`) raises.
        """
        ...

    def now(self) -> int:
        """The current cycle."""
        ...

    def reset(self) -> None:
        """Resets the NPU and the link, and starts again with cycle 0. Memories keep their bytes."""
        ...

    def close(self) -> None:
        """Ends the link; every other call raises from then on. Closing twice is allowed."""
        ...
