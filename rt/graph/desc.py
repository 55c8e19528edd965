"""What a user says about a task of a graph, and what a graph knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hw.regs.descriptor import Sqe

from ..errors import InvalidParameter
from ..kernel.kernel import Kernel
from ..launch import Launch
from ..memory import Buffer
from ..task import Resource

__all__ = ["Node", "TaskDesc", "check_numbers"]


@dataclass(frozen=True)
class TaskDesc:
    """A kernel of a graph, and the tasks that must have ended before it starts."""

    task_id: int
    """Number within the graph: what `event_deps`, `Graph.update` and errors call it."""
    kernel: Kernel
    inputs: Sequence[Buffer] = ()
    """Up to 8 buffers."""
    outputs: Sequence[Buffer] = ()
    """Up to 4 buffers."""
    scalars: Sequence[int] = ()
    """Up to 4 numbers of 64 bits."""
    event_deps: Sequence[int] = ()
    """`task_id` of any number of tasks for whose end it waits."""
    timeout: int | None = None
    """Longest run in cycles; by default that of a stream which was made without one."""
    profile: bool = False
    """Measure it in each replay, see `Replay.profile`."""

    @property
    def launch(self) -> Launch:
        """What is launched."""
        return Launch(self.kernel, self.inputs, self.outputs, self.scalars)


@dataclass(eq=False)
class Node:
    """A task of a graph, which has acquired what it uses."""

    task_id: int
    """Number within the graph."""
    number: int
    """Number on the device, in completion entries and fault records."""
    sqe: Sqe
    """Without number, events, and place of its arguments."""
    deps: tuple[int, ...]
    """`task_id` of those that end before it starts."""
    uses: tuple[Resource, ...]
    launch: Launch | None = None
    """Of a kernel."""
    waits_for: str = ""
    """In words what it waits for beside events."""

    def release(self) -> None:
        """The graph does not need it any more."""
        for resource in self.uses:
            resource.release()


def check_numbers(tasks: Sequence[TaskDesc]) -> None:
    """Raises unless each number is used once and each dependency is one of them."""
    known: set[int] = set()
    for task in tasks:
        if not isinstance(task, TaskDesc):
            raise InvalidParameter(f"a graph is made of TaskDesc, not {type(task).__name__}")
        if task.task_id in known:
            raise InvalidParameter(
                f"two tasks of the graph have the task_id {task.task_id}; number them differently"
            )
        known.add(task.task_id)
    if not known:
        raise InvalidParameter("the graph has no task; it needs at least one")
    for task in tasks:
        for dep in task.event_deps:
            if dep not in known:
                raise InvalidParameter(
                    f"task {task.task_id} waits for task {dep}, which is not in the graph; "
                    "event_deps takes the task_id of tasks of the same graph"
                )
