"""Orders in which the tasks of a graph can run, and the streams and waits that they need."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import InvalidParameter

__all__ = ["Plan", "assign", "order", "plan"]

Deps = Mapping[int, Iterable[int]]
"""What each task waits for."""
HOP = 0.25
"""What it costs a task to wait for one of another stream, in lengths of a task."""


def order(deps: Deps, rank: Mapping[int, tuple[int, ...]] | None = None) -> list[int]:
    """The tasks, each behind those that it waits for; else by rank, else in the order given."""
    waiting = {task: set(before) for task, before in deps.items()}
    after: dict[int, list[int]] = {task: [] for task in deps}
    for task, before in waiting.items():
        for dep in before:
            after[dep].append(task)
    key = {task: (*(rank[task] if rank else ()), n) for n, task in enumerate(deps)}
    ready = [(key[task], task) for task, before in waiting.items() if not before]
    heapq.heapify(ready)
    done: list[int] = []
    while ready:
        _, task = heapq.heappop(ready)
        done.append(task)
        for other in after[task]:
            waiting[other].remove(task)
            if not waiting[other]:
                heapq.heappush(ready, (key[other], other))
    if len(done) < len(waiting):
        raise InvalidParameter(_cycle({task: waiting[task] for task in deps if waiting[task]}))
    return done


def _cycle(waiting: Mapping[int, set[int]]) -> str:
    """Names a cycle of tasks that all wait for at least one other of them."""
    path = [next(iter(waiting))]
    while len(set(path)) == len(path):
        path.append(min(waiting[path[-1]]))
    path = path[path.index(path[-1]) :]
    return (
        f"tasks of the graph wait for each other: {path[0]} for "
        f"{', which waits for '.join(map(str, path[1:]))}; take one of these event_deps away"
    )


def assign(deps: Deps, streams: int) -> list[list[int]]:
    """The tasks on at most so many streams.

    As if all tasks had the same length: the task with the longest way to an end goes first, to
    where it can start soonest. A chain stays on its stream, since waiting for another one costs
    a little.
    """
    rest, depth = dict.fromkeys(deps, 1), dict.fromkeys(deps, 1)
    sequence = order(deps)
    for task in sequence:
        depth[task] += max((depth[dep] for dep in deps[task]), default=0)
    for task in reversed(sequence):
        for dep in deps[task]:
            rest[dep] = max(rest[dep], rest[task] + 1)
    lanes: list[list[int]] = [[] for _ in range(streams)]
    free = [0.0] * streams
    lane_of: dict[int, int] = {}
    end: dict[int, float] = {}

    def start(task: int, lane: int) -> float:
        ready = [end[dep] + (HOP if lane_of[dep] != lane else 0) for dep in deps[task]]
        return max([free[lane], *ready])

    for task in order(deps, {task: (-rest[task], -depth[task]) for task in deps}):
        before = {lane_of[dep] for dep in deps[task]}
        tails = {lane_of[dep] for dep in deps[task] if lanes[lane_of[dep]][-1] == dep}
        lane = min(
            range(streams),
            key=lambda lane: (
                start(task, lane), lane not in tails, lane not in before, -free[lane], lane
            ),
        )  # fmt: skip
        end[task] = free[lane] = start(task, lane) + 1
        lane_of[task] = lane
        lanes[lane].append(task)
    return [lane for lane in lanes if lane]


@dataclass(frozen=True)
class Plan:
    """Which tasks of the streams tell others of their end."""

    lanes: tuple[tuple[int, ...], ...]
    """The tasks of each stream."""
    waits: Mapping[int, tuple[int, ...]]
    """For which tasks of other streams each task waits itself, one of a stream at most."""
    steps: Mapping[int, int]
    """Those that others wait for, numbered within their stream from 1 on."""

    @property
    def stride(self) -> int:
        """Generations of an event slot that a replay takes: of steps, and of the end."""
        return max(self.steps.values(), default=0) + 1


def plan(deps: Deps, lanes: Sequence[Sequence[int]]) -> Plan:
    """The fewest waits that keep the order.

    What a stream's own order or another wait ensures needs none.
    """
    lane_of = {task: lane for lane, tasks in enumerate(lanes) for task in tasks}
    place = {task: number for tasks in lanes for number, task in enumerate(tasks)}
    ended: dict[int, list[int]] = {}  # by task: how many of each stream have ended when it has
    last: list[list[int]] = [[0] * len(lanes) for _ in lanes]
    waits: dict[int, tuple[int, ...]] = {}
    before = {task: lane[place[task] - 1 : place[task]] for lane in lanes for task in lane}
    for task in order({task: [*deps[task], *before[task]] for task in deps}):
        known = last[lane_of[task]]
        needed = [dep for dep in dict.fromkeys(deps[task]) if known[lane_of[dep]] <= place[dep]]
        waits[task] = tuple(
            dep for dep in needed
            if not any(ended[o][lane_of[dep]] > place[dep] for o in needed if o != dep)
        )  # fmt: skip
        for dep in waits[task]:
            known = [max(pair) for pair in zip(known, ended[dep], strict=True)]
        known = list(known)
        known[lane_of[task]] = place[task] + 1
        ended[task] = last[lane_of[task]] = known
    recorded = {dep for awaited in waits.values() for dep in awaited}
    steps = {}
    for tasks in lanes:
        those = [task for task in tasks if task in recorded]
        steps.update({task: number for number, task in enumerate(those, 1)})
    return Plan(tuple(map(tuple, lanes)), waits, steps)
