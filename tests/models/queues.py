"""Golden model of submission queues: rings, the lists that their CALLs run, and their entries."""

import zlib
from dataclasses import dataclass

from hw.regs.descriptor import CallPayload, Sqe
from hw.regs.fault import FaultCause
from hw.regs.registers import RingBase, StreamConfig, StreamState
from tests.models.decode import cause_of, relocated
from tests.models.memory import Fault

INDEXES = 1 << 32
CRC_MASK = ((1 << Sqe.crc.width) - 1) << Sqe.crc.offset


@dataclass
class Call:
    """The list of a CALL, from when that was entered to its retirement."""

    sqe: Sqe
    entry: int = 0
    """Entries of it that have retired."""

    @property
    def payload(self):
        return CallPayload.from_int(self.sqe.payload)

    @property
    def runs(self):
        return self.entry < self.payload.entries


@dataclass
class Stream:
    """State of one stream: its ring, its head, and the task that is on an engine."""

    number: int
    state: StreamState = StreamState.DISABLED
    head: int = 0
    tail: int = 0
    cause: int = 0
    running: object = None
    settings: StreamConfig | None = None
    base: int = 0
    """Both as they were at the start."""
    call: Call | None = None
    since: int | None = None
    """Cycle from which on its head's own timeout counts."""
    deadline: int | None = None
    """Cycle in which the head, which waits, gives up."""
    asks_host: bool = False
    """Its head waits for a function of the host, and has said so."""
    host_failed: bool | None = None
    """What the host has returned for the head."""

    @property
    def pending(self):
        return self.head != self.tail

    @property
    def waits(self):
        """It may start its head as soon as that is ready."""
        return self.state is StreamState.ACTIVE and self.running is None and self.pending

    @property
    def lists(self):
        """A list runs."""
        return self.call is not None and self.call.runs

    def change_head(self):
        """Forgets what concerned the former head."""
        self.since = self.deadline = self.host_failed = None
        self.asks_host = False

    def pop(self):
        """The oldest task has retired."""
        if self.lists:
            self.call.entry += 1
        else:
            self.head, self.call = (self.head + 1) % INDEXES, None
        self.change_head()

    def drop(self):
        """Nothing is pending any more."""
        self.state, self.head, self.call = StreamState.DISABLED, self.tail, None
        self.change_head()


class Queues:
    """The entries of the streams of `config`. get: a register that was written."""

    def __init__(self, config, get, memory):
        self.config, self.get, self.memory = config, get, memory
        self.streams = [Stream(n) for n in range(config.streams)]

    def settings(self, stream):
        if stream.state is StreamState.DISABLED:
            return self.get(StreamConfig, stream.number)
        return stream.settings

    def start(self, stream):
        settings = self.settings(stream)
        if settings.context < self.config.contexts and 1 <= settings.size <= 12:
            stream.state, stream.head, stream.tail, stream.cause = StreamState.ACTIVE, 0, 0, 0
            stream.settings = settings
            stream.base = self.get(RingBase, stream.number).address
        else:
            stream.cause = FaultCause.ILLEGAL_DESCRIPTOR

    def place(self, stream):
        """Address of the entry at the head, or None when there is none."""
        if not stream.pending:
            return None
        if stream.lists:
            return stream.call.payload.list_address + stream.call.entry * Sqe.BYTES
        index = stream.head % (1 << self.settings(stream).size)
        return stream.base + index * Sqe.BYTES

    def peek(self, stream):
        """The next entry, however bad, or None."""
        if not stream.pending:
            return None
        sqe, _ = self.fetch(stream)
        return sqe

    def fetch(self, stream):
        """The next entry, None if it cannot be read, and what is wrong with it."""
        address, context = self.place(stream), self.settings(stream).context
        if stream.call and not stream.lists:
            return stream.call.sqe, None
        try:
            sqe = Sqe.from_bytes(self.memory.load(context, address, Sqe.BYTES))
        except Fault as fault:
            return None, fault
        if sqe.crc != zlib.crc32(Sqe.from_int(sqe.to_int() & ~CRC_MASK).to_bytes()):
            return sqe, Fault(FaultCause.CHECKSUM, address)
        cause = cause_of(sqe, self.config, listed=stream.lists)
        if cause:
            return sqe, Fault(cause, address)
        return relocated(sqe, stream.call.payload.epoch if stream.lists else 0), None

    def oldest(self, stream):
        """Number of the oldest task that has not retired; of a list that of its CALL.

        None if it is not known, as its entry is bad.
        """
        if stream.call:
            return stream.call.sqe.task_id
        if stream.running:
            return stream.running.sqe.task_id
        sqe, bad = self.fetch(stream)
        return sqe.task_id if bad is None else None
