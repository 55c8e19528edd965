"""Memory behind the ports of a client that aborts: tells when bursts are issued and all is idle."""

from collections import deque

from hw.interface import Status

__all__ = ["DrainingReads", "DrainingWrites"]


class _Port:
    """Parameters as in `tests.models.port`; `failing` maps a burst's address to its status.

    A request accepted in cycle t is issued in t + 1. After an abort what is in flight is
    swallowed, which takes `drain` cycles; only then is the port idle.
    """

    def __init__(self, port, config, memory, *, latency=2, drain=5, rng=None):
        self.port = port
        self.width = config.data_bytes
        self.burst = config.burst_bytes
        self.memory = memory
        self.latency = latency
        self.drain = drain
        self.rng = rng
        self.failing = {}
        self.requests = []
        self.answers = deque()
        self.cycle = 0
        self.draining = 0

    def stalls(self):
        return self.rng is not None and self.rng.random() < 0.25

    def check(self, request):
        end = request.address + request.bytes - 1
        assert request.bytes
        assert request.address // self.burst == end // self.burst

    def pieces(self, request):
        """(address, bytes) of each beat of a burst."""
        address, end = request.address, request.address + request.bytes
        while address < end:
            count = min(end, (address // self.width + 1) * self.width) - address
            yield address, count
            address += count

    def settle(self, ctx, asked, request, abort):
        """What both directions do at the end of a cycle; whether the request was accepted."""
        accepted = asked and not abort
        if accepted:
            self.check(request)
            self.requests.append((self.cycle, request))
        ctx.set(self.port.issued, accepted)
        if abort:
            self.draining = self.drain if self.in_flight else 0
            self.clear()
        elif self.draining:
            self.draining -= 1
        self.cycle += 1
        return accepted


class DrainingReads(_Port):
    @property
    def in_flight(self):
        return bool(self.answers)

    def clear(self):
        self.answers.clear()

    async def serve(self, ctx):
        port = self.port
        ctx.set(port.idle, 1)
        ctx.set(port.requests.ready, 1)
        async for _, _, asked, request, taken, abort in ctx.tick().sample(
            port.requests.valid & port.requests.ready, port.requests.p,
            port.beats.valid & port.beats.ready, port.abort,
        ):  # fmt: skip
            offered = ctx.get(port.beats.valid)
            if taken:
                self.answers.popleft()
                offered = False
            if self.settle(ctx, asked, request, abort):
                pieces = list(self.pieces(request))
                status = self.failing.get(request.address, Status.OKAY)
                due = self.cycle + self.latency - 1
                self.answers.extend((due, *p, p == pieces[-1], status) for p in pieces)
            ctx.set(port.idle, not self.answers and not self.draining)
            ctx.set(port.requests.ready, not self.draining and not self.stalls())
            head = self.answers[0] if self.answers else None
            offers = head is not None and head[0] <= self.cycle and (offered or not self.stalls())
            ctx.set(port.beats.valid, offers)
            if offers:
                _, address, count, last, status = head
                base = address // self.width * self.width
                ctx.set(port.beats.p, {
                    "data": int.from_bytes(self.memory[base : base + self.width], "little"),
                    "offset": address - base, "count": count, "last": last,
                    "status": status, "address": address,
                })  # fmt: skip


class DrainingWrites(_Port):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.owed = deque()
        self.responded = []

    @property
    def in_flight(self):
        return bool(self.answers or self.owed)

    def clear(self):
        self.answers.clear()
        self.owed.clear()

    async def serve(self, ctx):
        port = self.port
        ctx.set(port.idle, 1)
        ctx.set(port.requests.ready, 1)
        ctx.set(port.data.ready, 1)
        async for _, _, asked, request, sent, beat, abort in ctx.tick().sample(
            port.requests.valid & port.requests.ready, port.requests.p,
            port.data.valid & port.data.ready, port.data.p, port.abort,
        ):  # fmt: skip
            if ctx.get(port.responses.valid) and self.answers:
                self.responded.append(self.cycle)
                self.answers.popleft()
            if self.settle(ctx, asked, request, abort):
                pieces = list(self.pieces(request))
                self.owed.extend((*p, request.address, p == pieces[-1]) for p in pieces)
            if sent and not abort:
                address, count, burst, last = self.owed.popleft()
                lane = address % self.width
                assert beat.strobe == ((1 << count) - 1) << lane
                status = self.failing.get(burst, Status.OKAY)
                if status is Status.OKAY:
                    content = beat.data.to_bytes(self.width, "little")[lane : lane + count]
                    self.memory[address : address + count] = content
                if last:
                    self.answers.append((self.cycle + self.latency - 1, burst, status))
            ctx.set(port.idle, not self.in_flight and not self.draining)
            ctx.set(port.requests.ready, not self.draining and not self.stalls())
            ctx.set(port.data.ready, not self.draining and not self.stalls())
            offers = bool(self.answers) and self.answers[0][0] <= self.cycle and not self.stalls()
            ctx.set(port.responses.valid, offers)
            if offers:
                ctx.set(port.responses.p, {
                    "address": self.answers[0][1], "status": self.answers[0][2]
                })  # fmt: skip
