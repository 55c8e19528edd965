"""Golden model of what the device says of tasks: completion rings and the faults of contexts."""

from dataclasses import dataclass, field

from hw.regs.descriptor import Completion
from hw.regs.registers import CONTEXT, CompletionBase, CompletionConfig, FaultStatus
from tests.models.memory import Fault
from tests.models.queues import INDEXES


@dataclass
class Context:
    """Completion ring and first fault of one context."""

    tail: int = 0
    head: int = 0
    fault: dict = field(default_factory=dict)
    count: int = 0


class Reports:
    """The contexts of `config`.

    get: a register that was written. interrupt: sets causes of a context.
    """

    def __init__(self, config, get, interrupt, memory):
        self.get, self.interrupt, self.memory = get, interrupt, memory
        self.contexts = [Context() for _ in range(config.contexts)]

    def room(self, context, running):
        """Entries that may still be promised, with so many tasks running; None: no ring."""
        size = self.get(CompletionConfig, context).size
        ring = self.contexts[context]
        return (1 << size) - (ring.tail - ring.head) % INDEXES - running if size else None

    def complete(self, context, task, cycle):
        """Writes the entry of a task that ends; returns the `Fault` of a write that fails."""
        size = self.get(CompletionConfig, context).size
        if not size:
            return None
        ring = self.contexts[context]
        entry = Completion(
            phase=~(ring.tail >> size) & 1, status=task.fault.cause if task.fault else 0,
            stream=task.stream.number, engine=task.engine, context=context,
            task_id=task.sqe.task_id, start=task.start, end=cycle,
            counters=[cycle - task.start] * 8 if task.sqe.counters else [],
        )  # fmt: skip
        index = ring.tail % (1 << size)
        place = self.get(CompletionBase, context).address + index * Completion.BYTES
        try:
            self.memory.store(context, place, entry.to_bytes())
        except Fault as fault:
            return fault
        ring.tail = (ring.tail + 1) % INDEXES
        self.interrupt(context, completion=1)
        return None

    def capture(self, stream, engine, context, task_id, fault, cycle):
        """Keeps the first fault of a context and counts the later ones."""
        state = self.contexts[context]
        state.count += 1
        self.interrupt(context, fault=1)
        if state.fault:
            return
        more = fault.more
        word = more.get("instruction", 0)
        named = {
            "FaultTask": dict(task_id=task_id),
            "FaultTime": dict(cycle=cycle),
            "FaultAddress": dict(
                address=fault.address, write=int(fault.access == "write"),
                execute=int(fault.access == "execute"),
            ),
            "FaultStartPc": dict(address=more.get("start_pc", 0)),
            "FaultPc": dict(address=more.get("pc", 0)),
            "FaultInstructionLow": dict(word=word & (1 << 64) - 1),
            "FaultInstructionHigh": dict(word=word >> 64),
            "FaultState": dict(state=more.get("state", 0)),
        }  # fmt: skip
        state.fault = {register: named[register.__name__] for register in CONTEXT
                       if register.__name__ in named}  # fmt: skip
        state.fault[FaultStatus] = dict(
            valid=1, cause=fault.cause, stream=stream.number, engine=engine
        )


