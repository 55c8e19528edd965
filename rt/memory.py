"""Memory of a session: pools of device and host memory, and buffers in them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidHandle, InvalidParameter, MemoryExhausted
from .monitor import Monitor, entered

if TYPE_CHECKING:
    from .session import Session

__all__ = ["ALIGNMENT", "Allocation", "Buffer", "Pool", "check_dtype", "check_shape"]

ALIGNMENT = 64
"""Allocations begin at multiples of it and take multiples of it, in bytes."""


class Pool:
    """First-fit allocator over the addresses from `base` on.

    Parameters
    ----------
    base, size: the range in bytes; both are rounded inwards to multiples of `ALIGNMENT`.
    name: what error messages call it.
    """

    def __init__(self, base: int, size: int, name: str) -> None:
        first = -(-base // ALIGNMENT) * ALIGNMENT
        self.base = first
        self.size = max(0, base + size - first) // ALIGNMENT * ALIGNMENT
        self.name = name
        self.deferred = 0
        """Allocations that are freed, but that tasks still use."""
        self._free = [(first, self.size)] if self.size else []
        self._used: dict[int, int] = {}

    @property
    def available(self) -> int:
        """Free bytes, not necessarily in one piece."""
        return sum(size for _, size in self._free)

    @property
    def largest(self) -> int:
        """Bytes of the largest free piece."""
        return max((size for _, size in self._free), default=0)

    def allocate(self, size: int, alignment: int = ALIGNMENT) -> int:
        """Address of `size` fresh bytes, or `MemoryExhausted`."""
        assert size > 0
        assert alignment % ALIGNMENT == 0
        size = -(-size // ALIGNMENT) * ALIGNMENT
        for place, (start, room) in enumerate(self._free):
            skipped = -start % alignment
            if skipped + size > room:
                continue
            address = start + skipped
            rest = ((start, skipped), (address + size, room - skipped - size))
            self._free[place : place + 1] = [piece for piece in rest if piece[1]]
            self._used[address] = size
            return address
        raise MemoryExhausted(
            f"{size} bytes of {self.name} were asked for; of {self.size} bytes "
            f"{self.available} are free, at most {self.largest} in one piece; "
            "free buffers, or open the session with more memory"
        )

    def free(self, address: int) -> None:
        """Gives back what `allocate` returned."""
        start, size = address, self._used.pop(address)
        place = 0
        while place < len(self._free) and self._free[place][0] < start:
            place += 1
        self._free.insert(place, (start, size))
        for left in (place, place - 1):
            if 0 <= left < len(self._free) - 1:
                (start, size), (following, more) = self._free[left : left + 2]
                if start + size == following:
                    self._free[left : left + 2] = [(start, size + more)]


class Allocation:
    """Memory of a pool that tasks may still be using when it is freed.

    It goes back to the pool once it is freed and every task that uses it has ended.
    """

    def __init__(self, pool: Pool, size: int, alignment: int = ALIGNMENT) -> None:
        self.pool = pool
        self.address = pool.allocate(size, alignment)
        self.size = size
        self.freed = False
        self._users = 0

    def covers(self, address: int) -> bool:
        """Whether the byte at that address lies in it."""
        return self.address <= address < self.address + self.size

    def acquire(self) -> None:
        """One more task uses it."""
        self._users += 1

    def release(self) -> None:
        """One of its tasks has ended."""
        self._users -= 1
        if self.freed and not self._users:
            self.pool.deferred -= 1
            self.pool.free(self.address)

    def free(self) -> None:
        """It is not needed for more than the tasks that use it now."""
        assert not self.freed
        self.freed = True
        if self._users:
            self.pool.deferred += 1
        else:
            self.pool.free(self.address)


class Buffer:
    """An array in device memory. Made by `Session.empty`, `Session.buffer` and `part`.

    Attributes
    ----------
    session: the session it belongs to.
    shape, dtype, nbytes: of the array, in C order.
    """

    def __init__(
        self,
        session: Session,
        allocation: Allocation,
        offset: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        whole: bool,
    ) -> None:
        self.session = session
        self.shape = shape
        self.dtype = dtype
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.allocation = allocation
        self._offset = offset
        self._whole = whole

    @property
    def address(self) -> int:
        """Its first byte as the device sees it."""
        return self.allocation.address + self._offset

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    @property
    def freed(self) -> bool:
        return self.allocation.freed

    @entered
    def part(self, offset: int, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Buffer:
        """Another view of some of its bytes, from byte `offset` on. Freed with the whole."""
        self.check()
        shape, dtype = check_shape(shape), check_dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if offset < 0 or offset + size > self.nbytes:
            raise InvalidParameter(
                f"the part covers bytes {offset} to {offset + size - 1} of a buffer of "
                f"{self.nbytes} bytes; choose a smaller offset or shape"
            )
        return Buffer(self.session, self.allocation, self._offset + offset, shape, dtype, False)

    @entered
    def free(self) -> None:
        """Gives the memory back as soon as no submitted task uses it. Does not wait."""
        self.check()
        if not self._whole:
            raise InvalidHandle(f"{self} is a part of a buffer; free the whole buffer")
        self.allocation.free()

    def check(self) -> None:
        """Raises unless it is live."""
        self.session.check()
        if self.freed:
            raise InvalidHandle(f"{self} was freed; allocate a new one with session.empty")

    def __str__(self) -> str:
        return f"buffer of shape {self.shape} and dtype {self.dtype} at 0x{self.address:010x}"

    def __repr__(self) -> str:
        return f"<{self}>"


def check_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """`shape` as a tuple; raises unless every size is at least 1."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or any(not isinstance(size, int | np.integer) or size < 1 for size in sizes):
        raise InvalidParameter(
            f"the shape is {shape!r}; it needs at least one size, each an integer of 1 or more"
        )
    return tuple(int(size) for size in sizes)


def check_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """`dtype` as numpy's; raises unless it is a plain little-endian number."""
    try:
        plain = np.dtype(dtype)
    except TypeError:
        plain = np.dtype(object)
    if plain.kind not in "biuf" or plain.byteorder == ">":
        raise InvalidParameter(
            f"the dtype is {dtype!r}; choose a little-endian integer, float or bool type"
        )
    return plain
