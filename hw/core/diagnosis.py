"""What is wrong with a kernel that runs, and where."""

from amaranth import Cat, Mux, Signal

from ..config import ADDRESS_BITS
from ..interface import Report
from ..regs.fault import FaultCause
from ..regs.instruction import KernelHeader

__all__ = ["detect_deadlock", "find_fault"]


def detect_deadlock(m, sequencer, units, running, patience):
    """Whether the kernel that runs waits for units, and each of them has nothing to do or waits for
    a token: found after `patience` cycles in which nothing moved, for one cycle.
    """
    load, _, store = units
    resting = Cat(
        unit.waiting | ~(unit.busy | sequencer.queued[n]) for n, unit in enumerate(units)
    ).all()
    quiet = Signal()
    still = Signal(range(patience + 1))
    stuck = Signal()
    m.d.comb += [
        quiet.eq(
            running & sequencer.blocked & resting
            & ~Cat(unit.progress for unit in units).any()
            & load.memory.idle & store.memory.idle
            & ~load.memory.requests.valid & ~store.memory.requests.valid
        ),
        stuck.eq(still == patience),
    ]  # fmt: skip
    m.d.sync += still.eq(Mux(quiet & ~stuck, still + 1, 0))
    return stuck


def find_fault(m, fetch, sequencer, tokens, units, stuck, kernel):
    """What is found in this cycle; if nothing, which instruction is in work, and no cause."""
    found = Signal(Report)
    start_pc = Signal(ADDRESS_BITS)
    index = Signal(13)
    m.d.comb += [
        start_pc.eq(kernel.kernel_address + KernelHeader.BYTES),
        found.start_pc.eq(start_pc),
        found.pc.eq(start_pc + (index << 4)),
    ]
    with m.If(sequencer.running):
        m.d.comb += [index.eq(sequencer.place), found.instruction.eq(sequencer.word)]
    with m.If(fetch.fault.valid):
        m.d.comb += [
            found.cause.eq(fetch.fault.cause),
            found.address.eq(fetch.fault.address),
            found.execute.eq(1),
        ]
    with m.Elif(sequencer.fault.valid):
        m.d.comb += [
            found.cause.eq(FaultCause.ILLEGAL_INSTRUCTION),
            index.eq(sequencer.fault.index),
            found.instruction.eq(sequencer.fault.word),
        ]
    with m.Elif(stuck | Cat(counter.overflow for counter in tokens.values()).any()):
        m.d.comb += found.cause.eq(FaultCause.ILLEGAL_INSTRUCTION)
    for unit in units:
        with m.Elif(unit.fault.valid):
            m.d.comb += [
                found.cause.eq(unit.fault.cause),
                found.address.eq(unit.fault.address),
                found.write.eq(unit.fault.write),
                index.eq(unit.fault.index),
                found.instruction.eq(unit.fault.word),
            ]
    return found
