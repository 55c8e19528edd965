"""Watches an AXI4 port and says which rule is broken."""

from collections import Counter, deque

from amaranth import Cat

from hw.axi import Burst

__all__ = ["CHANNELS", "AxiChecker", "cycles"]

CHANNELS = ("ar", "r", "aw", "w", "b")


async def cycles(ctx, port):
    """What is on a port in each cycle of Amaranth's simulator: (valid, ready, payload) by name."""
    channels = [getattr(port, name) for name in CHANNELS]
    valid, ready = Cat(each.valid for each in channels), Cat(each.ready for each in channels)
    async for _, _, valid_now, ready_now, *payloads in ctx.tick().sample(
        valid, ready, *(each.p for each in channels)
    ):
        yield {
            name: (valid_now >> n & 1, ready_now >> n & 1, payload)
            for n, (name, payload) in enumerate(zip(CHANNELS, payloads, strict=True))
        }


class AxiChecker:
    """Checks both sides of an AXI4 port, cycle by cycle; a broken rule is an AssertionError.

    What is valid stays, unchanged, until taken. Bursts are INCR of whole, aligned beats, at most
    `burst_beats`, and keep to their 4 KiB. WLAST and RLAST end each burst exactly; W may come
    before its AW. An answer comes in a later cycle than what it answers: R after its AR, B after
    its AW and its WLAST; answers of one ID in the order of their bursts.

    Parameters
    ----------
    data_bytes: of a beat. burst_beats: the most that a burst may have.

    Attributes
    ----------
    passed: items that passed, by channel.
    """

    def __init__(self, data_bytes, burst_beats=256):
        self.data_bytes = data_bytes
        self.burst_beats = burst_beats
        self.passed = Counter()
        self._waiting = {}
        self._reads, self._unanswered = {}, Counter()  # by ID: beats of bursts; written bursts
        self._addresses, self._ends = deque(), deque()  # of writes: (ID, beats); WLAST of beats

    def waits(self, channel):
        """Whether an item was offered and not taken in the cycle seen last."""
        return channel in self._waiting

    @property
    def idle(self):
        """Nothing is offered or unanswered."""
        return not (
            self._waiting or self._addresses or self._ends
            or any(self._reads.values()) or self._unanswered.total()
        )  # fmt: skip

    def see(self, **channels):
        """One cycle: (valid, ready, payload) of each channel."""
        for name in CHANNELS:
            self._check_stable(name, *channels[name])
        passed = {name: p for name, (valid, ready, p) in channels.items() if valid and ready}
        offered = {name: p for name, (valid, _, p) in channels.items() if valid}
        self.passed.update(list(passed))
        # Answers first: what is taken in this cycle cannot be answered in it.
        if "r" in offered:
            self._check_read(offered["r"], "r" in passed)
        if "b" in offered:
            key = offered["b"].id
            assert self._unanswered[key], f"B of ID {key} came before its AW and WLAST"
            self._unanswered[key] -= "b" in passed
        for name in ("ar", "aw"):
            if name in offered:
                self._check_burst(name.upper(), offered[name])
        if "ar" in passed:
            self._reads.setdefault(passed["ar"].id, deque()).append(passed["ar"].len + 1)
        if "aw" in passed:
            self._addresses.append((passed["aw"].id, passed["aw"].len + 1))
        if "w" in passed:
            self._ends.append(passed["w"].last)
        self._match()

    def _check_stable(self, name, valid, ready, payload):
        if name in self._waiting:
            assert valid, f"{name.upper()} was retracted"
            assert payload == self._waiting[name], f"{name.upper()} changed while it waited"
        self._waiting.pop(name, None)
        if valid and not ready:
            self._waiting[name] = payload

    def _check_burst(self, name, p):
        count = (p.len + 1) * self.data_bytes
        assert Burst(p.burst) is Burst.INCR, f"{name} is not INCR"
        assert 1 << p.size == self.data_bytes, f"{name} has narrow beats"
        assert p.addr % self.data_bytes == 0, f"{name} is not aligned"
        assert p.len < self.burst_beats, f"{name} has more than {self.burst_beats} beats"
        assert p.addr // 4096 == (p.addr + count - 1) // 4096, f"{name} crosses 4 KiB"

    def _check_read(self, p, taken):
        bursts = self._reads.get(p.id)
        assert bursts, f"R of ID {p.id} came before its AR"
        assert p.last == (bursts[0] == 1), "RLAST is in the wrong place"
        if taken:
            bursts[0] -= 1
            if not bursts[0]:
                bursts.popleft()

    def _match(self):
        """Gives the data that has passed to the addresses that have passed."""
        while self._addresses and self._ends:
            key, beats = self._addresses.popleft()
            last = self._ends.popleft()
            assert last == (beats == 1), "WLAST is in the wrong place"
            if last:
                self._unanswered[key] += 1
            else:
                self._addresses.appendleft((key, beats - 1))
