"""A tiny NPU for tests of what is around it: registers, a timer, and a copier of one beat."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import LiteSignature, Response, Signature
from hw.config import NpuConfig

CONFIG = NpuConfig.preset("tiny")
IDENT, SCRATCH, TIMER, CLEAR, SOURCE, TARGET, COPY, HOSTS, STATUS, MUTE = range(0, 40, 4)
UNMAPPED = 0x100


class Stub(wiring.Component):
    """Registers by word: see the names above.

    Writing TIMER = n raises the interrupt n + 1 cycles later; writing CLEAR lowers it. COPY
    copies a beat from SOURCE to TARGET, each in host memory where HOSTS has its bit (0, 1), and
    raises the interrupt; STATUS then holds {read response, write response}. A write of MUTE makes
    it deaf for ever.
    """

    control: In(LiteSignature())
    memory: Out(Signature(data_bytes=CONFIG.data_bytes, id_bits=CONFIG.id_bits))
    irq: Out(1)

    def elaborate(self, platform):
        m = Module()
        bus = self.control
        scratch = Signal(32)
        source = Signal(32)
        target = Signal(32)
        hosts = Signal(2)
        status = Signal(4)
        timer = Signal(32)
        deaf = Signal()
        copying = Signal()
        written = Signal()
        m.d.comb += [
            written.eq(bus.aw.valid & bus.w.valid & ~bus.b.valid & ~deaf),
            bus.aw.ready.eq(written),
            bus.w.ready.eq(written),
            bus.ar.ready.eq(~bus.r.valid & ~deaf),
        ]
        with m.If(timer != 0):
            m.d.sync += timer.eq(timer - 1)
            with m.If(timer == 1):
                m.d.sync += self.irq.eq(1)
        with m.If(bus.b.ready):
            m.d.sync += bus.b.valid.eq(0)
        with m.If(bus.r.ready):
            m.d.sync += bus.r.valid.eq(0)
        with m.If(written):
            m.d.sync += [bus.b.valid.eq(1), bus.b.p.resp.eq(Response.OKAY)]
            with m.Switch(bus.aw.p.addr):
                for address, register in (
                    (SCRATCH, scratch), (TIMER, timer), (SOURCE, source), (TARGET, target),
                    (HOSTS, hosts), (COPY, copying),
                ):  # fmt: skip
                    with m.Case(address):
                        m.d.sync += register.eq(bus.w.p.data)
                with m.Case(CLEAR):
                    m.d.sync += self.irq.eq(0)
                with m.Case(MUTE):
                    m.d.sync += deaf.eq(1)
                with m.Default():
                    m.d.sync += bus.b.p.resp.eq(Response.SLVERR)
        with m.If(bus.ar.valid & bus.ar.ready):
            m.d.sync += [bus.r.valid.eq(1), bus.r.p.resp.eq(Response.OKAY)]
            with m.Switch(bus.ar.p.addr):
                for address, value in ((IDENT, 0x1234), (SCRATCH, scratch), (STATUS, status)):
                    with m.Case(address):
                        m.d.sync += bus.r.p.data.eq(value)
                with m.Default():
                    m.d.sync += bus.r.p.resp.eq(Response.DECERR)

        self._copier(m, copying, source, target, hosts, status)
        return m

    def _copier(self, m, copying, source, target, hosts, status):
        memory = self.memory
        size = (CONFIG.data_bytes - 1).bit_length()
        for channel, address, host in (
            (memory.ar, source, hosts[0]), (memory.aw, target, hosts[1])
        ):  # fmt: skip
            m.d.comb += [
                channel.p.addr.eq(address | (host << 39)),
                channel.p.size.eq(size),
                channel.p.burst.eq(1),
            ]
        m.d.comb += [memory.w.p.strb.eq(~0), memory.w.p.last.eq(1)]
        with m.FSM(name="copier"):
            with m.State("IDLE"):
                with m.If(copying):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += memory.ar.valid.eq(1)
                with m.If(memory.ar.ready):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += memory.r.ready.eq(1)
                with m.If(memory.r.valid):
                    m.d.sync += [
                        memory.w.p.data.eq(memory.r.p.data),
                        status[2:].eq(memory.r.p.resp),
                    ]
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += memory.aw.valid.eq(1)
                with m.If(memory.aw.ready):
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += memory.w.valid.eq(1)
                with m.If(memory.w.ready):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += memory.b.ready.eq(1)
                with m.If(memory.b.valid):
                    m.d.sync += [status[:2].eq(memory.b.p.resp), self.irq.eq(1), copying.eq(0)]
                    m.next = "IDLE"
