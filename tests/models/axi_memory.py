"""A memory behind an AXI4 port, as a testbench, that checks what the manager does."""

import enum
import random
from collections import deque

from .axi_checker import AxiChecker, cycles

__all__ = ["AxiMemory", "Order"]

PATIENCE = 500
"""Cycles in which the data of an address that waits has to come."""


class Order(enum.Enum):
    """When a subordinate takes address and data of a write burst; AXI4 allows each."""

    FREE = "each as it comes"
    ADDRESS_FIRST = "the data after its address"
    DATA_OFFERED = "the address once its data is offered, the data after it"
    DATA_FIRST = "the address after the last beat of its data"


class AxiMemory:
    """Answers an AXI4 manager. Add `run` to the simulator as a background testbench.

    Parameters
    ----------
    port: the manager's `axi.Signature`.
    latency: cycles from the address (for writes: from the later one of address and last beat) to
        the first answer.
    seed: with one, answers of different IDs come in any order, every channel stalls at random,
        and the `Order` of each write burst is drawn; without, every channel is always ready.
    stall: how often a channel stalls then.

    Attributes
    ----------
    content: bytes by address. errors: response by address of a beat, or for writes of a burst.
    reads, writes: addresses taken, as (cycle, id, address, beats).
    orders: what the `Order` of the bursts to come is drawn from.
    checker: the `AxiChecker` that sees every cycle.
    paused: no write address or data is taken.
    """

    def __init__(self, port, *, latency=1, seed=None, stall=0.3):
        self.port = port
        self.latency = latency
        self.rng = random.Random(seed)
        self.stall = 0.0 if seed is None else stall
        self.width = port.w.p.data.shape().width // 8
        self.content = {}
        self.errors = {}
        self.reads, self.writes = [], []
        self.orders = (Order.FREE,) if seed is None else tuple(Order)
        self.checker = AxiChecker(self.width)
        self.cycle = 0
        self.paused = False
        self._read, self._responses = {}, {}  # id → beats to answer, bursts to answer
        self._answers = {"r": None, "b": None}  # what is offered
        self._addressed, self._sent = deque(), deque()  # bursts without data, beats without address
        self._bursts_sent = 0
        self._drawn = []
        self._moved = 0

    def load(self, address, text):
        self.content.update(enumerate(text, address))

    def dump(self, address, count):
        return bytes(self.content.get(address + n, 0) for n in range(count))

    def _go(self):
        return self.rng.random() >= self.stall

    def _choose(self, queues):
        due = [key for key, queue in queues.items() if queue and queue[0][0] <= self.cycle]
        if not due or not self._go():
            return None
        key = self.rng.choice(due) if self.stall else min(due, key=lambda k: queues[k][0][1])
        return key, queues[key].popleft()

    def _order(self, number):
        """The `Order` of a write burst."""
        while len(self._drawn) <= number:
            self._drawn.append(self.rng.choice(self.orders))
        return self._drawn[number]

    def _takes_address(self):
        number = len(self.writes)
        match self._order(number):
            case Order.DATA_FIRST:
                return self._bursts_sent > number
            case Order.DATA_OFFERED:
                return self._bursts_sent == number and self.checker.waits("w")
        return True

    def _takes_data(self):
        unordered = self._order(self._bursts_sent) in (Order.FREE, Order.DATA_FIRST)
        return unordered or len(self.writes) > self._bursts_sent

    def _read_burst(self, p):
        self.reads.append((self.cycle, p.id, p.addr, p.len + 1))
        for n in range(p.len + 1):
            self._read.setdefault(p.id, deque()).append((
                self.cycle + self.latency, len(self.reads), p.addr + n * self.width, n == p.len,
            ))  # fmt: skip

    def _write_beats(self):
        """Writes the beats whose address is known, and answers the bursts that are whole."""
        while self._addressed and self._sent:
            key, start, address = self._addressed[0]
            beat = self._sent.popleft()
            for lane in range(self.width):
                if beat.strb >> lane & 1:
                    self.content[address + lane] = beat.data >> lane * 8 & 0xFF
            self._addressed[0] = (key, start, address + self.width)
            if beat.last:
                self._addressed.popleft()
                self._responses.setdefault(key, deque()).append(
                    (self.cycle + self.latency, self.cycle, self.errors.get(start, 0))
                )

    def _check_data_comes(self, moves):
        """A manager may not wait for its address to be taken before it offers the data."""
        if moves or self.paused or not self.checker.waits("aw"):
            self._moved = self.cycle
        waited = self.cycle - self._moved
        assert waited < PATIENCE, f"AW waits for its data since {waited} cycles"

    def _offer(self, ctx, passed):
        """What the memory shows in the next cycle; `passed` by channel in this one."""
        port = self.port
        for channel in ("r", "b"):
            if channel in passed:
                self._answers[channel] = None
                ctx.set(getattr(port, channel).valid, 0)
        if self._answers["r"] is None and (answer := self._choose(self._read)):
            self._answers["r"] = key, (_, _, address, last) = answer
            ctx.set(port.r.p, {
                "id": key, "last": last, "resp": self.errors.get(address, 0),
                "data": int.from_bytes(self.dump(address, self.width), "little"),
            })  # fmt: skip
            ctx.set(port.r.valid, 1)
        if self._answers["b"] is None and (answer := self._choose(self._responses)):
            self._answers["b"] = key, (_, _, resp) = answer
            ctx.set(port.b.p, {"id": key, "resp": resp})
            ctx.set(port.b.valid, 1)
        ctx.set(port.ar.ready, self._go())
        ctx.set(port.aw.ready, not self.paused and self._takes_address() and self._go())
        ctx.set(port.w.ready, not self.paused and self._takes_data() and self._go())

    async def run(self, ctx):
        self._offer(ctx, {})
        async for seen in cycles(ctx, self.port):
            self.checker.see(**seen)
            passed = {name: p for name, (valid, ready, p) in seen.items() if valid and ready}
            if "ar" in passed:
                self._read_burst(passed["ar"])
            if "w" in passed:
                self._sent.append(passed["w"])
                self._bursts_sent += passed["w"].last
            if "aw" in passed:
                p = passed["aw"]
                self.writes.append((self.cycle, p.id, p.addr, p.len + 1))
                self._addressed.append((p.id, p.addr, p.addr))
            self._write_beats()
            self._check_data_comes("aw" in passed or "w" in passed)
            self.cycle += 1
            self._offer(ctx, passed)
