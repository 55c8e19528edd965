"""The host's side of control space: one AXI4-Lite access at a time, on command."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import LiteSignature, Response

__all__ = ["Command", "RegisterMaster", "Result"]


class Command(data.Struct):
    """A read or a write of one 32-bit word."""

    write: 1
    address: 16
    data: 32


class Result(data.Struct):
    """The answer; `data` is that of a read."""

    response: Response
    data: 32


class RegisterMaster(wiring.Component):
    """Turns commands into privileged AXI4-Lite accesses, one after the other.

    ::

        cycle             0    1    2 …      n      n+1
        commands.valid   _/‾‾\\_______________________
        bus.ar.valid     ______/‾‾‾‾\\________________      until taken
        bus.r.valid      ______________/‾‾‾‾\\________
        results.valid    ______________/‾‾‾‾\\________      the same cycle as the answer
        commands.ready   ‾‾‾‾‾\\______________/‾‾‾‾‾‾‾

    Members
    -------
    commands: taken while no access is under way. Address and write data are on the bus in the
        next cycle.
    results: one for each command, in the cycle of the bus's answer.
    bus: AXI4-Lite, PROT privileged, secure, data.
    """

    commands: In(stream.Signature(Command))
    results: Out(stream.Signature(Result))
    bus: Out(LiteSignature())

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        command = Signal(Command)
        address_due = Signal()
        data_due = Signal()
        busy = Signal()
        m.d.comb += [
            self.commands.ready.eq(~busy),
            bus.ar.valid.eq(address_due & ~command.write),
            bus.aw.valid.eq(address_due & command.write),
            bus.w.valid.eq(data_due),
            bus.w.p.data.eq(command.data),
            bus.w.p.strb.eq(0xF),
            bus.r.ready.eq(busy & ~command.write & self.results.ready),
            bus.b.ready.eq(busy & command.write & self.results.ready),
            self.results.valid.eq(busy & Mux(command.write, bus.b.valid, bus.r.valid)),
            self.results.p.response.eq(Mux(command.write, bus.b.p.resp, bus.r.p.resp)),
            self.results.p.data.eq(bus.r.p.data),
        ]
        for channel in (bus.ar, bus.aw):
            m.d.comb += [channel.p.addr.eq(command.address), channel.p.prot.eq(0b001)]
            with m.If(channel.valid & channel.ready):
                m.d.sync += address_due.eq(0)
        with m.If(bus.w.valid & bus.w.ready):
            m.d.sync += data_due.eq(0)
        with m.If(self.results.valid & self.results.ready):
            m.d.sync += busy.eq(0)
        with m.If(self.commands.valid & self.commands.ready):
            m.d.sync += [
                command.eq(self.commands.p),
                busy.eq(1),
                address_due.eq(1),
                data_due.eq(self.commands.p.write),
            ]
        return m
