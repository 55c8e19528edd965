"""Captures the first fault of each context, and notices tasks that take too long."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .interface import FaultEvent, Report
from .regs.fault import FaultCause

__all__ = ["FaultCapture", "FaultRecord", "Supervisor"]


class FaultRecord(data.Struct):
    """The first fault of a context since the last clear, and how many there were.

    While `valid` is 0, the rest but `count` means nothing.
    """

    valid: 1
    stream: 8
    engine: 8
    count: 32
    task_id: 64
    time: 64
    report: Report


class FaultCapture(wiring.Component):
    """One fault record for each context.

    A fault in cycle t is captured at its end, with t as its time, and shows in t + 1. Of several
    in one cycle the one with the lowest number is the first; all are counted, up to 2^32 - 1.

    Parameters
    ----------
    config: `NpuConfig`.
    sources: number of inputs.

    Members
    -------
    events: faults, each valid for one cycle. One of a context that does not exist is only counted
        in `amount`.
    cycle: now.
    clear: one bit for each context: forgets its record. A fault in that cycle is the next first.
    records: one for each context.
    raised: one bit for each context: a fault of it in this cycle, first or later.
    amount: number of faults in this cycle.
    """

    def __init__(self, config, sources):
        self.config = config
        self.sources = sources
        super().__init__({
            "events": In(FaultEvent).array(sources),
            "cycle": In(64),
            "clear": In(config.contexts),
            "records": Out(FaultRecord).array(config.contexts),
            "raised": Out(config.contexts),
            "amount": Out(range(sources + 1)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.amount.eq(sum(event.valid for event in self.events))
        for c, record in enumerate(self.records):
            hits = Signal(self.sources, name=f"hits{c}")
            total = Signal(33, name=f"total{c}")
            for i, event in enumerate(self.events):
                m.d.comb += hits[i].eq(event.valid & (event.context == c))
            m.d.comb += [self.raised[c].eq(hits.any()), total.eq(record.count + sum(hits))]
            with m.If(self.clear[c]):
                m.d.sync += [record.valid.eq(0), record.count.eq(sum(hits))]
            with m.Elif(hits.any()):
                m.d.sync += record.count.eq(total[:32] | total[32].replicate(32))
            with m.If(hits.any() & (~record.valid | self.clear[c])):
                m.d.sync += [record.valid.eq(1), record.time.eq(self.cycle)]
                for i, event in reversed(list(enumerate(self.events))):
                    with m.If(hits[i]):
                        m.d.sync += [
                            record.stream.eq(event.stream),
                            record.engine.eq(event.engine),
                            record.task_id.eq(event.task_id),
                            record.report.eq(event.report),
                        ]
        return m


class Supervisor(wiring.Component):
    """Ends tasks that run too long, or without progress.

    Members
    -------
    dispatch: pulse in the cycle t in which a task is handed to the engine.
    timeout: of that task, in units of 1,024 cycles; 0 never.
    watchdog: greatest number of cycles without progress; 0 for any.
    running: from t + 1 on, until the task is done or was told to end.
    progress: the engine achieved something in this cycle.
    expired: combinational, the cause: TASK_TIMEOUT from t + 1,024 × timeout on; otherwise
        WATCHDOG in the cycle after as many running ones without progress as it allows; else NONE.
        The task is to be told in that cycle.
    """

    dispatch: In(1)
    timeout: In(32)
    watchdog: In(32)
    running: In(1)
    progress: In(1)
    expired: Out(FaultCause)

    def elaborate(self, platform):
        m = Module()
        limited = Signal()
        left = Signal(42)
        idle = Signal(32)
        with m.If(self.running):
            with m.If(limited & (left == 1)):
                m.d.comb += self.expired.eq(FaultCause.TASK_TIMEOUT)
            with m.Elif((self.watchdog != 0) & (idle >= self.watchdog)):
                m.d.comb += self.expired.eq(FaultCause.WATCHDOG)
            with m.If(limited & (left > 1)):
                m.d.sync += left.eq(left - 1)
            with m.If(self.progress):
                m.d.sync += idle.eq(0)
            with m.Elif(idle < self.watchdog):
                m.d.sync += idle.eq(idle + 1)
        with m.If(self.dispatch):
            m.d.sync += [limited.eq(self.timeout != 0), left.eq(self.timeout << 10), idle.eq(0)]
        return m
