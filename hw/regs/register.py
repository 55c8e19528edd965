"""What a control register is: a `Layout` with an offset and an access kind."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .layout import Layout

if TYPE_CHECKING:
    from ..config import NpuConfig

__all__ = ["Access", "Block", "Register"]


class Access(enum.Enum):
    """Who may do what with a register."""

    RO = "read only: shows a state of the device"
    RW = "read and write: keeps what was written"
    WO = "write only: an order to the device; reads as zero"
    W1C = "read, and write ones to clear bits that the device sets"
    CONST = "read only: a size or version that never changes"


class Register(Layout):
    """A control register of 32 or 64 bits.

    A 64-bit register is two words, low first. Reading the low word of an RO one keeps the high
    word for the next read, so the pair never tears. Each half of an RW one is stored by itself.
    """

    OFFSET: ClassVar[int]
    """Bytes from the start of its block."""
    ACCESS: ClassVar[Access]
    PRIVILEGED: ClassVar[bool]
    """Writes need AXI's privileged protection bit; others are answered SLVERR and ignored."""

    def __init_subclass__(
        cls, *, offset: int, access: Access, width: int = 32, privileged: bool = False, **kw: Any
    ) -> None:
        super().__init_subclass__(width=width, **kw)
        assert width in (32, 64)
        assert offset % 4 == 0
        cls.OFFSET, cls.ACCESS, cls.PRIVILEGED = offset, access, privileged

    @classmethod
    def words(cls) -> int:
        """32-bit words it takes."""
        return cls.WIDTH // 32


@dataclass(frozen=True)
class Block:
    """A group of registers that stands once, or once for each stream, context or window."""

    name: str
    base: int
    stride: int
    registers: tuple[type[Register], ...]
    doc: str
    per: tuple[str, ...] = ()
    """Names of the `NpuConfig` sizes whose product is how often it stands."""

    def count(self, config: NpuConfig) -> int:
        """How many of it a device of that configuration has."""
        number = 1
        for size in self.per:
            number *= getattr(config, size)
        return number

    def address(self, register: type[Register], index: int = 0) -> int:
        """Byte address of a register of the index-th block."""
        return self.base + index * self.stride + register.OFFSET

    def __iter__(self) -> Iterator[type[Register]]:
        return iter(self.registers)
