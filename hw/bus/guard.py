"""What stands between a memory client and the bus: access windows, bookkeeping, aborts."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import Response
from ..interface import ReadPort, Status, WritePort
from .admission import Admission, Window, address_layout, windows_layout
from .beats import BeatSplitter

__all__ = ["ReadBus", "ReadGuard", "Window", "WriteBus", "WriteGuard", "windows_layout"]


class ReadBus(wiring.Signature):
    """AXI's read channels for one client, seen from it; `epoch` is the lowest bit of the ID."""

    def __init__(self, data_bytes):
        super().__init__({
            "ar": Out(stream.Signature(address_layout())),
            "r": In(stream.Signature(data.StructLayout(
                {"data": data_bytes * 8, "resp": Response, "epoch": 1}))),
        })  # fmt: skip


class WriteBus(wiring.Signature):
    """AXI's write channels for one client, seen from it. W follows the order of AW.

    W of a burst may be valid before its AW is taken.
    """

    def __init__(self, data_bytes):
        super().__init__({
            "aw": Out(stream.Signature(address_layout())),
            "w": Out(stream.Signature(data.StructLayout(
                {"data": data_bytes * 8, "strb": data_bytes, "last": 1}))),
            "b": In(stream.Signature(data.StructLayout({"resp": Response, "epoch": 1}))),
        })  # fmt: skip


def _status(resp):
    """The `Status` of a response. EXOKAY, which nobody asked for, is as good as OKAY."""
    return Mux(resp == Response.EXOKAY, Status.OKAY, resp.as_value())


class ReadGuard(wiring.Component):
    """Checks and issues the reads of one client, and gives it its beats.

    Parameters
    ----------
    config: sizes. execute: the client fetches code: windows must allow execution, not reading.

    Members
    -------
    client: the client's `ReadPort`. A request taken in cycle t is on `bus.ar` in t + 1; one in
        each cycle while `bus.ar` is taken at once. Beats pass from `bus.r` within the cycle. A
        denied burst is never issued: its beats come in its turn, one a cycle, from t + 1 on.
        Beats in the cycle of an abort are still given.
    windows: as `windows_layout`, checked in the cycle in which the request is taken.
    bus: to the interconnect. Answers that nobody waits for are swallowed.
    """

    def __init__(self, config, execute=False):
        self.config = config
        self.right = "execute" if execute else "read"
        super().__init__({
            "client": In(ReadPort(config.data_bytes)),
            "windows": In(windows_layout(config)),
            "bus": Out(ReadBus(config.data_bytes)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        client, bus = self.client, self.bus
        m.submodules.admission = admission = Admission(config, self.right)
        m.submodules.in_flight = in_flight = fifo.SyncFIFO(
            width=admission.admission.size, depth=config.outstanding
        )
        m.submodules.splitter = splitter = BeatSplitter(config.data_bytes, config.burst_bytes)
        connect(m, flipped(client.requests), admission.requests)
        connect(m, admission.address, flipped(bus.ar))

        head = data.View(admission.admission, in_flight.r_data)
        awaited = Signal()  # what the bus offers is of a burst in flight, not an older epoch
        answered = Signal()  # and of the oldest one
        m.d.comb += [
            admission.windows.eq(self.windows),
            admission.abort.eq(client.abort),
            admission.full.eq(~in_flight.w_rdy),
            admission.empty.eq(~in_flight.r_rdy),
            client.issued.eq(admission.issued),
            client.idle.eq(~in_flight.r_rdy),
            in_flight.w_en.eq(admission.admitted),
            in_flight.w_data.eq(admission.burst),
            in_flight.r_en.eq(splitter.i.ready),
            splitter.i.valid.eq(in_flight.r_rdy),
            splitter.i.p.eq(head.span),
            awaited.eq(in_flight.r_rdy & (bus.r.p.epoch == admission.expected)),
            answered.eq(bus.r.valid & awaited & ~head.denied),
            client.beats.valid.eq(
                in_flight.r_rdy & ~admission.draining & (head.denied | answered)
            ),
            client.beats.p.data.eq(bus.r.p.data),
            client.beats.p.offset.eq(splitter.o.p.offset),
            client.beats.p.count.eq(splitter.o.p.count),
            client.beats.p.last.eq(splitter.o.p.last),
            client.beats.p.status.eq(Mux(head.denied, Status.DENIED, _status(bus.r.p.resp))),
            client.beats.p.address.eq(
                Cat(splitter.o.p.position, head.address[len(splitter.o.p.position) :])
            ),
            splitter.o.ready.eq(
                (head.denied | answered) & (client.beats.ready | admission.draining)
            ),
            bus.r.ready.eq(
                ~awaited | (~head.denied & (client.beats.ready | admission.draining))
            ),
        ]  # fmt: skip
        return m


class WriteGuard(wiring.Component):
    """Checks and issues the writes of one client, and gives it the responses.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    client: the client's `WritePort`. A request taken in cycle t is on `bus.aw` in t + 1; its
        first beat of data is taken from t + 1 on, and on `bus.w` one cycle after it was taken;
        one request and one beat in each cycle while the bus takes them. Responses pass from
        `bus.b` within the cycle. A denied burst is never issued: its data is swallowed, then
        it is answered in its turn. After an abort the beats owed are sent without strobes.
    windows: as `windows_layout`, checked in the cycle in which the request is taken.
    bus: to the interconnect. Answers that nobody waits for are swallowed.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "client": In(WritePort(config.data_bytes)),
            "windows": In(windows_layout(config)),
            "bus": Out(WriteBus(config.data_bytes)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        client, bus = self.client, self.bus
        m.submodules.admission = admission = Admission(config, "write")
        layout = admission.admission
        m.submodules.in_flight = in_flight = fifo.SyncFIFO(
            width=layout.size, depth=config.outstanding
        )
        m.submodules.owed = owed = fifo.SyncFIFO(width=layout.size, depth=config.outstanding)
        m.submodules.splitter = splitter = BeatSplitter(config.data_bytes, config.burst_bytes)
        connect(m, flipped(client.requests), admission.requests)
        connect(m, admission.address, flipped(bus.aw))

        head = data.View(layout, in_flight.r_data)
        sending = data.View(layout, owed.r_data)
        swallowed = Signal(range(config.outstanding + 1))  # denied, data taken, not answered
        awaited = Signal()
        answered = Signal()
        refused = Signal()
        m.d.comb += [
            admission.windows.eq(self.windows),
            admission.abort.eq(client.abort),
            admission.full.eq(~in_flight.w_rdy),
            admission.empty.eq(~in_flight.r_rdy),
            client.issued.eq(admission.issued),
            client.idle.eq(~in_flight.r_rdy),
            in_flight.w_en.eq(admission.admitted),
            in_flight.w_data.eq(admission.burst),
            owed.w_en.eq(admission.admitted),
            owed.w_data.eq(admission.burst),
            awaited.eq(in_flight.r_rdy & (bus.b.p.epoch == admission.expected)),
            answered.eq(bus.b.valid & awaited & ~head.denied),
            refused.eq(in_flight.r_rdy & head.denied & (swallowed != 0)),
            client.responses.valid.eq(~admission.draining & (refused | answered)),
            client.responses.p.status.eq(
                Mux(head.denied, Status.DENIED, _status(bus.b.p.resp))
            ),
            client.responses.p.address.eq(head.address),
            in_flight.r_en.eq(
                (refused | answered) & (client.responses.ready | admission.draining)
            ),
            bus.b.ready.eq(
                ~awaited | (~head.denied & (client.responses.ready | admission.draining))
            ),
        ]  # fmt: skip

        sent = Signal()
        m.d.comb += [
            splitter.i.valid.eq(owed.r_rdy),
            splitter.i.p.eq(sending.span),
            owed.r_en.eq(splitter.i.ready),
            client.data.ready.eq(
                owed.r_rdy & ~admission.draining
                & (sending.denied | ~bus.w.valid | bus.w.ready)
            ),
            splitter.o.ready.eq(Mux(
                admission.draining,
                sending.denied | ~bus.w.valid | bus.w.ready,
                client.data.valid & client.data.ready,
            )),
            sent.eq(splitter.o.valid & splitter.o.ready),
        ]  # fmt: skip
        # W has a register: an abort may not change a beat that the bus has already seen.
        with m.If(bus.w.ready):
            m.d.sync += bus.w.valid.eq(0)
        with m.If(sent & ~sending.denied):
            m.d.sync += [
                bus.w.valid.eq(1),
                bus.w.p.data.eq(client.data.p.data),
                bus.w.p.strb.eq(Mux(admission.draining, 0, client.data.p.strobe)),
                bus.w.p.last.eq(splitter.o.p.last),
            ]
        done = Signal()
        m.d.comb += done.eq(owed.r_en & owed.r_rdy & sending.denied)
        m.d.sync += swallowed.eq(swallowed + done - (refused & in_flight.r_en))
        return m
