"""The exports are read back by those who will read them: a C compiler, a SystemRDL compiler."""

import re
import subprocess

import pytest
from systemrdl import RDLCompiler
from systemrdl.node import RegNode
from systemrdl.rdltypes import AccessType, OnWriteType

from hw.config import NpuConfig
from hw.regs.capability import capabilities
from hw.regs.descriptor import Arguments, Completion, CopyPayload, EventWord, Sqe, TaskType, seal
from hw.regs.export import c_header, markdown, systemrdl
from hw.regs.export.common import FORMATS, enumerations
from hw.regs.instruction import KernelHeader
from hw.regs.layout import Reserved, snake_case
from hw.regs.register import Access
from hw.regs.registers import REGISTER_MAP, InterruptStatus, WindowLimit

CONFIG = NpuConfig.preset("tiny")
REGISTERS = [(block, register) for block in REGISTER_MAP for register in block]


def compile_and_run(directory, body):
    """Output of a C program that includes the header; warnings are errors."""
    (directory / "celosia.h").write_text(c_header(CONFIG), encoding="utf-8")
    source = directory / "program.c"
    source.write_text(
        f'#include "celosia.h"\n#include <stdio.h>\nint main(void) {{\n{body}\nreturn 0;\n}}\n',
        encoding="utf-8",
    )
    program = directory / "program"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c11"]
    built = subprocess.run(
        [*command, str(source), "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return subprocess.run([program], capture_output=True, check=True).stdout


def test_the_c_header_has_every_address_mask_size_and_code(tmp_path):
    expected = {"sizeof(struct celosia_kernel_header)": KernelHeader.BYTES}
    for block, register in REGISTERS:
        name = f"CELOSIA_{snake_case(register.__name__).upper()}"
        last = block.count(CONFIG) - 1
        expected[f"{name}({last})" if block.per else name] = block.address(register, last)
        for field in register.FIELDS:
            if not isinstance(field, Reserved):
                mask = ((1 << field.bits) - 1) << field.offset
                expected[f"{name}_{field.name.upper()}_MASK"] = mask
                expected[f"{name}_{field.name.upper()}_SHIFT"] = field.offset
        if register.ACCESS in (Access.RW, Access.W1C):
            expected[f"{name}_RESET"] = register().to_int()
    for register, contents in capabilities(CONFIG).items():
        expected[f"CELOSIA_{snake_case(register.__name__).upper()}_RESET"] = contents.to_int()
    for codes in enumerations():
        for code in codes:
            expected[f"CELOSIA_{snake_case(codes.__name__).upper()}_{code.name}"] = code.value
    for block in REGISTER_MAP:
        expected[f"CELOSIA_BLOCK_{block.name.upper()}_COUNT"] = block.count(CONFIG)
    expected["CELOSIA_CONFIG_ROWS"] = CONFIG.rows
    checks = (
        f'_Static_assert((uint64_t)({name}) == UINT64_C({value}), "{name}");'
        for name, value in expected.items()
    )
    compile_and_run(tmp_path, "\n".join(checks))


def test_the_header_is_c_plus_plus_too(tmp_path):
    (tmp_path / "celosia.h").write_text(c_header(CONFIG))
    (tmp_path / "main.cpp").write_text('#include "celosia.h"\nint main() { return 0; }\n')
    flags = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c++11", "-fsyntax-only")
    subprocess.run(["g++", *flags, "main.cpp"], cwd=tmp_path, check=True)


def test_an_entry_built_in_c_has_the_bytes_of_the_one_built_here(tmp_path):
    payload = CopyPayload(
        source=0x123456789A, source_pitch=0xABCDEF, destination=77, row_bytes=5, rows=6
    )
    entry = seal(
        Sqe(
            type=TaskType.MEMCPY, dependencies=2, option=1, task_id=0x1122334455667788,
            event_deps=[EventWord(slot=5, generation=9).to_int(), 1], payload=payload.to_int(),
        )  # fmt: skip
    )
    output = compile_and_run(tmp_path, f"""
        struct celosia_sqe entry = {{0}};
        struct celosia_copy_payload copy = {{0}};
        entry.type = CELOSIA_TASK_TYPE_MEMCPY;
        entry.bits_1 = (uint8_t)(CELOSIA_FIELD(CELOSIA_SQE_DEPENDENCIES, 2)
            | CELOSIA_FIELD(CELOSIA_SQE_OPTION, 1));
        entry.task_id = UINT64_C(0x1122334455667788);
        entry.event_deps[0] = (uint32_t)(CELOSIA_FIELD(CELOSIA_EVENT_WORD_SLOT, 5)
            | CELOSIA_FIELD(CELOSIA_EVENT_WORD_GENERATION, 9));
        entry.event_deps[1] = 1;
        entry.crc = UINT32_C({entry.crc});
        copy.bits_0 = CELOSIA_FIELD(CELOSIA_COPY_PAYLOAD_SOURCE, UINT64_C(0x123456789a))
            | CELOSIA_FIELD(CELOSIA_COPY_PAYLOAD_SOURCE_PITCH, 0xabcdef);
        copy.bits_8 = CELOSIA_FIELD(CELOSIA_COPY_PAYLOAD_DESTINATION, 77);
        copy.row_bytes = 5;
        copy.rows = 6;
        fwrite(&entry, 1, offsetof(struct celosia_sqe, payload), stdout);
        fwrite(&copy, 1, sizeof copy, stdout);
        if (CELOSIA_GET(copy.bits_0, CELOSIA_COPY_PAYLOAD_SOURCE_PITCH) != 0xabcdef) return 1;
    """)
    assert output == entry.to_bytes()


def test_every_macro_of_the_c_header_is_defined_once():
    names = re.findall(r"^#define (\w+)", c_header(CONFIG), re.MULTILINE)
    assert len(names) == len(set(names))


def test_the_c_header_has_a_struct_for_every_format():
    sizes = dict(
        re.findall(r"sizeof\(struct celosia_(?:instruction_)?(\w+)\) == (\d+)", c_header(CONFIG))
    )
    assert sizes == {snake_case(word.__name__): str(word.BYTES) for word in FORMATS}
    assert {Sqe, Completion, Arguments, KernelHeader} <= set(FORMATS)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("rdl") / "celosia.rdl"
    path.write_text(systemrdl(CONFIG), encoding="utf-8")
    compiler = RDLCompiler()
    compiler.compile_file(str(path))
    nodes = compiler.elaborate().top.descendants(unroll=True)
    return {node.absolute_address: node for node in nodes if isinstance(node, RegNode)}


def test_systemrdl_has_every_register_at_its_address(compiled):
    expected = {
        block.address(register, index): (register, index)
        for block, register in REGISTERS
        for index in range(block.count(CONFIG))
    }
    assert set(compiled) == set(expected)
    for address, (register, _) in expected.items():
        node = compiled[address]
        assert node.get_property("name") == register.__name__
        assert node.get_property("regwidth") == register.WIDTH
        assert node.get_property("accesswidth") == 32
        assert bool(node.get_property("privileged")) == register.PRIVILEGED


def test_systemrdl_has_every_field_with_its_access_reset_and_codes(compiled):
    access_types = {
        Access.RO: AccessType.r, Access.CONST: AccessType.r, Access.RW: AccessType.rw,
        Access.W1C: AccessType.rw, Access.WO: AccessType.w,
    }  # fmt: skip
    constants = capabilities(CONFIG)
    for block, register in REGISTERS:
        nodes = {node.inst_name: node for node in compiled[block.address(register)].fields()}
        fields = [field for field in register.FIELDS if not isinstance(field, Reserved)]
        assert list(nodes) == [field.name for field in fields]
        for field in fields:
            node = nodes[field.name]
            assert (node.low, node.width) == (field.offset, field.bits)
            assert node.get_property("desc") == field.doc
            assert node.get_property("sw") == access_types[register.ACCESS]
            clears = node.get_property("onwrite") == OnWriteType.woclr
            assert clears == (register.ACCESS is Access.W1C)
            reset = field.reset if register.ACCESS in (Access.RW, Access.W1C) else None
            if register.ACCESS is Access.CONST:
                reset = getattr(constants[register], field.name)
            assert node.get_property("reset") == reset
            codes = node.get_property("encode")
            if field.enum is None:
                assert codes is None
            else:
                members = {member.name: member.value for member in codes}
                assert members == {code.name: code.value for code in field.enum}


def tables(text):
    """Rows of each table, split into cells."""
    found, rows = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            found.append(rows)
            rows = []
    return found


def test_markdown_tables_are_rectangular_and_stand_alone():
    text = markdown(CONFIG)
    assert text.endswith("\n")
    assert "\n\n\n" not in text
    for table in tables(text):
        assert len({len(row) for row in table}) == 1
        assert set(table[1]) == {"---"}
        assert len(table) > 2
    lines = text.splitlines()
    for above, line in zip(lines, lines[1:], strict=False):
        if line.startswith(("#", "|")) and not above.startswith("|"):
            assert not above, f"no empty line before {line!r}"


def test_markdown_links_lead_to_headings():
    text = markdown(CONFIG)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert len(anchors) == len(set(anchors))
    targets = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert targets
    assert targets <= set(anchors)


def test_markdown_has_every_register_field_format_and_code():
    text = markdown(CONFIG)
    for block, register in REGISTERS:
        assert f"**{register.__name__}**" in text
        assert f"### Block {block.name}" in text
        assert all(field.doc in text for field in register.FIELDS)
    for word in FORMATS:
        assert re.search(rf"^### (Instruction )?{word.__name__}$", text, re.MULTILINE)
    for codes in enumerations():
        assert all(f"| `{code.name}` |" in text for code in codes)
    assert "RW, privileged" in text
    assert {WindowLimit, InterruptStatus} <= {register for _, register in REGISTERS}
