"""The C functions of a design: combinational logic and clock edges."""

from __future__ import annotations

from collections import defaultdict

from .access import Access
from .effects import Effects
from .expressions import Expressions
from .graph import mask
from .partition import Cluster, Partition
from .registers import Registers
from .wakes import WORD, Flags, Readers, awaken, cluster_roots

__all__ = ["Functions"]


class Functions:
    """Writes the functions of a partition: one for each word of flags, see `Flags`.

    Attributes
    ----------
    flags: of all places. readers: what wakes them. access: where values are.
    texts: functions, each a whole definition. prototypes: their declarations.
    always: in each word of groups, those that are computed at every edge at which their guard
        holds: writes and messages. Others wait until something they read has changed.
    commits: words of groups that have registers.
    profiled: kind and module of each place that has counters of costs, in their order.
    """

    def __init__(self, partition: Partition, *, trace: bool = False, profile: bool = False) -> None:
        self.partition = partition
        self.netlist = partition.netlist
        self.flags = Flags(partition)
        self.readers = Readers(partition, self.flags)
        self.access = Access(partition, self.flags.words, trace=trace, profile=profile)
        self.profiled: list[tuple[str, int]] | None = [] if profile else None
        self.always: dict[int, int] = {}
        self.commits: set[int] = set()
        self.texts: list[str] = []
        self.prototypes: list[str] = []
        self._registers = Registers(self.access, self.readers)
        self._effects = Effects(self.access, self.readers)

    def write(self) -> None:
        """Writes everything."""
        for word in range(self.flags.cluster_words):
            self._cluster_word(word)
        for clocking in range(len(self.netlist.clockings)):
            for word in (*self.flags.early[clocking], *self.flags.late[clocking]):
                self._group_word(word)

    def _function(self, name: str, body: list[str], more: str = "") -> None:
        head = f"void {name}(u8 *restrict s, u8 *restrict v{more})"
        self.prototypes.append(f"{head};")
        inner = "\n".join(f"    {line}" for line in body)
        self.texts.append(f"{head}\n{{\n{inner}\n}}\n")

    def _timed(self, kind: str, module: int, lines: list[str]) -> list[str]:
        """Adds what a place costs to a pair of counters: evaluations, and cycles of the CPU."""
        if self.profiled is None:
            return lines
        at = self.access.costs + 16 * len(self.profiled)
        self.profiled.append((kind, module))
        return [
            f"const u64 start = __builtin_ia32_rdtsc(); U64(v, {at})++;",
            *lines,
            f"U64(v, {at + 8}) += __builtin_ia32_rdtsc() - start;",
        ]

    def _title(self, module: int) -> str:
        return f"// {self.netlist.modules[module] or 'top'}"

    # ---------------------------------------------------------------------------- clusters

    def _cluster_word(self, word: int) -> None:
        body = []
        first = word * WORD
        for index in range(first, min(first + WORD, len(self.partition.clusters))):
            cluster = self.partition.clusters[index]
            lines = self._timed("comb", cluster.module, self._cluster(index, cluster))
            body += [f"case {index - first}: {{", *lines, "    break;", "}"]
        take = f"const u64 awake = AWAKE({word}); AWAKE({word}) = awake & (awake - 1);"
        self._function(f"comb{word}", _each(f"while (AWAKE({word}))", take, body))

    def _cluster(self, index: int, cluster: Cluster) -> list[str]:
        expressions = self.access.expressions(index)
        lines = expressions.write(cluster_roots(self.partition, cluster))
        lines += self._stores(cluster, expressions)
        lines += self._switches(cluster, expressions)
        for check in cluster.checks:
            lines += self._effects.check(check, expressions)
        return [self._title(cluster.module), *(f"    {line}" for line in lines)]

    def _stores(self, cluster: Cluster, expressions: Expressions) -> list[str]:
        """Stores what others read, and wakes those whose values have changed."""
        lines = []
        wakes = self.readers.stored
        alike: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
        for node in cluster.roots:
            alike[wakes[node].always].append(node)
        for flags, nodes in alike.items():
            places = [self.access.layout.stored[node] for node in nodes]
            pairs = [(p.text(), expressions.name(n)) for p, n in zip(places, nodes, strict=True)]
            copies = " ".join(f"{place} = {value};" for place, value in pairs)
            partly = "".join(
                wakes[node].text(f"{place} ^ {value}")
                for node, (place, value) in zip(nodes, pairs, strict=True)
            )
            copies = partly + copies
            if flags or partly or self.access.trace:
                changed = " | ".join(f"({place} ^ {value})" for place, value in pairs)
                noted = self.access.note(self.access.traced[node] for node in nodes)
                copies = f"if ({changed}) {{ {copies} {awaken(flags)} {noted}}}"
            lines.append(copies)
        return lines

    def _switches(self, cluster: Cluster, expressions: Expressions) -> list[str]:
        """Switches groups on and off, as their guards say."""
        lines = []
        switches: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number in cluster.guards:
            word, bit = divmod(self.flags.of_group[number], WORD)
            guard = self.partition.groups[number].guard
            assert guard is not None
            switches[word].append((bit, guard))
        for word, bits in switches.items():
            cleared = mask(WORD) & ~sum(1 << bit for bit, _ in bits)
            values = " | ".join(f"(u64)({expressions.name(node)}) << {bit}" for bit, node in bits)
            level = f"AWAKE({word + self.flags.group_words})"
            lines.append(f"{level} = ({level} & {cleared:#x}ull) | {values};")
        return lines

    # ------------------------------------------------------------------------------ groups

    def _group_word(self, word: int) -> None:
        groups = self.flags.of_word(word)
        self.always[word] = sum(
            1 << bit for bit, number in groups if self.partition.groups[number].at_every_edge
        )
        changed = f"AWAKE({word + 2 * self.flags.group_words})"
        body, commit = [], []
        for bit, number in groups:
            group = self.partition.groups[number]
            lines = self._group(number, f"{changed} |= {1 << bit:#x}ull;")
            lines = self._timed("edge", group.module, lines)
            body += [f"case {bit}: {{", *(f"    {line}" for line in lines), "    break;", "}"]
            copies = self._registers.commit(number, group)
            if copies:
                commit.append(f"case {bit}: {copies} break;")
        loop = "for (; awake; awake &= awake - 1)"
        self._function(f"edge{word}", _each(loop, "", body), ", u64 awake")
        if commit:
            self.commits.add(word)
            take = [f"u64 awake = {changed};", f"{changed} = 0;"]
            self._function(f"commit{word}", [*take, *_each(loop, "", commit)])

    def _group(self, number: int, changes: str) -> list[str]:
        group = self.partition.groups[number]
        expressions = self.access.expressions()
        lines = [self._title(group.module)]
        if group.family is not None:
            return lines + self._registers.family(group.family, changes, expressions)
        lines += expressions.write(group.roots)
        if group.file is not None:
            return lines + self._registers.file(number, group.file, changes, expressions)
        if group.write is not None:
            return lines + self._effects.write(group.write, expressions)
        word, bit = divmod(self.flags.of_group[number], WORD)
        for check in group.checks:
            # One that fails does so at the next edge, too.
            again = f"AWAKE({word}) |= {1 << bit:#x}ull;"
            lines += self._effects.check(check, expressions, again)
        return lines + self._registers.plain(group, changes, expressions)


def _each(loop: str, take: str, cases: list[str]) -> list[str]:
    """A loop over the places of a word that are awake."""
    return [
        f"{loop} {{", f"    {take}", "    switch (__builtin_ctzll(awake)) {",
        *cases,
        "    default: __builtin_unreachable();", "    }", "}",
    ]  # fmt: skip
