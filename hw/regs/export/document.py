"""Reference of registers, formats and codes, as Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from ...config import NpuConfig
from ..instruction import INSTRUCTIONS
from ..layout import Array, Field, Layout, Reserved
from ..register import Access, Block
from ..registers import REGISTER_MAP
from .common import FORMATS, NUMBERS, enumerations, paragraph, resets

__all__ = ["markdown"]

INTRODUCTION = """\
A device with an array of {rows} × {columns}, {streams} streams and {contexts} contexts.
Everything is little-endian; reserved bits are zero."""

CONTROL = """\
AXI4-Lite, 32-bit data. An address without a register answers DECERR; a write that is not
allowed, or has not all strobes, answers SLVERR and does nothing."""


def _bits(field: Field) -> str:
    low, high = field.offset, field.offset + field.bits - 1
    return f"{high}:{low}" if high > low else str(low)


def _table(*rows: Iterable[object]) -> Iterator[str]:
    """A Markdown table; the first row is its head."""
    head, *body = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in body:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _prose(item: type) -> str:
    """The docstring, one line for each paragraph."""
    paragraphs = (inspect.getdoc(item) or "").split("\n\n")
    return "\n\n".join(" ".join(text.split()) for text in paragraphs)


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _meaning(field: Field) -> str:
    if field.enum is None:
        return field.doc
    return f"{field.doc} See [{field.enum.__name__}](#{_anchor(field.enum.__name__)})."


def _width(field: Field) -> str:
    if isinstance(field, Array):
        return f"{field.count} × {field.width}"
    return f"{field.width}, signed" if field.signed else f"{field.width}"


def _block_row(block: Block, config: NpuConfig) -> tuple[object, ...]:
    link = f"[{block.name}](#block-{block.name})"
    return f"`{block.base:#06x}`", link, block.count(config), block.stride, block.doc


def _block_rows(block: Block, config: NpuConfig) -> Iterator[tuple[object, ...]]:
    after_reset = resets(config)
    yield "Offset", "Register, field", "Bits", "Access", "Reset", "Meaning"
    for register in block:
        access = register.ACCESS.name + (", privileged" if register.PRIVILEGED else "")
        reset = after_reset[register]
        shown = "" if reset is None else f"`{reset.to_int():#x}`"
        offset = f"`{register.OFFSET:#05x}`"
        yield offset, f"**{register.__name__}**", register.WIDTH, access, shown, paragraph(register)
        for field in register.FIELDS:
            if not isinstance(field, Reserved):
                value = "" if reset is None else f"`{getattr(reset, field.name):#x}`"
                yield "", f"`{field.name}`", f"`{_bits(field)}`", "", value, _meaning(field)


def _format_rows(layout: type[Layout]) -> Iterator[tuple[object, ...]]:
    yield "Byte", "Bits", "Field", "Width", "Default", "Meaning"
    for field in layout.FIELDS:
        default = f"`{field.reset:#x}`" if field.reset else ""
        name = "–" if isinstance(field, Reserved) else f"`{field.name}`"
        yield (
            field.offset // 8, f"`{_bits(field)}`", name, _width(field), default, _meaning(field),
        )  # fmt: skip


def markdown(config: NpuConfig) -> str:
    """Reference of the register map, the formats in memory and all codes."""
    lines = [
        "# Registers and formats", "",
        INTRODUCTION.format(**config.as_dict()), "",
        "## Control space", "",
        CONTROL, "",
        *_table(("Access", "Meaning"), *((f"`{a.name}`", a.value) for a in Access)),
        *_table(
            ("Address", "Block", "Number", "Bytes each", "Meaning"),
            *(_block_row(block, config) for block in REGISTER_MAP),
        ),
    ]  # fmt: skip
    for block in REGISTER_MAP:
        lines += [f"### Block {block.name}", "", block.doc, ""]
        lines += _table(*_block_rows(block, config))
    lines += ["## Formats in memory", ""]
    for layout in FORMATS:
        kind = "Instruction " if layout in INSTRUCTIONS.values() else ""
        lines += [f"### {kind}{layout.__name__}", ""]
        text, size = _prose(layout), f"{layout.BYTES} bytes"
        lines += [text if size in text else f"{text} Size: {size}.", ""]
        lines += _table(*_format_rows(layout))
    lines += ["## Codes", ""]
    for codes in enumerations():
        lines += [f"### {codes.__name__}", "", paragraph(codes), ""]
        lines += _table(
            ("Code", "Name", "Meaning"),
            *((f"`{c.value:#04x}`", f"`{c.name}`", getattr(c, "doc", "")) for c in codes),
        )
    lines += ["## Constants", ""]
    lines += _table(("Name", "Value"), *((f"`{n}`", f"`{v:#x}`") for n, v in NUMBERS.items()))
    return "\n".join(lines).rstrip() + "\n"
