"""The lists of a graph in device memory: entries, and argument blocks that lie like them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hw.regs.descriptor import (
    Arguments,
    CallPayload,
    EventWord,
    KernelPayload,
    Sqe,
    TaskType,
    seal,
)

from ..event import GENERATIONS, Slot
from .dag import Plan
from .desc import Node

__all__ = ["Image", "Part", "relocated"]

WORDS = Sqe.event_deps.count


def relocated(word: int, epoch: int) -> int:
    """An event word of an entry of a list that is called with that epoch."""
    event = EventWord.from_int(word)
    return event.replace(generation=(event.generation + epoch) % GENERATIONS).to_int()


@dataclass(frozen=True)
class Entry:
    """An entry of a list: a task, or with `node` None one that only waits."""

    number: int
    waits: tuple[int, ...]
    node: Node | None = None


@dataclass(eq=False)
class Part:
    """What one stream runs of a graph: a list, called by one entry of the ring."""

    first: int
    """Index of its first entry among those of the graph."""
    slot: Slot
    """What its tasks record, in their order, and at last the call itself."""
    base: int
    """Generation of the slot before the first replay."""
    entries: list[Entry] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    """What the numbers in its entries mean."""
    waits_for: dict[int, str] = field(default_factory=dict)
    """In words what they wait for beside events."""
    sqes: list[Sqe] = field(default_factory=list)
    """Its entries as they lie in memory."""

    def word(self, step: int, epoch: int = 0) -> EventWord:
        """What its step-th recording task records in a replay."""
        generation = (self.base + step + epoch) % GENERATIONS
        return EventWord(slot=self.slot.number, generation=generation)

    def called(self, epoch: int) -> list[Sqe]:
        """Its entries as the device sees them in a replay."""
        return [
            sqe.replace(
                event_deps=[relocated(word, epoch) for word in sqe.event_deps[: sqe.dependencies]],
                record_event=relocated(sqe.record_event, epoch) if sqe.record else 0,
            ) if sqe.relative else sqe
            for sqe in self.sqes
        ]  # fmt: skip


class Image:
    """The memory of a graph: an argument block for each entry, then the lists.

    Every part has one event slot: those of its tasks that others wait for record generations in
    their order, and the call that ends records the last. As all parts are called with the same
    epoch, a wait means the record of its own replay.

    Parameters
    ----------
    plan: the streams and waits.
    nodes: the tasks by their number within the graph.
    slots: an event slot for each stream of the plan.
    fresh: gives a number of the device for an entry that only waits.

    Attributes
    ----------
    parts: one for each stream.
    address: where it lies, from when that is known.
    """

    ALIGNMENT = Arguments.BYTES

    def __init__(
        self,
        plan: Plan,
        nodes: Mapping[int, Node],
        slots: Sequence[Slot],
        fresh: Callable[[], int],
    ) -> None:
        self._plan = plan
        self.address = 0
        self.parts: list[Part] = []
        self._part_of: dict[int, Part] = {}
        self._index: dict[int, int] = {}
        count = 0
        for lane, slot in zip(plan.lanes, slots, strict=True):
            assert slot.generation is not None
            part = Part(count, slot, slot.generation)
            self.parts.append(part)
            for task_id in lane:
                self._part_of[task_id] = part
                self._append(part, nodes[task_id], fresh)
                self._index[task_id] = count + len(part.entries) - 1
            count += len(part.entries)
        self.count = count

    def _append(self, part: Part, node: Node, fresh: Callable[[], int]) -> None:
        """A task, behind entries that wait for those for which it has no room."""
        waits = self._plan.waits[node.task_id]
        while len(waits) > WORDS:
            entry = Entry(fresh(), waits[:WORDS])
            part.names[entry.number] = f"waits of task {node.task_id}"
            part.entries.append(entry)
            waits = waits[WORDS:]
        part.names[node.number] = f"task {node.task_id}"
        part.waits_for[node.number] = node.waits_for
        part.entries.append(Entry(node.number, waits, node))

    @property
    def stride(self) -> int:
        """What the epoch grows by from one replay to the next."""
        return self._plan.stride

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self.count * (Arguments.BYTES + Sqe.BYTES)

    def block(self, task_id: int) -> int:
        """Offset of the argument block of a task."""
        return self._index[task_id] * Arguments.BYTES

    def payload(self, part: Part, epoch: int) -> CallPayload:
        """What calls a part."""
        kernels = any(entry.node and entry.node.launch for entry in part.entries)
        return CallPayload(
            list_address=self.address + self.count * Arguments.BYTES + part.first * Sqe.BYTES,
            entries=len(part.entries), epoch=epoch,
            args_address=self.address + part.first * Arguments.BYTES if kernels else 0,
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Its contents, as soon as it has an address."""
        entries = [entry for part in self.parts for entry in part.entries]
        for part in self.parts:
            part.sqes = [self._sqe(part.first + n, entry) for n, entry in enumerate(part.entries)]
        blocks = (
            entry.node.launch.arguments.to_bytes() if entry.node and entry.node.launch
            else bytes(Arguments.BYTES)
            for entry in entries
        )  # fmt: skip
        lists = (seal(sqe).to_bytes() for part in self.parts for sqe in part.sqes)
        return b"".join((*blocks, *lists))

    def _sqe(self, index: int, entry: Entry) -> Sqe:
        node = entry.node
        deps = self._words(entry.waits)
        record = self._words([node.task_id] if node and node.task_id in self._plan.steps else [])
        sqe = node.sqe if node else Sqe(type=TaskType.EVENT_WAIT)
        if node and node.launch:
            payload = KernelPayload.from_int(sqe.payload)
            place = self.address + index * Arguments.BYTES
            sqe = sqe.replace(payload=payload.replace(args_address=place).to_int())
        return sqe.replace(
            task_id=entry.number, event_deps=deps, dependencies=len(deps), record=len(record),
            record_event=record[0] if record else 0, relative=int(bool(deps or record)),
        )  # fmt: skip

    def _words(self, task_ids: Sequence[int]) -> list[int]:
        steps = self._plan.steps
        return [self._part_of[id].word(steps[id]).to_int() for id in task_ids]
