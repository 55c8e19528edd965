"""Registers that are alike: arrays that are written at an index, and lanes that compute the same.

Both are common in hardware and slow when each register is treated alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .expressions import size_of
from .graph import Graph
from .tables import Netlist

__all__ = ["Family", "File", "Signatures", "Update", "arrays", "find"]

FEWEST_WORDS = 4
"""Registers that make a file."""
FEWEST_LANES = 8
"""Registers that make a family."""
COMMUTATIVE = ("and", "or", "xor", "add", "mul", "eq")
SINGLE = (
    "select", "memory", "window", "mul_limb", "div_limb", "parity", "div", "mod", "sdiv", "smod",
)  # fmt: skip
"""What no loop over lanes computes."""

FileKey = tuple[int, int, int, int, frozenset[int]]
"""What the words of a file share: module, width, value, address, the other factors of guards."""


@dataclass(frozen=True)
class Update:
    """A register takes the value of a node at edges at which its guard holds."""

    element: int
    guard: int | None
    value: int


@dataclass
class File:
    """While the guard holds, the element at `address` takes the value."""

    guard: int
    address: int
    value: int
    words: list[tuple[int, int]]
    """Address, element."""


@dataclass
class Family:
    """Registers whose guards and values have the same form; lane by lane."""

    guard: int | None
    """Holds whenever one of the lanes' guards does; None: always."""
    lanes: list[Update]


class Signatures:
    """Numbers that are equal for nodes of the same form, whatever registers they read."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[int, int] = {}
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, node: int) -> int:
        found = self._known.get(node)
        if found is None:
            graph = self._graph
            op, width = graph.ops[node], graph.widths[node]
            key: tuple[object, ...]
            if op in ("state", "const"):
                key = op, width
            else:
                below = [self.of(operand) for operand in graph.operands(node)]
                if op in COMMUTATIVE:
                    below.sort()
                fixed = graph.args[node] if op in ("memory", "mul_limb", "div_limb") else ()
                fixed = (fixed[0], fixed[-1]) if op == "memory" else fixed[:2]
                if op == "select":
                    count = graph.args[node][0]
                    fixed = graph.args[node][3 : 3 + count]
                key = op, width, *fixed, *below
            found = self._known[node] = self._numbers.setdefault(key, len(self._numbers))
        return found

    def operands(self, node: int) -> Sequence[int]:
        """Operands in an order that is the same for nodes of the same form."""
        found = self._graph.operands(node)
        return sorted(found, key=self.of) if self._graph.ops[node] in COMMUTATIVE else found


def find(
    netlist: Netlist, signatures: Signatures, updates: Iterable[Update]
) -> tuple[list[File], list[Family], list[Update]]:
    """Files, families, and the updates that belong to neither."""
    files, rest = _files(netlist, list(updates))
    families, rest = _families(netlist, signatures, rest)
    return files, families, rest


def _factors(graph: Graph, node: int) -> list[int]:
    """What has to hold for a condition to hold."""
    if graph.ops[node] == "and" and graph.widths[node] == 1:
        return [factor for operand in graph.args[node] for factor in _factors(graph, operand)]
    return [node]


def _files(netlist: Netlist, updates: list[Update]) -> tuple[list[File], list[Update]]:
    graph = netlist.graph
    found: dict[FileKey, list[tuple[int, Update]]] = defaultdict(list)
    for update in updates:
        element = netlist.elements[update.element]
        factors = set(_factors(graph, update.guard)) if update.guard is not None else set()
        for factor in factors:
            if graph.ops[factor] != "eq":
                continue
            constant, address = sorted(graph.args[factor], key=lambda n: graph.ops[n] != "const")
            index = graph.value(constant)
            if index is not None:
                others = frozenset(factors - {factor})
                key = element.module, element.width, update.value, address, others
                found[key].append((index, update))
    files, taken = [], set()
    for (module, _, value, address, others), words in sorted(
        found.items(), key=lambda item: -len(item[1])
    ):
        free = [(index, update) for index, update in words if update not in taken]
        if len(free) < FEWEST_WORDS or len({index for index, _ in free}) < len(free):
            continue
        taken |= {update for _, update in free}
        graph.home = module
        guard = graph.bitwise("and", sorted(others))
        files.append(File(guard, address, value, [(i, u.element) for i, u in free]))
    return files, [update for update in updates if update not in taken]


def _families(
    netlist: Netlist, signatures: Signatures, updates: list[Update]
) -> tuple[list[Family], list[Update]]:
    graph = netlist.graph
    found: dict[tuple[int, ...], list[Update]] = defaultdict(list)
    for update in updates:
        element = netlist.elements[update.element]
        guard = -1 if update.guard is None else signatures.of(update.guard)
        if graph.ops[update.value] not in ("state", "const"):
            key = element.module, element.width, guard, signatures.of(update.value)
            found[key].append(update)
    families, taken = [], set()
    for (module, *_), lanes in found.items():
        if len(lanes) < FEWEST_LANES or len({lane.value for lane in lanes}) < len(lanes) // 2:
            continue
        lanes.sort(key=lambda lane: _natural(netlist.elements[lane.element].name))
        columns = [tuple(lane.value for lane in lanes)]
        if lanes[0].guard is not None:
            columns.append(tuple(lane.guard or 0 for lane in lanes))
        if not all(_parallel(graph, signatures, column) for column in columns):
            continue
        graph.home = module
        families.append(Family(_any(graph, [lane.guard for lane in lanes]), lanes))
        taken |= set(lanes)
    return families, [update for update in updates if update not in taken]


def _parallel(graph: Graph, signatures: Signatures, nodes: tuple[int, ...]) -> bool:
    """Whether all lanes can be computed by one loop."""
    first = nodes[0]
    if all(node == first for node in nodes) or graph.ops[first] in ("state", "const"):
        return True
    op = graph.ops[first]
    if op in SINGLE:
        return False
    if op == "slice":
        bits = {graph.args[node][1] for node in nodes}
        sources = tuple(graph.args[node][0] for node in nodes)
        if len(bits) > 1:
            return len(set(sources)) == 1
        return _parallel(graph, signatures, sources)
    columns = zip(*(signatures.operands(node) for node in nodes), strict=True)
    return all(_parallel(graph, signatures, column) for column in columns)


def _any(graph: Graph, guards: list[int | None]) -> int | None:
    """A simple condition that holds whenever one of the guards holds."""
    if None in guards:
        return None
    factors = [_factors(graph, guard) for guard in guards if guard is not None]
    common = set(factors[0]).intersection(*factors[1:])
    if common:
        return graph.bitwise("and", sorted(common))
    choices = {tuple(sorted({own[at] for own in factors}))
               for at in range(min(map(len, factors)))}  # fmt: skip
    best = min(choices, key=lambda nodes: (len(nodes), nodes))
    # Bits of one register are looked at together.
    masks: dict[int, int] = defaultdict(int)
    others = []
    for node in best:
        if graph.ops[node] == "slice":
            masks[graph.args[node][0]] |= 1 << graph.args[node][1]
        else:
            others.append(node)
    for source, bits in masks.items():
        width = graph.widths[source]
        chosen = graph.bitwise("and", (source, graph.const(width, bits)))
        zero = graph.const(graph.widths[chosen], 0)
        others.append(graph.invert(graph.equal(chosen, zero)))
    return graph.bitwise("or", others)


def arrays(
    netlist: Netlist, signatures: Signatures, families: Iterable[Family], files: Iterable[File]
) -> list[list[int]]:
    """Elements that are to lie side by side, so that loops run straight through them."""
    graph = netlist.graph
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number in range(len(netlist.elements)):
        alike[_pattern(netlist, number)].append(number)
    placed: set[int] = set()
    result: list[list[int]] = []

    def place(numbers: Iterable[int]) -> None:
        chosen = [n for n in dict.fromkeys(numbers) if n not in placed]
        placed.update(chosen)
        if len(chosen) > 1:
            result.append(chosen)

    ordered = sorted(families, key=lambda family: -len(family.lanes))
    for family in ordered:
        for pattern in dict.fromkeys(_pattern(netlist, lane.element) for lane in family.lanes):
            place(sorted(alike[pattern], key=lambda n: _natural(netlist.elements[n].name)))
    for family in ordered:
        for column in _columns(family):
            _walk(graph, signatures, column, lambda nodes: place(graph.args[n][0] for n in nodes))
    for file in files:
        place(element for _, element in sorted(file.words))
    return [numbers for numbers in result if len({_size(netlist, n) for n in numbers}) == 1]


def _columns(family: Family) -> Iterable[tuple[int, ...]]:
    yield tuple(lane.value for lane in family.lanes)
    yield tuple(lane.guard for lane in family.lanes if lane.guard is not None)


def _walk(
    graph: Graph,
    signatures: Signatures,
    nodes: tuple[int, ...],
    visit: Callable[[tuple[int, ...]], None],
) -> None:
    """Visits the registers that lanes read, one operand at a time."""
    if len(set(nodes)) < 2:
        return
    op = graph.ops[nodes[0]]
    if op == "state":
        visit(nodes)
    elif op == "slice":
        _walk(graph, signatures, tuple(graph.args[node][0] for node in nodes), visit)
    elif op != "const":
        for column in zip(*(signatures.operands(node) for node in nodes), strict=True):
            _walk(graph, signatures, column, visit)


def _size(netlist: Netlist, number: int) -> int:
    return size_of(netlist.elements[number].width)


def _pattern(netlist: Netlist, number: int) -> tuple[object, ...]:
    element = netlist.elements[number]
    return element.module, element.width, re.sub(r"\d+", "#", element.name)


def _natural(name: str) -> list[object]:
    """Sorts numbers within names as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
