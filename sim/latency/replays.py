"""What a node of a replayed graph costs, and a function of the host between two tasks."""

from __future__ import annotations

from hw.regs.descriptor import Arguments, Sqe
from hw.regs.instruction import End
from rt.graph import TaskDesc
from rt.kernel.assembler import encode

from .scene import Scene, end, start
from .sheet import Raw, Sample, Sheet, Target, between

__all__ = ["callbacks", "nodes"]

NODES = 17
"""Kernels of the graph, each behind the one before."""
NODE = 24
"""Cycles that a node may cost."""
FETCH = 10
"""Cycles from a place that is free to the address of a fetch, and from its last beat to a head."""
TURNS = 2
"""Replays, of which the last is measured: the first brings the code into the core."""


def nodes(scene: Scene, sheet: Sheet) -> None:
    """From the start of the first of some empty kernels in a row to that of the last.

    Entries and arguments are read from device memory, as many ahead as can be staged: so many
    arrive in the latency of the memory, their own beats, and what a fetch takes beside.
    """
    config, session = scene.config, scene.session
    kernel = session.load(encode([End()], config.fingerprint))
    graph = session.graph([
        TaskDesc(number, kernel, event_deps=[number - 1] if number else [],
                 profile=number in (0, NODES - 1))
        for number in range(NODES)
    ])  # fmt: skip
    with graph:
        for _ in range(TURNS):
            scene.calm()
            replay = scene.random.choice(scene.streams).replay(graph)
            session.synchronise()
        ends = 0, NODES - 1
        numbers = [graph.profiled(task) for task in ends]
        first, last = (replay.profile(task).start for task in ends)
        sample = Sample((first, last), lambda recording: (
            recording.start(numbers[0], TURNS - 1), recording.start(numbers[1], TURNS - 1)
        ))  # fmt: skip
        ahead = FETCH + scene.transport.board_config.device_latency
        ahead += (Sqe.BYTES + Arguments.BYTES) // config.data_bytes
        sheet.add(
            "replay of a graph of empty kernels", "a node", sample,
            Target(max(NODE, -(-ahead // config.staging))), value=_of_a_node,
        )  # fmt: skip
    scene.warm()


def _of_a_node(raw: Raw) -> float:
    return (raw[1] - raw[0]) / (NODES - 1)


def callbacks(scene: Scene, sheet: Sheet) -> None:
    """A stream calls a function of the host, which takes no time, between two copies."""
    scene.calm()
    stream = scene.random.choice(scene.streams)
    with stream.batch():
        one = scene.copy(stream)
        stream.callback(_nothing)
        other = scene.copy(stream)
    scene.session.synchronise()
    sheet.add(
        "a function of the host between two copies", "end → start", between(end(one), start(other))
    )


def _nothing() -> None:
    pass
