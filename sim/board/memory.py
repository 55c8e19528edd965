"""AXI4 memory with the timing of a real one: latency, bandwidth, stalls and injected errors."""

from amaranth import Assert, Module, Mux, Signal
from amaranth.lib import data, fifo, wiring
from amaranth.lib.wiring import In

from hw.axi import Burst, Response, Signature
from hw.config import ADDRESS_BITS

from .storage import Storage

__all__ = ["Injection", "Region", "Timing"]


class Injection(data.Struct):
    """Beats with an address in `first` … `last` are answered with `response` while enabled."""

    enable: 1
    response: Response
    first: ADDRESS_BITS
    last: ADDRESS_BITS


class Timing:
    """Timing of a region, in cycles.

    Parameters
    ----------
    latency: from an address taken to its first beat of data, and from the last beat of write data
        taken to the response, while nothing else is in the way; at least 2.
    interval: cycles from one beat to the next, in each direction; 1 is full bandwidth.
    stall: out of 256, how often a handshake is held back for a cycle; 0 builds no generator.
    seed: of the stalls.
    """

    def __init__(self, latency, interval=1, stall=0, seed=1):
        assert latency >= 2
        assert interval >= 1
        assert 0 <= stall < 256
        self.latency = latency
        self.interval = interval
        self.stall = stall
        self.seed = seed


class Region(wiring.Component):
    """A memory of `size` bytes from `base` on behind AXI4.

    Reads and writes go on in parallel, each in order. A burst that starts outside is answered
    with DECERR. Beats that are answered with an error are not written.

    An address taken in cycle t gives its first beat in cycle t + latency, or right after the
    burst before; a write is answered `latency` cycles after its last beat was taken. Beats of
    write data are taken from the cycle after their address on. With stalls the response may come
    up to 7 cycles later, and everything else by chance.

    Parameters
    ----------
    base: address of the first byte, a multiple of the power of two above `size`.
    size: bytes; a multiple of 4096.
    timing: `Timing`.
    data_bytes, id_bits: of the bus.
    outstanding: bursts in flight in each direction.

    Members
    -------
    bus: AXI4, INCR bursts of whole beats that keep the 4 KiB rule (asserted).
    read_error, write_error: `Injection`.
    """

    def __init__(self, base, size, timing, *, data_bytes, id_bits, outstanding=32):
        assert size % 4096 == 0
        assert base % (1 << (size - 1).bit_length()) == 0
        self.base = base
        self.size = size
        self.timing = timing
        self.data_bytes = data_bytes
        self.id_bits = id_bits
        self.outstanding = outstanding
        self.storage = Storage(size, data_bytes)
        self.shift = (data_bytes - 1).bit_length()
        super().__init__({
            "bus": In(Signature(data_bytes=data_bytes, id_bits=id_bits)),
            "read_error": In(Injection),
            "write_error": In(Injection),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = self.storage
        # Time stands still while nothing is in flight: a simulator then has nothing to do here.
        now = Signal(32)
        busy = Signal()
        chance = self._chance(m)
        reading = self._reads(m, now, chance)
        writing = self._writes(m, now, chance)
        m.d.comb += busy.eq(self.bus.ar.valid | self.bus.aw.valid | reading | writing)
        with m.If(busy):
            m.d.sync += now.eq(now + 1)
        for channel in (self.bus.ar, self.bus.aw):
            with m.If(channel.valid):
                m.d.sync += [
                    Assert(channel.p.burst == Burst.INCR, "only INCR bursts"),
                    Assert(channel.p.size == self.shift, "only whole beats"),
                    Assert(
                        (channel.p.addr[self.shift : 12] + channel.p.len) < (4096 >> self.shift),
                        "a burst crosses 4 KiB",
                    ),
                ]
        return m

    def _chance(self, m):
        """Bits that are set when a handshake is held back, and a random number up to 7."""
        if not self.timing.stall:
            return {"ar": 0, "r": 0, "aw": 0, "w": 0, "b": 0}
        lfsr = Signal(43, init=(self.timing.seed * 0x9E3779B97F4A7C15) & ((1 << 43) - 1) | 1)
        # x^43 + x^42 + x^38 + x^37 + 1, several steps a cycle so that the slices look unrelated
        state = lfsr
        for _ in range(11):
            bit = state[42] ^ state[41] ^ state[37] ^ state[36]
            following = Signal(43)
            m.d.comb += following.eq((state << 1) | bit)
            state = following
        m.d.sync += lfsr.eq(state)
        slices = {name: lfsr[8 * i : 8 * i + 8] for i, name in enumerate(("ar", "r", "aw", "w"))}
        held = {name: value < self.timing.stall for name, value in slices.items()}
        return {**held, "b": lfsr[32:35]}

    def _burst(self):
        return data.StructLayout({
            "address": ADDRESS_BITS, "id": self.id_bits, "len": 8, "outside": 1, "due": 32,
        })  # fmt: skip

    def _queue(self, m, name, channel, now, held, delay):
        """Bursts that were taken from an address channel, as a view of the oldest one."""
        queue = fifo.SyncFIFO(width=self._burst().size, depth=self.outstanding)
        m.submodules[name] = queue
        entry = data.View(self._burst(), queue.w_data)
        m.d.comb += [
            channel.ready.eq(queue.w_rdy & ~held),
            queue.w_en.eq(channel.valid & channel.ready),
            entry.address.eq(channel.p.addr),
            entry.id.eq(channel.p.id),
            entry.len.eq(channel.p.len),
            entry.outside.eq(
                (channel.p.addr < self.base) | (channel.p.addr >= self.base + self.size)
            ),
            entry.due.eq(now + delay),
        ]
        return queue, data.View(self._burst(), queue.r_data)

    def _pace(self, m, name, beat):
        """High when a beat may follow, `interval` cycles after the one before."""
        if self.timing.interval == 1:
            return 1
        wait = Signal(range(self.timing.interval), name=f"{name}_wait")
        with m.If(beat):
            m.d.sync += wait.eq(self.timing.interval - 1)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        return wait == 0

    def _beat(self, burst, beat):
        """Word address of a beat and the address of its first byte lane."""
        word = (burst.address >> self.shift) + beat
        return word, word << self.shift

    def _hit(self, m, name, injection, address):
        hit = Signal(name=f"{name}_hit")
        m.d.comb += hit.eq(
            injection.enable
            & (address + self.data_bytes > injection.first)
            & (address <= injection.last)
        )
        return hit

    def _reads(self, m, now, chance):
        ar, r = self.bus.ar, self.bus.r
        bursts, burst = self._queue(
            m, "read_bursts", ar, now, chance["ar"], self.timing.latency - 1
        )
        beat = Signal(8)
        issue = Signal()
        late = Signal(32)
        valid = Signal()
        pace = self._pace(m, "read", issue)
        word, address = self._beat(burst, beat)
        hit = self._hit(m, "read", self.read_error, address)
        m.d.comb += [
            late.eq(now - burst.due),
            issue.eq(
                bursts.r_rdy & ~late[31] & (~valid | r.ready) & pace & ~chance["r"]
            ),
            bursts.r_en.eq(issue & (beat == burst.len)),
            self.storage.read_enable.eq(issue),
            self.storage.read_address.eq(word),
            r.valid.eq(valid),
            r.p.data.eq(self.storage.read_data),
        ]
        with m.If(issue):
            m.d.sync += [
                valid.eq(1),
                beat.eq(Mux(beat == burst.len, 0, beat + 1)),
                r.p.id.eq(burst.id),
                r.p.last.eq(beat == burst.len),
                r.p.resp.eq(
                    Mux(burst.outside, Response.DECERR,
                        Mux(hit, self.read_error.response, Response.OKAY))
                ),
            ]  # fmt: skip
        with m.Elif(r.ready):
            m.d.sync += valid.eq(0)
        return bursts.r_rdy

    def _writes(self, m, now, chance):
        aw, w, b = self.bus.aw, self.bus.w, self.bus.b
        bursts, burst = self._queue(m, "write_bursts", aw, now, chance["aw"], 0)
        answer = data.StructLayout({"id": self.id_bits, "resp": Response, "due": 32})
        answers = fifo.SyncFIFO(width=answer.size, depth=self.outstanding)
        m.submodules.answers = answers
        given = data.View(answer, answers.w_data)
        oldest = data.View(answer, answers.r_data)

        beat = Signal(8)
        taken = Signal()
        failed = Signal()
        late = Signal(32)
        pace = self._pace(m, "write", taken)
        word, address = self._beat(burst, beat)
        hit = self._hit(m, "write", self.write_error, address)
        m.d.comb += [
            w.ready.eq(bursts.r_rdy & answers.w_rdy & pace & ~chance["w"]),
            taken.eq(w.valid & w.ready),
            self.storage.write_enable.eq(taken & ~burst.outside & ~hit),
            self.storage.write_address.eq(word),
            self.storage.write_data.eq(w.p.data),
            self.storage.write_strobe.eq(w.p.strb),
            bursts.r_en.eq(taken & w.p.last),
            answers.w_en.eq(taken & w.p.last),
            given.id.eq(burst.id),
            given.due.eq(now + self.timing.latency + chance["b"]),
            given.resp.eq(
                Mux(burst.outside, Response.DECERR,
                    Mux(hit | failed, self.write_error.response, Response.OKAY))
            ),
            late.eq(now - oldest.due),
            b.valid.eq(answers.r_rdy & ~late[31]),
            b.p.id.eq(oldest.id),
            b.p.resp.eq(oldest.resp),
            answers.r_en.eq(b.valid & b.ready),
        ]  # fmt: skip
        with m.If(taken):
            m.d.sync += Assert(w.p.last == (beat == burst.len), "WLAST in the wrong place")
            m.d.sync += [
                beat.eq(Mux(w.p.last, 0, beat + 1)),
                failed.eq(~w.p.last & (failed | hit)),
            ]
        return bursts.r_rdy | answers.r_rdy | w.valid
