"""A memory behind an AXI4 port, as a testbench, that checks what the manager does."""

import random
from collections import deque

__all__ = ["AxiMemory"]


class AxiMemory:
    """Answers an AXI4 manager. Add `run` to the simulator as a background testbench.

    Parameters
    ----------
    port: the manager's `axi.Signature`.
    latency: cycles from the address (for writes: from the last beat) to the first answer.
    seed: with one, answers of different IDs come in any order, and every channel stalls at
        random; without, every channel is always ready.
    stall: how often a channel stalls then.

    Attributes
    ----------
    content: bytes by address. errors: response by address of a beat, or for writes of a burst.
    reads, writes: addresses taken, as (cycle, id, address, beats).
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
        self.cycle = 0
        self.paused = False
        self._read, self._write = {}, deque()  # id → beats to answer; bursts to fill
        self._responses = {}
        self._held = {}

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

    def _check_stable(self, name, valid, payload, ready):
        if name in self._held:
            assert valid, f"{name} was retracted"
            assert payload == self._held[name], f"{name} changed while it waited"
        self._held.pop(name, None)
        if valid and not ready:
            self._held[name] = payload

    def _address(self, p):
        assert p.burst.value == 1
        assert 1 << p.size == self.width
        assert p.addr % self.width == 0
        assert p.addr // 4096 == (p.addr + (p.len + 1) * self.width - 1) // 4096
        return p.addr, p.len + 1

    async def run(self, ctx):
        port = self.port
        r, b = None, None
        order = 0
        while True:
            if r is None and (r := self._choose(self._read)):
                key, (_, _, address, last) = r
                ctx.set(port.r.p, {
                    "id": key, "last": last, "resp": self.errors.get(address, 0),
                    "data": int.from_bytes(self.dump(address, self.width), "little"),
                })  # fmt: skip
                ctx.set(port.r.valid, 1)
            if b is None and (b := self._choose(self._responses)):
                key, (_, _, resp) = b
                ctx.set(port.b.p, {"id": key, "resp": resp})
                ctx.set(port.b.valid, 1)
            ar_ready, aw_ready, w_ready = self._go(), self._go(), bool(self._write) and self._go()
            if not self.stall:
                w_ready = True
            if self.paused:
                aw_ready = w_ready = False
            ctx.set(port.ar.ready, ar_ready)
            ctx.set(port.aw.ready, aw_ready)
            ctx.set(port.w.ready, w_ready)
            _, _, ar_valid, ar, aw_valid, aw, w_valid, w, r_taken, b_taken = (
                await ctx.tick().sample(
                    port.ar.valid, port.ar.p, port.aw.valid, port.aw.p,
                    port.w.valid, port.w.p, port.r.ready, port.b.ready,
                )
            )  # fmt: skip
            self._check_stable("AR", ar_valid, ar, ar_ready)
            self._check_stable("AW", aw_valid, aw, aw_ready)
            self._check_stable("W", w_valid, w, w_ready)
            if ar_valid and ar_ready:
                address, beats = self._address(ar)
                self.reads.append((self.cycle, ar.id, address, beats))
                for n in range(beats):
                    order += 1
                    self._read.setdefault(ar.id, deque()).append((
                        self.cycle + self.latency, order, address + n * self.width,
                        n == beats - 1,
                    ))  # fmt: skip
            if w_valid and w_ready:
                assert self._write, "W came before its AW"
                burst = self._write[0]
                key, start, address, beats = burst
                for lane in range(self.width):
                    if w.strb >> lane & 1:
                        self.content[address + lane] = w.data >> lane * 8 & 0xFF
                assert w.last == (beats == 1)
                self._write[0] = (key, start, address + self.width, beats - 1)
                if w.last:
                    self._write.popleft()
                    order += 1
                    self._responses.setdefault(key, deque()).append(
                        (self.cycle + self.latency, order, self.errors.get(start, 0))
                    )
            if aw_valid and aw_ready:
                address, beats = self._address(aw)
                self.writes.append((self.cycle, aw.id, address, beats))
                self._write.append((aw.id, address, address, beats))
            if r is not None and r_taken:
                r = None
                ctx.set(port.r.valid, 0)
            if b is not None and b_taken:
                b = None
                ctx.set(port.b.valid, 0)
            self.cycle += 1
