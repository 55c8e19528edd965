"""Joins the memory clients to the one AXI4 port."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .. import axi
from ..arbiter import Arbiter
from ..config import ADDRESS_BITS
from .admission import address_layout
from .guard import ReadBus, WriteBus
from .order import WriteOrder

__all__ = ["AddressArbiter", "Interconnect"]

ORDER_DEPTH = 4
"""Write bursts whose address was offered, and whose data has not all passed yet."""


class AddressArbiter(wiring.Component):
    """Round-robin arbiter of an address channel; a choice that the bus has seen stays.

    Parameters
    ----------
    clients: number of clients. data_bytes, id_bits: of the bus.

    Members
    -------
    i: AR or AW of each client.
    o: AR or AW of the bus, 0 cycles later: ID = client number × 2 + epoch.
    client: number of the client that `o` belongs to.
    """

    def __init__(self, clients, data_bytes, id_bits):
        self.clients = clients
        self.data_bytes = data_bytes
        super().__init__({
            "i": In(stream.Signature(address_layout())).array(clients),
            "o": Out(stream.Signature(axi.address_layout(ADDRESS_BITS, id_bits))),
            "client": Out(range(clients)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = Arbiter(self.clients)
        held = Signal()
        seen = Signal(self.clients)
        m.d.comb += [
            arbiter.requests.eq(Mux(held, seen, Cat(i.valid for i in self.i))),
            arbiter.accept.eq(self.o.ready),
            self.client.eq(arbiter.index),
            self.o.valid.eq(arbiter.valid),
            self.o.p.size.eq((self.data_bytes - 1).bit_length()),
            self.o.p.burst.eq(axi.Burst.INCR),
        ]
        m.d.sync += [held.eq(self.o.valid & ~self.o.ready), seen.eq(arbiter.grant)]
        for number, i in enumerate(self.i):
            with m.If(arbiter.grant[number]):
                m.d.comb += [
                    self.o.p.addr.eq(i.p.addr),
                    self.o.p.len.eq(i.p.len),
                    self.o.p.id.eq(Cat(i.p.epoch, C(number, len(self.o.p.id) - 1))),
                    i.ready.eq(self.o.ready),
                ]
        return m


class Interconnect(wiring.Component):
    """All clients' guards on one AXI4 port.

    Every path is combinational (0 cycles) and passes an item in each cycle. Reads and writes are
    independent. W has the order of AW, but does not wait for it: a client's data may pass from
    the cycle after its address was first offered, and addresses run up to `ORDER_DEPTH` bursts
    ahead. Answers go to the client that their ID names; what names nobody is swallowed.

    Parameters
    ----------
    config: sizes; `NpuConfig.read_clients` and `write_clients` list the clients.

    Members
    -------
    reads: `ReadBus` of each reading client. writes: `WriteBus` of each writing client.
    memory: the AXI4 port.
    sender: one bit for each writing client: whose data may pass in this cycle.
    """

    def __init__(self, config):
        self.config = config
        self.readers = len(config.read_clients)
        self.writers = len(config.write_clients)
        super().__init__({
            "reads": In(ReadBus(config.data_bytes)).array(self.readers),
            "writes": In(WriteBus(config.data_bytes)).array(self.writers),
            "memory": Out(axi.Signature(data_bytes=config.data_bytes, id_bits=config.id_bits)),
            "sender": Out(self.writers),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        sizes = self.config.data_bytes, self.config.id_bits
        m.submodules.ar = ar = AddressArbiter(self.readers, *sizes)
        m.submodules.aw = aw = AddressArbiter(self.writers, *sizes)
        for i, client in zip(ar.i, self.reads, strict=True):
            connect(m, flipped(client.ar), i)
        for i, client in zip(aw.i, self.writes, strict=True):
            connect(m, flipped(client.aw), i)
        connect(m, ar.o, flipped(self.memory.ar))
        # One module each: what moves on a channel does not make a simulator look at the others.
        m.submodules.w = self._write_data(aw)
        m.submodules.b = self._answers(self.memory.b, [client.b for client in self.writes])
        m.submodules.r = self._answers(self.memory.r, [client.r for client in self.reads])
        return m

    def _write_data(self, arbiter):
        """AW with the order of its clients, and W in that order."""
        m = Module()
        w = self.memory.w
        m.submodules.order = order = WriteOrder(arbiter.o.p.shape(), self.writers, ORDER_DEPTH)
        connect(m, order.o, flipped(self.memory.aw))
        m.d.comb += [
            order.i.valid.eq(arbiter.o.valid),
            order.i.p.address.eq(arbiter.o.p),
            order.i.p.source.eq(arbiter.client),
            arbiter.o.ready.eq(order.i.ready),
            order.turns.ready.eq(w.valid & w.ready & w.p.last),
        ]
        for number, client in enumerate(self.writes):
            m.d.comb += self.sender[number].eq(order.turns.valid & (order.turns.p == number))
            with m.If(self.sender[number]):
                m.d.comb += [
                    w.valid.eq(client.w.valid),
                    w.p.eq(client.w.p),
                    client.w.ready.eq(w.ready),
                ]
        return m

    @staticmethod
    def _answers(channel, clients):
        """B or R, each answer to the client that its ID names."""
        m = Module()
        m.d.comb += channel.ready.eq(1)
        with m.Switch(channel.p.id[1:]):
            for number, client in enumerate(clients):
                with m.Case(number):
                    # Given to this client only, so that the logic of the others stays still.
                    m.d.comb += [
                        client.valid.eq(channel.valid),
                        client.p.resp.eq(channel.p.resp),
                        client.p.epoch.eq(channel.p.id[0]),
                        channel.ready.eq(client.ready),
                    ]
                    if "data" in client.p.shape().members:
                        m.d.comb += client.p.data.eq(channel.p.data)
        return m
