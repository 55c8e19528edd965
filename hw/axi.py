"""AXI4 and AXI4-Lite as Amaranth signatures: one stream for each channel.

Both signatures are the manager's (master's) view. Payload fields have the names of the standard
without the channel prefix, so that an export names a port ``m_axi_arvalid`` and so on.
"""

from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Burst", "LiteSignature", "Response", "Signature", "address_layout"]


class Response(enum.Enum, shape=2):
    """xRESP."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


class Burst(enum.Enum, shape=2):
    """AxBURST; only INCR is used."""

    FIXED = 0
    INCR = 1
    WRAP = 2


def address_layout(address_bits, id_bits):
    """Payload of AW and AR."""
    return data.StructLayout({
        "addr": address_bits, "id": id_bits, "len": 8, "size": 3, "burst": Burst,
        "lock": 1, "cache": 4, "prot": 3, "qos": 4,
    })  # fmt: skip


class Signature(wiring.Signature):
    """AXI4, seen from the manager.

    Parameters
    ----------
    data_bytes: bytes of a beat.
    id_bits: bits of AxID, BID and RID.
    address_bits: bits of AxADDR.
    """

    def __init__(self, *, data_bytes, id_bits, address_bits=40):
        self.data_bytes = data_bytes
        self.id_bits = id_bits
        self.address_bits = address_bits
        address = address_layout(address_bits, id_bits)
        width = data_bytes * 8
        super().__init__({
            "aw": Out(stream.Signature(address)),
            "w": Out(stream.Signature(
                data.StructLayout({"data": width, "strb": data_bytes, "last": 1}))),
            "b": In(stream.Signature(data.StructLayout({"id": id_bits, "resp": Response}))),
            "ar": Out(stream.Signature(address)),
            "r": In(stream.Signature(data.StructLayout(
                {"id": id_bits, "data": width, "resp": Response, "last": 1}))),
        })  # fmt: skip


class LiteSignature(wiring.Signature):
    """AXI4-Lite with 32-bit data, seen from the manager."""

    def __init__(self, *, address_bits=16):
        self.address_bits = address_bits
        address = data.StructLayout({"addr": address_bits, "prot": 3})
        super().__init__({
            "aw": Out(stream.Signature(address)),
            "w": Out(stream.Signature(data.StructLayout({"data": 32, "strb": 4}))),
            "b": In(stream.Signature(data.StructLayout({"resp": Response}))),
            "ar": Out(stream.Signature(address)),
            "r": In(stream.Signature(data.StructLayout({"data": 32, "resp": Response}))),
        })  # fmt: skip
