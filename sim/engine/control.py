"""The C functions that drive the others: settle, edges, run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from importlib import resources

from .functions import Functions

__all__ = ["Control"]


class Control:
    """Writes what `Model` calls, and the tables that it needs.

    Parameters
    ----------
    functions: of a design, written.

    Attributes
    ----------
    clocks: nodes of clocks that are inputs.
    """

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.netlist = functions.netlist
        self.graph = functions.netlist.graph
        self.flags = functions.flags
        self.access = functions.access
        self.layout = functions.access.layout
        self.clocks = self._external_clocks()

    def text(self) -> str:
        """The end of a C file, which knows the prototypes of `functions`."""
        return "\n".join(self._parts())

    def _external_clocks(self) -> list[int]:
        found = []
        for clocking in self.netlist.clockings:
            node = clocking.clock
            if self.graph.ops[node] == "state":
                element = self.netlist.elements[self.graph.args[node][0]]
                if element.clocking is None and node not in found:
                    found.append(node)
        return found

    def _value(self, node: int) -> str:
        """Text for a node that is a constant, a register or stored."""
        op, args = self.graph.ops[node], self.graph.args[node]
        if op == "const":
            return str(args[0])
        if op == "state":
            return self.layout.elements[args[0]].text()
        return self.layout.stored[node].text()

    def _parts(self) -> Iterable[str]:
        yield from self._tables()
        yield from self._settle()
        yield from self._fire()
        yield from self._edges()
        yield from self._step()
        yield f"#define MESSAGES U64(v, {self.access.pointers + 8})"
        yield resources.files(__package__).joinpath("script.h").read_text()

    def _tables(self) -> Iterable[str]:
        wakes: list[tuple[int, int]] = []
        rows = []
        for place, flags in zip(self.layout.elements, self.functions.readers.setters, strict=True):
            rows.append(f"{{{place.offset}, {place.size}, {len(wakes)}, {len(flags)}}}")
            wakes += flags
        pairs = [f"{{{word}, {bits:#x}ull}}" for word, bits in wakes]
        yield f"const struct wake wakes[] = {{{', '.join(pairs) or '{0, 0}'}}};"
        yield f"const struct element elements[] = {{{', '.join(rows) or '{0, 0, 0, 0}'}}};"
        yield "void poke(u8 *s, u8 *v, u64 element, u64 value)"
        yield "{ set(s, v, &elements[element], wakes, value); }"

    def _settle(self) -> Iterable[str]:
        yield "void settle(u8 *restrict s, u8 *restrict v)\n{"
        for word in range(self.flags.cluster_words):
            yield f"    if (AWAKE({word})) comb{word}(s, v);"
        yield "}"

    def _fire(self) -> Iterable[str]:
        """Lets the registers of some clockings, and those that are reset, change at once."""
        tables: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        cleared: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, element in enumerate(self.netlist.elements):
            if element.clocking is None:
                continue
            if element.reset is not None:
                tables[element.clocking, element.reset].append((number, element.init))
            if self.netlist.clockings[element.clocking].reset is not None:
                cleared[element.clocking].append((number, element.init))
        names: dict[tuple[int, int | None], tuple[str, int]] = {}
        for key, rows in [*tables.items(), *(((k, None), r) for k, r in cleared.items())]:
            name = f"reset{len(names)}"
            names[key] = name, len(rows)
            pairs = ", ".join(f"{{{number}, {init:#x}ull}}" for number, init in rows)
            yield f"static const struct reset {name}[] = {{{pairs}}};"
        yield "static inline void fire(u8 *restrict s, u8 *restrict v, u64 clocked, u64 cleared)\n{"
        yield "    (void)clocked; (void)cleared;"
        sampled = {reset for _, reset in tables}
        for reset in sorted(sampled):
            yield f"    const u32 asserted{reset} = {self._value(reset)};"
        both = [
            (word, clocking)
            for ranges in (self.flags.early, self.flags.late)
            for clocking, words in enumerate(ranges)
            for word in words
        ]
        # What changes now wakes for the next edge, so flags are taken before anything changes.
        for word, clocking in both:
            yield (
                f"    const u64 awake{word} = clocked >> {clocking} & 1 ? {self._awake(word)} : 0;"
            )
            yield f"    AWAKE({word}) &= ~awake{word};"
        for word, _ in both:
            yield f"    if (awake{word}) edge{word}(s, v, awake{word});"
        for word, _ in both:
            if word in self.functions.commits:
                changed = word + 2 * self.flags.group_words
                yield f"    if (AWAKE({changed})) commit{word}(s, v);"
        for (clocking, chosen), (name, count) in names.items():
            entry = f"{name}[i]"
            loop = (
                f"for (u32 i = 0; i < {count}; i++) "
                f"set(s, v, &elements[{entry}.element], wakes, {entry}.init);"
            )
            if chosen is None:
                yield f"    if (cleared >> {clocking} & 1) {loop}"
            else:
                yield f"    if (asserted{chosen} && clocked >> {clocking} & 1) {loop}"
        yield "}"

    def _awake(self, word: int) -> str:
        """Groups of a word that an edge computes now."""
        always = self.functions.always[word]
        awake = f"(AWAKE({word}) | {always:#x}ull)" if always else f"AWAKE({word})"
        return f"({awake} & AWAKE({word + self.flags.group_words}))"

    def _edges(self) -> Iterable[str]:
        """Compares clocks and asynchronous resets with what they were; acts if told to."""
        yield "int edges(u8 *restrict s, u8 *restrict v, int act)\n{"
        yield "    u64 clocked = 0, cleared = 0;"
        for number, clocking in enumerate(self.netlist.clockings):
            before = f"U8(s, {self.layout.clocks + 2 * number})"
            now = f"now{number}"
            yield f"    const u8 {now} = {self._value(clocking.clock)};"
            edge = f"{now} && !{before}" if clocking.rising else f"!{now} && {before}"
            yield f"    if ({edge}) clocked |= {1 << number:#x}ull;"
            yield f"    {before} = {now};"
            if clocking.reset is not None:
                before = f"U8(s, {self.layout.clocks + 2 * number + 1})"
                yield f"    const u8 reset{number}_ = {self._value(clocking.reset)};"
                yield (
                    f"    if (reset{number}_ && (!{before} || clocked >> {number} & 1)) "
                    f"cleared |= {1 << number:#x}ull;"
                )
                yield f"    {before} = reset{number}_;"
        yield "    if (!act || !(clocked | cleared)) return 0;"
        yield "    fire(s, v, clocked, cleared);"
        yield "    return 1;\n}"

    def _step(self) -> Iterable[str]:
        """Whole cycles of the only external clock, until something is so."""
        clocks = self.clocks
        yield (
            "u64 run(u8 *restrict s, u8 *restrict v, u64 cycles, const struct until *until, "
            "u64 count,\n        void (*leave)(void *), void *context)\n{"
        )
        if len(clocks) != 1:
            yield "    (void)s; (void)v; (void)cycles; (void)until; (void)count;"
            yield "    (void)leave; (void)context;"
            yield "    return 0;\n}"
            return
        number = self.graph.args[clocks[0]][0]
        simple = (
            all(clocking.clock == clocks[0] and clocking.reset is None
                for clocking in self.netlist.clockings)
            and not self.functions.readers.elements[number].any
        )  # fmt: skip
        messages = f"U64(v, {self.access.pointers + 8})"
        yield "    u64 done = 0;"
        yield "    settle(s, v);"
        yield f"    while (done < cycles && !reached(s, v, until, count) && !{messages}) {{"
        yield "        if (leave) leave(context);"
        if simple:
            rising = sum(1 << n for n, c in enumerate(self.netlist.clockings) if c.rising)
            falling = sum(1 << n for n, c in enumerate(self.netlist.clockings) if not c.rising)
            for edge in (rising, falling):
                if edge:
                    yield f"        fire(s, v, {edge:#x}ull, 0);"
                    yield "        settle(s, v);"
            words = [
                w
                for ranges in (self.flags.early, self.flags.late)
                for words in ranges
                for w in words
            ]
            yield "        done++;"
            # Nothing will change any more.
            asleep = " | ".join(self._awake(word) for word in words) or "0"
            yield f"        if (!({asleep}) && !{messages} && !leave)"
            yield "            if (!reached(s, v, until, count)) done = cycles;"
        else:
            for value in (1, 0):
                yield f"        poke(s, v, {number}, {value});"
                yield "        do settle(s, v); while (edges(s, v, 1));"
            yield "        done++;"
        yield "    }"
        yield "    return done;\n}"
