"""The assembler: exact round trips both ways, and errors that name the line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.regs.instruction import INSTRUCTIONS, End, KernelHeader, Load, Loop, Matmul, Next
from hw.regs.layout import Reserved
from rt.errors import KernelError
from rt.kernel.assembler import assemble, decode, decode_word, disassemble, encode


@st.composite
def instructions(draw):
    layout = draw(st.sampled_from(list(INSTRUCTIONS.values())))
    values = {}
    for field in layout.FIELDS:
        if field.name == "opcode" or isinstance(field, Reserved):
            continue
        if field.enum is not None:
            values[field.name] = draw(st.sampled_from(list(field.enum)))
        else:
            values[field.name] = draw(st.integers(*field.limits))
    return layout(**values)


@given(st.lists(instructions(), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_any_kernel_survives_the_way_through_text(code, fingerprint):
    binary = encode(code, fingerprint)
    text = disassemble(binary)
    assert assemble(text) == binary
    assert disassemble(assemble(text)) == text
    assert [decode_word(word) for word in decode(binary)[1]] == code


@given(st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=4))
def test_words_that_are_no_instruction_survive_too(words):
    text = ".fingerprint 7\n" + "\n".join(f".word {word:#x}" for word in words)
    binary = assemble(text)
    assert decode(binary)[1] == words
    assert assemble(disassemble(binary)) == binary


def test_text_reads_like_the_program():
    code = [
        Loop(count=3),
        Load(memory=1, local=2, rows=4, row_bytes=16, pitch=64, signal_next=1),
        Matmul(activations=2, weights=3, accumulators=4, wait_previous=1),
        Next(),
        End(),
    ]
    assert disassemble(encode(code, 0xABC)) == (
        ".fingerprint 0x00000abc\n"
        "loop count=3\n"
        "  load signal_next memory=r1 local=r2 rows=4 row_bytes=16 pitch=64\n"
        "  matmul wait_previous activations=r2 weights=r3 accumulators=r4\n"
        "next\n"
        "end\n"
    )


def test_comments_and_blank_lines_are_nothing():
    assert assemble("; a kernel\n\n end ; done\n", 5) == encode([End()], 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("end\njump", "line 2: no instruction is called 'jump'; there are end, fence"),
        ("loop turns=3", "line 1: loop has no field 'turns'; it has count"),
        ("loop count=x", "line 1: count takes a number, not 'x'"),
        ("loop count", "line 1: count needs a value: count=…"),
        ("loop count=1 count=2", "line 1: count is given twice"),
        ("loop count=4294967296", "Loop.count is 4294967296; it must lie within 0 … 4294967295"),
        ("load memory=3", "memory takes an address register r0 … r15, not '3'"),
        ("load memory=r16", "Load.memory is 16; it must lie within 0 … 15"),
        ("address argument=input9", "argument takes input0 … 7, output0 … 3"),
        ("store format=int9", "format takes int32, int8, not 'int9'"),
        (".word", "line 1: .word takes one number, not 0 words"),
        (".word 0x1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "does not fit 128 bits"),
        (".fingerprint z", "'z' is not a number"),
        ("; nothing", "the text has 0 instructions"),
    ],
)
def test_errors_name_the_line_and_the_value(text, message):
    with pytest.raises(KernelError, match=re.escape(message)):
        assemble(text, 1)


def test_a_text_without_configuration_is_refused():
    with pytest.raises(KernelError, match="no .fingerprint line"):
        assemble("end")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:40], "the binary has 40 bytes; a kernel has at least 48"),
        (lambda b: b"XXXX" + b[4:], "not with CELK"),
        (lambda b: b[:4] + b"\x09" + b[5:], "for instruction set 9; this is 1"),
        (lambda b: b + bytes(16), "announces 16 bytes of code, but 32 follow"),
        (lambda b: b[:-1] + b"\x01", "the binary is damaged"),
    ],
)
def test_damaged_binaries_are_refused(damage, message):
    with pytest.raises(KernelError, match=re.escape(message)):
        decode(damage(encode([End()], 1)))


def test_an_empty_kernel_is_refused():
    with pytest.raises(KernelError, match="needs at least END"):
        encode([], 1)


def test_header_is_32_bytes():
    assert KernelHeader.BYTES == 32
