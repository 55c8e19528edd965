"""From the record of an event to what waits for it."""

from __future__ import annotations

from collections.abc import Callable

from hw.regs.pmu import PmuEvent
from rt.stream import Stream
from rt.task import Task

from .scene import Counts, Scene, ready, recorded, start
from .sheet import Point, Sample, Sheet, Target, between

__all__ = ["dependencies", "dependents", "fan_out"]

GROUP = "record → start of the task that waits, on the same engine or another"
RELEASE = Target(4)
DEPENDENCIES = 4
"""Events that one task waits for, at most."""


def dependents(scene: Scene, sheet: Sheet) -> None:
    """A record behind a task releases a task of another stream, on the same engine or another."""
    kinds: dict[str, Callable[[Stream], Task]] = {"kernel": scene.kernel, "copy": scene.copy}
    for before, first in kinds.items():
        for after, second in kinds.items():
            stream = scene.random.choice(scene.streams)
            event = scene.session.event(timing=True)
            with scene.held() as opener:
                one = first(opener)
                opener.record(event)
                stream.wait(event)
                other = second(stream)
            scene.session.synchronise()
            which = "same" if one.profile.engine == other.profile.engine else "other"
            sheet.add(
                GROUP, f"{before} → {after}, {which}",
                between(recorded(event), start(other)), RELEASE,
            )  # fmt: skip


def dependencies(scene: Scene, sheet: Sheet) -> None:
    """A kernel waits for one to four events; from the last record to its start."""
    for count in range(1, DEPENDENCIES + 1):
        stream = scene.random.choice(scene.streams)
        events = [scene.session.event(timing=True) for _ in range(count)]
        with scene.held() as opener:
            scene.copy(opener)
            for event in events:
                opener.record(event)
                stream.wait(event)
            task = scene.kernel(stream)
        scene.session.synchronise()
        last = max(map(recorded, events), key=lambda point: point.cycle)
        name = f"{count} dependenc{'ies' if count > 1 else 'y'}"
        sheet.add(GROUP, name, between(last, start(task)), RELEASE)


def fan_out(scene: Scene, sheet: Sheet) -> None:
    """One to all streams but one wait for an event: when each is ready, and when engines start."""
    most = min(len(scene.streams), scene.config.counters)
    group = f"record that 1 to {most} streams wait for →"
    for count in range(1, most + 1):
        streams = scene.random.sample(scene.streams, count)
        kinds = [scene.kernel, scene.copy, scene.fill]
        scene.random.shuffle(kinds)
        scene.count(*(PmuEvent.STREAM_WAIT + stream.number for stream in streams))
        event = scene.session.event(timing=True)
        with scene.held() as opener:
            scene.copy(opener)
            opener.record(event)
            tasks = []
            for number, stream in enumerate(streams):
                stream.wait(event)
                tasks.append(kinds[number % len(kinds)](stream))
            scene.settle()
            before = Counts(scene)
        scene.session.synchronise()
        after = Counts(scene)
        moments = [ready(task, before, after, number) for number, task in enumerate(tasks)]
        for moment in moments:
            sheet.add(group, "stream ready", between(recorded(event), moment))
        sheet.add(group, "first to last ready", _reach(moments), Target(0))
        first: dict[str, Task] = {}
        for task in sorted(tasks, key=lambda task: task.profile.start):
            first.setdefault(task.profile.engine, task)
        for task in first.values():
            sheet.add(
                group, "engine's first start", between(recorded(event), start(task)), RELEASE
            )  # fmt: skip


def _reach(moments: list[Point]) -> Sample:
    """From the earliest to the latest."""
    cycles = [moment.cycle for moment in moments]
    return Sample((min(cycles), max(cycles)), lambda recording: _ends(
        [moment.find(recording) for moment in moments]
    ))  # fmt: skip


def _ends(cycles: list[int]) -> tuple[int, int]:
    return min(cycles), max(cycles)
