"""When a register keeps its value: conditions without which its next value is not computed."""

from __future__ import annotations

from .graph import Graph

__all__ = ["guarded"]


def guarded(graph: Graph, next_value: int, held: int) -> tuple[int | None, int]:
    """Splits the next value of a register.

    Parameters
    ----------
    next_value: node that is computed from the register among others.
    held: node of the register itself.

    Returns
    -------
    A node that holds whenever the register changes, or None if there is none; and the next value
    while it holds.
    """
    chain = _chain(graph, next_value, held)
    if chain is None or not chain:
        return None, next_value
    guard = graph.bitwise("or", chain)
    return guard, _strip(graph, next_value, held)


def _chain(graph: Graph, node: int, held: int) -> list[int] | None:
    """Conditions of which one holds when a value is not `held`; None: nothing is known."""
    if node == held:
        return []
    op, args = graph.ops[node], graph.args[node]
    if op == "mux":
        condition, a, b = args
        # In the same order as `_strip`, which leaves out the test that makes the guard.
        if a == held and b != held:
            return [graph.invert(condition)]
        rest = _chain(graph, b, held)
        if rest is not None:
            return [*rest, condition]
        rest = _chain(graph, a, held)
        return None if rest is None else [*rest, graph.invert(condition)]
    if op in ("and", "or") and graph.widths[node] == 1:
        for condition, other in (args, args[::-1]):
            rest = _chain(graph, other, held)
            if rest is not None:
                return [*rest, condition if op == "or" else graph.invert(condition)]
    if op in ("or", "xor", "add", "sub") and held in args and args[1 - args.index(held)] != held:
        if op != "sub" or args[0] == held:
            changes = args[1 - args.index(held)]
            zero = graph.const(graph.widths[changes], 0)
            return [graph.invert(graph.equal(changes, zero))]
    if op == "cat":
        found, position = [], 0
        for part in args:
            rest = _chain(graph, part, graph.slice(held, position, graph.widths[part]))
            if rest is None:
                return None
            found += rest
            position += graph.widths[part]
        return found
    return None


def _strip(graph: Graph, node: int, held: int) -> int:
    """The value while its guard holds: the last condition needs no test then."""
    if graph.ops[node] != "mux":
        return node
    condition, a, b = graph.args[node]
    if b == held:
        return a
    if a == held:
        return b
    if _chain(graph, b, held) is not None:
        return graph.mux(condition, a, _strip(graph, b, held))
    if _chain(graph, a, held) is not None:
        return graph.mux(condition, _strip(graph, a, held), b)
    return node
