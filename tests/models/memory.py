"""Golden model of memory behind the guard: windows, bursts and bus errors."""

from hw.config import HOST_BASE
from hw.regs.fault import FaultCause
from hw.regs.registers import WindowBase, WindowLimit


class Fault(Exception):
    """A task fails. Raised by the model, and by kernel functions."""

    def __init__(self, cause, address=0, access="read", **more):
        super().__init__(cause)
        self.cause, self.address, self.access, self.more = cause, address, access, more


class Memory:
    """Device and host memory of `config`, as contexts see them through their windows.

    registers: called with a register class and an index, gives what was written there.
    """

    def __init__(self, config, registers, device_bytes, host_bytes):
        self.config = config
        self._get = registers
        self.device, self.host = bytearray(device_bytes), bytearray(host_bytes)
        self.broken = {}  # address: cause that the bus answers there

    def _check(self, context, address, size, access):
        """Raises unless one window of the context has the right for the whole range."""
        for number in range(self.config.windows):
            index = context * self.config.windows + number
            limit = self._get(WindowLimit, index)
            first = self._get(WindowBase, index).address
            if first <= address and address + size - 1 <= limit.address and getattr(limit, access):
                break
        else:
            raise Fault(FaultCause.ACCESS_VIOLATION, address, access)
        for place, cause in self.broken.items():
            if address <= place < address + size:
                raise Fault(cause, place, access)

    def _view(self, address, size, access):
        host = address >= HOST_BASE
        memory, first = (self.host, address - HOST_BASE) if host else (
            self.device, address)  # fmt: skip
        if first + size > len(memory):
            raise Fault(FaultCause.BUS_DECODE_ERROR, address, access)
        return memoryview(memory)[first : first + size]

    def _bursts(self, address, size):
        """Pieces that do not cross a multiple of `burst_bytes`."""
        while size:
            piece = min(size, self.config.burst_bytes - address % self.config.burst_bytes)
            yield address, piece
            address, size = address + piece, size - piece

    def load(self, context, address, size, access="read"):
        """Bytes of memory as the context may see them."""
        pieces = []
        for place, piece in self._bursts(address, size):
            self._check(context, place, piece, access)
            pieces.append(bytes(self._view(place, piece, access)))
        return b"".join(pieces)

    def store(self, context, address, data):
        """Writes memory as the context may."""
        done = 0
        for place, piece in self._bursts(address, len(data)):
            self._check(context, place, piece, "write")
            self._view(place, piece, "write")[:] = data[done : done + piece]
            done += piece
