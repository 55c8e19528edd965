"""What streams and events mean, without any time.

A program is a list of calls of the host. `Reference` turns it into tasks, and says which of them
must have ended before which others begin. Sets of tasks are integers, one bit for each.
"""

from dataclasses import dataclass

from tests.system.semantics.calls import (
    COUNTERS,
    GRAPHS,
    Abort,
    Add,
    Await,
    Barrier,
    Close,
    Destroy,
    Mark,
    Put,
    Record,
    Replay,
    SetTo,
    Submit,
    Synchronise,
    SynchroniseEvent,
    Take,
    Update,
    Wait,
    WaitStream,
    Work,
)

__all__ = ["Reference", "Task", "conflict", "members", "ordered", "overlap"]


def members(tasks):
    """Numbers of the tasks of a set."""
    while tasks:
        lowest = tasks & -tasks
        yield lowest.bit_length() - 1
        tasks ^= lowest


def overlap(spans, others):
    """The bytes that are in both."""
    for first, stop in spans:
        for first_other, stop_other in others:
            if max(first, first_other) < min(stop, stop_other):
                yield slice(max(first, first_other), min(stop, stop_other))


def conflict(one, two):
    """Whether the order of two pieces of work matters to memory."""
    return (
        any(overlap(one.writes, two.writes))
        or any(overlap(one.writes, two.reads))
        or any(overlap(one.reads, two.writes))
    )


def ordered(one, two):
    """Whether one of two tasks must have ended when the other begins; or they are the same."""
    return (one.before | one.bit) & two.bit or two.before & one.bit


@dataclass(eq=False)
class Task:
    """A task of a program."""

    number: int
    call: int
    """Place of its call in the program."""
    node: int
    """Place in its graph, or 0."""
    streams: tuple[int, ...]
    """The stream that it is in, or those that it may be in."""
    work: Work
    after: int
    """What its stream waits for: the task before it, and those of other streams."""
    known: int
    """What the host knew to have ended when it submitted it."""
    place: object
    """The word, or the counter and how often that had been set, that it signals or waits for."""
    dropped: bool = False
    """An abort may have dropped it."""
    before: int = 0
    """All that has ended when it begins."""
    passed: int = 0
    """All that has ended when it is over, even if it was dropped; itself included."""

    @property
    def bit(self):
        return 1 << self.number


class Reference:
    """The tasks of a program for so many streams, with these graphs."""

    def __init__(self, streams, graphs=(), calls=()):
        self.graphs = list(graphs)
        self.tasks = []
        self.calls = 0
        self.position = [0] * streams  # what the next task of each waits for
        self.events = {}  # what the latest record of each has captured
        self.replays = {}  # the latest of each graph
        self.known = 0
        self.sets = [[0] for _ in range(COUNTERS + GRAPHS)]
        for call in calls:
            self.call(call)

    # ------------------------------------------------------------------------------- submission

    def call(self, call):
        """The host makes a call."""
        match call:
            case Submit(stream, work):
                self._submit((stream,), work)
            case Replay(streams, graph):
                self._replay(streams, graph)
            case Record(stream, event):
                self.events[event] = self._submit((stream,), Mark())
            case Wait(stream, event):
                self.position[stream] |= self.events.get(event, 0)
            case WaitStream(stream, other):
                self.position[stream] |= self._submit((other,), Mark())
            case Synchronise(stream) | Close(stream):
                self.known |= self.position[stream]
            case SynchroniseEvent(event):
                self.known |= self.events.get(event, 0)
            case Update(number, node, work):
                self.graphs[number] = self.graphs[number].updated(node, work)
            case Abort(stream) | Destroy(stream):
                self._abort(stream)
        self.calls += 1

    def _submit(self, streams, work, node=0, after=None):
        if after is None:
            after = self.position[streams[0]]
        if isinstance(work, Barrier):
            for position in self.position:
                after |= position
        task = Task(
            len(self.tasks), self.calls, node, streams, work, after, self.known, self._place(work)
        )
        self.tasks.append(task)
        self.position[streams[0]] = task.bit
        return task.bit

    def _place(self, work):
        match work:
            case SetTo(counter, amount):
                self.sets[counter].append(amount)
                return counter, len(self.sets[counter]) - 1
            case Add(counter) | Take(counter):
                return counter, len(self.sets[counter]) - 1
            case Put(word) | Await(word):
                return word
        return None

    def _replay(self, streams, number):
        """Behind its former replay, too."""
        graph, done, origin = self.graphs[number], [], streams[0]
        begin = self.position[origin]
        for node, (work, deps) in enumerate(graph.nodes):
            after = begin | self.replays.get(number, 0)
            for dep in deps:
                after |= done[dep]
            done.append(self._submit(streams, work, node, after))
        self.replays[number] = sum(done)
        self.position[origin] = begin | sum(done)

    def _abort(self, stream):
        self.order()
        ended = self.closure(self.known)
        for task in self.tasks:
            if stream in task.streams:
                task.dropped |= not ended & task.bit
            if task.streams == (stream,):
                self.known |= task.bit
        self.position[stream] = 0

    # ------------------------------------------------------------------------------------ order

    def closure(self, tasks):
        """What has ended when those are over."""
        for number in members(tasks):
            tasks |= self.tasks[number].passed
        return tasks

    def order(self):
        """Finds what must have ended before each task: `before` and `passed`.

        What is found stays true as more is found, so it is done again until nothing is new.
        """
        for task in self.tasks:
            task.before = task.passed = 0
        changed = True
        while changed:
            changed = False
            for task in self.tasks:
                before = self.closure(task.known | self.after(task) | self._necessary(task))
                # One that was dropped has waited for nothing of other streams.
                over = self.closure(task.known | self._own(task)) if task.dropped else before
                passed = over | task.bit
                changed |= (before, passed) != (task.before, task.passed)
                task.before, task.passed = before, passed

    def after(self, task):
        """What it waits for if it runs. Parts of a graph go on when another one is dropped."""
        return 0 if task.dropped and len(task.streams) > 1 else task.after

    def _own(self, task):
        """What it waits for in its own stream, even to be dropped."""
        tasks = (self.tasks[number] for number in members(self.after(task)))
        return sum(other.bit for other in tasks if other.streams == task.streams)

    def signals(self, task):
        """The tasks that can end the wait of a task: those that do not come after it."""
        kind = {Take: Add, Await: Put}.get(type(task.work))
        return [
            other for other in self.tasks
            if type(other.work) is kind and other.place == task.place
            and not other.before & task.bit
        ]  # fmt: skip

    def _enough(self, task, signals):
        """Whether its wait can end if nothing but those signals."""
        if isinstance(task.work, Await):
            return any(map(task.work.holds, [0, *(signal.work.value for signal in signals)]))
        counter, sets = task.place
        given = self.sets[counter][sets] + sum(signal.work.amount for signal in signals)
        taken = sum(
            self.tasks[number].work.amount for number in members(task.before)
            if isinstance(self.tasks[number].work, Take) and self.tasks[number].place == task.place
        )  # fmt: skip
        return given - taken >= task.work.amount

    def _necessary(self, task):
        """What must have ended since its wait could not end otherwise.

        That are the signals without which, and without what comes after them, there are not
        enough. A value is seen before the task that writes it has ended, not before it begins.
        """
        signals, necessary = self.signals(task), 0
        for one in signals:
            rest = [other for other in signals if not (other.before | other.bit) & one.bit]
            if not self._enough(task, rest):
                necessary |= one.before if isinstance(task.work, Await) else one.bit
        return necessary

    @property
    def legal(self):
        """No wait can last for ever, whatever the order, and counters end with one value."""
        self.order()
        return all(map(self._legal, self.tasks))

    def _legal(self, task):
        if task.dropped:
            return isinstance(task.work, Await) or task.place is None
        match task.work:
            case SetTo(counter):
                return all(
                    ordered(task, other) for other in self.tasks
                    if not isinstance(other.work, Put | Await)
                    and other.place and other.place[0] == counter
                )  # fmt: skip
            case Take():
                takes = [
                    other for other in self.tasks
                    if isinstance(other.work, Take) and other.place == task.place
                ]  # fmt: skip
                signals = self.signals(task)
                return self._enough(task, signals) and all(ordered(task, o) for o in takes)
            case Await():
                signals = self.signals(task)
                wrong = sum(o.bit for o in signals if not task.work.holds(o.work.value))
                right = [o.before for o in signals if not wrong & o.bit]
                return any(not wrong & ~before for before in [*right, *[0] * task.work.holds(0)])
        return True
