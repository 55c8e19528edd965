"""Kernel binaries in device memory."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from hw.config import NpuConfig
from hw.regs.instruction import ISA_VERSION, KERNEL_MAGIC, Instruction, KernelHeader

from ..errors import InvalidHandle, InvalidParameter, WrongContext
from ..memory import Allocation
from ..monitor import Monitor, entered
from ..task import Task

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["Kernel", "check_binary"]

INSTRUCTION_BYTES = Instruction.BYTES


def check_binary(binary: bytes, config: NpuConfig) -> KernelHeader:
    """The header of a kernel binary that runs on that device, or `InvalidParameter`."""
    header_bytes = KernelHeader.BYTES
    if len(binary) < header_bytes + INSTRUCTION_BYTES:
        raise InvalidParameter(
            f"the kernel has {len(binary)} bytes; a header and one instruction take "
            f"{header_bytes + INSTRUCTION_BYTES}"
        )
    header = KernelHeader.from_bytes(binary)
    if header.magic != KERNEL_MAGIC:
        raise InvalidParameter(
            f"the kernel begins with 0x{header.magic:08x}, not 0x{KERNEL_MAGIC:08x} (CELK); "
            "load what the assembler made"
        )
    if header.isa_version != ISA_VERSION:
        raise InvalidParameter(
            f"the kernel is for ISA {header.isa_version}, the device has ISA {ISA_VERSION}; "
            "assemble it again"
        )
    if header.fingerprint != config.fingerprint:
        raise InvalidParameter(
            f"the kernel is for a device with fingerprint 0x{header.fingerprint:08x}, this one "
            f"has 0x{config.fingerprint:08x}; assemble it for this device's configuration"
        )
    code = binary[header_bytes:]
    limit = config.instructions * INSTRUCTION_BYTES
    if header.code_bytes != len(code) or len(code) % INSTRUCTION_BYTES or len(code) > limit:
        raise InvalidParameter(
            f"the kernel has {len(code)} bytes of code and its header says {header.code_bytes}; "
            f"they must be equal, a multiple of {INSTRUCTION_BYTES} and at most {limit}"
        )
    if header.crc != zlib.crc32(code) or header.reserved0 or header.reserved1:
        raise InvalidParameter(
            f"the kernel's code has CRC-32 0x{zlib.crc32(code):08x}, its header says "
            f"0x{header.crc:08x} (or a reserved field is not 0); assemble it again"
        )
    return header


class Kernel:
    """A kernel binary that a session has loaded. Made by `Session.load`.

    Attributes
    ----------
    session: the session it belongs to.
    size: bytes of the binary.
    """

    def __init__(
        self, session: Session, allocation: Allocation, size: int, replaced: bool
    ) -> None:
        self.session = session
        self.allocation = allocation
        self.size = size
        self._replaced = replaced
        self._fetched: Task | None = None

    @property
    def address(self) -> int:
        """Of its header, as the device sees it."""
        return self.allocation.address

    @property
    def stale(self) -> bool:
        """The core may still hold another kernel's code of the same address: discard it first.

        So until a launch that discarded it has ended.
        """
        return self._replaced and (self._fetched is None or not self._fetched.done)

    def track(self, task: Task) -> Task:
        """`task` launches the kernel."""
        if self.stale and (self._fetched is None or self._fetched.state.over):
            self._fetched = task
        return task

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    @entered
    def free(self) -> None:
        """Gives its memory back as soon as no submitted task uses it."""
        self.check(self.session)
        self.allocation.free()

    def check(self, session: Session) -> None:
        """Raises unless that session can launch it."""
        if self.session is not session:
            raise WrongContext(f"{self} belongs to another session; load it in this one")
        if self.allocation.freed:
            raise InvalidHandle(f"{self} was freed; load it again")

    def __str__(self) -> str:
        return f"kernel of {self.size} bytes at 0x{self.address:010x}"
