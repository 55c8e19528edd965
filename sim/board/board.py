"""The NPU with its memories and its host port: what an engine runs."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.config import HOST_BASE

from .memory import Injection, Region, Timing
from .register_master import Command, RegisterMaster, Result
from .switch import Switch

__all__ = ["Board"]


class Board(wiring.Component):
    """An NPU between device memory, host memory and the register master of the host.

    Parameters
    ----------
    npu: component with `control`, `memory` and `irq`.
    config: `NpuConfig` of the NPU.
    board: `BoardConfig`.

    Members
    -------
    accesses, answers: of control space; commands and results of `RegisterMaster`.
    irq: the interrupt line of the NPU.
    read_errors, write_errors: what the memories answer with, see `Injection`.

    No part of it has ports of these names, so that the signals of the board have them.
    """

    accesses: In(stream.Signature(Command))
    answers: Out(stream.Signature(Result))
    irq: Out(1)
    read_errors: In(Injection)
    write_errors: In(Injection)

    def __init__(self, npu, config, board):
        super().__init__()
        self.npu = npu
        self.config = config
        self.board = board
        bus = {"data_bytes": config.data_bytes, "id_bits": config.id_bits}
        device = Timing(board.device_latency, board.device_interval, board.stall, board.seed)
        host = Timing(board.host_latency, board.host_interval, board.stall, board.seed + 1)
        self.switch = Switch(**bus)
        self.device = Region(0, board.device_bytes, device, **bus)
        self.host = Region(HOST_BASE, board.host_bytes, host, **bus)

    @property
    def storages(self):
        """The byte storages by name, for the engine to implement."""
        return {"device": self.device.storage, "host": self.host.storage}

    def elaborate(self, platform):
        m = Module()
        m.submodules.npu = self.npu
        m.submodules.switch = self.switch
        m.submodules.device = self.device
        m.submodules.host = self.host
        m.submodules.master = master = RegisterMaster()
        connect(m, flipped(self.accesses), master.commands)
        connect(m, master.results, flipped(self.answers))
        connect(m, master.bus, self.npu.control)
        connect(m, self.npu.memory, self.switch.bus)
        connect(m, self.switch.lower, self.device.bus)
        connect(m, self.switch.upper, self.host.bus)
        m.d.comb += self.irq.eq(self.npu.irq)
        for region in (self.device, self.host):
            m.d.comb += [
                region.read_error.eq(self.read_errors),
                region.write_error.eq(self.write_errors),
            ]
        return m
