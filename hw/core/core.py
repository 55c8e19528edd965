"""The matrix core: an engine that runs kernels."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..interface import ArgumentPort, EngineSignature, ReadPort, Report, Task, WritePort
from ..layout import struct
from ..regs.core import CoreState
from ..regs.descriptor import KernelPayload
from ..regs.fault import FaultCause
from .compute import ComputeUnit
from .diagnosis import detect_deadlock, find_fault
from .fetch import Hint, KernelFetch
from .load import LoadUnit
from .memory import LocalMemory
from .scrub import Scrub
from .sequencer import Sequencer
from .store import StoreUnit
from .token import TokenCounter

__all__ = ["CoreActivity", "MatrixCore"]

UNITS = ("load", "compute", "store")


class CoreActivity(data.Struct):
    """What a core does in this cycle, for the PMU."""

    instruction: 1
    load_busy: 1
    compute_busy: 1
    store_busy: 1
    load_token_wait: 1
    compute_token_wait: 1
    store_token_wait: 1
    array_busy: 1
    weight_wait: 1
    macs: 16


class MatrixCore(wiring.Component):
    """Runs KERNEL tasks: fetch, sequencer, three units, their tokens and local memories.

    A task taken in cycle t whose code is in a bank issues its first instruction in t + 1;
    otherwise its header's burst is offered in t + 1. It is done in the cycle in which END
    retires, the first in which all units are idle; tokens that are left are dropped. In the cycle
    in which that is accepted the next task is taken.

    `started` is the first code burst issued after the task was taken if code is being read for
    it, else the first instruction. `ended` pulses with every write response and in the last the
    task ends; without any, with END. A task that failed ends when all is drained.

    Faults are reported in the cycle after one is found, in which everything is aborted; of
    several in one cycle the first of fetch, sequencer, tokens, load, compute, store counts. One
    token too many, and a kernel that waits for tokens that can no more come, are illegal
    instructions; their PC is the sequencer's. The latter is found when nothing has moved for as
    many cycles as the longest pipeline has stages.

    Nothing passes from one context to another. When the local memories must be scrubbed for a
    task taken in cycle t (see `Scrub`), its first instruction is issued in t + n + 1, or when its
    code is there if that is later; n is how many words the fuller one has up to the last that
    was written. At the start of every task the channel table is all zeros and there are no
    weights to keep. What a kernel finds in scratchpad and accumulators is undefined: what its own
    context left there, or zeros.

    `Report.state` is a `CoreState`.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    engine: `EngineSignature`.
    arguments: `ArgumentPort`.
    hint: `Hint`: the kernel likely to be next.
    changed: one bit for each context, pulses: its access windows change; cached code is read
        anew before it runs again.
    invalidate: pulse; the same for code in memory that has changed.
    code, load: `ReadPort`. store: `WritePort`.
    activity: `CoreActivity`.
    """

    def __init__(self, config):
        self.config = config
        self.patience = config.rows + config.columns + 32
        super().__init__({
            "engine": Out(EngineSignature()),
            "arguments": Out(ArgumentPort()),
            "hint": In(Hint),
            "changed": In(config.contexts),
            "invalidate": In(1),
            "code": Out(ReadPort(config.data_bytes)),
            "load": Out(ReadPort(config.data_bytes)),
            "store": Out(WritePort(config.data_bytes)),
            "activity": Out(CoreActivity),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        engine = self.engine
        m.submodules.fetch = fetch = KernelFetch(config)
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.load = load = LoadUnit(config)
        m.submodules.compute = compute = ComputeUnit(config)
        m.submodules.store = store = StoreUnit(config)
        units = (load, compute, store)
        m.submodules.scrub = scrub = Scrub(config)
        self._connect_memories(m, load, compute, store, scrub)
        connect(m, flipped(self.code), fetch.memory)
        connect(m, flipped(self.load), load.memory)
        connect(m, flipped(self.store), store.memory)
        for name, unit in zip(UNITS, units, strict=True):
            connect(m, getattr(sequencer, name), unit.operations)

        # The task.
        task = Signal(Task)
        kernel = data.View(struct(KernelPayload), task.payload)
        offered = data.View(struct(KernelPayload), engine.tasks.p.payload)
        takes = Signal()
        running = Signal()
        aborts = Signal()
        idle = Signal()
        m.d.comb += [
            engine.tasks.ready.eq(idle | (engine.done.valid & engine.done.ready)),
            takes.eq(engine.tasks.valid & engine.tasks.ready),
        ]
        with m.If(takes):
            m.d.sync += task.eq(engine.tasks.p)
        m.d.comb += [
            fetch.start.valid.eq(takes),
            fetch.start.p.address.eq(offered.kernel_address),
            fetch.start.p.context.eq(engine.tasks.p.context),
            fetch.start.p.invalidate.eq(engine.tasks.p.option),
            fetch.hint.eq(self.hint),
            fetch.forget.eq(self.changed.any() | self.invalidate),
            fetch.abort.eq(aborts),
            fetch.index.eq(sequencer.index),
            sequencer.code.eq(fetch.word),
            sequencer.length.eq(fetch.length),
            sequencer.abort.eq(aborts),
            sequencer.idle.eq(~Cat(unit.busy for unit in units).any()),
            self.arguments.stream.eq(task.stream),
            self.arguments.slot.eq(task.slot),
            self.arguments.word.eq(sequencer.argument),
            sequencer.argument_data.eq(self.arguments.data),
        ]
        held = Signal()  # the kernel is there, but must not start yet
        m.d.comb += [
            scrub.takes.eq(takes),
            scrub.context.eq(engine.tasks.p.context),
            scrub.idle.eq(idle | takes),
            scrub.changed.eq(self.changed),
            sequencer.start.eq((fetch.ready | held) & ~scrub.holds & ~aborts),
        ]
        m.d.sync += held.eq((fetch.ready | held) & scrub.holds & ~aborts)
        for unit in units:
            m.d.comb += [
                unit.start.eq(takes),
                unit.context.eq(task.context),
                unit.overflow.eq(task.overflow),
                unit.abort.eq(aborts),
            ]
        tokens = self._connect_tokens(m, sequencer, units, takes | aborts)

        found = Signal(Report)
        report = Signal(Report)
        stuck = detect_deadlock(m, sequencer, units, running, self.patience)
        m.d.comb += found.eq(find_fault(m, fetch, sequencer, tokens, units, stuck, kernel))
        state = data.View(struct(CoreState), found.state)
        for n, (name, unit) in enumerate(zip(UNITS, units, strict=True)):
            m.d.comb += [
                state[f"{name}_busy"].eq(unit.busy),
                state[f"{name}_waiting"].eq(unit.waiting),
                state[f"{name}_queued"].eq(sequencer.queued[n]),
            ]
        m.d.comb += [
            state.fetching.eq(fetch.pending),
            state.scrubbing.eq(scrub.busy),
            state.running.eq(sequencer.running),
            state.blocked.eq(sequencer.blocked),
            *(state[name].eq(counter.pending) for name, counter in tokens.items()),
        ]

        begun = Signal()
        responded = Signal()
        m.d.comb += [
            engine.started.eq(
                running & ~begun & (sequencer.issued | (fetch.pending & self.code.issued))
            ),
            engine.progress.eq(
                running
                & (sequencer.issued | fetch.beat | scrub.busy | store.response
                   | Cat(unit.progress for unit in units).any())
            ),
            engine.busy.eq(~idle),
            engine.fault.report.eq(Mux(engine.fault.valid, report, found)),
        ]
        with m.If(engine.started):
            m.d.sync += begun.eq(1)
        with m.If(store.response):
            m.d.sync += responded.eq(1)
        with m.If(takes):
            m.d.sync += [begun.eq(0), responded.eq(0)]

        with m.FSM(name="state"):
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                with m.If(takes):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [
                    running.eq(1),
                    engine.done.valid.eq(sequencer.ended),
                    engine.ended.eq(store.response | (sequencer.ended & ~responded)),
                ]
                with m.If(sequencer.ended):
                    m.next = "DONE"
                    self._leave(m, takes)
                with m.Elif((found.cause != FaultCause.NONE) | engine.abort):
                    m.d.sync += report.eq(found)
                    m.next = "ABORT"
            with m.State("DONE"):
                m.d.comb += engine.done.valid.eq(1)
                self._leave(m, takes)
            with m.State("ABORT"):
                m.d.comb += [
                    aborts.eq(1),
                    engine.fault.valid.eq(report.cause != FaultCause.NONE),
                ]
                m.next = "DRAIN"
            with m.State("DRAIN"):
                with m.If(~fetch.draining & self.load.idle & self.store.idle):
                    m.d.comb += engine.ended.eq(1)
                    m.next = "FAILED"
            with m.State("FAILED"):
                m.d.comb += [engine.done.valid.eq(1), engine.done.p.failed.eq(1)]
                self._leave(m, takes)

        m.d.comb += [
            self.activity.instruction.eq(sequencer.issued),
            Cat(self.activity[f"{name}_busy"] for name in UNITS).eq(
                Cat(unit.busy for unit in units)
            ),
            Cat(self.activity[f"{name}_token_wait"] for name in UNITS).eq(
                Cat(unit.waiting for unit in units)
            ),
            self.activity.array_busy.eq(compute.row),
            self.activity.weight_wait.eq(compute.weight_wait),
            self.activity.macs.eq(compute.macs),
        ]
        return m

    def _leave(self, m, takes):
        """The task is done; another may be taken in the cycle in which that is accepted."""
        with m.If(self.engine.done.ready):
            m.next = "IDLE"
        with m.If(takes):
            m.next = "RUN"

    def _connect_memories(self, m, load, compute, store, scrub):
        config = self.config
        m.submodules.scratchpad = scratchpad = LocalMemory(
            config.scratchpad_words, config.word_bytes * 8, readers=3
        )
        m.submodules.accumulators = accumulators = LocalMemory(
            config.accumulator_rows, config.columns * 32, readers=2
        )
        connect(m, load.write, scratchpad.write)
        connect(m, compute.activations, scratchpad.reads[0])
        connect(m, compute.weights, scratchpad.reads[1])
        connect(m, store.table, scratchpad.reads[2])
        connect(m, compute.write, accumulators.write)
        connect(m, compute.read, accumulators.reads[0])
        connect(m, store.accumulators, accumulators.reads[1])
        memories = scratchpad, accumulators
        m.d.comb += [
            *(words.scrub.eq(scrub.busy) for words in memories),
            scrub.dirty.eq(Cat(words.used != 0 for words in memories).any()),
            scrub.last.eq(~Cat(words.used > 1 for words in memories).any()),
        ]

    def _connect_tokens(self, m, sequencer, units, clear):
        """Counters from load to compute and back, from compute to store and back, by name."""
        counters = {}
        for before, after, grant in (
            (0, 1, sequencer.grant_load), (1, 2, sequencer.grant_compute)
        ):  # fmt: skip
            forth, back = TokenCounter(), TokenCounter()
            counters[f"{UNITS[before]}_to_{UNITS[after]}"] = forth
            counters[f"{UNITS[after]}_to_{UNITS[before]}"] = back
            giver, taker = units[before].next, units[after].previous
            m.d.comb += [
                forth.give.eq(giver.give), forth.take.eq(taker.take),
                taker.available.eq(forth.available),
                back.give.eq(taker.give), back.take.eq(giver.take),
                giver.available.eq(back.available),
                back.grant.eq(grant),
                forth.clear.eq(clear), back.clear.eq(clear),
            ]  # fmt: skip
        for name, counter in counters.items():
            m.submodules[name] = counter
        return counters
