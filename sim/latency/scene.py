"""A device on which everything is in place for what is measured, and its points in time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from hw.config import NpuConfig
from hw.regs.descriptor import CopyPayload
from hw.regs.registers import (
    Cycle,
    Doorbell,
    InterruptContexts,
    PmuCommand,
    PmuControl,
    PmuCycle,
    PmuSelect,
    PmuValue,
)
from rt import Device
from rt.driver import BLOCKS
from rt.errors import DeviceFault
from rt.event import Event
from rt.ops import gemm
from rt.stream import Stream
from rt.task import Task

from ..link import SimTransport
from .recording import Recording
from .sheet import Point

__all__ = ["Counts", "Scene", "end", "ready", "recorded", "start"]

BYTES = 256
"""Of the greatest copy."""
STAGING = 64
"""Cycles that the entries of a stream take to be fetched, beyond the memory's latency."""
MOMENT = 64
"""Cycles, of which a random part passes before anything that is measured."""


class Counts:
    """A snapshot of the PMU.

    Attributes
    ----------
    cycle: values are of the cycles before it.
    """

    def __init__(self, scene: Scene) -> None:
        driver = scene.device.driver
        driver.write(PmuCommand(snapshot=1))
        self.cycle = driver.read(PmuCycle).cycle
        self.values = [driver.read(PmuValue, n).value for n in range(driver.config.counters)]


class Scene:
    """A session with all the streams of the device.

    The first stream is the opener: what it is given within `held` is announced to the device at
    the end only, when all that waits for it is staged. Until then time passes, a random part of
    it, so that nothing measured depends on the moment.

    Parameters
    ----------
    transport: link to the device, in any state.
    seed: of the moments, and of the bytes that copies move.

    Attributes
    ----------
    opener, streams: the first stream, and the others.
    """

    def __init__(self, transport: SimTransport, seed: int) -> None:
        self.transport = transport
        self.random = random.Random(seed)
        self.device = Device(transport)
        self.session = session = self.device.session()
        self.opener, *self.streams = (session.stream() for _ in range(self.config.streams))
        self._source, self._target = (session.empty(BYTES, np.uint8) for _ in range(2))
        self._a = session.buffer(np.ones((4, 4), np.int8))
        self._out = session.empty((4, 4), np.int32)
        first, second = (self.now() for _ in range(2))
        self._access = (second - first) // Cycle.words()
        self.warm()

    @property
    def config(self) -> NpuConfig:
        return self.device.config

    # -------------------------------------------------------------------------------------- tasks

    def kernel(self, stream: Stream) -> Task:
        """A small product, whose code is in a bank of the core since `warm`."""
        (task,) = gemm(stream, self._a, self._a, self._out, profile=True)
        return task

    def copy(self, stream: Stream) -> Task:
        """A copy of some bytes within device memory."""
        size = self.random.randint(1, BYTES)
        source, target = (each.part(0, size, np.uint8) for each in (self._source, self._target))
        return stream.copy(target, source, profile=True)

    def fill(self, stream: Stream) -> Task:
        """A fill of some bytes of device memory."""
        size = self.random.randint(1, BYTES)
        return stream.fill(self._target.part(0, size, np.uint8), 1, profile=True)

    def bad_copy(self, stream: Stream) -> Task:
        """A copy from where the session has no right to read: an access violation."""
        payload = CopyPayload(source=0, destination=self._target.address, row_bytes=1)
        task = Task(stream.prepare(), self.device.task_id())
        stream.submit_copy(payload, task, False, False)
        return task

    # --------------------------------------------------------------------------------------- time

    def now(self) -> int:
        """The cycle, as the device says."""
        return self.device.driver.read(Cycle).cycle

    def warm(self) -> None:
        """Brings the code of `kernel` into a bank."""
        self.kernel(self.opener)
        self.session.synchronise()

    @contextmanager
    def held(self) -> Iterator[Stream]:
        """What the opener is given in the body is announced when all that waits is staged."""
        with self.opener.batch():
            yield self.opener
            self.settle()

    def settle(self) -> None:
        """Lets time pass until whatever can be fetched is, and a random moment more."""
        longest = self.transport.board_config.host_latency
        cycles = 2 * longest + STAGING * self.config.streams + self.random.randrange(MOMENT)
        self.transport.run_until(interrupt=False, cycle=self.transport.now() + cycles)

    def calm(self) -> None:
        """Waits until nothing is left to do and the interrupt line is low."""
        self.session.synchronise()
        self.settle()
        self.device.service()

    # ------------------------------------------------------------------------------------- points

    def rung(self, submit: Callable[[Stream], Task], stream: Stream) -> tuple[Task, Point]:
        """A task of an empty stream, and the cycle in which the write to its doorbell is taken.

        The device is asked for its cycle just before. All accesses of the host take equally long,
        and a read samples where a write is taken.
        """
        cycle = self.now() + Cycle.words() * self._access
        task = submit(stream)
        address = BLOCKS[Doorbell].address(Doorbell, stream.number)
        return task, Point(
            cycle,
            lambda recording: recording.written(
                address, before=recording.timeline.run(task.id).dispatched
            ),
        )

    def told(self, task: Task) -> Point:
        """Waits for an interrupt that a task causes, and asks the device who interrupts.

        The point is the cycle of the answer. The device is asked for its cycle right behind.
        """
        self.transport.run_until(interrupt=True, cycle=None)
        contexts = self.device.driver.read(InterruptContexts).contexts
        assert contexts == 1 << self.session.context, contexts
        address = BLOCKS[InterruptContexts].address(InterruptContexts)
        return Point(
            self.now() - self._access + 1,
            lambda recording: recording.answered(address, after=_raised(recording, task)),
        )

    def fault(self, task: Task) -> Point:
        """The cycle in which the fault of a task raises the interrupt: the one after it."""
        try:
            self.session.synchronise()
        except DeviceFault as fault:
            self.session.recover()
            return Point(fault.record.timestamp + 1, lambda recording: _raised(recording, task))
        raise AssertionError(f"task {task.id} has not failed")

    def count(self, *codes: int) -> None:
        """Lets the PMU count from zero."""
        driver = self.device.driver
        for number, code in enumerate(codes):
            driver.write(PmuSelect(event=code), index=number)
        driver.write(PmuCommand(clear=1), PmuControl(enable=1))


def start(task: Task) -> Point:
    """A task's first bus address or instruction."""
    return Point(task.profile.start, lambda recording: recording.start(task.id))


def end(task: Task) -> Point:
    """The last write response of a task's data."""
    return Point(task.profile.end, lambda recording: recording.end(task.id))


def recorded(event: Event) -> Point:
    """The latest record of an event that was made with timing."""
    record = event.record
    assert record is not None
    slot, generation = record.slot.number, record.generation
    return Point(event.cycle, lambda recording: recording.record(slot, generation))


def ready(task: Task, before: Counts, after: Counts, counter: int) -> Point:
    """The first cycle in which the stream of a task no longer waits for what the task waits for.

    before, after: two moments, in the first of which it waits. counter: counts its waiting.
    """
    waited = after.values[counter] - before.values[counter]
    return Point(
        before.cycle + waited,
        lambda recording: recording.released(task.stream.number, task.id),
    )


def _raised(recording: Recording, task: Task) -> int:
    return recording.raised(after=recording.timeline.run(task.id).dispatched)
