"""The control registers behind AXI4-Lite, built from their description in `hw.regs`."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from . import axi
from .layout import struct
from .regs.capability import capabilities
from .regs.layout import snake_case
from .regs.register import Access
from .regs.registers import REGISTER_MAP

__all__ = ["Csr", "block_signature", "member_name", "register_name"]

PRIVILEGED_BIT = 0
"""Bit of AWPROT that says that the access is privileged."""


def register_name(register):
    """Name of the register in gateware: ``RingBase`` is ``ring_base``."""
    return snake_case(register.__name__)


def member_name(block):
    """Name of the block in gateware: plural if it stands several times."""
    return block.name + "s" if block.per else block.name


def block_signature(block):
    """The registers of `block`, seen from the register file; CONST ones have nothing to wire."""
    members = {}
    for register in block:
        layout = struct(register)
        match register.ACCESS:
            case Access.RW:
                init = register().as_dict()
                members[register_name(register)] = {
                    "value": Out(layout, init=init), "written": Out(1),
                }  # fmt: skip
            case Access.WO:
                members[register_name(register)] = {"value": Out(layout), "written": Out(1)}
            case Access.RO:
                members[register_name(register)] = {"value": In(layout)}
            case Access.W1C:
                members[register_name(register)] = {"value": Out(layout), "set": In(layout)}
    return wiring.Signature(
        {name: Out(wiring.Signature(ports)) for name, ports in members.items()}
    )


class Csr(wiring.Component):
    """Register file of the whole control space.

    One write and one read are in work at a time, independent of each other. A write is carried
    out in the cycle in which the later one of its address and data is taken; its response, the
    new contents and `written` show in the next. A read samples in the cycle in which its address
    is taken; its data shows in the next. Each goes on in the cycle after the response was taken,
    so at best every second cycle.

    A write is answered SLVERR and has no effect if the register is RO or CONST, if a strobe is
    missing, if the register is privileged and AWPROT says otherwise, or if a field is not `below`
    the size that it names. An address where there is no register, or not a multiple of 4, is
    answered DECERR. Reserved bits stay zero whatever is written.

    The high word of a 64-bit RO register reads as it was when the low word was read, if no other
    such low word was read since; else as it is.

    Parameters
    ----------
    config: sizes; they say how often each block stands.

    Members
    -------
    control: the bus.
    device, event, pmu: the registers of these blocks, by name.
    counters, streams, contexts, windows: arrays of blocks. Each register has, by access:

        RW: `value`; `written` pulses in the first cycle in which `value` shows the new contents.
        WO: `value`, zero but for the one cycle in which `written` is 1; there the half that was
            not written is zero.
        RO: `value`, an input.
        W1C: `value`; bits of the input `set` are set in the next cycle, also when the same
            bits are being cleared.
    """

    def __init__(self, config):
        self.config = config
        members = {"control": In(axi.LiteSignature())}
        for block in REGISTER_MAP:
            member = Out(block_signature(block))
            members[member_name(block)] = member.array(block.count(config)) if block.per else member
        super().__init__(members)

    def _words(self, m, address):
        """Yields (register, its port, word number) inside the case in which `address` means it."""
        with m.Switch(address):
            for block in REGISTER_MAP:
                assert block.stride & (block.stride - 1) == 0
                low = (block.stride - 1).bit_length()
                ports = getattr(self, member_name(block))
                for index in range(block.count(self.config)):
                    base = block.base + index * block.stride
                    with m.Case(f"{base >> low:0{len(address) - low}b}" + "-" * low):
                        with m.Switch(address[:low]):
                            port = ports[index] if block.per else ports
                            for register in block:
                                for word in range(register.words()):
                                    with m.Case(register.OFFSET + 4 * word):
                                        yield register, getattr(
                                            port, register_name(register), None
                                        ), word

    def _ports(self, access):
        """Ports of all registers of that access kind."""
        for block in REGISTER_MAP:
            ports = getattr(self, member_name(block))
            for port in ports if block.per else (ports,):
                for register in block:
                    if register.ACCESS is access:
                        yield getattr(port, register_name(register))

    def elaborate(self, platform):
        m = Module()
        self._elaborate_writes(m)
        self._elaborate_reads(m)
        return m

    def _elaborate_writes(self, m):
        aw, w, b = self.control.aw, self.control.w, self.control.b
        has_address = Signal()
        has_data = Signal()
        held_address = Signal.like(aw.p)
        held_data = Signal.like(w.p)
        address = Signal.like(aw.p)
        data = Signal.like(w.p)
        execute = Signal()
        effective = Signal()  # in the first cycle of the response of a write that had an effect

        m.d.comb += [
            aw.ready.eq(~has_address),
            w.ready.eq(~has_data),
            address.eq(Mux(has_address, held_address, aw.p)),
            data.eq(Mux(has_data, held_data, w.p)),
            execute.eq((has_address | aw.valid) & (has_data | w.valid) & ~b.valid),
        ]
        with m.If(aw.valid & aw.ready):
            m.d.sync += [has_address.eq(1), held_address.eq(aw.p)]
        with m.If(w.valid & w.ready):
            m.d.sync += [has_data.eq(1), held_data.eq(w.p)]
        with m.If(b.valid & b.ready):
            m.d.sync += [b.valid.eq(0), has_address.eq(0), has_data.eq(0)]

        for port in self._ports(Access.W1C):
            value = port.value.as_value()
            m.d.sync += value.eq(value | port.set.as_value())
        m.d.sync += effective.eq(0)
        with m.If(execute):
            m.d.sync += [b.valid.eq(1), b.p.resp.eq(axi.Response.DECERR)]
            for register, port, word in self._words(m, address.addr):
                m.d.sync += b.p.resp.eq(axi.Response.SLVERR)
                if register.ACCESS in (Access.RO, Access.CONST):
                    continue
                allowed = data.strb == 0xF
                if register.PRIVILEGED:
                    allowed &= address.prot[PRIVILEGED_BIT]
                for field in register.FIELDS:
                    if field.below is not None and field.offset // 32 == word:
                        written = data.data[field.offset % 32 :][: field.width]
                        allowed &= written < getattr(self.config, field.below)
                with m.If(allowed):
                    m.d.sync += [b.p.resp.eq(axi.Response.OKAY), effective.eq(1)]
                    half = port.value.as_value().word_select(word, 32)
                    written = data.data & ((register.MASK >> 32 * word) & 0xFFFF_FFFF)
                    if register.ACCESS is Access.RW:
                        m.d.sync += half.eq(written)
                    elif register.ACCESS is Access.W1C:
                        being_set = port.set.as_value().word_select(word, 32)
                        m.d.sync += half.eq(half & ~written | being_set)

        with m.If(effective):
            for register, port, word in self._words(m, held_address.addr):
                if register.ACCESS in (Access.RW, Access.WO):
                    m.d.comb += port.written.eq(1)
                if register.ACCESS is Access.WO:
                    half = port.value.as_value().word_select(word, 32)
                    m.d.comb += half.eq(
                        held_data.data & ((register.MASK >> 32 * word) & 0xFFFF_FFFF)
                    )

    def _elaborate_reads(self, m):
        ar, r = self.control.ar, self.control.r
        constants = capabilities(self.config)
        kept_word = Signal(32)
        kept_for = Signal.like(ar.p.addr)

        m.d.comb += ar.ready.eq(~r.valid)
        with m.If(r.valid & r.ready):
            m.d.sync += r.valid.eq(0)
        with m.If(ar.valid & ar.ready):
            m.d.sync += [r.valid.eq(1), r.p.data.eq(0), r.p.resp.eq(axi.Response.DECERR)]
            for register, port, word in self._words(m, ar.p.addr):
                m.d.sync += r.p.resp.eq(axi.Response.OKAY)
                match register.ACCESS:
                    case Access.CONST:
                        value = constants[register].to_int() >> 32 * word
                        m.d.sync += r.p.data.eq(value & 0xFFFF_FFFF)
                    case Access.RW | Access.W1C | Access.RO:
                        value = port.value.as_value()
                        m.d.sync += r.p.data.eq(value.word_select(word, 32))
                if register.ACCESS is Access.RO and register.words() == 2:
                    if word == 0:
                        m.d.sync += [kept_word.eq(value[32:]), kept_for.eq(ar.p.addr)]
                    else:
                        with m.If(kept_for == ar.p.addr - 4):
                            m.d.sync += r.p.data.eq(kept_word)
