"""Rings in host memory that the driver and the device share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hw.regs.descriptor import Arguments, Completion, Sqe, seal
from hw.regs.registers import Doorbell

from .transport import Transport

__all__ = ["INDEXES", "CompletionRing", "SubmissionRing"]

INDEXES = 1 << Doorbell.tail.width
"""Registers show indices of rings modulo this."""
ENTRY = Sqe.BYTES
assert Completion.BYTES == ENTRY
BLOCK = Arguments.BYTES


class SubmissionRing:
    """The ring of a stream's entries, and the ring of their argument blocks behind it.

    Parameters
    ----------
    transport: link to host memory.
    address: of the memory, `size_bytes(log2)` bytes, aligned to `ALIGNMENT`.
    log2: entries, as a power of two.
    """

    ALIGNMENT = BLOCK

    def __init__(self, transport: Transport, address: int, log2: int) -> None:
        self._transport = transport
        self.entries = 1 << log2
        self.args_base = address
        self.base = address + self.entries * BLOCK

    @staticmethod
    def size_bytes(log2: int) -> int:
        """Bytes of memory that a ring needs."""
        return (ENTRY + BLOCK) << log2

    def args_address(self, index: int) -> int:
        """Where the argument block of the entry with that index is fetched ahead from."""
        return self.args_base + index % self.entries * BLOCK

    def write_arguments(self, index: int, arguments: Arguments) -> None:
        self._transport.write_host(self.args_address(index), arguments.to_bytes())

    def write_entries(self, index: int, entries: Sequence[Sqe]) -> None:
        """Writes sealed entries from `index` on, in one or two pieces."""
        assert len(entries) <= self.entries
        raw = b"".join(seal(sqe).to_bytes() for sqe in entries)
        first = index % self.entries
        piece = (self.entries - first) * ENTRY
        self._transport.write_host(self.base + first * ENTRY, raw[:piece])
        if raw[piece:]:
            self._transport.write_host(self.base, raw[piece:])


class CompletionRing:
    """The ring of a context's completion entries, read by their phase bits.

    `head` is the consumer's index; entries are taken without any access to the device.
    """

    def __init__(self, transport: Transport, address: int, log2: int) -> None:
        self._transport = transport
        self.base = address
        self.log2 = log2
        self.entries = 1 << log2
        self.head = 0
        transport.write_host(address, bytes(self.entries * ENTRY))

    @staticmethod
    def size_bytes(log2: int) -> int:
        """Bytes of memory that a ring needs."""
        return ENTRY << log2

    def take(self) -> Iterator[Completion]:
        """The entries that the device has written since the last call, oldest first."""
        while True:
            address = self.base + self.head % self.entries * ENTRY
            entry = Completion.from_bytes(self._transport.read_host(address, ENTRY))
            if entry.phase == self.head >> self.log2 & 1:
                return
            self.head += 1
            yield entry
