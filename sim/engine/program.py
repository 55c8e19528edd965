"""A design as C text, with the tables that say where its values are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

from amaranth.hdl import Signal, Value
from amaranth.hdl._ast import SignalDict

from .functions import Functions
from .garbage import paused
from .graph import mask
from .layout import Place, row_bytes
from .netlist import deep, read
from .partition import partition
from .tables import Check, Netlist

__all__ = ["ALL", "CheckInfo", "MemoryInfo", "Piece", "Program", "Slot", "compile"]

ALL = "all"
SOURCES = 4
"""C files that a large program is divided into, for the compiler to work on in parallel."""
SMALL = 200_000
"""Characters of C below which there is one file."""


@dataclass(frozen=True)
class Piece:
    """Bits of a signal: `width` bits from `position` on are those of a value from `shift` on.

    Without a place, they are always `constant`.
    """

    position: int
    width: int
    place: Place | None
    shift: int = 0
    constant: int = 0
    element: int | None = None
    """Its number, when it can be set."""


@dataclass(frozen=True)
class Slot:
    """Where a signal's value lies."""

    width: int
    pieces: tuple[Piece, ...]

    @property
    def settable(self) -> bool:
        return all(piece.element is not None for piece in self.pieces)


@dataclass(frozen=True)
class MemoryInfo:
    """A memory of the design. `external` names one whose bytes belong to the engine."""

    name: str
    width: int
    depth: int
    row_bytes: int
    offset: int
    data: Any
    external: str | None
    wakes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CheckInfo:
    """A `Print` or a property: texts, and values as (bits, format, whether signed)."""

    kind: str
    chunks: tuple[str | tuple[int, str, bool], ...]
    source: tuple[str, int] | None
    module: str
    clocked: bool
    """It reports what was so when a cycle was left."""


@dataclass
class Program:
    """What `Model` runs.

    Attributes
    ----------
    sources: C files. header: what they include.
    slots: of the signals that are kept. paths: the same by hierarchical name.
    image: initial bytes of the state, memories left out when they are zero.
    wake: bytes of `v` that wake everything.
    """

    sources: list[str]
    header: str
    state_bytes: int
    work_bytes: int
    register_bytes: int
    messages: int
    slots: Any
    paths: dict[str, Slot]
    names: dict[str, Signal]
    memories: list[MemoryInfo]
    clocks: list[Slot]
    checks: list[CheckInfo]
    image: list[tuple[int, bytes]]
    wake: bytes
    modules: list[str] = field(default_factory=list)
    changes: int = 0
    """Offset in `v` of the list of changes: length, capacity, numbers (4 bytes each)."""
    numbers: list[Place] = field(default_factory=list)
    """What the numbers in that list stand for; none if the program does not note changes."""

    def slot(self, signal: Any) -> Slot | None:
        """Where a signal, or that of a name, is; None if it is not kept, or not of this design."""
        if isinstance(signal, str):
            return self.paths.get(signal)
        found: Slot | None = self.slots.get(Value.cast(signal))
        return found

    def detached(self) -> Program:
        """The same without the objects of the design, to be pickled: signals have only names."""
        memories = [replace(memory, data=None) for memory in self.memories]
        return replace(self, slots={}, names={}, memories=memories)


def compile(
    design: Any,
    *,
    keep: str | Iterable[Any] = ALL,
    storages: Iterable[tuple[str, Any]] = (),
    trace: bool = False,
) -> Program:
    """Compiles a design to C.

    Parameters
    ----------
    design: prepared `Design` of Amaranth, or what can be elaborated.
    keep: combinational signals whose values are wanted, or ALL: objects, or names as in `paths`,
        where * stands for anything. Registers always have a slot.
    storages: components whose bytes belong to the engine, by name; see `sim.board.storage`.
    trace: whether what changes is noted in a list, for waveforms.

    Raises
    ------
    Unsupported: see `netlist.read`.
    """
    every = keep == ALL
    with paused():
        netlist = read(design, storages, keep=None if every else tuple(keep))
        return deep(lambda: _Program(netlist, trace=trace).program())


class _Program:
    def __init__(self, netlist: Netlist, *, trace: bool) -> None:
        self.netlist = netlist
        self.graph = netlist.graph
        kept = [n for limbs in netlist.signals.values() for limb in limbs for n in self._parts(limb)]
        self.partition = partition(netlist, kept)
        self.functions = Functions(self.partition, trace=trace)
        self.layout = self.functions.layout

    def _parts(self, node: int) -> Iterable[int]:
        """The nodes that a value is put together from."""
        op = self.graph.ops[node]
        if op in ("cat", "zext"):
            for operand in self.graph.operands(node):
                yield from self._parts(operand)
        elif op == "slice" and self.graph.ops[self.graph.args[node][0]] == "state":
            yield self.graph.args[node][0]
        else:
            yield node

    def _pieces(self, node: int, position: int) -> Iterable[Piece]:
        graph = self.graph
        op, width, args = graph.ops[node], graph.widths[node], graph.args[node]
        if op == "const":
            yield Piece(position, width, None, constant=args[0])
        elif op == "state":
            yield Piece(position, width, self.layout.elements[args[0]], element=args[0])
        elif op == "slice" and graph.ops[args[0]] == "state":
            number = graph.args[args[0]][0]
            yield Piece(position, width, self.layout.elements[number], args[1], element=number)
        elif op in ("cat", "zext"):
            start = position
            for operand in graph.operands(node):
                yield from self._pieces(operand, position)
                position += graph.widths[operand]
            if position < start + width:
                yield Piece(position, start + width - position, None)
        else:
            yield Piece(position, width, self.layout.stored[node])

    def program(self) -> Program:
        functions, layout = self.functions, self.layout
        functions.write()
        slots = SignalDict()
        for signal, limbs in self.netlist.signals.items():
            pieces = [p for at, limb in enumerate(limbs) for p in self._pieces(limb, 64 * at)]
            slots[signal] = Slot(len(signal), tuple(pieces))
        memories = [
            MemoryInfo(
                memory.name, memory.width, memory.depth, row_bytes(memory), layout.memories[n],
                memory.data, memory.external, tuple(functions.memory_wakes[n]),
            )
            for n, memory in enumerate(self.netlist.memories)
        ]  # fmt: skip
        clocks = [
            Slot(1, tuple(self._pieces(node, 0))) for node in self._external_clocks()
        ]
        header = resources.files(__package__).joinpath("runtime.h").read_text()
        if functions.trace:
            header = f"#define CHANGES {functions.changes}\n{header}"
        control = "\n".join(self._control())
        return Program(
            sources=self._divide(control),
            header=header,
            state_bytes=layout.state.size,
            work_bytes=(layout.work.size + 63) // 64 * 64,
            register_bytes=layout.clocks,
            messages=functions.pointers,
            slots=slots,
            paths={
                name: slots[signal] for name, signal in self.netlist.names.items()
                if signal in slots
            },
            names=self.netlist.names,
            memories=memories,
            clocks=clocks,
            checks=[self._check(check) for check in self.netlist.checks],
            image=self._image(),
            wake=self._wake(),
            modules=self.netlist.modules,
            changes=functions.changes,
            numbers=[*layout.elements, *(layout.stored[node] for node in functions.traced)]
            if functions.trace
            else [],
        )

    def _check(self, check: Check) -> CheckInfo:
        chunks: list[str | tuple[int, str, bool]] = []
        for chunk in check.message:
            if isinstance(chunk, str):
                chunks.append(chunk)
            else:
                nodes, form, signed = chunk
                chunks.append((sum(self.graph.widths[node] for node in nodes), form, signed))
        source = (check.source[0], check.source[1]) if check.source else None
        module = self.netlist.modules[check.module]
        return CheckInfo(check.kind, tuple(chunks), source, module, check.clocking is not None)

    def _divide(self, control: str) -> list[str]:
        texts = self.functions.texts
        count = 1 if sum(map(len, texts)) < SMALL else SOURCES
        sources = [[] for _ in range(count)]  # type: list[list[str]]
        sizes = [0] * count
        for text in sorted(texts, key=len, reverse=True):
            smallest = sizes.index(min(sizes))
            sources[smallest].append(text)
            sizes[smallest] += len(text)
        tables = ["extern const struct wake wakes[];", "extern const struct element elements[];"]
        heads = ['#include "program.h"\n', *tables, *self.functions.prototypes, ""]
        files = ["\n".join([*heads, *source]) for source in sources]
        files[-1] = "\n".join([files[-1], control])
        return files

    def _image(self) -> list[tuple[int, bytes]]:
        image = []
        for place, element in zip(self.layout.elements, self.netlist.elements, strict=True):
            if element.init:
                image.append((place.offset, element.init.to_bytes(place.size, "little")))
        for memory, offset in zip(self.netlist.memories, self.layout.memories, strict=True):
            if memory.external is None and any(memory.init):
                stride = row_bytes(memory)
                rows = [
                    (row & mask(memory.width)).to_bytes(stride, "little") for row in memory.init
                ]
                image.append((offset, b"".join(rows)))
        return image

    def _wake(self) -> bytes:
        functions = self.functions
        flags = 0
        for index in range(len(self.partition.clusters)):
            flags |= 1 << index
        for number, flag in functions.flags.items():
            flags |= 1 << flag
            if self.partition.groups[number].guard is None:
                flags |= 1 << flag + 64 * functions.group_words
        words = functions.cluster_words + 3 * functions.group_words
        return flags.to_bytes(8 * words, "little")

    # ---------------------------------------------------------------------------- control

    def _external_clocks(self) -> list[int]:
        """Clock nodes that are inputs."""
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

    def _control(self) -> Iterable[str]:
        yield from self._tables()
        yield from self._settle()
        yield from self._fire()
        yield from self._edges()
        yield from self._step()
        yield f"#define MESSAGES U64(v, {self.functions.pointers + 8})"
        yield resources.files(__package__).joinpath("script.h").read_text()

    def _tables(self) -> Iterable[str]:
        wakes: list[tuple[int, int]] = []
        rows = []
        for place, flags in zip(self.layout.elements, self.functions.set_wakes, strict=True):
            rows.append(f"{{{place.offset}, {place.size}, {len(wakes)}, {len(flags)}}}")
            wakes += flags
        pairs = [f"{{{word}, {bits:#x}ull}}" for word, bits in wakes]
        yield f"const struct wake wakes[] = {{{', '.join(pairs) or '{0, 0}'}}};"
        yield f"const struct element elements[] = {{{', '.join(rows) or '{0, 0, 0, 0}'}}};"
        yield "void poke(u8 *s, u8 *v, u64 element, u64 value)"
        yield "{ set(s, v, &elements[element], wakes, value); }"

    def _settle(self) -> Iterable[str]:
        yield "void settle(u8 *restrict s, u8 *restrict v)\n{"
        for word in range(self.functions.cluster_words):
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
            for ranges in (self.functions.early, self.functions.late)
            for clocking, words in enumerate(ranges)
            for word in words
        ]
        # What changes now wakes for the next edge, so flags are taken before anything changes.
        for word, clocking in both:
            yield (
                f"    const u64 awake{word} = clocked >> {clocking} & 1 "
                f"? {self._awake(word)} : 0;"
            )
            yield f"    AWAKE({word}) &= ~awake{word};"
        for word, _ in both:
            yield f"    if (awake{word}) edge{word}(s, v, awake{word});"
        for word, _ in both:
            if word in self.functions.commits:
                changed = word + 2 * self.functions.group_words
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
        return f"({awake} & AWAKE({word + self.functions.group_words}))"

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
        clocks = self._external_clocks()
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
            and not self.functions.wakes[number]
        )  # fmt: skip
        messages = f"U64(v, {self.functions.pointers + 8})"
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
                w for ranges in (self.functions.early, self.functions.late)
                for words in ranges for w in words
            ]
            yield "        done++;"
            # Nothing will change any more.
            asleep = " | ".join(self._awake(word) for word in words) or "0"
            yield f"        if (!({asleep}) && !{messages} && !leave) done = cycles;"
        else:
            for value in (1, 0):
                yield f"        poke(s, v, {number}, {value});"
                yield "        do settle(s, v); while (edges(s, v, 1));"
            yield "        done++;"
        yield "    }"
        yield "    return done;\n}"
