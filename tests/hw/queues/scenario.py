"""Random work for the submission queues, and what they must make of it."""

import random
import zlib
from collections import deque
from dataclasses import dataclass, field

from hw.interface import Status
from hw.queues.queue import SubmissionQueues
from hw.regs.descriptor import CopyPayload, EventWord, Sqe, TaskType, seal
from hw.regs.fault import FaultCause
from tests.hw.queues.driver import (
    ARGS,
    ELSEWHERE,
    LISTED,
    LISTS,
    RING,
    SIZE,
    call,
    kernel,
)
from tests.models.decode import cause_of, relocated
from tests.models.port import ReadMemory

__all__ = ["Scenario"]

LIST_AREAS, LIST_BYTES, LIST_ARGS = 16, 0x800, 0x400
CAUSES = {
    Status.DENIED: FaultCause.ACCESS_VIOLATION,
    Status.SLVERR: FaultCause.BUS_SLAVE_ERROR,
    Status.DECERR: FaultCause.BUS_DECODE_ERROR,
}


@dataclass
class Expected:
    """A head. `entries`: those of its list, until it has been entered."""

    sqe: int
    cause: int
    slot: int
    address: int
    block: bytes | None
    listed: bool
    entries: list = field(default_factory=list)
    returned: bool = False


@dataclass
class Ring:
    """The driver's and the scheduler's side of one stream, with what it expects to see."""

    number: int
    size: int
    args: bool
    tail: int = 0
    head: int = 0
    expected: deque = field(default_factory=deque)
    inside: deque | None = None
    left: int = 0
    """Entries of the list that have not retired."""
    retired: int = 0
    running: deque = field(default_factory=deque)
    """Whether each task that was taken is one of a list."""
    lookups: int = 0
    area: int = 0
    active: bool = False
    flushing: bool = False
    flush_cycles: int = 0

    @property
    def base(self):
        return RING + self.number * 0x1000

    @property
    def args_base(self):
        return ARGS + self.number * 0x2000 if self.args else 0


class Scenario:
    """Random work for every stream, one cycle after the other."""

    def __init__(self, config, seed, cycles, index_bits=32):
        self.config = config
        self.modulus = 1 << index_bits
        self.rng = random.Random(seed)
        self.cycles = cycles
        self.dut = SubmissionQueues(config)
        self.memory = ReadMemory(self.dut.memory, config, SIZE, latency=6, rng=self.rng)
        self.rings = [Ring(i, self.rng.randrange(1, 4), i % 3 != 1) for i in range(config.streams)]
        self.elsewhere = 0
        self.seen = set()
        self.tasks = self.listed = self.returns = self.flushes_inside = 0
        self.flush_odds = 0.001

    def spoil(self, address, count):
        """Makes one beat of a part fail; returns its address and the cause."""
        unit = min(self.config.data_bytes, 64)
        bad = address + self.rng.randrange(count // unit) * unit
        status = self.rng.choice(list(CAUSES))
        self.memory.failing[bad] = status
        return bad, CAUSES[status]

    def heal(self, address, count):
        for at in range(address, address + count, 8):
            self.memory.failing.pop(at, None)

    def submit(self, ring):
        """Writes the next entry of a ring and notes what the device must make of it."""
        size = 1 << ring.size
        default = ring.args_base + ring.tail % size * 128 if ring.args else None
        slot = ring.tail % self.config.staging
        ring.expected.append(self.entry(ring, ring.base + ring.tail % size * 64, default, slot))
        ring.tail += 1

    def entry(self, ring, address, default, slot, *, listed=False, epoch=0):
        """Writes an entry, its argument block and its list; returns the head that it must be."""
        rng = self.rng
        self.heal(address, 64)
        kind = rng.choice(["nop", "copy", "kernel", "kernel", "far", "damaged", "bad", "misuse",
                           "relative", *["call"] * (1 if listed else 6)])  # fmt: skip
        common = dict(task_id=rng.getrandbits(64), timeout=rng.getrandbits(32))
        if listed and rng.random() < 0.5 or kind == "relative":
            deps = [self.event() for _ in range(rng.randrange(5))]
            common.update(relative=1, dependencies=len(deps), event_deps=deps)
            if rng.random() < 0.5:
                common.update(record=1, record_event=self.event())
        block, entries = None, []
        if kind in ("kernel", "far"):
            if kind == "kernel" and default is not None:
                source = default
            else:
                self.elsewhere = (self.elsewhere + 192) % (LISTS - ELSEWHERE - 256)
                source = ELSEWHERE + self.elsewhere
            block = rng.randbytes(128)
            sqe = kernel(source, **common)
        elif kind == "copy":
            payload = CopyPayload(source=rng.getrandbits(40), row_bytes=5, rows=2).to_int()
            sqe = seal(Sqe(type=TaskType.MEMCPY, payload=payload, **common))
        elif kind == "misuse":
            word = EventWord(slot=self.config.events, generation=1).to_int()
            sqe = seal(Sqe(**{**common, "record": 1, "record_event": word}))
        elif kind == "bad":
            sqe = seal(Sqe(type=rng.choice([TaskType.BARRIER, TaskType.KERNEL]), **common))
        elif kind == "call" and not listed:
            sqe, entries = self.list(ring, common)
        elif kind == "call":
            sqe = call(LISTS, 1, **common)
        else:
            sqe = seal(Sqe(**common))
        content = sqe.to_bytes()
        if kind == "damaged":
            bit = rng.randrange(512)
            content = (sqe.to_int() ^ (1 << bit)).to_bytes(64, "little")
        sqe = Sqe.from_bytes(content)
        good = zlib.crc32(content[:36] + bytes(4) + content[40:]) == sqe.crc
        cause = cause_of(sqe, self.config, listed=listed) if good else FaultCause.CHECKSUM
        where = address
        self.memory.put(address, content)
        if default is not None:
            self.heal(default, 128)
            self.memory.put(default, rng.randbytes(128))
            if rng.random() < 0.1 and (block is None or source != default):
                self.spoil(default, 128)
        if block is not None:
            self.heal(source, 128)
            self.memory.put(source, block)
        if rng.random() < 0.1:
            where, cause = self.spoil(address, 64)
        elif block is not None and rng.random() < 0.15:
            # A bad entry has nothing fetched for it from another place.
            bad, denied = self.spoil(source, 128)
            if cause == FaultCause.NONE:
                where, cause = bad, denied
        if cause != FaultCause.NONE:
            block, entries = None, []
        elif listed:
            sqe = relocated(sqe, epoch)
        self.seen.add(cause)
        return Expected(sqe.to_int(), cause, slot, where, block, listed, entries)

    def event(self):
        slot, generation = self.rng.randrange(self.config.events), self.rng.getrandbits(20)
        return EventWord(slot=slot, generation=generation).to_int()

    def list(self, ring, common):
        """Writes a list; returns its CALL and its entries."""
        base = LISTS + (ring.number * LIST_AREAS + ring.area) * LIST_BYTES
        ring.area = (ring.area + 1) % LIST_AREAS
        args = base + LIST_ARGS if self.rng.random() < 0.7 else 0
        epoch = self.rng.getrandbits(32)
        entries = [
            self.entry(
                ring, base + i * 64, args + i * 128 if args else None,
                LISTED | i % self.config.staging, listed=True, epoch=epoch,
            )
            for i in range(self.rng.choice([1, 1, 2, 3, 7]))
        ]  # fmt: skip
        return call(base, len(entries), args_address=args, epoch=epoch, **common), entries

    async def bench(self, ctx):
        for ring, port in zip(self.rings, self.dut.rings, strict=True):
            ctx.set(port.size, ring.size)
        lookups = deque()
        answer = None
        for _ in range(self.cycles):
            retire = 0
            for i, ring in enumerate(self.rings):
                retire |= self.stream_cycle(ctx, i, ring, lookups) << i
            ctx.set(self.dut.retire, retire)
            port = self.dut.arguments[0]
            asked = lookups.popleft() if lookups else None
            if asked:
                ring, slot, word, _ = asked
                ctx.set(port.stream, ring.number)
                ctx.set(port.slot, slot)
                ctx.set(port.word, word)
            await ctx.tick()
            if answer:
                ring, _, word, block = answer
                ring.lookups -= word == 15
            answer = asked
            if answer:
                _, _, word, block = answer
                wanted = int.from_bytes(block[word * 8 : word * 8 + 8], "little")
                assert ctx.get(port.data) == wanted

    def stream_cycle(self, ctx, i, ring, lookups):
        """Sets the inputs of one stream for this cycle; returns whether a task retires."""
        rng, port, head = self.rng, self.dut.rings[i], self.dut.heads[i]
        for pulse in (port.rung, port.start, port.enter, head.ready):
            ctx.set(pulse, 0)
        assert ctx.get(port.tail) == ring.tail % self.modulus
        if ring.flushing:
            self.flush_cycle(ctx, port, ring)
            return 0
        assert ctx.get(port.head) == ring.head % self.modulus
        assert ctx.get(port.empty) == (ring.head == ring.tail)
        assert ctx.get(port.called) == (ring.inside is not None)
        assert ctx.get(port.entry) == (ring.retired if ring.inside is not None else 0)
        if not ring.active:
            # Where the ring lies counts in the cycle of the start alone.
            if rng.random() < 0.1:
                ctx.set(port.start, 1)
                ctx.set(port.base, ring.base + 63)
                ctx.set(port.args_base, ring.args_base)
                ring.active = True
                ring.tail = ring.head = 0
            return 0
        ctx.set(port.active, 1)
        ctx.set(port.base, 0x15_5555_5540)
        ctx.set(port.args_base, 0x2A_AAAA_AA80)
        inside = ring.inside is not None
        if rng.random() < self.flush_odds * (1 + inside) and not ring.running:
            self.flushes_inside += inside
            ctx.set(port.flush, 1)
            ctx.set(port.active, 0)
            ring.active, ring.flushing = False, True
            return 0
        if rng.random() < 0.05:
            self.ring_doorbell(ctx, i, ring)
        retires = bool(ring.running) and not ring.lookups and rng.random() < 0.3
        self.head_cycle(ctx, port, head, ring, lookups)
        if retires:
            self.retire(ring)
        return retires

    def flush_cycle(self, ctx, port, ring):
        ring.flush_cycles += 1
        assert ring.flush_cycles < 1000
        if ctx.get(port.flushed):
            ring.flushing, ring.flush_cycles = False, 0
            ring.expected.clear()
            ring.inside = None
            ring.head = ring.tail
            ctx.set(port.flush, 0)
            assert ctx.get(port.head) == ring.tail % self.modulus
            assert not ctx.get(port.called)

    def ring_doorbell(self, ctx, i, ring):
        rng, port = self.rng, self.dut.rings[i]
        room = ring.head + (1 << ring.size) - ring.tail
        ctx.set(port.rung, 1)
        if rng.random() < 0.2:
            wrong = rng.choice([ring.head + (1 << ring.size) + 1, ring.head - 1, ring.tail - 1])
            ctx.set(port.doorbell, wrong % self.modulus)
            assert ctx.get(self.dut.overrun) >> i & 1
        else:
            for _ in range(rng.randrange(room + 1)):
                self.submit(ring)
            ctx.set(port.doorbell, ring.tail % self.modulus)
            assert not ctx.get(self.dut.overrun) >> i & 1

    def head_cycle(self, ctx, port, head, ring, lookups):
        """Looks at the head, and takes it or enters its list."""
        due = ring.expected if ring.inside is None else ring.inside
        if not ctx.get(head.valid):
            assert not (due and due[0].returned)
            return
        expected = due[0]
        self.check_head(ctx.get(head.p), expected)
        if self.rng.random() < 0.7:
            return
        if expected.entries:
            ctx.set(port.enter, 1)
            ring.inside, expected.entries = deque(expected.entries), []
            ring.left, ring.retired = len(ring.inside), 0
            return
        ctx.set(head.ready, 1)
        self.tasks += 1
        self.listed += expected.listed
        self.returns += expected.returned
        ring.running.append(expected.listed)
        due.popleft()
        if expected.block:
            ring.lookups += 1
            lookups.extend((ring, expected.slot, w, expected.block) for w in range(16))

    def retire(self, ring):
        if not ring.running.popleft():
            ring.head += 1
            return
        ring.left -= 1
        ring.retired += 1
        if not ring.left:
            ring.inside = None
            ring.expected[0].returned = True

    def check_head(self, shown, expected):
        if expected.cause == FaultCause.NONE:
            assert shown.sqe.as_bits() == expected.sqe
        elif expected.cause not in CAUSES.values():
            assert shown.sqe.task_id == Sqe.task_id.unpack(expected.sqe >> Sqe.task_id.offset)
        assert FaultCause(shown.cause) == expected.cause
        assert shown.slot == expected.slot
        assert shown.address == expected.address
        assert shown.listed == expected.listed
        assert shown.returned == expected.returned
