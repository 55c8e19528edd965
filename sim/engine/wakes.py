"""Flags: a number for each place of a partition, and which places a change wakes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .graph import mask
from .partition import Cluster, Partition, check_nodes

__all__ = ["WORD", "Flags", "Readers", "Wakes", "awaken", "cluster_roots", "merged"]

WORD = 64
"""Flags in a word."""
FEW = 6
"""Parts of a value that are looked at apart."""

Words = Sequence[tuple[int, int]]
"""Flags as (word, bits)."""


class Flags:
    """Numbers the places of a partition.

    Clusters come first, in order of evaluation: their flags mean that something they read has
    changed. Then come the groups of each clocking, writes last, three times: whether something
    has changed, their guards, and whether they have next values. Groups that one cluster switches
    on are neighbours.

    Attributes
    ----------
    cluster_words, group_words: words of flags for all clusters, and once for all groups.
    of_group: first flag of each group. groups: the same the other way round.
    early, late: for each clocking, the words of its groups; those that write memories are late.
    """

    def __init__(self, partition: Partition) -> None:
        groups = partition.groups
        self.cluster_words = (len(partition.clusters) + WORD - 1) // WORD
        home = {
            number: index
            for index, cluster in enumerate(partition.clusters)
            for number in cluster.guards
        }
        self.of_group: dict[int, int] = {}
        self.early: list[range] = []
        self.late: list[range] = []
        words = 0
        for clocking in range(len(partition.netlist.clockings)):
            mine = [n for n, group in enumerate(groups) if group.clocking == clocking]
            # Messages come in the order of statements, and the last port that writes a row wins.
            ordered = [n for n in mine if groups[n].checks or groups[n].write is not None]
            mine.sort(key=lambda n: (home.get(n, len(home)), n))
            mine = [n for n in mine if n not in ordered] + ordered
            for late, ranges in ((False, self.early), (True, self.late)):
                chosen = [n for n in mine if (groups[n].write is not None) == late]
                for position, number in enumerate(chosen):
                    self.of_group[number] = (self.cluster_words + words) * WORD + position
                count = (len(chosen) + WORD - 1) // WORD
                first = self.cluster_words + words
                ranges.append(range(first, first + count))
                words += count
        self.group_words = words
        self.groups = {flag: number for number, flag in self.of_group.items()}

    @property
    def words(self) -> int:
        """Of all flags."""
        return self.cluster_words + 3 * self.group_words

    def of_word(self, word: int) -> list[tuple[int, int]]:
        """Bits of a word, and the groups whose flags they are."""
        flags = enumerate(range(word * WORD, word * WORD + WORD))
        return [(bit, self.groups[flag]) for bit, flag in flags if flag in self.groups]


@dataclass(frozen=True)
class Wakes:
    """Flags that any change of a value sets, and flags that changes of some of its bits set."""

    always: tuple[tuple[int, int], ...]
    partly: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]

    @property
    def any(self) -> bool:
        """Whether anything reads the value."""
        return bool(self.always or self.partly)

    @classmethod
    def of(cls, readers: Mapping[int, int], width: int) -> Wakes:
        """Of the bits that each flag's place reads."""
        by_bits: dict[int, list[int]] = defaultdict(list)
        for flag, bits in readers.items():
            by_bits[bits].append(flag)
        if len(by_bits) > FEW:
            by_bits = {mask(width): list(readers)}
        always = by_bits.pop(mask(width), [])
        partly = [(bits, tuple(_words(flags))) for bits, flags in sorted(by_bits.items())]
        return cls(tuple(_words(always)), tuple(partly))

    def text(self, difference: str) -> str:
        """Statements that wake what reads only some bits of a value."""
        return "".join(
            f"if (({difference}) & {bits:#x}ull) {{ {awaken(flags)} }} "
            for bits, flags in self.partly
        )


class Readers:
    """Finds what each place reads, and so what wakes it.

    Attributes
    ----------
    elements, stored: what changes of elements and of stored nodes wake.
    setters: flags that an element sets when it is set from outside: those of all places that read
        it, and of the group that writes it, which has to write it again.
    memories: flags of the places that read each memory.
    """

    def __init__(self, partition: Partition, flags: Flags) -> None:
        self._partition = partition
        self._graph = partition.netlist.graph
        self._elements: dict[int, dict[int, int]] = defaultdict(dict)
        self._stored: dict[int, dict[int, int]] = defaultdict(dict)
        self._memories: dict[int, set[int]] = defaultdict(set)
        for index, cluster in enumerate(partition.clusters):
            self._reads(index, cluster_roots(partition, cluster), index)
        for number, group in enumerate(partition.groups):
            if not group.at_every_edge:
                self._reads(flags.of_group[number], group.roots, -1)
        netlist = partition.netlist
        self.elements = [
            Wakes.of(self._elements[n], element.width) for n, element in enumerate(netlist.elements)
        ]
        self.stored = {
            node: Wakes.of(self._stored[node], self._graph.widths[node])
            for node in partition.stored
        }
        self.memories = [_words(self._memories.get(n, ())) for n in range(len(netlist.memories))]
        for number, group in enumerate(partition.groups):
            for element, _ in group.elements:
                self._elements[element][flags.of_group[number]] = 0
        self.setters = [_words(self._elements[n]) for n in range(len(netlist.elements))]

    def _reads(self, flag: int, roots: Iterable[int], own: int) -> None:
        """Notes which bits of what a place reads."""
        graph, partition = self._graph, self._partition
        seen: set[tuple[int, int]] = set()
        waiting = [(root, mask(graph.widths[root])) for root in roots]
        while waiting:
            node, bits = waiting.pop()
            if (node, bits) in seen:
                continue
            seen.add((node, bits))
            op, args = graph.ops[node], graph.args[node]
            if op == "state":
                read = self._elements[args[0]]
                read[flag] = read.get(flag, 0) | bits
            elif partition.stored.get(node, own) != own:
                read = self._stored[node]
                read[flag] = read.get(flag, 0) | bits
            elif op == "slice":
                waiting.append((args[0], mask(graph.widths[node]) << args[1]))
            else:
                if op == "memory":
                    self._memories[args[0]].add(flag)
                waiting += [(n, mask(graph.widths[n])) for n in graph.operands(node)]


def cluster_roots(partition: Partition, cluster: Cluster) -> list[int]:
    """Nodes that a cluster computes: what others read, guards, and what its checks need."""
    guards = [partition.groups[number].guard for number in cluster.guards]
    return [
        *cluster.roots,
        *(guard for guard in guards if guard is not None),
        *(node for check in cluster.checks for node in check_nodes(check)),
    ]


def awaken(flags: Words) -> str:
    """Statements that set flags."""
    return " ".join(f"AWAKE({word}) |= {bits:#x}ull;" for word, bits in flags)


def merged(flags: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each word once."""
    words: dict[int, int] = defaultdict(int)
    for word, bits in flags:
        words[word] |= bits
    return sorted(words.items())


def _words(places: Iterable[int]) -> list[tuple[int, int]]:
    """Flags as (word, bits)."""
    return merged((place // WORD, 1 << place % WORD) for place in places)
