"""What a design does besides computing values: writes to memories, and messages."""

from __future__ import annotations

from .access import Access
from .expressions import Expressions
from .graph import mask
from .layout import row_bytes
from .tables import Check, Write
from .wakes import Readers, awaken

__all__ = ["Effects"]


class Effects:
    """Writes the statements of writes and checks. Expressions have what they read."""

    def __init__(self, access: Access, readers: Readers) -> None:
        self._access = access
        self._readers = readers

    def write(self, write: Write, expressions: Expressions) -> list[str]:
        """Changes a row, marks its page, and wakes what reads the memory."""
        graph = self._access.graph
        table = self._access.netlist.memories[write.memory]
        stride = row_bytes(table)
        size = min(8, stride)
        address = expressions.name(write.address)
        base = self._access.base(write.memory)
        lines = [f"u8 *const row = {base} + {stride}ull * {address};"]
        for bit, enable, data in write.chunks:
            width = graph.widths[data]
            target = f"*(u{8 * size} *)(row + {bit // 64 * 8})"
            value = expressions.name(data)
            bits = mask(width) << bit % 64
            if bits != mask(8 * size):
                value = f"({target} & {mask(8 * size) & ~bits:#x}ull) | (u64){value} << {bit % 64}"
            known = graph.value(enable)
            if known != 0:
                test = "" if known else f"if ({expressions.name(enable)}) "
                lines.append(f"{test}{target} = {value};")
        if table.external is not None:
            dirty = self._access.dirty(write.memory)
            lines.append(f"{dirty}[{stride}ull * {address} >> 12] = 1;")
        lines.append(awaken(self._readers.memories[write.memory]))
        if table.depth < 1 << graph.widths[write.address]:
            lines = [f"if ({address} < {table.depth}) {{", *lines, "}"]
        return lines

    def check(self, check: Check, expressions: Expressions, again: str = "") -> list[str]:
        """Reports a message or a property that does not hold; `again` follows the report."""
        number = self._access.netlist.checks.index(check)
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
        report = f"report(v + {self._access.pointers}, {number}, {len(values)}, {array});"
        return [f"if ({enable}) {{ {report} {again} }}"]
