"""Value engine: VALUE_WRITE."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from .config import ADDRESS_BITS
from .interface import EngineSignature, Status, WritePort, access_cause
from .layout import struct
from .regs.descriptor import ValuePayload

__all__ = ["ValueEngine"]


class ValueEngine(wiring.Component):
    """Writes a value of 8 bytes to memory and waits for the answer.

    A task offered in cycle t to an idle engine has its burst requested in t + 1 and thus on the
    bus in t + 2; the data follows in the cycle after the request was taken. `ended` is in the cycle
    of the answer, `done` valid from then on. A failed answer is a fault in its cycle, `done` valid
    from the next one on; after an abort it is in the first cycle in which all is drained. In the
    cycle in which `done` is accepted the next task is taken.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    engine: `EngineSignature`; tasks are VALUE_WRITE, with an aligned address. Reports name it.
    memory: writes.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "engine": Out(EngineSignature()),
            "memory": Out(WritePort(config.data_bytes)),
        })

    def elaborate(self, platform):
        m = Module()
        engine, memory = self.engine, self.memory
        payload = Signal(struct(ValuePayload))
        write = Signal(data.StructLayout({"address": ADDRESS_BITS, "value": 64, "context": 4}))
        take, asked, sent, failed = Signal(), Signal(), Signal(), Signal()
        answer = memory.responses
        m.d.comb += [
            payload.eq(engine.tasks.p.payload),
            engine.tasks.ready.eq(~engine.busy | (engine.done.valid & engine.done.ready)),
            take.eq(engine.tasks.valid & engine.tasks.ready),
            engine.done.p.failed.eq(failed),
            engine.progress.eq((memory.data.valid & memory.data.ready) | answer.valid),
            memory.requests.p.address.eq(write.address),
            memory.requests.p.bytes.eq(8),
            memory.requests.p.context.eq(write.context),
            memory.data.p.data.eq(write.value.replicate(self.config.data_bytes // 8)),
            memory.data.p.strobe.eq(
                0xFF << write.address[: (self.config.data_bytes - 1).bit_length()]
            ),
            answer.ready.eq(1),
        ]
        with m.If(engine.busy):
            m.d.comb += [
                engine.fault.report.address.eq(write.address), engine.fault.report.write.eq(1),
            ]  # fmt: skip
        with m.If(memory.requests.valid & memory.requests.ready):
            m.d.sync += asked.eq(1)
        with m.If(memory.data.valid & memory.data.ready):
            m.d.sync += sent.eq(1)
        with m.If(take):
            m.d.sync += [
                write.address.eq(payload.address),
                write.value.eq(payload.value),
                write.context.eq(engine.tasks.p.context),
                asked.eq(0), sent.eq(0), failed.eq(0),
            ]  # fmt: skip

        with m.FSM(name="state"):
            with m.State("IDLE"):
                with m.If(take):
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [
                    engine.busy.eq(1),
                    engine.started.eq(memory.issued),
                    memory.requests.valid.eq(~asked),
                    memory.data.valid.eq(asked & ~sent),
                    engine.ended.eq(answer.valid),
                ]
                with m.If(answer.valid & (answer.p.status == Status.OKAY)):
                    self._leave(m, take)
                with m.Elif(answer.valid):
                    m.d.comb += [
                        engine.fault.valid.eq(1),
                        engine.fault.report.cause.eq(access_cause(answer.p.status)),
                    ]
                    m.d.sync += failed.eq(1)
                    m.next = "DONE"
                with m.Elif(engine.abort):
                    m.d.comb += memory.abort.eq(1)
                    m.d.sync += failed.eq(1)
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += engine.busy.eq(1)
                with m.If(memory.idle):
                    m.d.comb += engine.ended.eq(1)
                    self._leave(m, take)
            with m.State("DONE"):
                m.d.comb += engine.busy.eq(1)
                self._leave(m, take)
        return m

    def _leave(self, m, take):
        """The task is done; another may be taken in the cycle in which that is accepted."""
        m.d.comb += self.engine.done.valid.eq(1)
        m.next = "DONE"
        with m.If(self.engine.done.ready):
            m.next = "IDLE"
        with m.If(take):
            m.next = "WRITE"
