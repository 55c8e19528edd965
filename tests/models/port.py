"""Memory behind a `ReadPort` or a `WritePort`, with any latency, stalls and failing places."""

from collections import deque

from hw.interface import Status

__all__ = ["ReadMemory", "WriteMemory"]


class PortMemory:
    """What both directions share.

    Parameters
    ----------
    port: the client's port.
    config: sizes, for the bursts that a client may ask for.
    size: bytes from address 0 on.
    latency: cycles from an accepted request, or for writes the last beat, to the answer.
    rng: gives random stalls and latencies if there is one.
    """

    def __init__(self, port, config, size, *, latency=1, rng=None):
        self.port = port
        self.config = config
        self.data = bytearray(size)
        self.latency = latency
        self.rng = rng
        self.failing = {}
        self.requests = []
        self.waiting = None
        self.cycle = 0

    def accept(self, asked, ready, request):
        """Notes a request that was taken; one that waits must not change."""
        assert self.waiting is None or (asked and request == self.waiting)
        self.waiting = request if asked and not ready else None
        if asked and ready:
            self.requests.append((self.cycle, request))
        return asked and ready

    def stalls(self):
        return self.rng is not None and self.rng.random() < 0.25

    def delay(self):
        return self.latency if self.rng is None else self.rng.randrange(1, 2 * self.latency + 1)

    def beats_of(self, request):
        """(address, bytes) of each beat of a burst."""
        address, end = request.address, request.address + request.bytes
        burst, width = self.config.burst_bytes, self.config.data_bytes
        assert request.bytes > 0
        assert address // burst == (end - 1) // burst
        while address < end:
            count = min(end, (address // width + 1) * width) - address
            yield address, count
            address += count

    def put(self, address, content):
        self.data[address : address + len(content)] = content

    def get(self, address, count):
        return bytes(self.data[address : address + count])


class ReadMemory(PortMemory):
    """Answers reads. `failing` maps the first address of a beat to its status."""

    async def serve(self, ctx):
        port, width = self.port, self.config.data_bytes
        answers = deque()
        offered = False
        ctx.set(port.requests.ready, not self.stalls())
        async for _, _, asked, ready, request, taken in ctx.tick().sample(
            port.requests.valid, port.requests.ready, port.requests.p, port.beats.ready
        ):
            if self.accept(asked, ready, request):
                due = self.cycle + self.delay()
                beats = list(self.beats_of(request))
                answers.extend((due, *beat, beat == beats[-1]) for beat in beats)
            if offered and taken:
                answers.popleft()
                offered = False
            self.cycle += 1
            ctx.set(port.requests.ready, not self.stalls())
            if not offered:
                offered = bool(answers) and answers[0][0] <= self.cycle and not self.stalls()
                ctx.set(port.beats.valid, offered)
                if offered:
                    _, address, count, last = answers[0]
                    base = address // width * width
                    ctx.set(port.beats.p, {
                        "data": int.from_bytes(self.get(base, width), "little"),
                        "offset": address - base, "count": count, "last": last,
                        "status": self.failing.get(address, Status.OKAY), "address": address,
                    })  # fmt: skip


class WriteMemory(PortMemory):
    """Takes writes. `failing` maps the address of a request to its status.

    `bursts` lists (request, data, status) of each burst whose last beat has come.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bursts = []

    def status_of(self, address):
        return self.failing.get(address, Status.OKAY)

    async def serve(self, ctx):
        port, width = self.port, self.config.data_bytes
        owed, answers = deque(), deque()
        offered = False
        ctx.set(port.requests.ready, not self.stalls())
        ctx.set(port.data.ready, not self.stalls())
        async for _, _, asked, ready, request, sent, room, beat, taken in ctx.tick().sample(
            port.requests.valid, port.requests.ready, port.requests.p,
            port.data.valid, port.data.ready, port.data.p, port.responses.ready,
        ):  # fmt: skip
            if sent and room:
                assert owed, "data before its request was accepted"
                burst, beats, content = owed[0]
                address, count = beats.popleft()
                lane = address % width
                assert beat.strobe == ((1 << count) - 1) << lane
                content += beat.data.to_bytes(width, "little")[lane : lane + count]
                if not beats:
                    owed.popleft()
                    status = self.status_of(burst.address)
                    if status == Status.OKAY:
                        self.put(burst.address, content)
                    self.bursts.append((burst, bytes(content), status))
                    answers.append((self.cycle + self.delay(), burst.address, status))
            if self.accept(asked, ready, request):
                owed.append((request, deque(self.beats_of(request)), bytearray()))
            if offered:
                assert taken
                answers.popleft()
            self.cycle += 1
            ctx.set(port.requests.ready, not self.stalls())
            ctx.set(port.data.ready, not self.stalls())
            offered = bool(answers) and answers[0][0] <= self.cycle and not self.stalls()
            ctx.set(port.responses.valid, offered)
            if offered:
                _, address, status = answers[0]
                ctx.set(port.responses.p, {"status": status, "address": address})
