"""Makes the calls of programs on a device."""

from collections import defaultdict
from contextlib import ExitStack

import numpy as np

from rt.errors import StreamAborted
from rt.graph.desc import TaskDesc
from rt.kernel.gemm import GemmShape, gemm_kernel
from tests.system.semantics.calls import (
    BUFFERS,
    COUNTERS,
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
    Multiply,
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

__all__ = ["Player"]


class Player:
    """Makes the calls of a program in a session."""

    def __init__(self, program, session, bench):
        self.program, self.session, self.bench = program, session, bench
        self.streams = [self.stream(number) for number in range(len(program.streams))]
        self.buffers = [session.empty(SIZE, np.uint8) for _ in range(BUFFERS)]
        self.buffers.append(session.empty(8 * WORDS, np.uint8))
        self.events = [session.event(timing=timed) for timed in program.timed]
        self.notifies = [session.notify() for _ in range(COUNTERS + GRAPHS)]
        shape = GemmShape(
            m=Multiply.M, n=Multiply.N, k=Multiply.K, pitch_a=Multiply.K, pitch_b=Multiply.N,
            pitch_c=4 * Multiply.N,
        )  # fmt: skip
        self.kernel = session.load(gemm_kernel(shape, session.device.config))
        self.contents = list(program.graphs)
        self.graphs = {}
        self.nodes = {}  # number of each task of each graph
        self.batches = {}
        self.aborted = set()
        self.tasks, self.records, self.downloads, self.replays = {}, {}, {}, {}
        self.calls = defaultdict(list)
        """When functions were called: by call, or by graph and node."""
        for buffer in self.buffers:
            self.streams[0].fill(buffer, 0)
        self.streams[0].synchronise()

    def stream(self, number):
        priority, depth = self.program.streams[number]
        stream = self.session.stream(priority, depth=depth)
        self.set_index(stream)
        return stream

    def set_index(self, stream):
        """The stream, which is idle, goes on with the index of the program's origin."""
        self.bench.set_index(stream.number, self.program.origin.index)
        stream._origin = stream._tail - self.program.origin.index

    def play(self):
        """Makes the calls, then waits for everything."""
        for number, call in enumerate(self.program.calls):
            self.make(number, call)
        for batch in self.batches.values():
            batch.close()
        for number in range(len(self.streams)):
            self.synchronise(number)
        assert all(event.query() for event in self.events)

    def close(self):
        """Gives back what was taken, piece by piece."""
        for each in (*self.graphs.values(), *self.streams, *self.notifies):
            each.close()
        for buffer in self.buffers:
            buffer.free()

    # ------------------------------------------------------------------------------------- calls

    def make(self, number, call):
        match call:
            case Submit(stream, work, profile):
                task = self.submit(self.streams[stream], work, number, profile)
                self.tasks[number] = task, profile and not isinstance(work, Callback)
            case Record(stream, event):
                self.streams[stream].record(self.events[event])
                self.records[number] = self.events[event].record
            case Wait(stream, event):
                self.streams[stream].wait(self.events[event])
            case WaitStream(stream, other):
                self.streams[stream].wait(self.streams[other])
            case Synchronise(stream):
                self.synchronise(stream)
            case SynchroniseEvent(event):
                self.tolerate(self.events[event].synchronise)
            case Query(stream, event):
                self.tolerate(self.streams[stream].query)
                self.events[event].query()
            case Batch(stream):
                self.batch(stream)
            case Abort(stream):
                self.streams[stream].abort()
                self.set_index(self.streams[stream])
                self.aborted.add(stream)
            case Close(stream):
                self.batches.pop(stream, ExitStack()).close()
                self.streams[stream].close()
                self.streams[stream] = self.stream(stream)
            case Destroy(stream):
                self.batches.pop(stream, ExitStack()).close()
                self.streams[stream].destroy(force=True)
                self.streams[stream] = self.stream(stream)
                self.aborted.add(stream)
            case Update(graph, node, work):
                self.update(graph, node, work)
            case Replay(streams, graph):
                self.replay(number, [self.streams[stream] for stream in streams], graph)

    def batch(self, stream):
        if stream in self.batches:
            self.batches.pop(stream).close()
        else:
            self.batches[stream] = ExitStack()
            self.batches[stream].enter_context(self.streams[stream].batch())

    def synchronise(self, stream):
        self.tolerate(self.streams[stream].synchronise)

    def tolerate(self, call):
        """Makes a call that may say that a stream was aborted, if one was."""
        try:
            call()
        except StreamAborted:
            assert self.aborted

    # ------------------------------------------------------------------------------------- tasks

    def view(self, first, size, shape=None, dtype=np.uint8):
        number = min(first // SIZE, BUFFERS)
        return self.buffers[number].part(first - number * SIZE, shape or size, dtype)

    def submit(self, stream, work, place, profile):
        """Submits a task; its place is the number of the call, or a graph and the node there."""
        notifies, words = self.notifies, self.buffers[BUFFERS]
        match work:
            case Fill(target, size, byte):
                return stream.fill(self.view(target, size), byte, profile=profile)
            case Upload(target, data):
                array = np.frombuffer(data, np.uint8)
                return stream.upload(self.view(target, len(data)), array, profile=profile)
            case Download(source, size):
                task = stream.download(self.view(source, size), profile=profile)
                self.downloads[place] = task
                return task
            case Copy(target, source, size):
                one, two = self.view(target, size), self.view(source, size)
                return stream.copy(one, two, profile=profile)
            case Multiply():
                inputs, outputs = self.operands(work)
                return stream.launch(self.kernel, inputs, outputs, profile=profile)
            case Add(counter, amount):
                return stream.notify(notifies[counter], amount, profile=profile)
            case SetTo(counter, amount):
                return stream.set_notify(notifies[counter], amount, profile=profile)
            case Take(counter, amount):
                return stream.wait_notify(notifies[counter], amount, profile=profile)
            case Put(word, value):
                return stream.write_value(words, 8 * word, value, profile=profile)
            case Await(word, value, operation, mask):
                return stream.wait_value(
                    words, 8 * word, value, operation, mask=mask or None, profile=profile
                )
            case Barrier():
                return stream.barrier(profile=profile)
            case Callback():
                return stream.callback(self.called, place)

    def operands(self, work):
        reads = [self.view(first, stop - first) for first, stop in work.reads]
        return reads, [self.view(first, stop - first) for first, stop in work.writes]

    def called(self, place):
        self.calls[place].append(self.session.device.driver.transport.now())

    # ------------------------------------------------------------------------------------ graphs

    def replay(self, number, streams, name):
        graph = self.contents[name]
        if name not in self.graphs:
            make = self.capture if graph.lanes else self.describe
            self.graphs[name], self.nodes[name] = make(name, streams)
        self.replays[number] = streams[0].replay(self.graphs[name], *streams[1:]), name

    def update(self, name, node, work):
        self.contents[name] = self.contents[name].updated(node, work)
        if name in self.graphs:
            inputs, outputs = self.operands(work)
            self.graphs[name].update(self.nodes[name][node], inputs=inputs, outputs=outputs)

    def describe(self, name, streams):
        graph, tasks = self.contents[name], []
        for node, (work, deps) in enumerate(graph.nodes):
            inputs, outputs = self.operands(work)
            tasks.append(
                TaskDesc(node, self.kernel, inputs, outputs, event_deps=deps, profile=True)
            )
        return self.session.graph(tasks, streams=graph.streams), list(range(len(tasks)))

    def capture(self, name, streams):
        graph, (origin, *others) = self.contents[name], streams
        events, tasks = [], []

        def mark(stream):
            events.append(self.session.event())
            stream.record(events[-1])
            return events[-1]

        with origin.capture() as captured:
            begin = mark(origin)
            for other in others:
                other.wait(begin)
            ends = []
            for node, (work, deps) in enumerate(graph.nodes):
                lane = graph.lanes[node]
                for dep in deps:
                    streams[lane].wait(ends[dep])
                place = "graph", name, node
                tasks.append(self.submit(streams[lane], work, place, True).id)
                ends.append(mark(streams[lane]))
            for other in others:
                origin.wait(mark(other))
        return captured, tasks

    # ------------------------------------------------------------------------------------- times

    def times(self):
        """First and last cycle of what was measured, by call and node."""
        times = {}
        for call, (task, profile) in self.tasks.items():
            if profile and task.done:
                times[call, 0] = task.profile.start, task.profile.end
        for call, record in self.records.items():
            if record.time is not None and not record.dropped:
                times[call, 0] = record.time, record.time
        for call, cycles in self.calls.items():
            if call in self.tasks:
                times[call, 0] = cycles * 2
        for name, graph in enumerate(self.contents):
            times.update(self.graph_times(name, graph))
        assert all(start <= end for start, end in times.values())
        return times

    def graph_times(self, name, graph):
        replays = [(call, replay) for call, (replay, n) in self.replays.items() if n == name]
        for node, (work, _) in enumerate(graph.nodes):
            called = iter(self.calls["graph", name, node])
            for call, replay in replays:
                if not replay.done:
                    break  # whether its functions were called is not known
                if isinstance(work, Callback):
                    yield (call, node), (now := next(called), now)
                else:
                    profile = replay.profile(self.nodes[name][node])
                    yield (call, node), (profile.start, profile.end)
