"""Random programs of copies, fills, kernels and events, for any device.

In a program, two to four streams of one or two sessions copy, fill and multiply in each other's
buffers, ordered by nothing but events where they touch the same bytes. Equal generators make equal
calls, whatever the device.
"""

import itertools
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from rt.ops import Requantisation, channel_table, gemm

__all__ = ["check_order", "open_sides", "play"]

BUFFER = 240
CHANNELS = 5
LAYOUTS = ([2], [3], [4], [2, 1], [2, 2], [1, 3])
"""Streams of each session."""


@dataclass
class Access:
    """A task that touches some bytes of a buffer."""

    task: object
    buffer: int
    first: int
    stop: int
    write: bool

    def conflicts(self, other):
        return (
            self.buffer == other.buffer
            and (self.write or other.write)
            and self.first < other.stop
            and other.first < self.stop
        )


@dataclass
class Side:
    """What one session of a program has, and what its tasks depend on."""

    session: object
    streams: list
    buffers: list
    shapes: list
    events: list
    profiled: float
    table: object = None
    accesses: list = field(default_factory=list)
    tasks: list = field(default_factory=list)
    orders: list = field(default_factory=list)
    """Pairs of tasks: the first must have ended before the second begins."""
    downloads: list = field(default_factory=list)


def open_side(rng, device, count):
    session = device.session()
    streams = [
        session.stream(rng.randrange(8), depth=rng.choice([2, 4, 16])) for _ in range(count)
    ]
    buffers = [session.empty(BUFFER, np.uint8) for _ in range(3)]
    shapes = [tuple(rng.randint(1, 5) for _ in "mnk") for _ in range(2)]
    events = [session.event(timing=rng.random() < 0.3) for _ in range(3)]
    side = Side(session, streams, buffers, shapes, events, rng.choice([0.3, 1.0]))
    for buffer in buffers:
        streams[0].upload(buffer, np.frombuffer(rng.randbytes(BUFFER), np.uint8))
    low = rng.randrange(1 << 28)
    multipliers = [low + rng.randrange(1 << 28) for _ in range(CHANNELS)]
    biases = [rng.randrange(-20000, 20000) for _ in range(CHANNELS)]
    side.table = session.buffer(
        channel_table(biases, multipliers, [36], channels=CHANNELS), streams[0]
    )
    streams[0].synchronise()
    return side


def step(rng, side):
    """One random task of a random stream, behind what it must wait for."""
    stream = rng.choice(side.streams)
    profile = rng.random() < side.profiled
    one, two, three = rng.sample(range(3), 3)

    def part(size):
        first = rng.randrange(BUFFER - size + 1)
        return first, first + size

    def view(number, span, shape=None, dtype=np.uint8):
        return side.buffers[number].part(span[0], shape or span[1] - span[0], dtype)

    def submit(call, reads=(), writes=()):
        """Waits for every conflicting task of other streams, then calls."""
        mine = [Access(None, buffer, *span, False) for buffer, span in reads]
        mine += [Access(None, buffer, *span, True) for buffer, span in writes]
        before = [old for old in side.accesses for new in mine if old.conflicts(new)]
        for other in {old.task.stream.number: old.task.stream for old in before}.values():
            if other is not stream:
                event = rng.choice(side.events)
                other.record(event)
                stream.wait(event)
        task = call()
        for access in mine:
            access.task = task
        side.orders += [(old.task, task) for old in before]
        side.orders += [(old, task) for old in side.tasks[-8:] if old.stream is stream]
        side.accesses += mine
        side.tasks.append(task)
        return task

    size = rng.randint(1, 80)
    rows, row_bytes = rng.randint(1, 5), rng.randint(1, 20)
    pitches = [row_bytes + rng.randrange(9) for _ in range(2)]
    spans = [part((rows - 1) * pitch + row_bytes) for pitch in pitches]
    source, target = part(size), part(size)
    data = np.frombuffer(rng.randbytes(size), np.uint8)
    block = np.frombuffer(rng.randbytes(rows * row_bytes), np.uint8).reshape(rows, row_bytes)
    byte = rng.randrange(256)
    shape, int8 = rng.choice(side.shapes), rng.random() < 0.5
    a, b, c = part(25), part(25), part(100)
    match rng.randrange(9):
        case 0:
            submit(lambda: stream.upload(view(one, target), data, profile=profile),
                   writes=[(one, target)])  # fmt: skip
        case 1:
            submit(lambda: stream.upload_2d(side.buffers[one], block, pitch=pitches[0],
                                            offset=spans[0][0], profile=profile),
                   writes=[(one, spans[0])])  # fmt: skip
        case 2:
            submit(lambda: stream.copy(view(one, target), view(two, source), profile=profile),
                   reads=[(two, source)], writes=[(one, target)])  # fmt: skip
        case 3:
            submit(lambda: stream.copy_2d(
                side.buffers[one], side.buffers[two], rows=rows, row_bytes=row_bytes,
                destination_pitch=pitches[0], source_pitch=pitches[1],
                destination_offset=spans[0][0], source_offset=spans[1][0], profile=profile,
            ), reads=[(two, spans[1])], writes=[(one, spans[0])])  # fmt: skip
        case 4:
            submit(lambda: stream.fill(view(one, target), byte, profile=profile),
                   writes=[(one, target)])  # fmt: skip
        case 5:
            submit(lambda: stream.fill_2d(side.buffers[one], byte, rows=rows, row_bytes=row_bytes,
                                          pitch=pitches[0], offset=spans[0][0], profile=profile),
                   writes=[(one, spans[0])])  # fmt: skip
        case 6:
            download = submit(lambda: stream.download(view(one, source), profile=profile),
                              reads=[(one, source)])  # fmt: skip
            side.downloads.append(download)
        case _:
            m, n, k = shape
            submit(lambda: gemm(
                stream, view(one, a, (m, k), np.int8), view(two, b, (k, n), np.int8),
                view(three, c, (m, n), np.int8 if int8 else np.int32), table=side.table,
                requantise=Requantisation(5, -90, 101) if int8 else None, profile=profile,
            )[0], reads=[(one, a), (two, b)], writes=[(three, c)])  # fmt: skip


def open_sides(rng, device):
    """The sessions of some programs, with their buffers filled."""
    return [open_side(rng, device, count) for count in rng.choice(LAYOUTS)]


def play(rng, sides, steps):
    """Runs a program. Gives what was downloaded."""
    for side in sides:
        side.accesses, side.tasks, side.orders, side.downloads = [], [], [], []
    while steps > 0:
        side = rng.choice(sides)
        burst = rng.randint(1, 4)
        steps -= burst
        with rng.choice(side.streams).batch() if rng.random() < 0.6 else nullcontext():
            for _ in range(burst):
                step(rng, side)
        if rng.random() < 0.1:
            rng.choice(side.streams).query()
    for side in sides:
        side.session.synchronise()
    return [download.result().tobytes() for side in sides for download in side.downloads]


def spans(sides):
    """(start, end, engine) of the tasks that were profiled, by task."""
    tasks = [task for side in sides for task in side.tasks if task._profiled]
    return {task: task.profile for task in tasks}


def check_order(sides):
    """What the completion entries say of order: of dependent tasks, and on each engine."""
    profiles = spans(sides)
    for side in sides:
        for before, after in side.orders:
            if before in profiles and after in profiles:
                assert profiles[before].end < profiles[after].start, (before.id, after.id)
    by_engine = sorted(profiles.values(), key=lambda profile: (profile.engine, profile.start))
    for before, after in itertools.pairwise(by_engine):
        assert before.start <= before.end
        assert before.engine != after.engine or before.end < after.start
