"""From the doorbell, or the end of the task before, to the start of a task; interrupts."""

from __future__ import annotations

from collections.abc import Callable

from rt.stream import Stream
from rt.task import Task

from .scene import Scene, end, start
from .sheet import Sheet, Target, between

__all__ = ["doorbells", "interrupts", "successors"]

NEXT = Target(2)


def doorbells(scene: Scene, sheet: Sheet) -> None:
    """A doorbell announces the only task of a stream, on a device with nothing to do.

    From host memory come the task's entry and, right behind, a kernel's arguments; the code is in
    the core.
    """
    latency = scene.transport.board_config.host_latency
    kinds: tuple[tuple[str, Callable[[Stream], Task], int], ...] = (
        ("copy", scene.copy, 20), ("kernel", scene.kernel, 30),
    )  # fmt: skip
    for name, submit, cycles in kinds:
        scene.calm()
        task, doorbell = scene.rung(submit, scene.random.choice(scene.streams))
        scene.session.synchronise()
        sheet.add(
            "doorbell taken → start, empty stream", name, between(doorbell, start(task)),
            Target(latency + cycles),
        )  # fmt: skip


def successors(scene: Scene, sheet: Sheet) -> None:
    """Two tasks of a stream, both staged."""
    kinds: dict[str, Callable[[Stream], Task]] = {"kernel": scene.kernel, "copy": scene.copy}
    for before, first in kinds.items():
        for after, second in kinds.items():
            stream = scene.random.choice(scene.streams)
            event = scene.session.event()
            with scene.held() as opener:
                scene.fill(opener)
                opener.record(event)
                stream.wait(event)
                with stream.batch():
                    one, other = first(stream), second(stream)
            scene.session.synchronise()
            sheet.add(
                "end → start of the next task of a stream", f"{before} → {after}",
                between(end(one), start(other)), NEXT if before == after else None,
            )  # fmt: skip


def interrupts(scene: Scene, sheet: Sheet) -> None:
    """The host reads who interrupts, from the cycle on in which the line is high."""
    group = "→ the host has read who interrupts"
    scene.calm()
    task = scene.copy(scene.random.choice(scene.streams))
    told = scene.told(task)
    scene.session.synchronise()
    sheet.add(group, "end of a task", between(end(task), told))
    scene.calm()
    task = scene.bad_copy(scene.random.choice(scene.streams))
    told = scene.told(task)
    sheet.add(group, "line of a fault", between(scene.fault(task), told))
    scene.warm()
