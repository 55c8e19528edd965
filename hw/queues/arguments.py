"""The staged argument blocks."""

from amaranth import Cat, Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In

from ..interface import ArgumentPort
from ..regs.descriptor import Arguments, Sqe
from .judge import argument_word
from .staging import is_listed

__all__ = ["ArgumentMemory"]


class ArgumentMemory(wiring.Component):
    """Holds the argument block of each staging slot, those of rings and those of lists.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    blocks: what comes in, from the cycle after on.
    ports: of each core.
    """

    def __init__(self, config):
        self.config = config
        self.unit = min(config.data_bytes, Sqe.BYTES)
        super().__init__({
            "blocks": In(stream.Signature(argument_word(self.unit), always_ready=True)),
            "ports": In(ArgumentPort()).array(config.cores),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        slots = 2 * self.config.streams * self.config.staging
        m.submodules.blocks = blocks = memory.Memory(
            shape=self.unit * 8, depth=slots * (Arguments.BYTES // self.unit), init=[]
        )
        write, incoming = blocks.write_port(), self.blocks.p
        m.d.comb += [
            write.en.eq(self.blocks.valid),
            write.addr.eq(Cat(incoming.row, self._place(incoming))),
            write.data.eq(incoming.data),
        ]
        lane_bits = (self.unit // 8 - 1).bit_length()
        for i, port in enumerate(self.ports):
            row = blocks.read_port()
            lane = Signal(lane_bits, name=f"lane{i}")
            m.d.sync += lane.eq(port.word[:lane_bits])
            m.d.comb += [
                row.addr.eq(Cat(port.word[lane_bits:], self._place(port))),
                port.data.eq(row.data.word_select(lane, 64)),
            ]
        return m

    def _place(self, asked):
        """Number of a slot among those of all streams."""
        slot_bits = (self.config.staging - 1).bit_length()
        return Cat(asked.slot[:slot_bits], is_listed(asked.slot), asked.stream)
