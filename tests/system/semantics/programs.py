"""Strategies for programs that end, whatever the order in which their tasks happen to run.

A program is written call by call beside a `Reference`. Before a task is submitted, its stream is
made to wait for those of other streams that touch the same bytes, in one of many ways; now and
then it is not, and then those bytes are unspecified.
"""

from hypothesis import strategies as st

from hw.regs.descriptor import Comparison
from tests.system.semantics.calls import (
    BUFFERS,
    COUNTERS,
    EVENTS,
    GRAPHS,
    SIZE,
    WORDS,
    Abort,
    Add,
    Await,
    Barrier,
    Batch,
    Callback,
    Close,
    Copy,
    Destroy,
    Download,
    Fill,
    Graph,
    Multiply,
    Origin,
    Program,
    Put,
    Query,
    Record,
    Replay,
    SetTo,
    Submit,
    Synchronise,
    SynchroniseEvent,
    Take,
    Update,
    Upload,
    Wait,
    WaitStream,
)
from tests.system.semantics.reference import Reference, conflict

__all__ = ["programs"]

DEPTHS, DEPTHS_OF_REPLAYS = (2, 4, 16), (8, 16)
GENERATIONS = (0, (1 << 20) - 2)
TASKS = (1, (1 << 31) - 5, (1 << 32) - 5, (1 << 63) - 5)
INDICES = (0, (1 << 32) - 3)
"""Where numbers begin: generations, indices and what the host returns to wrap there."""
SLOTS = 15
"""Event slots that may be in use: `tiny` has 16."""
SURE = ("event", "event", "event", "stream", "barrier", "synchronise", "synchronise event")
"""Ways to order two streams that nothing later makes weaker."""
WAYS = (*SURE, "notify", "notify", "value", "value", "race")
STEPS = (
    *["fill", "copy", "multiply", "replay"] * 3, *["upload", "download", "event"] * 2, "callback",
    "barrier", "notify", "value", "set", "surplus", "synchronise", "query", "batch", "abort",
    "close", "destroy", "update",
)  # fmt: skip


@st.composite
def programs(draw):
    """Programs of one to four streams and up to 30 steps, many of which are several calls."""
    writer = Writer(draw)
    for _ in range(draw(st.integers(1, 30))):
        writer.step()
    return writer.program


class Writer:
    """Writes a program. `draw` draws from strategies."""

    def __init__(self, draw):
        self.draw = draw
        self.origin = Origin(self.pick(GENERATIONS), self.pick(TASKS), self.pick(INDICES))
        self.count = self.pick((4, 3, 2, 1))
        self.timed = tuple(draw(st.booleans()) for _ in range(EVENTS))
        self.graphs = tuple(map(self.graph, range(self.pick((1, GRAPHS, 0)))))
        depths = DEPTHS_OF_REPLAYS if self.graphs else DEPTHS
        self.streams = tuple(
            (draw(st.integers(0, 7)), self.pick(depths)) for _ in range(self.count)
        )
        self.reference = Reference(self.count, self.graphs)
        self.calls = []
        self.puts = [0] * WORDS

    @property
    def program(self):
        return Program(self.origin, self.streams, self.timed, self.graphs, tuple(self.calls))

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def place(self, size, buffers=range(BUFFERS)):
        """Where a piece of a buffer begins."""
        return self.pick(buffers) * SIZE + self.draw(st.integers(0, SIZE - size))

    # ------------------------------------------------------------------------------------- calls

    def call(self, call):
        self.calls.append(call)
        self.reference.call(call)
        self.reference.order()

    def task(self, stream, work):
        self.call(Submit(stream, work, self.pick((True, True, False))))

    def ended(self, stream):
        """What has ended when the next task of a stream begins."""
        reference = self.reference
        return reference.closure(reference.position[stream] | reference.known)

    def record(self, stream):
        """Records an event on a stream."""
        self.make_room(1)
        event = self.pick(range(EVENTS))
        self.call(Record(stream, event))
        return event

    def make_room(self, records):
        """The host waits until so many more records can pend."""
        for stream in range(self.count):
            if self.pending() + records > SLOTS:
                self.call(Synchronise(stream))

    def pending(self):
        """Event slots that may be in use: of graphs, of their replays, and of records."""
        reference = self.reference
        known = reference.closure(reference.known)
        calls = {task.call for task in reference.tasks if not known & task.bit}
        held = sum(self.graphs[number].streams for number in reference.replays)
        return held + sum(
            1 + len(self.calls[call].streams) if isinstance(self.calls[call], Replay)
            else isinstance(self.calls[call], Record | WaitStream)
            for call in calls
        )

    # ------------------------------------------------------------------------------------- order

    def settle(self, stream, rivals, ways=WAYS):
        """Makes a stream wait for tasks that it does not wait for yet."""
        for rival in rivals:
            if not self.ended(stream) & rival.bit:
                if rival.dropped:  # a part of a graph that may go on though another was aborted
                    continue
                way = self.pick(ways).replace(" ", "_")
                getattr(self, f"order_by_{way}")(stream, rival.streams[0])

    def order_by_event(self, stream, other):
        self.call(Wait(stream, self.record(other)))

    def order_by_stream(self, stream, other):
        self.make_room(1)
        self.call(WaitStream(stream, other))

    def order_by_barrier(self, stream, other):
        self.task(stream, Barrier())

    def order_by_synchronise(self, stream, other):
        self.call(Synchronise(other))

    def order_by_synchronise_event(self, stream, other):
        self.call(SynchroniseEvent(self.record(other)))

    def order_by_race(self, stream, other):
        pass

    def order_by_notify(self, stream, other):
        """`stream` takes what `other`, and perhaps a third one, adds."""
        counter = self.pick(range(COUNTERS))
        self.settle(stream, self.uses(counter, stream, (Take, SetTo)), SURE)
        adders = [other] * self.draw(st.integers(1, 2))
        if self.count > 2 and self.pick((False, True)):
            adders.append(self.pick([s for s in range(self.count) if s != stream]))
        for adder in adders:
            self.settle(adder, self.uses(counter, adder, (SetTo,)), SURE)
        amounts = [self.draw(st.integers(1, 3)) for _ in adders]
        tasks = [(each, Add(counter, n)) for each, n in zip(adders, amounts, strict=True)]
        tasks.insert(self.pick(range(len(tasks) + 1)), (stream, Take(counter, sum(amounts))))
        for each, work in tasks:
            self.task(each, work)

    def order_by_value(self, stream, other):
        """`stream` waits until `other` has written a word."""
        word = self.pick(range(WORDS))
        operation = self.pick((Comparison.NOT_LESS, Comparison.EQUAL, Comparison.AND))
        waiting = [t for t in self.reference.tasks if self.reads(t.work, word)]
        self.settle(other, [*self.writers(word), *waiting], SURE)
        self.puts[word] += 1
        value = (1 << self.puts[word]) - 1
        bit = 1 << self.puts[word] - 1
        mask = self.pick((0, 0xFFFFFFFF, bit & 0xFFFFFFFF))
        wanted = bit if operation == Comparison.AND else value
        tasks = [
            (stream, Await(word, wanted, operation, mask)),
            (other, Put(word, value)),
        ]
        for each, work in self.pick((tasks, tasks[::-1])):
            self.task(each, work)

    def uses(self, counter, stream, kinds):
        """Tasks of other streams that use a counter so."""
        return [
            task for task in self.reference.tasks
            if isinstance(task.work, kinds) and task.work.counter == counter
            and task.streams != (stream,)
        ]  # fmt: skip

    def writers(self, word):
        return [t for t in self.reference.tasks if isinstance(t.work, Put) and t.work.word == word]

    def reads(self, work, word):
        """Whether a wait could miss its value if the word were written again."""
        return isinstance(work, Await) and work.word == word and work.operation == Comparison.EQUAL

    # ------------------------------------------------------------------------------------- steps

    def step(self):
        kind, stream = self.pick(STEPS), self.pick(range(self.count))
        step = getattr(self, f"step_{kind}", None)
        if step is None:
            self.submit(stream, self.work(kind))
        else:
            step(stream)

    def submit(self, stream, work):
        """A task, behind what it must wait for."""
        self.settle(stream, [t for t in self.reference.tasks if conflict(t.work, work)])
        self.task(stream, work)

    def work(self, kind):
        """A random piece of work."""
        size = self.pick((4, 16, 36))
        match kind:
            case "fill":
                return Fill(self.place(size), size, self.draw(st.integers(0, 255)))
            case "upload":
                return Upload(self.place(size), self.draw(st.binary(min_size=size, max_size=size)))
            case "download":
                return Download(self.place(size), size)
            case "callback":
                return Callback()
            case "barrier":
                return Barrier()
        one, two = self.pick([(a, b) for a in range(BUFFERS) for b in range(BUFFERS) if a != b])
        if kind == "copy":
            return Copy(self.place(size, (one,)), self.place(size, (two,)), size)
        others = [buffer for buffer in range(BUFFERS) if buffer != one]
        a, b, c = Multiply.SIZES
        return Multiply(self.place(a, others), self.place(b, others), self.place(c, (one,)))

    def step_event(self, stream):
        """A wait or a record that nothing needs."""
        if self.pick((False, True)):
            self.record(stream)
        else:
            self.call(Wait(stream, self.pick(range(EVENTS))))

    def step_notify(self, stream):
        self.pair(stream, self.order_by_notify)

    def step_value(self, stream):
        self.pair(stream, self.order_by_value)

    def pair(self, stream, signal):
        others = [other for other in range(self.count) if other != stream]
        if others:
            signal(stream, self.pick(others))

    def step_set(self, stream):
        """A counter is set, when nobody uses it."""
        counter = self.pick(range(COUNTERS))
        self.settle(stream, self.uses(counter, stream, (Add, Take, SetTo)), SURE)
        self.task(stream, SetTo(counter, self.draw(st.integers(0, 2))))

    def step_surplus(self, stream):
        """More is added than will be taken."""
        counter = self.pick(range(COUNTERS))
        self.settle(stream, self.uses(counter, stream, (SetTo,)), SURE)
        self.task(stream, Add(counter, 1))

    def step_synchronise(self, stream):
        if self.pick((False, True)):
            self.call(Synchronise(stream))
        else:
            self.call(SynchroniseEvent(self.pick(range(EVENTS))))

    def step_query(self, stream):
        self.call(Query(stream, self.pick(range(EVENTS))))

    def step_batch(self, stream):
        self.call(Batch(stream))

    def step_close(self, stream):
        self.call(Close(stream))

    def step_abort(self, stream):
        self.drop(Abort(stream))

    def step_destroy(self, stream):
        self.drop(Destroy(stream))

    def drop(self, call):
        """If nobody waits for what is dropped."""
        calls = [*self.calls, call]
        if Reference(self.count, self.graphs, calls).legal:
            self.call(call)

    def step_update(self, stream):
        """A kernel of a graph gets other arguments."""
        kernels = [
            (number, node) for number, graph in enumerate(self.graphs)
            for node, (work, _) in enumerate(graph.nodes) if isinstance(work, Multiply)
        ]  # fmt: skip
        if kernels:
            self.call(Update(*self.pick(kernels), self.work("multiply")))

    def step_replay(self, stream):
        if not self.graphs:
            return
        number = self.pick(range(len(self.graphs)))
        graph = self.reference.graphs[number]
        works = [work for work, _ in graph.nodes]
        rivals = [t for t in self.reference.tasks if any(conflict(t.work, w) for w in works)]
        self.settle(stream, rivals)
        others = [other for other in range(self.count) if other != stream]
        others = self.draw(st.permutations(others))[: graph.streams - 1]
        self.make_room(1 + 2 * graph.streams)
        self.call(Replay((stream, *others), number))

    def graph(self, number):
        """A graph, captured or described; in it, tasks that conflict are ordered."""
        captured = self.pick((False, True))
        streams = min(self.pick((2, 3, 1)), self.count)
        nodes, lanes = [], []

        def add(work, lane, deps=()):
            if captured and lane in lanes:
                deps = {*deps, max(node for node, other in enumerate(lanes) if other == lane)}
            nodes.append((work, tuple(sorted(deps))))
            lanes.append(lane)

        count = self.draw(st.integers(1, 5))
        signalled = self.pick(range(2 * count))  # behind which node, if behind any
        for place in range(count):
            kinds = ("fill", "copy", "multiply", "callback") if captured else ("multiply",)
            work = self.work(self.pick(kinds))
            deps = {
                node for node, (other, _) in enumerate(nodes)
                if conflict(other, work) or self.pick((False, False, True))
            }  # fmt: skip
            add(work, self.pick(range(streams)), deps)
            if captured and streams > 1 and place == signalled:
                counter, amount = COUNTERS + number, self.draw(st.integers(1, 3))
                signals = zip((Add(counter, amount), Take(counter, amount)),
                              self.draw(st.permutations(range(streams))), strict=False)  # fmt: skip
                for signal, lane in self.draw(st.permutations(tuple(signals))):
                    add(signal, lane)
        return Graph(tuple(nodes), streams, tuple(lanes) if captured else ())
