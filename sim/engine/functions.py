"""The C functions of a design: combinational logic, clock edges, and what wakes what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .expressions import Expressions, literal
from .families import Family, File
from .graph import mask
from .lanes import Lanes
from .layout import Layout, Place, row_bytes, spans_of
from .partition import Cluster, Group, Partition, check_nodes
from .tables import Check

__all__ = ["Functions"]

WORD = 64
NOWHERE = 0xFFFFFFFF
MANY = 16
"""Registers of a group that are rather looked at in a loop."""
FEW = 6
"""Parts of a value that are looked at apart."""


@dataclass(frozen=True)
class _Wakes:
    """Flags that any change of a value sets, and flags that changes of some of its bits set."""

    always: tuple[tuple[int, int], ...]
    partly: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]

    @classmethod
    def of(cls, readers: Mapping[int, int], width: int) -> _Wakes:
        """Of the bits that each flag's place reads."""
        by_bits: dict[int, list[int]] = defaultdict(list)
        for flag, bits in readers.items():
            by_bits[bits].append(flag)
        if len(by_bits) > FEW:
            by_bits = {mask(width): list(readers)}
        always = by_bits.pop(mask(width), [])
        partly = [(bits, tuple(_flags(flags))) for bits, flags in sorted(by_bits.items())]
        return cls(tuple(_flags(always)), tuple(partly))


class Functions:
    """Writes the functions of a partition.

    A word of `v` has a flag for each of 64 places. Clusters come first, in order of evaluation:
    their flags mean that something they read has changed. Then come the groups of each clocking,
    writes last, three times: whether something has changed, their guards, and whether they have
    next values.

    Attributes
    ----------
    layout: of state and work area.
    texts: functions, each a whole definition. prototypes: their declarations.
    wakes: for each element, the flags (word, bits) of the places that read it.
    set_wakes: the same, and of the group that writes it, which has to write it again.
    memory_wakes: the same for memories.
    always: in each word of groups, those that are computed at every edge at which their guard
        holds: writes and messages. Others wait until something they read has changed.
    commits: words of groups that have registers.
    traced: numbers of stored nodes in the list of changes, where elements have their own.
    """

    def __init__(
        self, partition: Partition, *, trace: bool = False, profile: bool = False
    ) -> None:
        self.partition = partition
        self.profiled: list[tuple[str, int]] | None = [] if profile else None
        self.trace = trace
        self.netlist = partition.netlist
        self.graph = partition.netlist.graph
        self.cluster_words = (len(partition.clusters) + WORD - 1) // WORD
        self._number()
        self.layout = Layout.of(partition, self.cluster_words + 3 * self.group_words)
        self.layout.store(sorted(partition.stored), self.graph.widths)
        self._storage = {
            node: place.text() if place.size > 2 else f"(u32){place.text()}"
            for node, place in self.layout.stored.items()
        }
        self.pointers = self.layout.work.take(
            8 * (2 * sum(m.external is not None for m in self.netlist.memories) + 4), 8
        )
        self.pending = {
            number: self.layout.work.take(16, 8)
            for number, group in enumerate(partition.groups)
            if group.file is not None
        }
        self.always: dict[int, int] = {}
        self.commits: set[int] = set()
        places = len(partition.clusters) + len(partition.groups)
        elements = len(self.netlist.elements)
        self.traced = {n: elements + at for at, n in enumerate(sorted(partition.stored))}
        self.changes = self.layout.work.take(16 + 8 * (elements + len(self.traced)), 8)
        self.costs = self.layout.work.take(16 * places if profile else 0, 8)
        self.texts: list[str] = []
        self.prototypes: list[str] = []
        self._readers()

    # ------------------------------------------------------------------------- numbering

    def _number(self) -> None:
        """Gives a flag to each group; those switched on by one cluster are neighbours."""
        groups = self.partition.groups
        home = {
            number: index
            for index, cluster in enumerate(self.partition.clusters)
            for number in cluster.guards
        }
        self.flags: dict[int, int] = {}
        self.early: list[range] = []
        self.late: list[range] = []
        words = 0
        for clocking in range(len(self.netlist.clockings)):
            mine = [n for n, group in enumerate(groups) if group.clocking == clocking]
            # Messages come in the order of statements, and the last port that writes a row wins.
            ordered = [n for n in mine if groups[n].checks or groups[n].write is not None]
            mine.sort(key=lambda n: (home.get(n, len(home)), n))
            mine = [n for n in mine if n not in ordered] + ordered
            for late, ranges in ((False, self.early), (True, self.late)):
                chosen = [n for n in mine if (groups[n].write is not None) == late]
                for position, number in enumerate(chosen):
                    self.flags[number] = (self.cluster_words + words) * WORD + position
                count = (len(chosen) + WORD - 1) // WORD
                first = self.cluster_words + words
                ranges.append(range(first, first + count))
                words += count
        self.group_words = words
        self.by_flag = {flag: number for number, flag in self.flags.items()}

    def _readers(self) -> None:
        """Finds what each place reads, and so what wakes it."""
        partition = self.partition
        graph = self.graph
        elements: dict[int, dict[int, int]] = defaultdict(dict)
        stored: dict[int, dict[int, int]] = defaultdict(dict)
        memories: dict[int, set[int]] = defaultdict(set)

        def reads(flag: int, roots: Iterable[int], own: int) -> None:
            """Notes which bits of what a place reads."""
            seen: set[tuple[int, int]] = set()
            waiting = [(root, mask(graph.widths[root])) for root in roots]
            while waiting:
                node, bits = waiting.pop()
                if (node, bits) in seen:
                    continue
                seen.add((node, bits))
                op, args = graph.ops[node], graph.args[node]
                if op == "state":
                    elements[args[0]][flag] = elements[args[0]].get(flag, 0) | bits
                elif partition.stored.get(node, own) != own:
                    stored[node][flag] = stored[node].get(flag, 0) | bits
                elif op == "slice":
                    waiting.append((args[0], mask(graph.widths[node]) << args[1]))
                else:
                    if op == "memory":
                        memories[args[0]].add(flag)
                    waiting += [(n, mask(graph.widths[n])) for n in graph.operands(node)]

        for index, cluster in enumerate(partition.clusters):
            reads(index, self._cluster_roots(cluster), index)
        for number, group in enumerate(partition.groups):
            if not self._at_every_edge(group):
                reads(self.flags[number], group.roots, -1)
        count = range(len(self.netlist.elements))
        self.wakes = [
            _Wakes.of(elements[n], self.netlist.elements[n].width) for n in count
        ]
        for number, group in enumerate(partition.groups):
            for element, _ in group.elements:
                elements[element][self.flags[number]] = 0
        self.set_wakes = [_flags(elements[n]) for n in count]
        self.stored_wakes = {
            node: _Wakes.of(stored[node], graph.widths[node]) for node in partition.stored
        }
        self.memory_wakes = [_flags(memories.get(n, ())) for n in range(len(self.netlist.memories))]

    def _cluster_roots(self, cluster: Cluster) -> list[int]:
        guards = [self.partition.groups[number].guard for number in cluster.guards]
        return [
            *cluster.roots,
            *(guard for guard in guards if guard is not None),
            *(node for check in cluster.checks for node in check_nodes(check)),
        ]

    # ------------------------------------------------------------------------ expressions

    def _expressions(self, own: int = -1) -> Expressions:
        partition = self.partition

        def load(node: int) -> str | None:
            if self.graph.ops[node] == "state":
                place = self.layout.elements[self.graph.args[node][0]]
                return place.text() if place.size > 2 else f"(u32){place.text()}"
            if partition.stored.get(node, own) != own:
                return self._storage[node]
            return None

        return Expressions(self.graph, load, self._row)

    def _base(self, memory: int) -> str:
        offset = self.layout.memories[memory]
        if self.netlist.memories[memory].external is None:
            return f"(s + {offset})"
        return f"(*(u8 **)(v + {self.pointers + 32 + 16 * offset}))"

    def _row(self, memory: int, address: str, bits: int, bit: int, width: int) -> str:
        table = self.netlist.memories[memory]
        stride = row_bytes(table)
        size = min(8, stride)
        at = f"{self._base(memory)} + {stride}ull * {address} + {bit // 64 * 8}"
        text = f"*(u{8 * size} *)({at})"
        if bit % 64:
            text = f"({text} >> {bit % 64})"
        if width < 8 * size - bit % 64:
            text = f"({text} & {literal(width, mask(width))})"
        if table.depth < 1 << bits:
            text = f"{address} < {table.depth} ? {text} : 0"
        return text

    @staticmethod
    def wake(flags: Sequence[tuple[int, int]]) -> str:
        return " ".join(f"AWAKE({word}) |= {bits:#x}ull;" for word, bits in flags)

    def _partly(self, wakes: _Wakes, difference: str) -> str:
        """Wakes what reads only some bits of a value."""
        return "".join(
            f"if (({difference}) & {bits:#x}ull) {{ {self.wake(flags)} }} "
            for bits, flags in wakes.partly
        )

    def _note(self, numbers: Iterable[int]) -> str:
        """Adds to the list of what has changed."""
        if not self.trace:
            return ""
        return "".join(f"changed(v + {self.changes}, {number}); " for number in numbers)

    # -------------------------------------------------------------------------- functions

    def write(self) -> None:
        """Writes everything."""
        for word in range(self.cluster_words):
            body = []
            first = word * WORD
            for index in range(first, min(first + WORD, len(self.partition.clusters))):
                cluster = self.partition.clusters[index]
                lines = self._timed("comb", cluster.module, self._cluster(index, cluster))
                body += [f"case {index - first}: {{", *lines, "    break;", "}"]
            take = f"const u64 awake = AWAKE({word}); AWAKE({word}) = awake & (awake - 1);"
            self._function(f"comb{word}", _each(f"while (AWAKE({word}))", take, body))
        for clocking in range(len(self.netlist.clockings)):
            for word in (*self.early[clocking], *self.late[clocking]):
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
        at = self.costs + 16 * len(self.profiled)
        self.profiled.append((kind, module))
        return [
            f"const u64 start = __builtin_ia32_rdtsc(); U64(v, {at})++;",
            *lines,
            f"U64(v, {at + 8}) += __builtin_ia32_rdtsc() - start;",
        ]

    def _cluster(self, index: int, cluster: Cluster) -> list[str]:
        expressions = self._expressions(index)
        lines = expressions.write(self._cluster_roots(cluster))
        alike: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
        for node in cluster.roots:
            alike[self.stored_wakes[node].always].append(node)
        for flags, nodes in alike.items():
            places = [self.layout.stored[node] for node in nodes]
            pairs = [(p.text(), expressions.name(n)) for p, n in zip(places, nodes, strict=True)]
            copies = " ".join(f"{place} = {value};" for place, value in pairs)
            partly = "".join(
                self._partly(self.stored_wakes[node], f"{place} ^ {value}")
                for node, (place, value) in zip(nodes, pairs, strict=True)
            )
            copies = partly + copies
            if flags or partly or self.trace:
                changed = " | ".join(f"({place} ^ {value})" for place, value in pairs)
                noted = self._note(self.traced[node] for node in nodes)
                copies = f"if ({changed}) {{ {copies} {self.wake(flags)} {noted}}}"
            lines.append(copies)
        switches: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number in cluster.guards:
            word, bit = divmod(self.flags[number], WORD)
            guard = self.partition.groups[number].guard
            assert guard is not None
            switches[word].append((bit, guard))
        for word, bits in switches.items():
            cleared = mask(WORD) & ~sum(1 << bit for bit, _ in bits)
            values = " | ".join(f"(u64)({expressions.name(node)}) << {bit}" for bit, node in bits)
            level = f"AWAKE({word + self.group_words})"
            lines.append(f"{level} = ({level} & {cleared:#x}ull) | {values};")
        for check in cluster.checks:
            lines += self._check(check, expressions)
        return [f"// {self.netlist.modules[cluster.module] or 'top'}", *(f"    {x}" for x in lines)]

    def _group_word(self, word: int) -> None:
        groups = [
            (bit, self.by_flag[flag])
            for bit, flag in enumerate(range(word * WORD, word * WORD + WORD))
            if flag in self.by_flag
        ]
        self.always[word] = sum(
            1 << bit for bit, number in groups if self._at_every_edge(self.partition.groups[number])
        )
        changed = f"AWAKE({word + 2 * self.group_words})"
        body, commit = [], []
        for bit, number in groups:
            group = self.partition.groups[number]
            lines = self._group(number, f"{changed} |= {1 << bit:#x}ull;")
            lines = self._timed("edge", group.module, lines)
            body += [f"case {bit}: {{", *(f"    {x}" for x in lines), "    break;", "}"]
            copies = self._commit(number)
            if copies:
                commit.append(f"case {bit}: {copies} break;")
        loop = _each("for (; awake; awake &= awake - 1)", "", body)
        self._function(f"edge{word}", loop, ", u64 awake")
        if commit:
            self.commits.add(word)
            self._function(
                f"commit{word}",
                [
                    f"u64 awake = {changed};", f"{changed} = 0;",
                    *_each("for (; awake; awake &= awake - 1)", "", commit),
                ],
            )

    @staticmethod
    def _at_every_edge(group: Group) -> bool:
        """Whether it has an effect again when nothing has changed: a write, a message."""
        return group.write is not None or any(
            check.kind in ("print", "cover") for check in group.checks
        )

    def _commit(self, number: int) -> str:
        """Statements that make the next values of a group present."""
        file = self.partition.groups[number].file
        if file is not None:
            at = self.pending[number]
            size = self._plain(file)
            if size:
                word = f"U{8 * size}(s, U64(v, {at}))"
                value = f"(u{8 * size})U64(v, {at + 8})"
                wake = self.wake(self.wakes[file.words[0][1]].always)
                return f"if ({word} != {value}) {{ {word} = {value}; {wake} }}"
            return f"set(s, v, &elements[U64(v, {at})], wakes, U64(v, {at + 8}));"
        later = self.layout.next_values
        return " ".join(
            f"memcpy(s + {start}, v + {later + start}, {size});"
            for start, size in self.layout.spans[number]
        )

    def _plain(self, file: File) -> int:
        """Bytes of each register of a file, if all wake the same; else 0."""
        sizes = {self.layout.elements[n].size for _, n in file.words}
        wakes = {self.wakes[n] for _, n in file.words}
        alike = len(sizes) == len(wakes) == 1 and not any(each.partly for each in wakes)
        return sizes.pop() if alike and not self.trace else 0

    def _file(self, number: int, changes: str, expressions: Expressions) -> list[str]:
        """One register out of many takes a value: which one is noted until all have been read."""
        file = self.partition.groups[number].file
        assert file is not None
        address = expressions.name(file.address)
        words = dict(file.words)
        count = max(words) + 1
        if self._plain(file):
            words = {index: self.layout.elements[n].offset for index, n in file.words}
        table = ", ".join(str(words.get(index, NOWHERE)) for index in range(count))
        at = self.pending[number]
        noted = ""
        if self.trace:
            noted = f"changed(v + {self.changes}, which[{address}]); "
        return [
            f"static const u32 which[] = {{{table}}};",
            f"if ({address} < {count} && which[{address}] != {NOWHERE}u) {{",
            f"    U64(v, {at}) = which[{address}];",
            f"    U64(v, {at + 8}) = {expressions.name(file.value)};",
            f"    {changes} {noted}",
            "}",
        ]

    def _group(self, number: int, changes: str) -> list[str]:
        group = self.partition.groups[number]
        expressions = self._expressions()
        lines = [f"// {self.netlist.modules[group.module] or 'top'}"]
        if group.family is not None:
            return lines + self._family(group, changes, expressions)
        lines += expressions.write(group.roots)
        if group.file is not None:
            return lines + self._file(number, changes, expressions)
        if group.write is not None:
            return lines + self._write(group, expressions)
        word, bit = divmod(self.flags[number], WORD)
        for check in group.checks:
            # One that fails does so at the next edge, too.
            lines += self._check(check, expressions, f"AWAKE({word}) |= {1 << bit:#x}ull;")
        stores, alone = self._moves(group, expressions)
        lines += stores
        alike: dict[tuple[tuple[int, int], ...], list[tuple[int, int]]] = defaultdict(list)
        for number, node in group.elements:
            alike[self.wakes[number].always].append((number, node))
        if len(group.elements) >= 4 * MANY:
            # One look at all is cheaper than waking nobody in vain.
            merged = tuple(_merged(flag for flags in alike for flag in flags))
            alike = {merged: group.elements}
        for flags, members in alike.items():
            differences = []
            partly = ""
            for number, node in members:
                place = self.layout.elements[number]
                if number in alone:
                    lines.append(f"{self._later(place).text()} = {expressions.name(node)};")
                difference = f"{expressions.name(node)} ^ {place.text()}"
                differences.append(f"({difference})")
                partly += self._partly(self.wakes[number], difference)
            noted = self._note(number for number, _ in members)
            if len(members) >= MANY:
                spans = spans_of(self.layout.elements[number] for number, _ in members)
                lines += ["{", "u8 difference = 0;"]
                later = self.layout.next_values
                lines += [
                    f"for (int i = {start}; i < {start + size}; i++) "
                    f"difference |= s[i] ^ v[{later} + i];"
                    for start, size in spans
                ]
                differences = ["difference"]
            lines.append(
                f"if ({' | '.join(differences)}) "
                f"{{ {changes} {self.wake(flags)} {partly}{noted}}}"
            )
            if len(members) >= MANY:
                lines.append("}")
        return lines

    def _later(self, place: Place) -> Place:
        """Where a register's next value is."""
        return Place("v", self.layout.next_values + place.offset, place.size)

    def _moves(self, group: Group, expressions: Expressions) -> tuple[list[str], set[int]]:
        """Copies registers that take the values of their neighbours, as shift registers do.

        Returns the statements, and the elements that are left to be stored one by one.
        """
        values = {number: node for number, node in group.elements}
        alone = set(values)
        lines: list[str] = []
        if len(values) < MANY:
            return lines, alone
        at = {self.layout.elements[number].offset: number for number in values}
        for start, size in spans_of(self.layout.elements[number] for number in values):
            members = [at[o] for o in range(start, start + size) if o in at]
            moves: dict[int, list[int]] = defaultdict(list)
            for number in members:
                source, place = self._place_of(values[number]), self.layout.elements[number]
                if source is not None and (source.area, source.size) == ("s", place.size):
                    moves[source.offset - place.offset].append(number)
            if not moves:
                continue
            by, moved = max(moves.items(), key=lambda item: len(item[1]))
            inside = 0 <= start + by and start + by + size <= self.layout.state.size
            if len(moved) >= MANY and 2 * len(moved) > len(members) and inside:
                target = self.layout.next_values + start
                lines.append(f"memcpy(v + {target}, s + {start + by}, {size});")
                alone -= set(moved)
        return lines, alone

    def _family(self, group: Group, changes: str, expressions: Expressions) -> list[str]:
        """A loop over lanes."""
        assert group.family is not None
        lanes = Lanes(self.graph, self.partition.signatures, expressions, self._place_of)
        elements = [self.layout.elements[lane.element] for lane in group.family.lanes]
        flags = _merged(
            flag
            for lane in group.family.lanes
            for wakes in (self.wakes[lane.element],)
            for some in (wakes.always, *(some for _, some in wakes.partly))
            for flag in some
        )
        noted = self._note(lane.element for lane in group.family.lanes)
        loop = lanes.loop(group.family, elements, self.layout.next_values)
        if loop is None:
            loop = self._apart(group.family, expressions)
        return [*loop, f"if (difference) {{ {changes} {self.wake(flags)} {noted}}}"]

    def _apart(self, family: Family, expressions: Expressions) -> list[str]:
        """Lanes one by one."""
        nodes = [n for lane in family.lanes for n in (lane.value, lane.guard) if n is not None]
        lines = [*expressions.write(nodes), "u64 difference = 0;"]
        for lane in family.lanes:
            place = self.layout.elements[lane.element]
            later = self._later(place)
            value = expressions.name(lane.value)
            if lane.guard is not None:
                value = f"{expressions.name(lane.guard)} ? {value} : {place.text()}"
            lines.append(f"{later.text()} = {value};")
            lines.append(f"difference |= {later.text()} ^ {place.text()};")
        return lines

    def _place_of(self, node: int) -> Place | None:
        """Where a register or a stored node is."""
        if self.graph.ops[node] == "state":
            return self.layout.elements[self.graph.args[node][0]]
        return self.layout.stored.get(node)

    def _write(self, group: Group, expressions: Expressions) -> list[str]:
        write = group.write
        assert write is not None
        table = self.netlist.memories[write.memory]
        stride = row_bytes(table)
        size = min(8, stride)
        address = expressions.name(write.address)
        lines = [f"u8 *const row = {self._base(write.memory)} + {stride}ull * {address};"]
        for bit, enable, data in write.chunks:
            width = self.graph.widths[data]
            target = f"*(u{8 * size} *)(row + {bit // 64 * 8})"
            value = expressions.name(data)
            bits = mask(width) << bit % 64
            if bits != mask(8 * size):
                value = (
                    f"({target} & {mask(8 * size) & ~bits:#x}ull) | (u64){value} << {bit % 64}"
                )
            known = self.graph.value(enable)
            if known != 0:
                test = "" if known else f"if ({expressions.name(enable)}) "
                lines.append(f"{test}{target} = {value};")
        if table.external is not None:
            dirty = f"(*(u8 **)(v + {self.pointers + 40 + 16 * self.layout.memories[write.memory]}))"
            lines.append(f"{dirty}[{stride}ull * {address} >> 12] = 1;")
        lines.append(self.wake(self.memory_wakes[write.memory]))
        if table.depth < 1 << self.graph.widths[write.address]:
            lines = [f"if ({address} < {table.depth}) {{", *lines, "}"]
        return lines

    def _check(self, check: Check, expressions: Expressions, again: str = "") -> list[str]:
        number = self.netlist.checks.index(check)
        values = [
            expressions.name(node)
            for chunk in check.message
            if not isinstance(chunk, str)
            for node in chunk[0]
        ]
        array = f"(const u64[]){{{', '.join(values) or '0'}}}"
        enable = expressions.name(check.enable)
        if check.test is not None:
            test = expressions.name(check.test)
            enable = f"{enable} && {'' if check.kind == 'cover' else '!'}({test})"
        report = f"report(v + {self.pointers}, {number}, {len(values)}, {array});"
        return [f"if ({enable}) {{ {report} {again} }}"]


def _each(loop: str, take: str, cases: list[str]) -> list[str]:
    """A loop over the places of a word that are awake."""
    return [
        f"{loop} {{", f"    {take}", "    switch (__builtin_ctzll(awake)) {",
        *cases,
        "    default: __builtin_unreachable();", "    }", "}",
    ]  # fmt: skip


def _merged(flags: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each word once."""
    words: dict[int, int] = defaultdict(int)
    for word, bits in flags:
        words[word] |= bits
    return sorted(words.items())


def _flags(places: Iterable[int]) -> list[tuple[int, int]]:
    """Flags as (word, bits)."""
    words: dict[int, int] = defaultdict(int)
    for place in places:
        words[place // WORD] |= 1 << place % WORD
    return sorted(words.items())


