"""Divides a design into places that are evaluated together, and says what wakes each of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from .families import Family, File, Signatures, Update, arrays, find
from .graph import Graph
from .guard import guarded
from .tables import Check, Netlist, Write

__all__ = ["Cluster", "Group", "Partition", "partition"]

CHEAP = 3
"""Operations on registers that are rather repeated than shared."""


@dataclass
class Cluster:
    """Combinational nodes of one module: computed together, after those they depend on.

    roots: nodes that others read, or that are kept. guards: groups that its nodes switch on.
    """

    module: int
    level: int
    roots: list[int] = field(default_factory=list)
    guards: list[int] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


@dataclass
class Group:
    """Registers, or writes and checks, of one clocking that are computed together.

    It is computed at edges at which its guard holds, if something that it reads has changed since
    the last time; writes and messages whenever the guard holds.
    """

    clocking: int
    guard: int | None
    module: int
    elements: list[tuple[int, int]] = field(default_factory=list)
    """Element, node of its next value."""
    file: File | None = None
    family: Family | None = None
    write: Write | None = None
    checks: list[Check] = field(default_factory=list)

    @property
    def roots(self) -> list[int]:
        """Nodes that it computes."""
        found = [node for _, node in self.elements]
        if self.file is not None:
            found.append(self.file.address)
        if self.family is not None:
            found += [lane.guard for lane in self.family.lanes if lane.guard is not None]
        if self.write is not None:
            found.append(self.write.address)
            found += [node for _, enable, data in self.write.chunks for node in (enable, data)]
        for check in self.checks:
            found += check_nodes(check)
        return found

    @property
    def at_every_edge(self) -> bool:
        """Whether it has an effect again when nothing has changed: a write, a message."""
        return self.write is not None or any(
            check.kind in ("print", "cover") for check in self.checks
        )


@dataclass
class Partition:
    """Places, and the nodes that are stored because more than one of them reads them."""

    netlist: Netlist
    clusters: list[Cluster]
    groups: list[Group]
    stored: dict[int, int]
    """Cluster in which each stored node is computed."""
    resets: list[int]
    """Nodes of synchronous resets."""
    arrays: list[list[int]]
    """Elements that are to lie side by side."""
    signatures: Signatures


def check_nodes(check: Check) -> list[int]:
    """Nodes that a check reads."""
    found = [check.enable]
    if check.test is not None:
        found.append(check.test)
    for chunk in check.message:
        if not isinstance(chunk, str):
            found += chunk[0]
    return found


def partition(netlist: Netlist, keep: Iterable[int] = ()) -> Partition:
    """Divides a design.

    Parameters
    ----------
    keep: nodes whose values are wanted after each step.
    """
    return _Partitioner(netlist).run(set(keep))


class _Partitioner:
    def __init__(self, netlist: Netlist) -> None:
        self.netlist = netlist
        self.graph: Graph = netlist.graph
        self.cheap: dict[int, int | None] = {}
        self.signatures = Signatures(self.graph)
        self.arrays: list[list[int]] = []

    def run(self, keep: set[int]) -> Partition:
        netlist, graph = self.netlist, self.graph
        groups = self._groups()
        resets = sorted({e.reset for e in netlist.elements if e.reset is not None})
        wanted = {node for node in keep if not self._leaf(node)}
        for clocking in netlist.clockings:
            wanted |= {clocking.clock, clocking.reset if clocking.reset is not None else 0}
        wanted.update(resets)
        wanted = {node for node in wanted if not self._leaf(node)}
        asynchronous = [check for check in netlist.checks if check.clocking is None]
        guards = {group.guard for group in groups if group.guard is not None}
        reads = {
            node
            for group in groups
            if group.write is not None
            for node in self._cone(group.roots)
            if graph.ops[node] == "memory"
        }
        roots = wanted | guards | reads | {n for c in asynchronous for n in check_nodes(c)}
        shared = self._cone(roots)
        users: dict[int, int] = {}
        several: set[int] = set()
        for number, group in enumerate(groups):
            for node in self._cone(group.roots):
                if users.setdefault(node, number) != number:
                    several.add(node)
        # What several groups read is computed once, unless that costs next to nothing.
        multiple = {node for node in several if not self._is_cheap(node)}
        shared |= self._cone(multiple)
        needed = wanted | {node for node in guards if not self._leaf(node)}
        placed = [node for node in sorted(shared) if not self._is_cheap(node) or node in needed]
        place, levels = self._levels(placed)
        clusters = [Cluster(module, level) for module, level in levels]
        stored = dict.fromkeys(wanted | reads, 0)
        inside = set(placed)
        for node in placed:
            for operand in self._reads(node, inside):
                if place[operand] != place[node]:
                    stored[operand] = 0
        for group in groups:
            for node in self._cone(group.roots, inside):
                if node in inside:
                    stored[node] = 0
        for check in asynchronous:
            stored |= dict.fromkeys(self._cone(check_nodes(check), inside) & inside, 0)
        for node in stored:
            stored[node] = place[node]
            clusters[place[node]].roots.append(node)
        self._attach(clusters, groups, asynchronous, place)
        return Partition(netlist, clusters, groups, stored, resets, self.arrays, self.signatures)

    def _groups(self) -> list[Group]:
        """Registers, by clocking and guard; those without a guard by what they share."""
        netlist, graph = self.netlist, self.graph
        updates: dict[int, list[Update]] = defaultdict(list)
        always: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for number, element in enumerate(netlist.elements):
            if element.clocking is None:
                continue
            held = graph.node("state", element.width, number)
            if element.next == held:
                continue
            graph.home = element.module
            guard, value = guarded(graph, element.next, held)
            updates[element.clocking].append(Update(number, guard, value))
        groups: list[Group] = []
        for clocking, mine in updates.items():
            files, families, rest = find(netlist, self.signatures, mine)
            self.arrays += arrays(netlist, self.signatures, families, files)
            groups += [self._file(clocking, file) for file in files]
            groups += [self._family(clocking, family) for family in families]
            found: dict[int, Group] = {}
            for update in rest:
                module = netlist.elements[update.element].module
                pair = update.element, update.value
                if update.guard is None:
                    always[clocking, module].append(pair)
                    continue
                if update.guard not in found:
                    found[update.guard] = Group(clocking, update.guard, module)
                found[update.guard].elements.append(pair)
            groups += found.values()
        for (clocking, module), members in always.items():
            for together in self._related(members):
                groups.append(Group(clocking, None, module, together))
        for check in netlist.checks:
            if check.clocking is not None:
                groups.append(
                    Group(check.clocking, self._switch(check.enable), check.module, checks=[check])
                )
        for write in netlist.writes:
            graph.home = write.module
            enable = graph.bitwise("or", sorted({enable for _, enable, _ in write.chunks}))
            if graph.value(enable) != 0:
                groups.append(
                    Group(write.clocking, self._switch(enable), write.module, write=write)
                )
        return groups

    def _file(self, clocking: int, file: File) -> Group:
        module = self.netlist.elements[file.words[0][1]].module
        pairs = [(element, file.value) for _, element in file.words]
        return Group(clocking, self._switch(file.guard), module, pairs, file=file)

    def _family(self, clocking: int, family: Family) -> Group:
        module = self.netlist.elements[family.lanes[0].element].module
        pairs = [(lane.element, lane.value) for lane in family.lanes]
        return Group(clocking, family.guard, module, pairs, family=family)

    def _related(self, members: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """Divides registers so that no two parts share much."""
        leader = list(range(len(members)))

        def find(at: int) -> int:
            while leader[at] != at:
                leader[at] = leader[leader[at]]
                at = leader[at]
            return at

        first: dict[int, int] = {}
        for at, (_, value) in enumerate(members):
            for node in self._cone([value]) or {-1}:
                if not self._is_cheap(node) if node >= 0 else True:
                    leader[find(at)] = find(first.setdefault(node, at))
        parts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for at, member in enumerate(members):
            parts[find(at)].append(member)
        return list(parts.values())

    def _switch(self, node: int) -> int | None:
        return None if self.graph.value(node) else node

    # ------------------------------------------------------------------------------ nodes

    def _leaf(self, node: int) -> bool:
        return self.graph.ops[node] in ("const", "state")

    def _is_cheap(self, node: int) -> bool:
        cost = self._cost(node)
        return cost is not None and cost <= CHEAP

    def _cost(self, node: int) -> int | None:
        """Operations from registers to a node; None: many."""
        if node not in self.cheap:
            cost: int | None = None
            if self._leaf(node):
                cost = 0
            elif self.graph.ops[node] in ("slice", "zext", "sext", "not", "eq", "and", "or", "cat"):
                below = [self._cost(operand) for operand in self.graph.operands(node)]
                if None not in below:
                    cost = 1 + sum(c for c in below if c is not None)
                    if cost > CHEAP:
                        cost = None
            self.cheap[node] = cost
        return self.cheap[node]

    def _cone(self, roots: Iterable[int], stop: set[int] | None = None) -> set[int]:
        """All nodes that roots depend on, themselves included, without registers and constants."""
        graph = self.graph
        found: set[int] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node in found or self._leaf(node):
                continue
            found.add(node)
            if stop is None or node not in stop:
                waiting += graph.operands(node)
        return found

    def _reads(self, node: int, placed: set[int]) -> Iterable[int]:
        """Placed nodes that a node reads, where cheap ones between are repeated."""
        for operand in self.graph.operands(node):
            if operand in placed:
                yield operand
            elif not self._leaf(operand):
                yield from self._reads(operand, placed)

    def _levels(self, nodes: list[int]) -> tuple[dict[int, int], list[tuple[int, int]]]:
        """Cluster of each node, and module and level of each cluster, in order of evaluation.

        A node is one level above those of other modules that it reads, so that no two clusters
        need each other.
        """
        graph = self.graph
        level: dict[int, int] = {}
        inside = set(nodes)
        for node in nodes:
            module, here = graph.homes[node], 0
            for operand in self._reads(node, inside):
                here = max(here, level[operand] + (graph.homes[operand] != module))
            level[node] = here
        keys = sorted({(level[node], graph.homes[node]) for node in nodes})
        index = {key: number for number, key in enumerate(keys)}
        place = {node: index[level[node], graph.homes[node]] for node in nodes}
        return place, [(module, depth) for depth, module in keys]

    def _attach(
        self,
        clusters: list[Cluster],
        groups: list[Group],
        asynchronous: list[Check],
        place: dict[int, int],
    ) -> None:
        """Gives each guard to the cluster that computes it; combinational checks come last."""
        first: dict[int, int] = {}
        for number, cluster in enumerate(clusters):
            first.setdefault(cluster.module, number)
        for number, group in enumerate(groups):
            if group.guard is not None:
                self._home(clusters, first, place, group.guard, group.module).guards.append(number)
        for check in asynchronous:
            clusters.append(Cluster(check.module, len(clusters), checks=[check]))

    def _home(
        self,
        clusters: list[Cluster],
        first: dict[int, int],
        place: dict[int, int],
        node: int,
        module: int,
    ) -> Cluster:
        if node in place:
            return clusters[place[node]]
        if module not in first:
            first[module] = len(clusters)
            clusters.append(Cluster(module, 0))
        return clusters[first[module]]
