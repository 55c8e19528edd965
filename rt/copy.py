"""Copies and fills of a stream: between arrays of the host and buffers, and between buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hw.regs.descriptor import CopyPayload

from .errors import InvalidParameter
from .memory import Allocation, Buffer, check_shape
from .monitor import Monitor, entered
from .task import Download, Task

if TYPE_CHECKING:
    from .queue import Queue
    from .session import Session

__all__ = ["Copies"]


class Copies(ABC):
    """The part of `Stream` that copies. Every call submits one task and returns at once.

    With `profile=True` the task is measured, see `Task.profile`. The 2-D calls move rows that
    lie `pitch` bytes apart, the first at byte `offset` of its buffer; rows of a destination
    must not overlap each other, nor the source.
    """

    session: Session

    @property
    def monitor(self) -> Monitor:
        """That of the device."""
        return self.session.monitor

    @abstractmethod
    def prepare(self) -> Queue:
        """Makes sure that a task can be submitted; may wait for room in the ring."""

    @abstractmethod
    def submit_copy(self, payload: CopyPayload, task: Task, fill: bool, profile: bool) -> None:
        """Submits a MEMCPY, or with `fill` a MEMSET."""

    @entered
    def upload(self, buffer: Buffer, array: npt.NDArray[Any], *, profile: bool = False) -> Task:
        """Copies an array of the buffer's shape and dtype to it.

        The array is read at once: it may change as soon as the call has returned.
        """
        self.session.check_buffer(buffer)
        check_array(array, buffer.dtype)
        if array.shape != buffer.shape:
            raise InvalidParameter(
                f"the array has shape {array.shape}, the buffer {buffer.shape}; reshape the array"
            )
        return self._upload(buffer, array, array.nbytes, 1, 0, 0, profile)

    @entered
    def upload_2d(
        self,
        buffer: Buffer,
        array: npt.NDArray[Any],
        *,
        pitch: int,
        offset: int = 0,
        profile: bool = False,
    ) -> Task:
        """Copies the rows of a 2-D array into a buffer."""
        self.session.check_buffer(buffer)
        check_array(array, buffer.dtype)
        if array.ndim != 2 or not array.size:
            raise InvalidParameter(f"the array has shape {array.shape}; it needs rows and columns")
        rows, row_bytes = array.shape[0], array.nbytes // array.shape[0]
        check_rows(buffer, offset, pitch, row_bytes, rows, "destination")
        return self._upload(buffer, array, row_bytes, rows, pitch, offset, profile)

    def _upload(
        self,
        buffer: Buffer,
        array: npt.NDArray[Any],
        row_bytes: int,
        rows: int,
        pitch: int,
        offset: int,
        profile: bool,
    ) -> Task:
        stream = self.prepare()
        staging = self._staging(array.nbytes)
        self.session.device.driver.transport.write_host(staging.address, array.tobytes())
        payload = CopyPayload(
            source=staging.address, source_pitch=row_bytes if rows > 1 else 0,
            destination=buffer.address + offset, destination_pitch=pitch,
            row_bytes=row_bytes, rows=rows,
        )  # fmt: skip
        task = Task(
            stream, self.session.device.task_id(), uses=[buffer.allocation], staging=staging,
            profiled=profile,
        )  # fmt: skip
        self.submit_copy(payload, task, False, profile)
        return task

    @entered
    def download(self, buffer: Buffer, *, profile: bool = False) -> Download:
        """Copies a buffer to the host; the array is the result of what is returned."""
        self.session.check_buffer(buffer)
        return self._download(buffer, buffer.shape, buffer.nbytes, 1, 0, 0, profile)

    @entered
    def download_2d(
        self,
        buffer: Buffer,
        shape: tuple[int, int],
        *,
        pitch: int,
        offset: int = 0,
        profile: bool = False,
    ) -> Download:
        """Copies rows of a buffer into a 2-D array of that shape and the buffer's dtype."""
        self.session.check_buffer(buffer)
        sizes = check_shape(shape)
        if len(sizes) != 2:
            raise InvalidParameter(f"the shape is {shape!r}; it needs rows and columns")
        rows, row_bytes = sizes[0], sizes[1] * buffer.dtype.itemsize
        check_rows(buffer, offset, pitch, row_bytes, rows, "source")
        return self._download(buffer, sizes, row_bytes, rows, pitch, offset, profile)

    def _download(
        self,
        buffer: Buffer,
        shape: tuple[int, ...],
        row_bytes: int,
        rows: int,
        pitch: int,
        offset: int,
        profile: bool,
    ) -> Download:
        stream = self.prepare()
        stream.refuse_capture("download")
        staging = self._staging(row_bytes * rows)
        payload = CopyPayload(
            source=buffer.address + offset, source_pitch=pitch,
            destination=staging.address, destination_pitch=row_bytes if rows > 1 else 0,
            row_bytes=row_bytes, rows=rows,
        )  # fmt: skip
        task = Download(
            stream, self.session.device.task_id(), uses=[buffer.allocation], staging=staging,
            shape=shape, dtype=buffer.dtype, profiled=profile,
        )  # fmt: skip
        self.submit_copy(payload, task, False, profile)
        return task

    @entered
    def copy(self, destination: Buffer, source: Buffer, *, profile: bool = False) -> Task:
        """Copies a buffer to another one with as many bytes."""
        self.session.check_buffer(destination)
        self.session.check_buffer(source)
        if destination.nbytes != source.nbytes:
            raise InvalidParameter(
                f"the source has {source.nbytes} bytes, the destination {destination.nbytes}; "
                "use parts of equal size"
            )
        if abs(destination.address - source.address) < source.nbytes:
            raise InvalidParameter(
                f"source and destination overlap: {source}, {destination}; copy through another "
                "buffer"
            )
        payload = CopyPayload(
            source=source.address, destination=destination.address, row_bytes=source.nbytes
        )
        return self._between(payload, [destination.allocation, source.allocation], False, profile)

    @entered
    def copy_2d(
        self,
        destination: Buffer,
        source: Buffer,
        *,
        rows: int,
        row_bytes: int,
        destination_pitch: int,
        source_pitch: int,
        destination_offset: int = 0,
        source_offset: int = 0,
        profile: bool = False,
    ) -> Task:
        """Copies rows of a buffer to another place."""
        self.session.check_buffer(destination)
        self.session.check_buffer(source)
        check_rows(destination, destination_offset, destination_pitch, row_bytes, rows,
                   "destination")  # fmt: skip
        check_rows(source, source_offset, source_pitch, row_bytes, rows, "source", overlap=True)
        payload = CopyPayload(
            source=source.address + source_offset, source_pitch=source_pitch,
            destination=destination.address + destination_offset,
            destination_pitch=destination_pitch, row_bytes=row_bytes, rows=rows,
        )  # fmt: skip
        return self._between(payload, [destination.allocation, source.allocation], False, profile)

    @entered
    def fill(self, buffer: Buffer, byte: int, *, profile: bool = False) -> Task:
        """Sets every byte of a buffer."""
        self.session.check_buffer(buffer)
        payload = CopyPayload(
            source=check_byte(byte), destination=buffer.address, row_bytes=buffer.nbytes
        )
        return self._between(payload, [buffer.allocation], True, profile)

    @entered
    def fill_2d(
        self,
        buffer: Buffer,
        byte: int,
        *,
        rows: int,
        row_bytes: int,
        pitch: int,
        offset: int = 0,
        profile: bool = False,
    ) -> Task:
        """Sets the bytes of rows of a buffer."""
        self.session.check_buffer(buffer)
        check_rows(buffer, offset, pitch, row_bytes, rows, "destination")
        payload = CopyPayload(
            source=check_byte(byte), destination=buffer.address + offset,
            destination_pitch=pitch, row_bytes=row_bytes, rows=rows,
        )  # fmt: skip
        return self._between(payload, [buffer.allocation], True, profile)

    def _staging(self, size: int) -> Allocation:
        """Host memory for a task, with the room in the ring that `prepare` has found.

        While it waits for memory another thread may take the room.
        """
        staging = self.session.host_memory(size)
        try:
            self.prepare()
        except BaseException:
            staging.free()
            raise
        return staging

    def _between(
        self, payload: CopyPayload, uses: list[Allocation], fill: bool, profile: bool
    ) -> Task:
        stream = self.prepare()
        task = Task(stream, self.session.device.task_id(), uses=uses, profiled=profile)
        self.submit_copy(payload, task, fill, profile)
        return task


def check_array(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Raises unless it is a C-contiguous array of that dtype."""
    if not isinstance(array, np.ndarray):
        raise InvalidParameter(f"an array is needed, not {type(array).__name__}; use np.asarray")
    if array.dtype != dtype:
        raise InvalidParameter(
            f"the array has dtype {array.dtype}, the buffer {dtype}; convert it with "
            f"array.astype(np.{dtype})"
        )
    if not array.flags.c_contiguous:
        raise InvalidParameter(
            f"the array of shape {array.shape} has strides {array.strides}, it is not "
            "contiguous; use np.ascontiguousarray"
        )


def check_byte(byte: int) -> int:
    if not 0 <= byte <= 255:
        raise InvalidParameter(f"the byte is {byte}; it must lie within 0 … 255")
    return byte


def check_rows(
    buffer: Buffer,
    offset: int,
    pitch: int,
    row_bytes: int,
    rows: int,
    name: str,
    overlap: bool = False,
) -> None:
    """Raises unless the rows lie inside the buffer, and apart from each other."""
    limit = 1 << CopyPayload.source_pitch.width
    if rows < 1 or row_bytes < 1:
        raise InvalidParameter(f"{rows} rows of {row_bytes} bytes; both must be at least 1")
    if not (0 if overlap or rows == 1 else row_bytes) <= pitch < limit:
        raise InvalidParameter(
            f"the pitch of the {name} is {pitch}; rows of {row_bytes} bytes need "
            f"{row_bytes} … {limit - 1}"
        )
    end = offset + (rows - 1) * pitch + row_bytes
    if offset < 0 or end > buffer.nbytes:
        raise InvalidParameter(
            f"the {name} covers bytes {offset} to {end - 1} of a buffer of {buffer.nbytes} "
            "bytes; choose fewer rows, a smaller pitch or offset"
        )
