"""Runs the tasks of a reference in any legal order, without any time."""

import numpy as np

from tests.system.semantics.calls import (
    BYTES,
    COUNTERS,
    GRAPHS,
    Add,
    Await,
    Download,
    SetTo,
    Take,
    word_span,
)
from tests.system.semantics.reference import conflict, ordered, overlap

__all__ = ["Result", "run"]


def run(reference, choose):
    """Runs all tasks of a reference, next what `choose` chooses of a list of them."""
    reference.order()
    result, rest = Result(), list(reference.tasks)
    while rest:
        ready = [
            task for task in rest
            if not (task.known | reference.after(task)) & ~result.ended and result.passes(task)
        ]  # fmt: skip
        assert ready, f"these wait for ever: {rest}"
        task = choose(ready)
        rest.remove(task)
        result.run(task, [
            other.work for other in reference.tasks
            if not ordered(task, other) and conflict(task.work, other.work)
        ])  # fmt: skip
    return result


class Result:
    """What a program leaves in memory and counters, and what it downloads.

    Attributes
    ----------
    memory, known: each byte, and whether it is specified.
    counters: the counters.
    downloads: by call: the bytes, and which of them are specified.
    order: the tasks as they ran. ended: the same as a set.
    """

    def __init__(self):
        self.memory = np.zeros(BYTES, np.uint8)
        self.known = np.ones(BYTES, bool)
        self.counters = [0] * (COUNTERS + GRAPHS)
        self.downloads = {}
        self.order = []
        self.ended = 0

    def passes(self, task):
        """Whether it waits for no counter and no word."""
        match task.work:
            case Take(counter, amount) if not task.dropped:
                return self.counters[counter] >= amount
            case Await(word) if not task.dropped:
                first, stop = word_span(word)
                found = self.memory[first:stop].tobytes()
                return task.work.holds(int.from_bytes(found, "little"))
        return True

    def run(self, task, races):
        """The task runs. If it may have been dropped, it does not, and its bytes are unspecified.

        races: the work of tasks that may run before, after or beside it, and touch the same bytes,
            which are unspecified, too.
        """
        work, known = task.work, not task.dropped
        self.order.append(task)
        self.ended |= task.bit
        for span in work.reads:
            sure = self._sure(span, races) & (not task.dropped)
            known = known and bool(sure.all())
            if isinstance(work, Download):
                self.downloads[task.call] = self.memory[slice(*span)].copy(), sure
        if not task.dropped:
            work.run(self.memory)
            self._count(work)
        for span in work.writes:
            self.known[slice(*span)] = known
            for other in races:
                for both in overlap((span,), other.writes):
                    self.known[both] = False

    def _sure(self, span, races):
        """Which bytes that a task reads are specified."""
        sure = np.zeros(BYTES, bool)
        sure[slice(*span)] = self.known[slice(*span)]
        for other in races:
            for both in overlap((span,), other.writes):
                sure[both] = False
        return sure[slice(*span)]

    def _count(self, work):
        match work:
            case Add(counter, amount):
                self.counters[counter] += amount
            case SetTo(counter, amount):
                self.counters[counter] = amount
            case Take(counter, amount):
                self.counters[counter] -= amount
