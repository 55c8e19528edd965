"""The NPU: wires the blocks, nothing else."""

from amaranth import Cat, Module, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from . import axi
from .activity import amounts
from .bus.memory_bus import MemoryBus
from .core.core import MatrixCore
from .csr import Csr
from .dma import Dma
from .event import EventUnit
from .fault import FaultCapture
from .hint import PrefetchHint
from .layout import struct
from .notify import NotifyUnit
from .pmu import Pmu
from .poll import Poller
from .queues.completion import CompletionWriter
from .queues.queue import SubmissionQueues
from .regs.descriptor import EventWord
from .schedule.barrier import BarrierUnit
from .schedule.scheduler import Scheduler
from .trace import traced
from .value import ValueEngine

__all__ = ["Npu"]


class Npu(wiring.Component):
    """An NPU of configuration `config`.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    control: registers, AXI4-Lite, 64 KiB.
    memory: AXI4 manager port to device and host memory.
    irq: level: an enabled cause of some context is pending.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "control": In(axi.LiteSignature()),
            "memory": Out(axi.Signature(data_bytes=config.data_bytes, id_bits=config.id_bits)),
            "irq": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.csr = self.csr = Csr(config)
        m.submodules.bus = self.bus = MemoryBus(config)
        m.submodules.queues = self.queues = SubmissionQueues(config)
        m.submodules.events = self.events = EventUnit(config)
        m.submodules.notifies = self.notifies = NotifyUnit(config)
        m.submodules.poller = self.poller = Poller(config)
        m.submodules.barriers = self.barriers = BarrierUnit(config)
        m.submodules.scheduler = self.scheduler = Scheduler(config)
        m.submodules.completion = self.completion = CompletionWriter(config)
        m.submodules.faults = self.faults = FaultCapture(config, len(config.engines) + 1)
        m.submodules.pmu = self.pmu = Pmu(config)
        m.submodules.hint = self.hint = PrefetchHint(config)
        self.copies = [Dma(config) for _ in range(config.copy_channels)]
        self.cores = [MatrixCore(config) for _ in range(config.cores)]
        for n, copy in enumerate(self.copies):
            m.submodules[f"copy{n}"] = copy
        for n, core in enumerate(self.cores):
            m.submodules[f"core{n}"] = core
        m.submodules.value = self.value = ValueEngine(config)

        connect(m, flipped(self.control), self.csr.control)
        connect(m, self.bus.memory, flipped(self.memory))
        self._memory(m)
        self._streams(m)
        self._engines(m)
        self._waits(m)
        self._event_registers(m)
        self._notify_registers(m)
        self._contexts(m)
        self._counters(m)
        self._trace(m)
        return m

    def _memory(self, m):
        """Clients of the memory bus, in the order of the configuration's lists."""
        reads = {"queue": self.queues.memory, "value": self.poller.memory}
        writes = {"completion": self.completion.memory, "value": self.value.memory}
        for n, copy in enumerate(self.copies):
            reads[f"copy{n}"], writes[f"copy{n}"] = copy.read, copy.write
        for n, core in enumerate(self.cores):
            reads[f"code{n}"], reads[f"load{n}"] = core.code, core.load
            writes[f"store{n}"] = core.store
        for n, name in enumerate(self.config.read_clients):
            connect(m, reads[name], self.bus.reads[n])
        for n, name in enumerate(self.config.write_clients):
            connect(m, writes[name], self.bus.writes[n])
        for window, registers in zip(self.bus.windows, self.csr.windows, strict=True):
            limit = registers.window_limit.value
            m.d.comb += [
                window.base.eq(registers.window_base.value.address),
                window.limit.eq(limit.address),
                window.read.eq(limit.read),
                window.write.eq(limit.write),
                window.execute.eq(limit.execute),
            ]

    def _streams(self, m):
        queues, scheduler = self.queues, self.scheduler
        for s, registers in enumerate(self.csr.streams):
            ring, stream, link = queues.rings[s], scheduler.streams[s], scheduler.rings[s]
            connect(m, queues.heads[s], scheduler.heads[s])
            m.d.comb += [
                ring.base.eq(registers.ring_base.value.address),
                ring.args_base.eq(registers.args_base.value.address),
                ring.size.eq(stream.settings.size),
                ring.context.eq(stream.settings.context),
                ring.doorbell.eq(registers.doorbell.value.tail),
                ring.rung.eq(registers.doorbell.written),
                registers.tail.value.tail.eq(ring.tail),
                registers.head.value.head.eq(ring.head),
                registers.stream_entry.value.entry.eq(ring.entry),
                ring.active.eq(link.active),
                ring.start.eq(link.start),
                ring.flush.eq(link.flush),
                ring.enter.eq(link.enter),
                link.flushed.eq(ring.flushed),
                link.empty.eq(ring.empty),
                link.overrun.eq(queues.overrun[s]),
                queues.retire[s].eq(link.retire),
                stream.config.eq(registers.stream_config.value),
                stream.start.eq(registers.stream_command.value.start),
                stream.abort.eq(registers.stream_command.value.abort),
                stream.returned.eq(registers.callback_return.written),
                stream.returned_task.eq(registers.callback_return.value.task),
                stream.returned_failed.eq(registers.callback_return.value.failed),
                registers.stream_task.value.task_id.eq(stream.task_id),
                registers.stream_wait.value.slot.eq(stream.wait.slot),
                registers.stream_wait.value.generation.eq(stream.wait.generation),
                self.hint.heads[s].eq(queues.heads[s].payload),
                self.hint.valid[s].eq(queues.heads[s].valid),
                self.hint.active[s].eq(link.active),
                self.hint.settings[s].eq(stream.settings),
            ]
            status = registers.stream_status.value
            m.d.comb += status.wait.eq(stream.wait_kind)
            m.d.comb += [
                getattr(status, name).eq(getattr(stream, name))
                for name in ("state", "running", "staged", "called", "waiting", "engine", "cause")
            ]

    def _waits(self, m):
        """What heads of streams wait for, and what is changed for them."""
        scheduler = self.scheduler
        for s in range(self.config.streams):
            connect(m, scheduler.waiters[s], self.events.waiters[s])
            connect(m, scheduler.notifies[s], self.notifies.waiters[s])
            connect(m, scheduler.polls[s], self.poller.streams[s])
            connect(m, scheduler.barriers[s], self.barriers.streams[s])
        connect(m, scheduler.changes, self.notifies.changes)
        m.d.comb += self.poller.interval.eq(self.csr.device.poll_interval.value.cycles)

    def _engines(self, m):
        scheduler = self.scheduler
        changed = [window.window_base.written | window.window_limit.written
                   for window in self.csr.windows]  # fmt: skip
        windows = self.config.windows
        invalidates = Cat(
            core.engine.tasks.valid & core.engine.tasks.ready & core.engine.tasks.p.option
            for core in self.cores
        )
        for n, engine in enumerate([*self.copies, *self.cores, self.value]):
            connect(m, engine.engine, scheduler.engines[n])
        for n, core in enumerate(self.cores):
            connect(m, core.arguments, self.queues.arguments[n])
            m.d.comb += [core.hint.eq(self.hint.hint), *(
                core.changed[context].eq(Cat(changed[context * windows :][:windows]).any())
                for context in range(self.config.contexts)
            )]  # fmt: skip
            m.d.comb += core.invalidate.eq((invalidates & ~(1 << n)).any())
        connect(m, scheduler.records, self.events.records)
        connect(m, scheduler.retirements, self.completion.entries)
        for c in range(self.config.contexts):
            connect(m, self.completion.credits[c], scheduler.credits[c])
        m.d.comb += [
            scheduler.room.eq(self.completion.room),
            scheduler.holds.eq(self.completion.holds),
            scheduler.outside.eq(self.completion.fault),
            scheduler.cycle.eq(self.pmu.cycle),
            scheduler.watchdog.eq(self.csr.device.watchdog.value.cycles),
            scheduler.deltas.eq(self.pmu.deltas),
            self.pmu.starts.eq(scheduler.marks | scheduler.started),
            self.pmu.ends.eq(scheduler.ended),
            self.csr.device.engine_status.value.busy.eq(scheduler.busy),
            self.csr.device.cycle.value.cycle.eq(self.pmu.cycle),
        ]

    def _event_registers(self, m):
        registers, events = self.csr.event, self.events
        # Holds records by register while the engines' records go first.
        m.submodules.records = records = fifo.SyncFIFOBuffered(
            width=struct(EventWord).size, depth=4
        )
        m.d.comb += [
            records.w_data.eq(registers.event_record.value),
            records.w_en.eq(registers.event_record.written),
            events.register.p.eq(records.r_data),
            events.register.valid.eq(records.r_rdy),
            records.r_en.eq(events.register.ready),
            events.cycle.eq(self.pmu.cycle),
            events.select.eq(registers.event_select.value.slot),
            registers.event_value.value.generation.eq(events.selected.generation),
            registers.event_time.value.timestamp.eq(events.selected.timestamp),
        ]

    def _notify_registers(self, m):
        registers, notifies = self.csr.event, self.notifies
        m.d.comb += [
            notifies.select.eq(registers.notify_select.value.counter),
            registers.notify_value.value.value.eq(notifies.value),
            notifies.set.eq(registers.notify_set.written),
            notifies.set_value.eq(registers.notify_set.value.value),
        ]

    def _contexts(self, m):
        """Completion rings, faults and interrupts of each context."""
        faults, completion = self.faults, self.completion
        sources = [*self.scheduler.faults, completion.fault]
        for event, source in zip(faults.events, sources, strict=True):
            m.d.comb += event.eq(source)
        m.d.comb += faults.cycle.eq(self.pmu.cycle)
        pending = Signal(self.config.contexts)
        for c, registers in enumerate(self.csr.contexts):
            queue, record = completion.queues[c], faults.records[c]
            causes = registers.interrupt_status.set
            own = [stream.settings.context == c for stream in self.scheduler.streams]

            def of_context(name, own=own):
                return Cat(
                    getattr(stream, name) & mine
                    for stream, mine in zip(self.scheduler.streams, own, strict=True)
                )

            m.d.comb += [
                queue.base.eq(registers.completion_base.value.address),
                queue.size.eq(registers.completion_config.value.size),
                queue.restart.eq(registers.completion_command.value.restart),
                queue.head.eq(registers.completion_head.value.head),
                queue.moved.eq(registers.completion_head.written),
                registers.completion_tail.value.tail.eq(queue.tail),
                causes.completion.eq(queue.written),
                causes.fault.eq(faults.raised[c]),
                causes.full.eq(queue.full),
                causes.stopped.eq(of_context("stopped").any()),
                causes.callback.eq(of_context("called_host").any()),
                registers.context_callbacks.value.streams.eq(of_context("callback")),
                faults.clear[c].eq(registers.fault_clear.value.clear),
                pending[c].eq(
                    (registers.interrupt_status.value.as_value()
                     & registers.interrupt_enable.value.as_value()).any()
                ),
                registers.fault_status.value.valid.eq(record.valid),
                registers.fault_status.value.cause.eq(record.report.cause),
                registers.fault_status.value.stream.eq(record.stream),
                registers.fault_status.value.engine.eq(record.engine),
                registers.fault_count.value.count.eq(record.count),
                registers.fault_task.value.task_id.eq(record.task_id),
                registers.fault_time.value.cycle.eq(record.time),
                registers.fault_address.value.address.eq(record.report.address),
                registers.fault_address.value.write.eq(record.report.write),
                registers.fault_address.value.execute.eq(record.report.execute),
                registers.fault_start_pc.value.address.eq(record.report.start_pc),
                registers.fault_pc.value.address.eq(record.report.pc),
                registers.fault_instruction_low.value.word.eq(record.report.instruction[:64]),
                registers.fault_instruction_high.value.word.eq(record.report.instruction[64:]),
                registers.fault_state.value.state.eq(record.report.state),
            ]  # fmt: skip
        m.d.comb += [
            self.csr.device.interrupt_contexts.value.contexts.eq(pending),
            self.irq.eq(pending.any()),
        ]

    def _counters(self, m):
        pmu, control, command = self.pmu, self.csr.pmu.pmu_control, self.csr.pmu.pmu_command
        m.d.comb += [
            pmu.enable.eq(control.value.enable),
            pmu.clear.eq(command.value.clear),
            pmu.snapshot.eq(command.value.snapshot),
            self.csr.pmu.pmu_cycle.value.cycle.eq(pmu.snapshot_cycle),
        ]
        for n, registers in enumerate(self.csr.counters):
            m.d.comb += [
                pmu.selects[n].eq(registers.pmu_select.value.event),
                pmu.selected[n].eq(registers.pmu_select.written),
                registers.pmu_value.value.value.eq(pmu.values[n]),
            ]
        of_this_cycle = amounts(
            self.config, scheduler=self.scheduler, bus=self.bus.activity, events=self.events,
            faults=self.faults, cores=[core.activity for core in self.cores],
        )  # fmt: skip
        for event, amount in of_this_cycle.items():
            m.d.comb += pmu.amounts[event].eq(amount)

    def _trace(self, m):
        values = traced(
            self.config, scheduler=self.scheduler, events=self.events, faults=self.faults,
            irq=self.irq,
        )  # fmt: skip
        for name, value in values.items():
            signal = Signal.like(value, name=f"trace_{name}")
            m.d.comb += signal.eq(value)
