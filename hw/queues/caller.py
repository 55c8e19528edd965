"""One submission queue: its indices, its ring, and the list that a CALL in it runs."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..interface import Head
from ..layout import struct
from ..regs.descriptor import GENERATION_BITS, CallPayload, TaskType
from ..regs.fault import FaultCause
from .staging import FetchSignature, RingSignature, Staging, Verdict, is_listed

__all__ = ["Caller"]


class Phase(enum.Enum, shape=2):
    """Where a stream stands: at no CALL, before a list, in it, or behind it."""

    OUTSIDE = 0
    FETCHING = 1
    INSIDE = 2
    RETURNED = 3


class Caller(wiring.Component):
    """The queue of one stream: a staging for its ring, and one for the list of a CALL.

    While a good CALL is the head, the entries of its list are fetched ahead. From `enter` on the
    heads are those of the list, until all its entries have retired. Then the CALL is the head
    again, as returned; only so may it be taken.

    A doorbell in cycle t shows in `tail` and at `fetch` in t + 1. A CALL that is first the head in
    t has its list at `fetch` from t + 1 on; entries of the list go before those of the ring. After
    `enter` in t, the first entry is the valid head in t + 1 if it is complete. After the last
    retirement of a list in t, the CALL is the valid head in t + 1.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    ring: see `RingSignature`.
    overrun: pulses in the cycle of a doorbell that announces more than the ring holds, or less
        than was announced before; it is ignored.
    fetch: the next entry to fetch.
    verdict, judged: what has become of a fetch, valid while `judged`.
    epoch: what a relative entry of the list adds to its generations.
    tasks: the next task.
    retire: the oldest task that was taken has ended.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "ring": In(RingSignature()),
            "overrun": Out(1),
            "fetch": Out(FetchSignature()),
            "verdict": In(Verdict),
            "judged": In(1),
            "epoch": Out(GENERATION_BITS),
            "tasks": Out(stream.Signature(Head)),
            "retire": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = Staging(self.config)
        m.submodules.list = listed = Staging(self.config, listed=True)
        phase = Signal(Phase)
        self._ring(m, ring)
        self._list(m, ring, listed, phase)
        self._share(m, ring, listed)
        self._show(m, ring, listed, phase)
        return m

    def _ring(self, m, ring):
        """Which entries were announced, and where they lie."""
        port = self.ring
        ahead, pending = Signal.like(port.tail), Signal.like(port.tail)
        in_range = Signal()
        m.d.comb += [
            ahead.eq(port.doorbell - ring.head),
            pending.eq(port.tail - ring.head),
            in_range.eq((ahead <= (1 << port.size)) & (ahead >= pending)),
            self.overrun.eq(port.rung & port.active & ~in_range),
            ring.base.eq(port.base),
            ring.args_base.eq(port.args_base),
            ring.wrap.eq((1 << port.size) - 1),
            ring.start.eq(port.start),
            ring.tail.eq(port.tail),
        ]
        with m.If(port.rung & port.active & in_range):
            m.d.sync += port.tail.eq(port.doorbell)
        with m.If(port.start):
            m.d.sync += port.tail.eq(0)

    def _list(self, m, ring, listed, phase):
        """Runs the list of the CALL that is the ring's head."""
        port, task = self.ring, ring.tasks.p
        call = data.View(struct(CallPayload), task.sqe.payload)
        stands = Signal()
        ends = Signal()
        m.d.comb += [
            stands.eq(
                ring.tasks.valid
                & (task.sqe.type == TaskType.CALL)
                & (task.cause == FaultCause.NONE)
            ),
            listed.base.eq(call.list_address),
            listed.args_base.eq(call.args_address),
            listed.wrap.eq(~0),
            listed.start.eq((phase == Phase.OUTSIDE) & stands & ~port.flush),
            self.epoch.eq(call.epoch),
            ends.eq(listed.retire & (listed.head + 1 == listed.tail)),
        ]
        with m.If(listed.start):
            m.d.sync += listed.tail.eq(call.entries)
        with m.Switch(phase):
            with m.Case(Phase.OUTSIDE):
                with m.If(listed.start):
                    m.d.sync += phase.eq(Mux(port.enter, Phase.INSIDE, Phase.FETCHING))
            with m.Case(Phase.FETCHING):
                with m.If(port.enter):
                    m.d.sync += phase.eq(Phase.INSIDE)
            with m.Case(Phase.INSIDE):
                with m.If(ends):
                    m.d.sync += phase.eq(Phase.RETURNED)
            with m.Case(Phase.RETURNED):
                with m.If(self.tasks.ready):
                    m.d.sync += phase.eq(Phase.OUTSIDE)
        with m.If(port.flush):
            m.d.sync += phase.eq(Phase.OUTSIDE)

    def _share(self, m, ring, listed):
        """Divides what concerns either staging. Tasks of the ring that run are older than those
        of the list."""
        port, fetch = self.ring, self.fetch
        owed = Signal(range(self.config.staging + 1))
        m.d.comb += [
            fetch.valid.eq(ring.fetch.valid | listed.fetch.valid),
            fetch.source.eq(Mux(listed.fetch.valid, listed.fetch.source, ring.fetch.source)),
            listed.fetch.ready.eq(fetch.ready),
            ring.fetch.ready.eq(fetch.ready & ~listed.fetch.valid),
            ring.judged.eq(self.judged & ~is_listed(self.verdict.slot)),
            listed.judged.eq(self.judged & is_listed(self.verdict.slot)),
            ring.retire.eq(self.retire & (owed != 0)),
            listed.retire.eq(self.retire & (owed == 0)),
        ]
        for part in (ring, listed):
            m.d.comb += [
                part.context.eq(port.context),
                part.active.eq(port.active),
                part.flush.eq(port.flush),
                part.verdict.eq(self.verdict),
            ]
        m.d.sync += owed.eq(owed + (ring.tasks.valid & ring.tasks.ready) - ring.retire)
        with m.If(port.flush):
            m.d.sync += owed.eq(0)

    def _show(self, m, ring, listed, phase):
        port, tasks = self.ring, self.tasks
        m.d.comb += [
            port.called.eq(phase == Phase.INSIDE),
            port.entry.eq(Mux(port.called, listed.head, 0)),
            port.head.eq(ring.head),
            port.empty.eq(ring.empty),
            port.flushed.eq(ring.empty & ring.settled & listed.settled),
            ring.tasks.ready.eq(tasks.ready & ~port.called),
            listed.tasks.ready.eq(tasks.ready & port.called),
            tasks.valid.eq(Mux(port.called, listed.tasks.valid, ring.tasks.valid)),
            tasks.p.eq(Mux(port.called, listed.tasks.p, ring.tasks.p)),
        ]
        with m.If(phase == Phase.RETURNED):
            m.d.comb += tasks.p.returned.eq(1)
