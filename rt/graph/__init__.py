"""Task graphs: tasks that are checked, mapped to streams and laid down in device memory once, and
then replayed with one doorbell for each stream and no descriptor rewritten.

Making one
    `Session.graph` takes `TaskDesc` objects: kernels, each with the numbers of the tasks whose
    end it waits for. It refuses numbers that are used twice or unknown, cycles (naming the tasks
    in order), buffers and kernels that the session may not use, and too many arguments. The
    tasks are spread over at most `streams` streams: what is on the longest way goes first, a
    chain stays on its stream, and what the order of a stream or another wait ensures needs no
    event.
Capturing one
    In the block ``with stream.capture() as graph`` what the stream is given does not run, but
    becomes a task of the graph: launches, copies, fills, uploads (the array is read at once),
    signals and functions of the host. Recording an event there and waiting for it makes an edge;
    waiting for it in another stream pulls that stream into the capture, `Stream.wait` of a
    captured stream likewise. At the end each stream must be joined to the one that began
    (107025, naming streams and last tasks). The tasks stay in the order of their streams, and
    are called by the numbers of the `Task` objects that the calls have returned, which never end
    themselves.

    What was pending when a stream was pulled in runs beside the capture; waits that it held are
    kept for its next task behind the block. Not captured can be: waits for events recorded
    outside (107024) or in another capture (107032), waits with a timeout, downloads, barriers,
    replays, and whatever asks or ends the stream: query, synchronise, abort, close. They raise
    (107027) and make the capture invalid: it takes no more, and leaving the block raises. In any
    case, an exception in the block included, the streams are as before afterwards. An event whose
    latest record was captured means nothing outside: using it raises (107028) until it is
    recorded again.
Replaying it
    ``stream.replay(graph, *others)`` takes as many streams as `Graph.streams`; of a captured
    graph the others are by default those that it was captured from. All tasks run behind what
    `stream` was given before and ahead of what it is given afterwards; those on another stream
    run behind what that was given, too. Replays of a graph run one after the other, from
    whatever streams. Each stream gets one entry that calls its list, the first one also a record
    of what was before unless it is idle. A replay is submitted as a whole or not at all: it
    waits for room in the rings, and raises at once without event slots (207007).

    `Replay` tells how it ends. A fault names the task of the graph; the replay keeps it, even
    after `Session.recover`. An abort of one of the streams drops its part, whose tasks count as
    passed for the others; buffers then hold whatever they hold, and the graph can be replayed.
Changing it
    `Graph.update` gives a kernel other inputs, outputs or scalars, checked like a launch. The
    next replay copies them, in the order of its stream, with a copy in front and no other entry
    rewritten; replays that were submitted before are not concerned.
Ending it
    A graph keeps its kernels, buffers and copied arrays, its memory, and an event slot for each
    stream that others wait for. `Graph.close` waits for its replays and gives them back; closing
    the session does so, too.
"""

from .desc import TaskDesc
from .graph import Graph
from .replay import Replay

__all__ = ["Graph", "Replay", "TaskDesc"]
