"""Checks requests against the access windows and puts the allowed ones on the bus."""

from amaranth import Assert, Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ADDRESS_BITS
from ..interface import BurstRequest
from .beats import span_layout

__all__ = ["Admission", "Window", "address_layout", "windows_layout"]


class Window(data.Struct):
    """Bytes `base` to `limit` of a context, both included, and what is allowed there."""

    base: ADDRESS_BITS
    limit: ADDRESS_BITS
    read: 1
    write: 1
    execute: 1


def windows_layout(config):
    """All windows; window w of context c is number c × `NpuConfig.windows` + w."""
    return data.ArrayLayout(Window, config.contexts * config.windows)


def address_layout():
    """What AR or AW needs: the aligned address, beats − 1 and the epoch."""
    return data.StructLayout({"addr": ADDRESS_BITS, "len": 8, "epoch": 1})


def _allowed(m, config, right, request, windows, last):
    """Whether one window of the request's context holds all its bytes and has the right."""
    layout = data.ArrayLayout(Window, config.windows)
    of_context = Signal(layout)
    m.d.comb += of_context.eq(windows.as_value().word_select(request.context, layout.size))
    hits = [
        window[right] & (window.base <= request.address) & (last <= window.limit)
        for window in of_context
    ]
    return Cat(*hits).any() & (request.context < config.contexts)


class Admission(wiring.Component):
    """Takes requests, checks them, issues the allowed ones and starts a new epoch at an abort.

    Parameters
    ----------
    config: sizes. right: what windows must allow: a field of `Window`.

    Members
    -------
    requests, windows, abort, issued: as in the guards.
    address: AR or AW, one cycle after the request was taken.
    admitted: pulse: the request is taken in this cycle, as `burst` says, whose layout is
        `admission`.
    full: nothing more can be taken. empty: nothing is in flight.
    expected: epoch of the answers that are in flight. draining: they are to be swallowed.
    """

    def __init__(self, config, right):
        self.config = config
        self.right = right
        self.admission = data.StructLayout({
            "address": ADDRESS_BITS, "span": span_layout(config.burst_bytes), "denied": 1,
        })  # fmt: skip
        super().__init__({
            "requests": In(stream.Signature(BurstRequest)),
            "windows": In(windows_layout(config)),
            "abort": In(1),
            "issued": Out(1),
            "address": Out(stream.Signature(address_layout())),
            "admitted": Out(1),
            "burst": Out(self.admission),
            "full": In(1),
            "empty": In(1),
            "expected": Out(1),
            "draining": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        request = self.requests.p
        lane_bits = (config.data_bytes - 1).bit_length()
        last = Signal(ADDRESS_BITS)
        allowed = Signal()
        epoch = Signal()
        span = self.burst.span
        m.d.comb += [
            last.eq(request.address + request.bytes - 1),
            allowed.eq(_allowed(m, config, self.right, request, self.windows, last)),
            self.requests.ready.eq(
                (~self.address.valid | self.address.ready)
                & ~self.full & ~self.abort & (~self.draining | self.empty)
            ),
            self.admitted.eq(self.requests.valid & self.requests.ready),
            self.burst.address.eq(request.address),
            span.first.eq(request.address),
            span.last.eq(last),
            self.burst.denied.eq(~allowed),
            self.issued.eq(self.address.valid & self.address.ready),
            self.expected.eq(epoch ^ self.draining),
        ]  # fmt: skip
        with m.If(self.address.ready):
            m.d.sync += self.address.valid.eq(0)
        with m.If(self.admitted):
            block_bits = len(span.first)
            m.d.sync += Assert(
                (request.bytes != 0) & (request.address[block_bits:] == last[block_bits:]),
                "a burst is empty or crosses a border of burst_bytes",
            )
            with m.If(allowed):
                m.d.sync += [
                    self.address.valid.eq(1),
                    self.address.p.addr.eq(request.address[lane_bits:] << lane_bits),
                    self.address.p.len.eq(span.last[lane_bits:] - span.first[lane_bits:]),
                    self.address.p.epoch.eq(epoch),
                ]
        with m.If(self.empty):
            m.d.sync += self.draining.eq(0)
        with m.If(self.abort):
            m.d.sync += self.draining.eq(1)
            with m.If(~self.draining):
                m.d.sync += epoch.eq(~epoch)
        return m
