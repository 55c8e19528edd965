"""The NPU for other tools: RTLIL or Verilog with the standard's signal names."""

import os

from amaranth import Module, Shape
from amaranth.back import rtlil as amaranth_rtlil
from amaranth.back import verilog as amaranth_verilog
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .npu import Npu

__all__ = ["NpuPins", "rtlil", "verilog"]

CHANNELS = ("aw", "w", "b", "ar", "r")


class NpuPins(wiring.Component):
    """An `Npu` whose ports are single signals: ``s_axil_awaddr``, ``m_axi_rdata``, ``irq`` and so
    on, named as AXI names them. Clock and reset are ``clk`` and ``rst``.

    Parameters
    ----------
    config: `NpuConfig`.
    """

    def __init__(self, config):
        self.npu = Npu(config)
        self._pins = {}
        members = {"irq": Out(1)}
        for prefix, port, manager in (
            ("s_axil", self.npu.control, False), ("m_axi", self.npu.memory, True),
        ):  # fmt: skip
            for channel in CHANNELS:
                stream = getattr(port, channel)
                forward = manager != (channel in "br")
                there, back = (Out, In) if forward else (In, Out)
                pins = {name: (there, stream.p[name]) for name, _ in stream.p.shape()}
                pins |= {"valid": (there, stream.valid), "ready": (back, stream.ready)}
                for name, (flow, value) in pins.items():
                    full = f"{prefix}_{channel}{name}"
                    members[full] = flow(Shape.cast(value.shape()).width)
                    self._pins[full] = flow, value
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.npu = self.npu
        m.d.comb += self.irq.eq(self.npu.irq)
        for name, (flow, value) in self._pins.items():
            pin = getattr(self, name)
            m.d.comb += pin.eq(value) if flow is Out else value.eq(pin)
        return m


def rtlil(config):
    """RTLIL of the NPU, as module ``npu``."""
    return amaranth_rtlil.convert(NpuPins(config), name="npu")


def verilog(config):
    """Verilog of the NPU, as module ``npu``; needs the extra ``verilog``."""
    # A system's Yosys may be too old for assertions.
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    return amaranth_verilog.convert(NpuPins(config), name="npu")
