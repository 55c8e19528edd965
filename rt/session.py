"""Sessions: users of a device that are protected from each other."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hw.regs.descriptor import FailureMode
from hw.regs.registers import RING_SIZES, StreamConfig

from .context import COMPLETIONS, Context, release
from .copy import check_array
from .errors import InvalidParameter, MemoryExhausted, NoStream, WrongContext
from .event import Event
from .finish import finish
from .graph.build import build
from .graph.desc import TaskDesc
from .graph.graph import Graph
from .kernel.kernel import Kernel, check_binary
from .memory import ALIGNMENT, Allocation, Buffer, Pool, check_dtype, check_shape
from .monitor import entered
from .notify import Notify
from .queue import Queue
from .ring import CompletionRing
from .stream import Stream
from .task import LONGEST, timeout_units

if TYPE_CHECKING:
    from .device import Device

__all__ = ["Session"]

class Session(Context):
    """A context of the device with its own memory, streams and events. Made by `Device.session`.

    As a context manager it waits for what was submitted and closes; after an exception it
    closes at once. The first fault stays: every synchronise and query raises it, until
    `recover`. Other sessions never notice.

    Attributes
    ----------
    device: the device.
    context: number of the hardware context.
    notifies: its notifies that are not closed.
    """

    def __init__(self, device: Device, context: int, device_bytes: int, host_bytes: int) -> None:
        super().__init__(device, context)
        self.notifies: list[Notify] = []
        self._kernels: dict[bytes, Kernel] = {}
        for name, size in (("device_bytes", device_bytes), ("host_bytes", host_bytes)):
            if size < 1 or size % ALIGNMENT:
                raise InvalidParameter(
                    f"{name} is {size}; it must be a multiple of {ALIGNMENT}, at least {ALIGNMENT}"
                )
        with ExitStack() as undo:
            self._memory = Allocation(device.device_pool, device_bytes)
            undo.callback(self._memory.free)
            self._host = Allocation(device.host_pool, host_bytes)
            undo.callback(self._host.free)
            self._pool = Pool(self._memory.address, device_bytes, "the session's device memory")
            self._staging = Pool(self._host.address, host_bytes, "the session's host memory")
            ring = self._staging.allocate(CompletionRing.size_bytes(COMPLETIONS))
            undo.callback(release, device.driver, context)
            for number, (arena, size, code) in enumerate(
                ((self._host, host_bytes, False), (self._memory, device_bytes, True))
            ):
                last = arena.address + size - 1
                device.driver.window(context, number, arena.address, last, execute=code)
            self.open_context(ring)
            undo.pop_all()

    # --------------------------------------------------------------------------------- resources

    @entered
    def stream(
        self,
        priority: int = 0,
        *,
        failure_mode: FailureMode = FailureMode.CONTINUE,
        overflow: bool = False,
        timeout: int | None = None,
        depth: int = 64,
    ) -> Stream:
        """A new stream.

        priority: 0 greatest … 7 least.
        failure_mode: whether a fault of it stops the other streams of the session, too.
        overflow: an int32 overflow is a fault.
        timeout: longest run of a kernel in cycles; by default half of `Device.patience`, so
            that the fault comes before a wait for it gives up.
        depth: tasks that can be pending before a submission waits; a power of two.
        """
        self.check()
        low, high = StreamConfig.priority.limits
        if not low <= priority <= high:
            raise InvalidParameter(
                f"the priority is {priority}; it must lie within {low} … {high}"
            )
        low, high = 1 << RING_SIZES[0], 1 << RING_SIZES[-1]
        if not low <= depth <= high or depth & (depth - 1):
            raise InvalidParameter(
                f"the depth is {depth}; it must be a power of two within {low} … {high}"
            )
        if failure_mode not in tuple(FailureMode):
            raise InvalidParameter(
                f"the failure mode is {failure_mode!r}; choose one of "
                f"{', '.join(mode.name for mode in FailureMode)} of FailureMode"
            )
        timeout_units(timeout)
        limit = self.timeout if timeout is None else timeout
        number = self.device.take_stream()
        try:
            stream = Stream(
                self, number, log2=depth.bit_length() - 1, priority=priority,
                failure_mode=FailureMode(failure_mode), overflow=overflow, timeout=limit,
            )  # fmt: skip
        except BaseException:
            self.device.give_stream(number)
            raise
        self.streams.append(stream)
        return stream

    @property
    def timeout(self) -> int:
        """Longest run of a kernel in cycles, of a stream that is made without one."""
        return min(max(1, self.device.patience // 2), LONGEST)

    @entered
    def event(self, timing: bool = False) -> Event:
        """A new event; with `timing`, one whose times can be compared."""
        self.check()
        return Event(self, timing)

    @entered
    def notify(self) -> Notify:
        """A new notify, its counter 0."""
        self.check()
        notify = Notify(self, self.device.counters.take())
        self.notifies.append(notify)
        return notify

    @entered
    def graph(self, tasks: Sequence[TaskDesc], *, streams: int = 1, name: str = "") -> Graph:
        """A graph of tasks, ready to be replayed on at most so many streams; see `rt.graph`.

        Waits until its lists are in device memory. name: what errors call it.
        """
        self.check()
        return build(self, tasks, streams, name)

    @entered
    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Buffer:
        """A new buffer in device memory, its contents undefined."""
        self.check()
        sizes, plain = check_shape(shape), check_dtype(dtype)
        allocation = self._allocate(self._pool, math.prod(sizes) * plain.itemsize)
        return Buffer(self, allocation, 0, sizes, plain, True)

    @entered
    def buffer(self, array: npt.NDArray[Any], stream: Stream | None = None) -> Buffer:
        """A new buffer with the contents of an array.

        With a stream it is uploaded there, in order with what follows; without, the call waits
        until it is there.
        """
        self.check()
        if stream is not None and stream.session is not self:
            raise WrongContext(f"{stream} belongs to another session; use one of this")
        check_array(array, check_dtype(getattr(array, "dtype", object)))
        buffer = self.empty(array.shape, array.dtype)
        self._fill(buffer, array, stream)
        return buffer

    @entered
    def load(self, binary: bytes) -> Kernel:
        """Loads a kernel binary; waits until it is there. The same binary is loaded once."""
        self.check()
        binary = bytes(binary)
        known = self._kernels.get(binary)
        if known is not None and not known.allocation.freed:
            return known
        check_binary(binary, self.device.config)
        buffer = self.empty(len(binary), np.uint8)
        self._fill(buffer, np.frombuffer(binary, np.uint8), None)
        place, checksum = (self.context, buffer.address), zlib.crc32(binary)
        replaced = self.device.code.get(place, checksum) != checksum
        self.device.code[place] = checksum
        kernel = Kernel(self, buffer.allocation, len(binary), replaced)
        self._kernels[binary] = kernel
        return kernel

    def _fill(self, buffer: Buffer, array: npt.NDArray[Any], stream: Stream | None) -> None:
        """Uploads what a new buffer holds; the buffer is freed if that fails."""
        try:
            if stream is None:
                self.store(buffer, array)
            else:
                stream.upload(buffer, array)
        except BaseException:
            buffer.allocation.free()
            raise

    def store(self, buffer: Buffer, array: npt.NDArray[Any]) -> None:
        """Uploads by an idle stream, or one for this purpose, or any, and waits."""
        usable = [s for s in self.streams if not s.stopped and s.capturing is None]
        stream = next((stream for stream in usable if stream.idle), None)
        if stream is not None:
            stream.upload(buffer, array).wait()
            return
        try:
            stream = self.stream(depth=2)
        except NoStream:
            if not usable:
                raise
            usable[-1].upload(buffer, array).wait()
            return
        with stream:
            stream.upload(buffer, array).wait()

    def device_memory(self, size: int, alignment: int = ALIGNMENT) -> Allocation:
        """Device memory. Waits for tasks if what they use is all that is missing."""
        return self._allocate(self._pool, size, alignment)

    def host_memory(self, size: int, alignment: int = ALIGNMENT) -> Allocation:
        """Host memory that the device can reach. Waits for copies in flight if it is scarce."""
        return self._allocate(self._staging, size, alignment)

    def _allocate(self, pool: Pool, size: int, alignment: int = ALIGNMENT) -> Allocation:
        """Memory of a pool; waits for tasks if what they use is all that is missing."""
        while True:
            self.collect()
            try:
                return Allocation(pool, size, alignment)
            except MemoryExhausted:
                idle = all(stream.idle for stream in self.streams)
                if not pool.deferred or self.failed or idle:
                    raise
            self.wait_until(
                partial(self._progressed, self.ended()),
                None,
                lambda: f"{size} bytes of {pool.name}: {self.describe()}",
            )

    def _progressed(self, ended: int) -> bool:
        return self.ended() != ended

    @entered
    def synchronise(self, timeout: int | None = None) -> None:
        """Waits until everything submitted to its streams has ended; see `Stream.synchronise`."""
        self.check()
        start = self.device.driver.transport.now()
        for stream in tuple(self.streams):
            if stream.closed:
                continue  # by another thread
            passed = self.device.driver.transport.now() - start
            stream.synchronise(None if timeout is None else max(0, timeout - passed))

    # -------------------------------------------------------------------------------- end of life

    def forget(self, stream: Queue) -> None:
        """The stream is closed."""
        self.streams = [other for other in self.streams if other is not stream]

    def hold(self) -> None:
        """Its share of memory stays taken, even if it is closed, until `let_go`."""
        for memory in (self._memory, self._host):
            memory.acquire()

    def let_go(self) -> None:
        """The end of one `hold`."""
        for memory in (self._memory, self._host):
            memory.release()

    @entered
    def close(self, *, drain: bool = True) -> None:
        """Ends the session: streams, events, buffers and kernels of it are gone.

        Whatever fails on the way, it is closed; the first error is raised.

        drain: wait until everything submitted has ended; a fault that was not raised yet is
            raised after closing.
        """
        if self.closed:
            return
        wait = (self.synchronise, self.raise_fault) if drain and not self._reported else ()
        finish(*wait, self._end)

    def _end(self) -> None:
        """Closes it, unless another thread has."""
        if self.closed:
            return
        self.closed = True
        finish(
            self.cease, *(stream.discard for stream in self.streams), self.settle_all,
            *(graph.discard for graph in tuple(self.graphs)), self.functions.close,
            *(notify.close for notify in tuple(self.notifies)),
            partial(release, self.device.driver, self.context),
            self._memory.free, self._host.free, partial(self.device.forget, self),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(drain=error is None)

    # ------------------------------------------------------------------------------------ checks

    def check_buffer(self, buffer: Buffer) -> None:
        """Raises unless its tasks may use the buffer."""
        if not isinstance(buffer, Buffer):
            raise InvalidParameter(
                f"a buffer is needed, not {type(buffer).__name__}; make one with session.buffer"
            )
        if buffer.session is not self:
            raise WrongContext(f"{buffer} belongs to another session; copy through the host")
        buffer.check()

    def check_event(self, event: Event) -> None:
        """Raises unless its streams may record and wait for the event."""
        self.check()
        if not isinstance(event, Event):
            raise InvalidParameter(
                f"an event is needed, not {type(event).__name__}; make one with session.event"
            )
        if event.session is not self:
            raise WrongContext("the event belongs to another session; make one with session.event")

    def check_notify(self, notify: Notify) -> None:
        """Raises unless its streams may use the notify."""
        if not isinstance(notify, Notify):
            raise InvalidParameter(
                f"a notify is needed, not {type(notify).__name__}; make one with session.notify"
            )
        if notify.session is not self:
            raise WrongContext(f"{notify} belongs to another session; use one of this")
        notify.check()
