"""Functions of the host that streams call, each session's on a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hw.regs.registers import CallbackReturn, ContextCallbacks, StreamTask

from .errors import InvalidHandle, TransportError

if TYPE_CHECKING:
    from .device import Device
    from .queue import Queue

__all__ = ["Function", "Functions"]

NUMBERS = 1 << CallbackReturn.task.width
"""The device is told task numbers modulo this."""


class Function:
    """A function that a task calls, known to its session while anybody has acquired it.

    Attributes
    ----------
    task: number of the task.
    """

    def __init__(
        self, known: dict[int, Function], task: int, call: Callable[[], object]
    ) -> None:
        self.task = task
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


class Functions:
    """The functions that the streams of a session call.

    The device asks by an interrupt; whoever serves that hands the function over to the thread and
    sleeps until the device was told of its return, so that no time passes meanwhile. Functions
    run one at a time, in the order in which they were asked for.

    Attributes
    ----------
    known: functions that the device may ask for, by the number of their task.
    errors: what functions have raised, likewise, until it is cleared.
    """

    def __init__(self, device: Device, context: int) -> None:
        self.known: dict[int, Function] = {}
        self.errors: dict[int, BaseException] = {}
        self._device = device
        self._context = context
        self._handed: dict[int, Function] = {}  # to the thread, and not answered
        self._calls: queue.SimpleQueue[tuple[Queue, Function] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def function(self, task: int, call: Callable[[], object]) -> Function:
        """A function for a task with that number. The thread runs from then on."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name=f"callbacks of context {self._context}", daemon=True
            )
            self._thread.start()
        return Function(self.known, task, call)

    def serve(self, streams: Iterable[Queue]) -> None:
        """Calls what those streams ask for, and waits for the return. Others may use the device."""
        asking = self._device.driver.read(ContextCallbacks, self._context).streams
        calls = [
            (stream, function) for stream in tuple(streams)
            if asking >> stream.number & 1 and (function := self._asked(stream)) is not None
        ]  # fmt: skip
        for call in calls:  # not before the device was asked for all of them: that takes time
            self._calls.put(call)
        mine = tuple(self._handed.values())
        while any(function in mine for function in self._handed.values()):
            self._device.monitor.sleep(None)

    def _asked(self, stream: Queue) -> Function | None:
        """The function that a stream asks for, unless the thread has it already."""
        task = self._device.driver.read(StreamTask, stream.number).task_id
        function = self.known.get(task)
        if function is None:
            self.errors[task] = InvalidHandle(
                f"task {task} calls a function that the session does not know; keep what it "
                "belongs to open"
            )
            self._answer(stream, task, True)
        elif task not in self._handed:
            self._handed[task] = function
            self._device.monitor.functions += 1
            return function
        return None

    # --------------------------------------------------------------------------------- the thread

    def _work(self) -> None:
        self._device.monitor.exempt()
        while (call := self._calls.get()) is not None:
            self._run(*call)

    def _run(self, stream: Queue, function: Function) -> None:
        error: BaseException | None = None
        if self.known.get(function.task) is function:
            try:
                with self._device.monitor.barred():
                    function.call()
            except BaseException as raised:
                error = raised
        with self._device.monitor as monitor:
            monitor.functions -= 1
            del self._handed[function.task]
            if error is not None:
                self.errors[function.task] = error
            if not stream.closed:
                self._answer(stream, function.task, error is not None)

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
