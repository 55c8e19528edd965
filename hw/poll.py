"""Poller: looks at values in memory until they compare."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from .arbiter import Arbiter
from .interface import PollRequest, PollSignature, ReadPort, Status
from .regs.descriptor import Comparison

__all__ = ["Poller"]


def compares(m, value, request):
    """Whether `value` passes as the request's operation and mask say."""
    passes = Signal()
    mask = Signal(64)
    found = Signal(64)
    wanted = Signal(64)
    difference = Signal(64)
    m.d.comb += [
        mask.eq(Mux(request.mask == 0, ~0, request.mask)),
        found.eq(value & mask),
        wanted.eq(request.value & mask),
        difference.eq(found - wanted),
    ]
    with m.Switch(request.operation):
        with m.Case(Comparison.NOT_LESS):
            m.d.comb += passes.eq(~difference[63])
        with m.Case(Comparison.EQUAL):
            m.d.comb += passes.eq(difference == 0)
        with m.Case(Comparison.AND):
            m.d.comb += passes.eq((found & wanted).any())
        with m.Case(Comparison.NOR):
            m.d.comb += passes.eq((~(found | wanted) & mask).any())
    return passes


class Poller(wiring.Component):
    """Reads the values that streams wait for, in turn, until each compares.

    A request that shows in cycle t is read at once: on `memory` in t, if no other read waits there
    and it is its turn. A read that is taken in t is followed by the next of its stream in
    t + `interval` at the earliest, and not before it was answered: one for each stream is in
    flight. An answer in t shows as `met` or `failed` in t + 1. One whose request has gone, in that
    cycle or before, is swallowed; it counts for no later request, which is read after it.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    streams: `PollSignature` of each; the values are aligned.
    interval: cycles from one read of a stream to the next, as it is when the former is taken.
    memory: reads.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "streams": In(PollSignature()).array(config.streams),
            "interval": In(32),
            "memory": Out(ReadPort(config.data_bytes)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        streams = self.config.streams
        requests, beat = self.memory.requests, self.memory.beats.p
        m.submodules.turn = turn = Arbiter(streams)
        m.submodules.owners = owners = fifo.SyncFIFO(width=max(1, len(turn.index)), depth=streams)
        wanted = Array(port.request for port in self.streams)
        held = Signal()  # a read waits on the port, whatever becomes of its request
        holder = Signal.like(turn.index)
        owner = Signal.like(turn.index)
        held_request = Signal.like(requests.p)
        taken = Signal()
        answered = Signal()
        m.d.comb += [
            turn.accept.eq(~held),
            owner.eq(Mux(held, holder, turn.index)),
            requests.valid.eq(held | turn.valid),
            requests.p.bytes.eq(8),
            taken.eq(requests.valid & requests.ready),
            owners.w_data.eq(owner),
            owners.w_en.eq(taken),
            owners.r_en.eq(answered),
            self.memory.beats.ready.eq(1),
            answered.eq(self.memory.beats.valid),
        ]
        m.d.sync += [held.eq(requests.valid & ~requests.ready), holder.eq(owner)]
        with m.If(held):
            m.d.comb += requests.p.eq(held_request)
        with m.Else():
            chosen = wanted[turn.index]
            m.d.comb += [
                requests.p.address.eq(chosen.address), requests.p.context.eq(chosen.context),
            ]  # fmt: skip
            m.d.sync += held_request.eq(requests.p)

        looked_at = Signal(PollRequest)
        value = Signal(64)
        m.d.comb += [
            looked_at.eq(wanted[owners.r_data]),
            value.eq(beat.data.word_select(beat.offset[3:], 64)),
        ]
        passes = compares(m, value, looked_at)
        for s, port in enumerate(self.streams):
            reading = Signal(name=f"reading{s}")  # its read waits on the port, or is in flight
            stale = Signal(name=f"stale{s}")  # the request of that read has gone
            wait = Signal(32, name=f"wait{s}")  # cycles until the next read, less one
            leaves = port.take | ~port.valid
            reads = turn.grant[s] & ~held
            answer = answered & (owners.r_data == s)
            m.d.comb += turn.requests[s].eq(
                port.valid & ~port.met & ~port.failed & ~reading & (wait == 0)
            )
            with m.If(answer):
                m.d.sync += [reading.eq(0), stale.eq(0)]
            with m.Elif(reading | reads):
                m.d.sync += [reading.eq(1), stale.eq(stale | leaves)]
            with m.If(leaves):
                m.d.sync += [port.met.eq(0), port.failed.eq(0), wait.eq(0)]
            with m.Elif(~stale):
                with m.If(answer):
                    m.d.sync += [
                        port.met.eq((beat.status == Status.OKAY) & passes),
                        port.failed.eq(beat.status != Status.OKAY),
                        port.status.eq(beat.status),
                    ]
                with m.If(taken & (owner == s)):
                    m.d.sync += wait.eq(Mux(self.interval == 0, 0, self.interval - 1))
                with m.Elif(wait != 0):
                    m.d.sync += wait.eq(wait - 1)
        return m
