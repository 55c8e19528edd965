"""Functions of the host that streams call, each session's on a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hw.regs.registers import CallbackReturn, ContextCallbacks, StreamTask

from .errors import InvalidHandle, TransportError

if TYPE_CHECKING:
    from .device import Device
    from .queue import Queue

__all__ = ["Function", "Functions", "Request"]

NUMBERS = 1 << CallbackReturn.task.width
"""The device is told task numbers modulo this."""


class Function:
    """A function that a task calls, known to its session while anybody has acquired it.

    Attributes
    ----------
    task: number of the task.
    name: what errors call it.
    """

    def __init__(
        self, known: dict[int, Function], task: int, name: str, call: Callable[[], object]
    ) -> None:
        self.task = task
        self.name = name
        self.call = call
        self._known = known
        self._users = 0

    def acquire(self) -> None:
        """The device may ask for it."""
        self._users += 1
        self._known[self.task] = self

    def release(self) -> None:
        """One of its users does not call it any more."""
        self._users -= 1
        if not self._users:
            self._known.pop(self.task, None)


@dataclass(eq=False)
class Request:
    """A stream asks for a function. It is over when the device was told of the return, or when
    an abort has dropped it, even if the function still runs.
    """

    functions: Functions
    stream: Queue
    function: Function
    over: bool = False

    def __str__(self) -> str:
        task = self.stream.session.title(self.function.task)
        return f"the host's function {self.function.name}, called by task {task} of {self.stream}"

    def start(self) -> None:
        """Hands the function over to the thread of its session."""
        self.functions.start(self)


class Functions:
    """The functions that the streams of a session call.

    The device asks by an interrupt; whoever serves that hands the function over to the thread and
    sleeps until the device was told of its return, so that no time passes meanwhile. Functions
    run one at a time, in the order in which they were asked for. One that runs for longer than
    `Device.host_patience` does not hold up time any more.

    Attributes
    ----------
    known: functions that the device may ask for, by the number of their task.
    errors: what functions have raised, likewise, until it is cleared.
    requests: those that are not over.
    """

    def __init__(self, device: Device, context: int) -> None:
        self.known: dict[int, Function] = {}
        self.errors: dict[int, BaseException] = {}
        self.requests: dict[Queue, Request] = {}
        self._device = device
        self._context = context
        self._calls: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._current: Request | None = None
        """What the thread runs."""
        self._since = 0.0  # it runs that, or the first was handed over

    def function(self, task: int, name: str, call: Callable[[], object]) -> Function:
        """A function for a task with that number. The thread runs from then on."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name=f"callbacks of context {self._context}", daemon=True
            )
            self._thread.start()
        return Function(self.known, task, name, call)

    def asked(self, streams: Iterable[Queue]) -> list[Request]:
        """What those streams have asked for since the last time."""
        asking = self._device.driver.read(ContextCallbacks, self._context).streams
        return [
            request for stream in tuple(streams)
            if asking >> stream.number & 1 and stream not in self.requests
            and (request := self._ask(stream)) is not None
        ]  # fmt: skip

    def _ask(self, stream: Queue) -> Request | None:
        task = self._device.driver.read(StreamTask, stream.number).task_id
        function = self.known.get(task)
        if function is None:
            self.errors[task] = InvalidHandle(
                f"task {task} calls a function that the session does not know; keep what it "
                "belongs to open"
            )
            self._answer(stream, task, True)
            return None
        request = Request(self, stream, function)
        if not self.requests:
            self._since = time.monotonic()
        self.requests[stream] = request
        return request

    def start(self, request: Request) -> None:
        """The thread runs that as soon as it has run those before."""
        self._calls.put(request)

    def withdraw(self, stream: Queue) -> None:
        """The stream does not ask any more: it is aborted."""
        request = self.requests.pop(stream, None)
        if request is not None:
            request.over = True

    # ------------------------------------------------------------------------------------ waiting

    @property
    def left(self) -> float:
        """Seconds for which they hold up time at most; 0 if none is asked for."""
        if not self.requests:
            return 0.0
        return max(0.0, self._since + self._device.host_patience - time.monotonic())

    def late(self) -> str:
        """The function that has held up time for as long as it may; nothing if none has."""
        if not self.requests or self.left:
            return ""
        blamed = self._current or next(iter(self.requests.values()))
        return f"{blamed}, has not returned for {time.monotonic() - self._since:.1f} s"

    # --------------------------------------------------------------------------------- the thread

    def _work(self) -> None:
        self._device.monitor.exempt()
        while (request := self._calls.get()) is not None:
            self._run(request)

    def _run(self, request: Request) -> None:
        error: BaseException | None = None
        self._current, self._since = request, time.monotonic()
        if not request.over:
            try:
                with self._device.monitor.barred():
                    request.function.call()
            except BaseException as raised:
                error = raised
        with self._device.monitor:
            self._current = None
            if request.over:
                return
            request.over = True
            del self.requests[request.stream]
            task = request.function.task
            if error is not None:
                self.errors[task] = error
            self._answer(request.stream, task, error is not None)

    def _answer(self, stream: Queue, task: int, failed: bool) -> None:
        answer = CallbackReturn(task=task % NUMBERS, failed=int(failed))
        try:
            self._device.driver.write(answer, index=stream.number)
        except TransportError:
            pass  # the link is gone: whoever waits finds that out

    def close(self) -> None:
        """The thread ends as soon as no function runs. Does not wait."""
        if self._thread is not None:
            self._calls.put(None)
