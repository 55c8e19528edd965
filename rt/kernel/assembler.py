"""Kernel text ↔ instructions ↔ binary.

The text has one instruction a line: its name, then ``field=value`` for every field that is not
at its reset value; a field of one bit may stand alone (``signal_next``). Address registers are
written r0 … r15, argument words input0 … input7, output0 … output3, scalar0 … scalar3,
enumerated values by name. ``;`` starts a comment. ``.fingerprint 0x…`` names the configuration
the kernel is for, ``.word 0x…`` a raw instruction word. Names, fields and ranges all come from
`hw.regs.instruction`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

from hw.regs.descriptor import Arguments
from hw.regs.errors import EncodingError
from hw.regs.instruction import (
    INSTRUCTIONS,
    ISA_VERSION,
    KERNEL_MAGIC,
    Instruction,
    KernelHeader,
    Opcode,
)
from hw.regs.layout import Field, Layout, Reserved

from ..errors import KernelError

__all__ = ["assemble", "decode", "decode_word", "disassemble", "encode", "format_instruction"]

WORD_BYTES = Instruction.BYTES
REGISTER_FIELDS = ("register", "memory", "local", "activations", "weights", "accumulators")
ARGUMENTS = (
    *(f"input{n}" for n in range(Arguments.inputs.count)),
    *(f"output{n}" for n in range(Arguments.outputs.count)),
    *(f"scalar{n}" for n in range(Arguments.scalars.count)),
)


def encode(instructions: Iterable[Layout], fingerprint: int) -> bytes:
    """The kernel binary of `instructions`, for devices with that fingerprint."""
    code = b"".join(instruction.to_bytes() for instruction in instructions)
    if not code:
        raise KernelError("a kernel has 0 instructions; it needs at least END")
    return _binary(code, fingerprint)


def decode(binary: bytes) -> tuple[KernelHeader, list[int]]:
    """Header and instruction words of a kernel binary; `KernelError` if it is damaged."""
    size = KernelHeader.BYTES
    if len(binary) < size + WORD_BYTES:
        raise KernelError(
            f"the binary has {len(binary)} bytes; a kernel has at least {size + WORD_BYTES}"
        )
    header = KernelHeader.from_bytes(binary)
    code = binary[size:]
    if header.magic != KERNEL_MAGIC:
        raise KernelError(f"the binary starts with {header.magic:#010x}, not with CELK")
    if header.isa_version != ISA_VERSION:
        raise KernelError(
            f"the kernel is for instruction set {header.isa_version}; this is {ISA_VERSION}: "
            "assemble it anew"
        )
    if header.code_bytes != len(code) or len(code) % WORD_BYTES:
        raise KernelError(
            f"the header announces {header.code_bytes} bytes of code, but {len(code)} follow; "
            f"both must be the same multiple of {WORD_BYTES}"
        )
    if header.crc != zlib.crc32(code):
        raise KernelError(
            f"the code's CRC-32 is {zlib.crc32(code):#010x}, the header's {header.crc:#010x}: "
            "the binary is damaged"
        )
    words = range(0, len(code), WORD_BYTES)
    return header, [int.from_bytes(code[at : at + WORD_BYTES], "little") for at in words]


def decode_word(word: int) -> Layout | None:
    """The instruction that `word` encodes; None where it encodes none."""
    try:
        layout = INSTRUCTIONS[Opcode(word & 0xFF)]
        instruction = layout(**layout.from_int(word).as_dict())
    except (ValueError, EncodingError):
        return None
    return instruction if instruction.to_int() == word else None


def format_instruction(instruction: Layout) -> str:
    """The text of one instruction, without indentation."""
    parts = [Opcode(instruction.to_int() & 0xFF).name.lower()]
    for field in _operands(type(instruction)):
        value = instruction.as_dict()[field.name]
        if field.name in REGISTER_FIELDS:
            parts.append(f"{field.name}=r{value}")
        elif value == field.reset:
            continue
        elif field.name == "argument":
            parts.append(f"argument={ARGUMENTS[value]}")
        elif field.enum is not None:
            parts.append(f"{field.name}={field.enum(value).name.lower()}")
        elif field.width == 1:
            parts.append(field.name)
        else:
            parts.append(f"{field.name}={value}")
    return " ".join(parts)


def disassemble(binary: bytes) -> str:
    """The text of a kernel binary; `assemble` gives the very same binary back."""
    header, words = decode(binary)
    lines = [f".fingerprint {header.fingerprint:#010x}"]
    depth = 0
    for word in words:
        instruction = decode_word(word)
        if word & 0xFF == Opcode.NEXT:
            depth = max(0, depth - 1)
        text = f".word {word:#034x}" if instruction is None else format_instruction(instruction)
        lines.append("  " * depth + text)
        if word & 0xFF == Opcode.LOOP:
            depth += 1
    return "\n".join(lines) + "\n"


def assemble(text: str, fingerprint: int | None = None) -> bytes:
    """The binary of a kernel text. `fingerprint` is used where the text names none.

    `KernelError` names the line and what is wrong with it.
    """
    code = bytearray()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(";", 1)[0].split()
        if not words:
            continue
        try:
            if words[0] == ".fingerprint":
                fingerprint = _number(_single(words), 32)
            elif words[0] == ".word":
                code += _number(_single(words), Instruction.WIDTH).to_bytes(WORD_BYTES, "little")
            else:
                code += _instruction(words).to_bytes()
        except EncodingError as error:
            raise KernelError(f"line {number}: {error}") from None
    if fingerprint is None:
        raise KernelError("the text has no .fingerprint line and no configuration was given")
    if not code:
        raise KernelError("the text has 0 instructions; a kernel needs at least END")
    return _binary(bytes(code), fingerprint)


def _binary(code: bytes, fingerprint: int) -> bytes:
    """The code behind its header."""
    header = KernelHeader(fingerprint=fingerprint, code_bytes=len(code), crc=zlib.crc32(code))
    return header.to_bytes() + code


def _operands(layout: type[Layout]) -> Iterator[Field]:
    return (f for f in layout.FIELDS if f.name != "opcode" and not isinstance(f, Reserved))


def _single(words: Sequence[str]) -> str:
    if len(words) != 2:
        raise EncodingError(f"{words[0]} takes one number, not {len(words) - 1} words")
    return words[1]


def _number(text: str, bits: int) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise EncodingError(f"{text!r} is not a number") from None
    if not 0 <= value < 1 << bits:
        raise EncodingError(f"{text} does not fit {bits} bits")
    return value


def _instruction(words: Sequence[str]) -> Layout:
    name = words[0].upper()
    if name not in Opcode.__members__:
        known = ", ".join(code.name.lower() for code in Opcode)
        raise EncodingError(f"no instruction is called {words[0]!r}; there are {known}")
    layout = INSTRUCTIONS[Opcode[name]]
    fields = {field.name: field for field in _operands(layout)}
    values: dict[str, int] = {}
    for word in words[1:]:
        key, equals, text = word.partition("=")
        if key not in fields:
            raise EncodingError(
                f"{words[0]} has no field {key!r}; it has {', '.join(fields) or 'none'}"
            )
        if key in values:
            raise EncodingError(f"{key} is given twice")
        values[key] = _value(fields[key], text if equals else "1", bare=not equals)
    return layout(**values)


def _value(field: Field, text: str, *, bare: bool) -> int:
    if bare and field.width != 1:
        raise EncodingError(f"{field.name} needs a value: {field.name}=…")
    if field.name in REGISTER_FIELDS:
        if not text.startswith("r") or not text[1:].isdecimal():
            raise EncodingError(f"{field.name} takes an address register r0 … r15, not {text!r}")
        return int(text[1:])
    if field.name == "argument":
        if text not in ARGUMENTS:
            raise EncodingError(
                f"argument takes input0 … 7, output0 … 3 or scalar0 … 3, not {text!r}"
            )
        return ARGUMENTS.index(text)
    if field.enum is not None:
        if text.upper() not in field.enum.__members__:
            names = ", ".join(member.name.lower() for member in field.enum)
            raise EncodingError(f"{field.name} takes {names}, not {text!r}")
        return int(field.enum[text.upper()])
    try:
        return int(text, 0)
    except ValueError:
        raise EncodingError(f"{field.name} takes a number, not {text!r}") from None
