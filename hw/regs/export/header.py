"""Registers, formats and codes as a C header that checks itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...config import NpuConfig
from ..instruction import INSTRUCTIONS
from ..layout import Array, Field, Layout, Reserved, snake_case
from ..register import Block, Register
from ..registers import REGISTER_MAP
from .common import FORMATS, NUMBERS, enumerations, paragraph, resets

__all__ = ["c_header"]

Part = tuple[int, int, Field]
"""First bit, number of bits and field of a piece of a word."""


def _parts(layout: type[Layout]) -> Iterator[Part]:
    """The fields, with reserved bits cut at the first byte border in them."""
    for field in layout.FIELDS:
        start, bits = field.offset, field.bits
        fill = -start % 8
        if isinstance(field, Reserved) and 0 < fill < bits:
            yield start, fill, field
            start, bits = start + fill, bits - fill
        yield start, bits, field


def _units(layout: type[Layout]) -> Iterator[list[Part]]:
    """The struct members: neighbouring parts that share a C integer, or one that is an array."""
    parts = list(_parts(layout))
    while parts:
        start = parts[0][0]
        for count in range(1, len(parts) + 1):
            bits = sum(size for _, size, _ in parts[:count])
            if bits in (8, 16, 32, 64) and start % bits == 0:
                break
        else:
            count = 1
            assert parts[0][1] % 8 == 0, f"{layout.__name__}.{parts[0][2].name} has no C type"
        yield parts[:count]
        del parts[:count]


def _named(unit: list[Part]) -> list[Field]:
    return [field for _, _, field in unit if not isinstance(field, Reserved)]


def _member(unit: list[Part]) -> tuple[str, str, str]:
    """C type, name and array bound of one struct member."""
    named = _named(unit)
    start = unit[0][0]
    bits = sum(size for _, size, _ in unit)
    name = named[0].name if len(named) == 1 else f"{'bits' if named else 'reserved'}_{start // 8}"
    if len(unit) == 1 and isinstance(array := unit[0][2], Array):
        return f"uint{array.width}_t", name, f"[{array.count}]"
    if bits in (8, 16, 32, 64) and start % bits == 0:
        signed = len(unit) == 1 and named and named[0].signed
        return f"{'' if signed else 'u'}int{bits}_t", name, ""
    width = 64 if bits % 64 == 0 and start % 64 == 0 else 8
    return f"uint{width}_t", name, f"[{bits // width}]"


def _macro(name: str, value: object) -> str:
    return f"#define CELOSIA_{name} {value}"


def _hex(value: int, width: int) -> str:
    return f"UINT{width}_C({value:#x})"


def _field_macros(prefix: str, fields: Iterable[Field], base: int, width: int) -> Iterator[str]:
    for field in fields:
        if not isinstance(field, Reserved):
            shift = field.offset - base
            name = f"{prefix}_{field.name.upper()}"
            yield _macro(f"{name}_SHIFT", shift)
            yield _macro(f"{name}_MASK", _hex(((1 << field.bits) - 1) << shift, width))


def _c_struct(layout: type[Layout]) -> Iterator[str]:
    instruction = layout in INSTRUCTIONS.values()
    name = ("instruction_" if instruction else "") + snake_case(layout.__name__)
    checks: list[str] = []
    macros: list[str] = []
    yield f"/* {paragraph(layout)} */"
    yield f"struct celosia_{name} {{"
    for unit in _units(layout):
        start = unit[0][0]
        kind, member, bound = _member(unit)
        named = _named(unit)
        text = named[0].doc if len(named) == 1 else ", ".join(field.name for field in named)
        yield f"    {kind} {member}{bound};" + (f" /* {text} */" if text else "")
        checks.append(
            f"static_assert(offsetof(struct celosia_{name}, {member}) == {start // 8}, "
            f'"{name}.{member}");'
        )
        if len(unit) > 1:
            width = sum(size for _, size, _ in unit)
            macros += _field_macros(name.upper(), named, start, max(32, width))
    yield "};"
    yield f'static_assert(sizeof(struct celosia_{name}) == {layout.BYTES}, "{name}");'
    yield from checks
    yield from macros
    yield ""


def _c_register(block: Block, register: type[Register], reset: Register | None) -> Iterator[str]:
    name = snake_case(register.__name__).upper()
    yield f"/* {register.ACCESS.name}, {register.WIDTH} bits. {paragraph(register)} */"
    start = f"CELOSIA_BLOCK_{block.name.upper()}"
    if block.per:
        yield _macro(
            f"{name}(n)", f"({start}_BASE + (n) * {start}_STRIDE + {_hex(register.OFFSET, 32)})"
        )
    else:
        yield _macro(name, f"({start}_BASE + {_hex(register.OFFSET, 32)})")
    if reset is not None:
        yield _macro(f"{name}_RESET", _hex(reset.to_int(), register.WIDTH))
    yield from _field_macros(name, register.FIELDS, 0, register.WIDTH)
    yield ""


def c_header(config: NpuConfig) -> str:
    """C11 and C++11 header: addresses, masks, codes, and structs whose layout the compiler checks.

    A mask is in place: ``(word & X_MASK) >> X_SHIFT``. Fields that share an integer in memory
    lie in a member ``bits_N`` (N is its byte); their masks are those within it.
    """
    lines = [
        "/* Registers and formats of a Celosia NPU. Generated by hw.regs.export. */",
        "#ifndef CELOSIA_H", "#define CELOSIA_H", "",
        "#include <assert.h>", "#include <stddef.h>", "#include <stdint.h>",
        "",
        "#define CELOSIA_GET(word, field) (((word) & field##_MASK) >> field##_SHIFT)",
        "#define CELOSIA_FIELD(field, value) (((uint64_t)(value) << field##_SHIFT) & field##_MASK)",
        "",
        *(_macro(name, _hex(value, 64)) for name, value in NUMBERS.items()), "",
        "/* Sizes of the device this header was generated for. */",
        *(_macro(f"CONFIG_{name.upper()}", value) for name, value in config.as_dict().items()), "",
    ]  # fmt: skip
    for codes in enumerations():
        name = snake_case(codes.__name__)
        lines += [f"/* {paragraph(codes)} */", f"enum celosia_{name} {{"]
        for code in codes:
            doc = getattr(code, "doc", "")
            text = f" /* {doc} */" if doc else ""
            lines.append(f"    CELOSIA_{name.upper()}_{code.name} = {code.value},{text}")
        lines += ["};", ""]
    after_reset = resets(config)
    for block in REGISTER_MAP:
        name = f"BLOCK_{block.name.upper()}"
        lines += [f"/* Block {block.name}: {block.doc} */"]
        lines += [_macro(f"{name}_BASE", _hex(block.base, 32))]
        lines += [_macro(f"{name}_STRIDE", _hex(block.stride, 32))]
        lines += [_macro(f"{name}_COUNT", block.count(config)), ""]
        for register in block:
            lines += _c_register(block, register, after_reset[register])
    for layout in FORMATS:
        lines += _c_struct(layout)
    return "\n".join([*lines, "#endif", ""])
