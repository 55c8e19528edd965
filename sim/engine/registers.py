"""How the registers of a group take their next values: plainly, as files, as families."""

from __future__ import annotations

from collections import defaultdict

from .access import Access
from .expressions import Expressions
from .families import Family, File
from .lanes import Lanes
from .layout import spans_of
from .partition import Group
from .wakes import Readers, Wakes, awaken, merged

__all__ = ["Registers"]

NOWHERE = 0xFFFFFFFF
MANY = 16
"""Registers of a group that are rather looked at in a loop."""


class Registers:
    """Writes what groups of registers do at an edge, in two halves.

    First all next values are computed, aside from the present ones, which others still read; what
    changes wakes its readers and says that its group has something to commit. Then what was
    computed becomes present.
    """

    def __init__(self, access: Access, readers: Readers) -> None:
        self._access = access
        self._layout = access.layout
        self._wakes = readers.elements

    def commit(self, number: int, group: Group) -> str:
        """Statements that make the next values of a group present."""
        if group.file is not None:
            at = self._access.pending[number]
            size, wakes = self._alike(group.file)
            if size:
                word = f"U{8 * size}(s, U64(v, {at}))"
                value = f"(u{8 * size})U64(v, {at + 8})"
                wake = awaken(wakes.always)
                return f"if ({word} != {value}) {{ {word} = {value}; {wake} }}"
            return f"set(s, v, &elements[U64(v, {at})], wakes, U64(v, {at + 8}));"
        later = self._layout.next_values
        return " ".join(
            f"memcpy(s + {start}, v + {later + start}, {size});"
            for start, size in self._layout.spans[number]
        )

    # -------------------------------------------------------------------------------- plain

    def plain(self, group: Group, changes: str, expressions: Expressions) -> list[str]:
        """Registers one by one; those that wake the same places are looked at together.

        Parameters
        ----------
        changes: statement that says that there is something to commit.
        expressions: have what the group reads.
        """
        access, places = self._access, self._layout.elements
        lines, alone = self._moves(group)
        alike: dict[tuple[tuple[int, int], ...], list[tuple[int, int]]] = defaultdict(list)
        for number, node in group.elements:
            alike[self._wakes[number].always].append((number, node))
        if len(group.elements) >= 4 * MANY:
            # One look at all is cheaper than waking nobody in vain.
            every = tuple(merged(flag for flags in alike for flag in flags))
            alike = {every: group.elements}
        for flags, members in alike.items():
            differences = []
            partly = ""
            for number, node in members:
                place = places[number]
                if number in alone:
                    lines.append(f"{access.later(place).text()} = {expressions.name(node)};")
                difference = f"{expressions.name(node)} ^ {place.text()}"
                differences.append(f"({difference})")
                partly += self._wakes[number].text(difference)
            noted = access.note(number for number, _ in members)
            if len(members) >= MANY:
                lines += ["{", *self._difference([number for number, _ in members])]
                differences = ["difference"]
            lines.append(
                f"if ({' | '.join(differences)}) {{ {changes} {awaken(flags)} {partly}{noted}}}"
            )
            if len(members) >= MANY:
                lines.append("}")
        return lines

    def _difference(self, numbers: list[int]) -> list[str]:
        """Loops that find whether any of some registers changes."""
        later = self._layout.next_values
        return [
            "u8 difference = 0;",
            *(
                f"for (int i = {start}; i < {start + size}; i++) "
                f"difference |= s[i] ^ v[{later} + i];"
                for start, size in spans_of(self._layout.elements[number] for number in numbers)
            ),
        ]

    def _moves(self, group: Group) -> tuple[list[str], set[int]]:
        """Copies registers that take the values of their neighbours, as shift registers do.

        Returns the statements, and the elements that are left to be stored one by one.
        """
        places = self._layout.elements
        values = {number: node for number, node in group.elements}
        alone = set(values)
        lines: list[str] = []
        if len(values) < MANY:
            return lines, alone
        at = {places[number].offset: number for number in values}
        for start, size in spans_of(places[number] for number in values):
            members = [at[o] for o in range(start, start + size) if o in at]
            moves: dict[int, list[int]] = defaultdict(list)
            for number in members:
                source, place = self._access.place_of(values[number]), places[number]
                if source is not None and (source.area, source.size) == ("s", place.size):
                    moves[source.offset - place.offset].append(number)
            if not moves:
                continue
            by, moved = max(moves.items(), key=lambda item: len(item[1]))
            inside = 0 <= start + by and start + by + size <= self._layout.state.size
            if len(moved) >= MANY and 2 * len(moved) > len(members) and inside:
                target = self._layout.next_values + start
                lines.append(f"memcpy(v + {target}, s + {start + by}, {size});")
                alone -= set(moved)
        return lines, alone

    # -------------------------------------------------------------------------------- files

    def file(self, number: int, file: File, changes: str, expressions: Expressions) -> list[str]:
        """One register out of many takes a value: which one is noted until all have been read."""
        address = expressions.name(file.address)
        words = dict(file.words)
        count = max(words) + 1
        if self._alike(file)[0]:
            words = {index: self._layout.elements[n].offset for index, n in file.words}
        table = ", ".join(str(words.get(index, NOWHERE)) for index in range(count))
        at = self._access.pending[number]
        noted = self._access.change(f"which[{address}]")
        return [
            f"static const u32 which[] = {{{table}}};",
            f"if ({address} < {count} && which[{address}] != {NOWHERE}u) {{",
            f"    U64(v, {at}) = which[{address}];",
            f"    U64(v, {at + 8}) = {expressions.name(file.value)};",
            f"    {changes} {noted}",
            "}",
        ]

    def _alike(self, file: File) -> tuple[int, Wakes]:
        """Bytes of each register of a file if all wake the same, else 0; what the first wakes."""
        sizes = {self._layout.elements[n].size for _, n in file.words}
        wakes = {self._wakes[n] for _, n in file.words}
        alike = len(sizes) == len(wakes) == 1 and not any(each.partly for each in wakes)
        size = sizes.pop() if alike and not self._access.trace else 0
        return size, self._wakes[file.words[0][1]]

    # ----------------------------------------------------------------------------- families

    def family(self, family: Family, changes: str, expressions: Expressions) -> list[str]:
        """A loop over lanes."""
        access = self._access
        lanes = Lanes(access.graph, access.partition.signatures, expressions, access.place_of)
        elements = [self._layout.elements[lane.element] for lane in family.lanes]
        flags = merged(
            flag
            for lane in family.lanes
            for wakes in (self._wakes[lane.element],)
            for some in (wakes.always, *(some for _, some in wakes.partly))
            for flag in some
        )
        noted = access.note(lane.element for lane in family.lanes)
        loop = lanes.loop(family, elements, self._layout.next_values)
        if loop is None:
            loop = self._apart(family, expressions)
        return [*loop, f"if (difference) {{ {changes} {awaken(flags)} {noted}}}"]

    def _apart(self, family: Family, expressions: Expressions) -> list[str]:
        """Lanes one by one."""
        nodes = [n for lane in family.lanes for n in (lane.value, lane.guard) if n is not None]
        lines = [*expressions.write(nodes), "u64 difference = 0;"]
        for lane in family.lanes:
            place = self._layout.elements[lane.element]
            later = self._access.later(place)
            value = expressions.name(lane.value)
            if lane.guard is not None:
                value = f"{expressions.name(lane.guard)} ? {value} : {place.text()}"
            lines.append(f"{later.text()} = {value};")
            lines.append(f"difference |= {later.text()} ^ {place.text()};")
        return lines
