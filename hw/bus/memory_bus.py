"""The memory bus: a guard for each client, and the interconnect behind them."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .. import axi
from ..interface import ReadPort, WritePort
from .admission import windows_layout
from .guard import ReadGuard, WriteGuard
from .interconnect import Interconnect

__all__ = ["BusActivity", "MemoryBus"]


class BusActivity(wiring.Signature):
    """What happens on the memory bus in this cycle, seen from the bus.

    read_issued, read_beat, write_issued, write_beat: AR, R, AW, W passed.
    read_beats, write_beats: whose beat passed, one bit for each client.
    reads, writes: bursts in flight: address passed, last answer not yet.
    read_stall: a read address waits for the bus. write_stall: a write beat waits for the bus.
    """

    def __init__(self, config):
        readers, writers = len(config.read_clients), len(config.write_clients)
        super().__init__({
            "read_issued": Out(1),
            "read_beat": Out(1),
            "read_beats": Out(readers),
            "read_stall": Out(1),
            "reads": Out(range(readers * config.outstanding + 1)),
            "write_issued": Out(1),
            "write_beat": Out(1),
            "write_beats": Out(writers),
            "write_stall": Out(1),
            "writes": Out(range(writers * config.outstanding + 1)),
        })  # fmt: skip


class MemoryBus(wiring.Component):
    """From the clients' ports to the AXI4 port.

    A request taken in cycle t is on the bus in t + 1 if no other client's address is before it;
    answers reach the client within their cycle.

    Parameters
    ----------
    config: sizes; `NpuConfig.read_clients` and `write_clients` list the clients. Those called
        code… fetch code: their windows must allow execution.

    Members
    -------
    reads: `ReadPort` of each reading client. writes: `WritePort` of each writing client.
    windows: see `windows_layout`.
    memory: the AXI4 port.
    activity: for the PMU and the watchdog.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "reads": In(ReadPort(config.data_bytes)).array(len(config.read_clients)),
            "writes": In(WritePort(config.data_bytes)).array(len(config.write_clients)),
            "windows": In(windows_layout(config)),
            "memory": Out(axi.Signature(data_bytes=config.data_bytes, id_bits=config.id_bits)),
            "activity": Out(BusActivity(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.interconnect = interconnect = Interconnect(config)
        connect(m, interconnect.memory, flipped(self.memory))
        for number, name in enumerate(config.read_clients):
            m.submodules[name] = guard = ReadGuard(config, execute=name.startswith("code"))
            m.d.comb += guard.windows.eq(self.windows)
            connect(m, flipped(self.reads[number]), guard.client)
            connect(m, guard.bus, interconnect.reads[number])
        for number, name in enumerate(config.write_clients):
            m.submodules[f"{name}_write"] = guard = WriteGuard(config)
            m.d.comb += guard.windows.eq(self.windows)
            connect(m, flipped(self.writes[number]), guard.client)
            connect(m, guard.bus, interconnect.writes[number])
        m.submodules.activity = self._activity(interconnect)
        return m

    def _activity(self, interconnect):
        m = Module()
        ar, r = self.memory.ar, self.memory.r
        aw, w, b = self.memory.aw, self.memory.w, self.memory.b
        activity = self.activity
        read_done, write_done = Signal(), Signal()
        m.d.comb += [
            activity.read_issued.eq(ar.valid & ar.ready),
            activity.read_beat.eq(r.valid & r.ready),
            activity.read_beats.eq(Cat(
                activity.read_beat & (r.p.id[1:] == number) for number in range(len(self.reads))
            )),
            activity.read_stall.eq(ar.valid & ~ar.ready),
            read_done.eq(activity.read_beat & r.p.last),
            activity.write_issued.eq(aw.valid & aw.ready),
            activity.write_beat.eq(w.valid & w.ready),
            activity.write_beats.eq(
                activity.write_beat.replicate(len(self.writes)) & interconnect.sender
            ),
            activity.write_stall.eq(w.valid & ~w.ready),
            write_done.eq(b.valid & b.ready),
        ]  # fmt: skip
        m.d.sync += [
            activity.reads.eq(activity.reads + activity.read_issued - read_done),
            activity.writes.eq(activity.writes + activity.write_issued - write_done),
        ]
        return m
