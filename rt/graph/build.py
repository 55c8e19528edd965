"""Makes graphs of what users describe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..errors import InvalidParameter
from ..task import timeout_units
from .dag import assign
from .desc import Node, TaskDesc, check_numbers
from .graph import Graph

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["build"]


def build(session: Session, tasks: Sequence[TaskDesc], streams: int, name: str) -> Graph:
    """See `Session.graph`."""
    most = session.device.config.streams
    if not 1 <= streams <= most:
        raise InvalidParameter(
            f"the graph is to run on {streams} streams; it must be 1 … {most}, as the device has"
        )
    check_numbers(tasks)
    lanes = assign({task.task_id: tuple(task.event_deps) for task in tasks}, streams)
    for task in tasks:
        task.launch.check(session)
        timeout_units(task.timeout)
    graph = Graph(session, name)
    with ExitStack() as undo:
        nodes = {}
        for task in tasks:
            nodes[task.task_id] = node = _node(session, task)
            undo.callback(node.release)
        undo.pop_all()
    graph.build(nodes, lanes)
    return graph


def _node(session: Session, task: TaskDesc) -> Node:
    launch = task.launch
    cycles = session.timeout if task.timeout is None else task.timeout
    sqe = launch.sqe(0, timeout_units(cycles), task.profile)
    for resource in launch.uses:
        resource.acquire()
    number = session.device.task_id()
    return Node(task.task_id, number, sqe, tuple(task.event_deps), launch.uses, launch)
