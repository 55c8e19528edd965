"""What programs of the semantics tests consist of: calls of the host, and the work of tasks.

Memory is `BUFFERS` buffers of `SIZE` bytes and one of `WORDS` words of 8 bytes, addressed as one
array of bytes. What a piece of work does to it is said here, once, without any time.
"""

from dataclasses import dataclass, replace

import numpy as np

from hw.regs.descriptor import Comparison
from tests.models.waits import compares

__all__ = [
    "BUFFERS", "BYTES", "COUNTERS", "EVENTS", "GRAPHS", "SIZE", "WORDS", "Abort", "Add", "Await",
    "Barrier", "Batch", "Callback", "Close", "Copy", "Destroy", "Download", "Fill", "Graph",
    "Mark", "Multiply", "Origin", "Program", "Put", "Query", "Record", "Replay", "SetTo",
    "Submit", "Synchronise", "SynchroniseEvent", "Take", "Update", "Upload", "Wait",
    "WaitStream", "Work", "word_span",
]  # fmt: skip

BUFFERS, SIZE, WORDS = 3, 96, 3
BYTES = BUFFERS * SIZE + WORDS * 8
COUNTERS, EVENTS, GRAPHS = 2, 3, 2
"""Each graph has one more counter of its own."""


def word_span(word):
    """Where a word lies in memory."""
    first = BUFFERS * SIZE + 8 * word
    return first, first + 8


# ------------------------------------------------------------------------------- work of tasks


@dataclass(frozen=True)
class Work:
    """What a task does: nothing."""

    @property
    def reads(self):
        """Spans of bytes that it reads."""
        return ()

    @property
    def writes(self):
        """Spans of bytes that it writes."""
        return ()

    def run(self, memory):
        """Its effect on memory."""


@dataclass(frozen=True)
class Mark(Work):
    """The record of an event."""


@dataclass(frozen=True)
class Barrier(Work):
    """Waits for all that was submitted before it."""


@dataclass(frozen=True)
class Callback(Work):
    """Calls the host, which notes the time."""


@dataclass(frozen=True)
class Fill(Work):
    target: int
    size: int
    byte: int

    @property
    def writes(self):
        return ((self.target, self.target + self.size),)

    def run(self, memory):
        memory[self.target : self.target + self.size] = self.byte


@dataclass(frozen=True)
class Upload(Work):
    target: int
    data: bytes

    @property
    def writes(self):
        return ((self.target, self.target + len(self.data)),)

    def run(self, memory):
        memory[self.target : self.target + len(self.data)] = np.frombuffer(self.data, np.uint8)


@dataclass(frozen=True)
class Download(Work):
    source: int
    size: int

    @property
    def reads(self):
        return ((self.source, self.source + self.size),)


@dataclass(frozen=True)
class Copy(Work):
    target: int
    source: int
    size: int

    @property
    def reads(self):
        return ((self.source, self.source + self.size),)

    @property
    def writes(self):
        return ((self.target, self.target + self.size),)

    def run(self, memory):
        memory[self.target : self.target + self.size] = memory[
            self.source : self.source + self.size
        ]


@dataclass(frozen=True)
class Multiply(Work):
    """A kernel: c = a @ b, int8 to int32, M × K and K × N."""

    a: int
    b: int
    c: int

    M, N, K = 3, 4, 5
    SIZES = M * K, K * N, 4 * M * N

    @property
    def reads(self):
        return (self.a, self.a + self.M * self.K), (self.b, self.b + self.K * self.N)

    @property
    def writes(self):
        return ((self.c, self.c + 4 * self.M * self.N),)

    def run(self, memory):
        a, b = (
            memory[first:stop].view(np.int8).astype(np.int32).reshape(shape)
            for (first, stop), shape in zip(
                self.reads, ((self.M, self.K), (self.K, self.N)), strict=True
            )
        )
        first, stop = self.writes[0]
        memory[first:stop] = (a @ b).reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class Add(Work):
    """Adds to a counter."""

    counter: int
    amount: int


@dataclass(frozen=True)
class SetTo(Work):
    """Sets a counter."""

    counter: int
    amount: int


@dataclass(frozen=True)
class Take(Work):
    """Waits until a counter is at least an amount, and subtracts it."""

    counter: int
    amount: int


@dataclass(frozen=True)
class Put(Work):
    """Writes a word."""

    word: int
    value: int

    @property
    def writes(self):
        return (word_span(self.word),)

    def run(self, memory):
        first, stop = word_span(self.word)
        memory[first:stop] = np.frombuffer(self.value.to_bytes(8, "little"), np.uint8)


@dataclass(frozen=True)
class Await(Work):
    """Waits until a word compares with a value."""

    word: int
    value: int
    operation: Comparison
    mask: int = 0

    def holds(self, found):
        """Whether it passes when that is in the word."""
        return compares(found, self)


# ---------------------------------------------------------------------------- calls of the host


@dataclass(frozen=True)
class Submit:
    """A task. With `profile` its times are measured."""

    stream: int
    work: Work
    profile: bool = False


@dataclass(frozen=True)
class Record:
    stream: int
    event: int


@dataclass(frozen=True)
class Wait:
    """A stream waits for the latest record of an event."""

    stream: int
    event: int


@dataclass(frozen=True)
class WaitStream:
    """A stream waits for what another one was given so far."""

    stream: int
    other: int


@dataclass(frozen=True)
class Synchronise:
    stream: int


@dataclass(frozen=True)
class SynchroniseEvent:
    event: int


@dataclass(frozen=True)
class Query:
    """Looks at a stream and at an event."""

    stream: int
    event: int


@dataclass(frozen=True)
class Batch:
    """A batch of a stream begins, or ends if one has begun."""

    stream: int


@dataclass(frozen=True)
class Abort:
    stream: int


@dataclass(frozen=True)
class Close:
    """A stream is closed, which waits for it, and made anew."""

    stream: int


@dataclass(frozen=True)
class Destroy:
    """A stream is closed without waiting, and made anew."""

    stream: int


@dataclass(frozen=True)
class Graph:
    """Work and, for each, the places of what must have ended before it begins.

    It runs on at most so many streams. Of a captured one, lanes says which each is in.
    """

    nodes: tuple[tuple[Work, tuple[int, ...]], ...]
    streams: int
    lanes: tuple[int, ...]

    def updated(self, place, work):
        """The same with other work there."""
        nodes = list(self.nodes)
        nodes[place] = work, nodes[place][1]
        return replace(self, nodes=tuple(nodes))


@dataclass(frozen=True)
class Replay:
    """A graph of the program runs when what the first stream was given has ended."""

    streams: tuple[int, ...]
    graph: int


@dataclass(frozen=True)
class Update:
    """A kernel of a graph of the program does other work from its next replay on."""

    graph: int
    node: int
    work: Work


@dataclass(frozen=True)
class Origin:
    """Where numbers begin: so near to where they wrap that a program comes to it."""

    generation: int = 0
    """What every event slot was last recorded as."""
    task: int = 1
    index: int = 0
    """Of the first entry in each ring."""


@dataclass(frozen=True)
class Program:
    """Priority and depth of each stream, whether each event has times, and the calls."""

    origin: Origin

    streams: tuple[tuple[int, int], ...]
    timed: tuple[bool, ...]
    graphs: tuple[Graph, ...]
    calls: tuple[object, ...]
