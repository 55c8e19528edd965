"""The `npu` command: results, exit status, and one line for whatever is wrong."""

import dataclasses
import io
import json
import os
import pickle
import re
import sys

import numpy as np
import pytest
from rich.console import Console

import sim.cli
import sim.console
import sim.jobs
from hw.config import PRESETS, NpuConfig
from hw.regs.export import c_header, markdown, systemrdl
from hw.regs.registers import REGISTER_MAP
from rt.kernel.gemm import GemmShape, gemm_kernel
from sim.wave import Waveform

TEXT = """\
.fingerprint 0xa4933764
loop count=3
next
end
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def matrices(folder):
    """a.npy, 3 × 5, and b.npy, 5 × 6."""
    random = np.random.default_rng(1)
    a, b = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((3, 5), (5, 6)))
    np.save("a.npy", a)
    np.save("b.npy", b)
    return a, b


GEMM = "run gemm --a a.npy --b b.npy --out c.npy"


# ------------------------------------------------------------------------------------- run gemm


def test_gemm_writes_the_product_and_prints_and_saves_its_figures(npu, reuse, matrices, folder):
    a, b = matrices
    result = npu(f"{GEMM} --json figures.json --vcd run.vcd --stall 3 --seed 9 --latency 20")
    assert (result.status, result.err) == (0, "")
    product = np.load("c.npy")
    assert product.dtype == np.int32
    assert np.array_equal(product, a.astype(np.int32) @ b)
    rows = {row["name"]: row for row in json.loads((folder / "figures.json").read_text())}
    assert rows["engine"]["value"] == "compiled"
    assert rows["equal to numpy, bit for bit"] == {
        "name": "equal to numpy, bit for bit", "value": "yes", "unit": "", "target": "yes"
    }  # fmt: skip
    cycles = rows["kernels, first start to last end"]
    assert cycles["unit"] == "cycles"
    assert f"{cycles['value']:,}  cycles  {cycles['value']} ns" in result.out
    assert "waveform: run.vcd (npu wave run.vcd)" in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    (board,) = reuse.boards
    assert (board.stall, board.seed, board.device_latency, board.host_latency) == (3, 9, 20, 20)

    shown = npu("wave run.vcd")
    assert (shown.status, shown.err) == (0, "")
    assert re.search(r"^ +\d+ +1 +core0 +\d+ +\d+ +" + str(cycles["value"]), shown.out, re.M)
    assert max(map(len, shown.out.splitlines())) <= 80

    (folder / "[red].vcd").write_bytes((folder / "run.vcd").read_bytes())
    assert npu("wave [red].vcd").out.startswith("[red].vcd: cycles 0 … ")

    again = npu(f"{GEMM} --vcd run.vcd --window task:99")
    assert again.status == 2
    assert "equal to numpy" in again.out
    assert again.complaint.startswith("--window task:99 recorded nothing in ")
    assert not (folder / "run.vcd").exists()


def test_a_recording_is_limited_to_scopes(npu, reuse, matrices):
    result = npu(f"{GEMM} --vcd run.vcd --window 900:950 --scope npu.core0 --scope npu.irq")
    assert (result.status, result.err) == (0, "")
    assert result.out.endswith("waveform: run.vcd\n")
    wave = Waveform("run.vcd")
    assert (wave.first, wave.last) == (900, 949)
    scopes = {".".join(name.split(".")[:2]) for name in wave.signals}
    assert scopes == {"clk", "npu.core0", "npu.irq"}
    result = npu(f"{GEMM} --vcd run.vcd --scope npu.core")
    assert result.status == 2
    assert result.complaint == (
        "no scope is called 'npu.core'; scopes are those of a waveform below bench.top, such as npu"
    )


def test_gemm_takes_arrays_in_fortran_order(npu, reuse, matrices):
    a, b = matrices
    np.save("a.npy", np.asfortranarray(a))
    np.save("b.npy", np.asfortranarray(b))
    assert npu(GEMM).status == 0
    assert np.array_equal(np.load("c.npy"), a.astype(np.int32) @ b)


def test_a_wrong_product_ends_with_1_and_names_the_target(npu, reuse, matrices, monkeypatch):
    monkeypatch.setattr(sim.jobs, "matmul", lambda a, b: np.zeros((3, 6), np.int32))
    result = npu(GEMM)
    assert result.status == 1
    assert result.complaint == "target missed: equal to numpy, bit for bit"
    assert "target yes, missed" in result.out


def test_a_fault_of_the_device_ends_with_1_and_one_line(npu, reuse, matrices):
    reuse.fault = ("read", 0, (1 << 20) - 1)
    result = npu(GEMM)
    assert (result.status, result.out) == (1, "")
    assert result.complaint.startswith("BUS_SLAVE_ERROR on ")


def test_digits_without_scikit_learn_is_bad_input(npu, reuse, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    result = npu("run digits --images 1")
    assert result.status == 2
    assert "scikit-learn, which is not installed; pip install 'celosia[digits]'" in result.complaint


def test_exhausted_memory_is_bad_input(npu, reuse, folder):
    np.save("a.npy", np.ones((600, 1), np.int8))
    np.save("b.npy", np.ones((1, 600), np.int8))
    result = npu(GEMM)
    assert (result.status, result.out) == (2, "")
    assert "1440000 bytes" in result.complaint
    assert result.complaint.endswith("[207001]")


def test_an_interrupt_from_the_keyboard_ends_with_130(npu, reuse, matrices, monkeypatch, folder):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sim.cli, "run_gemm", interrupted)
    result = npu(GEMM)
    assert (result.status, result.out, result.err) == (130, "", "")
    assert not (folder / "c.npy").exists()


def test_progress_shows_simulated_cycles_on_a_terminal(npu, reuse, matrices, monkeypatch, machine):
    screen = io.StringIO()
    monkeypatch.setattr(sim.console, "err", Console(file=screen, force_terminal=True, width=80))
    assert npu(GEMM).status == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert f"{machine.now():,} cycles" in text.splitlines()[-1]


# ----------------------------------------------------------------------------------- run digits


def test_digits_prints_predictions_and_equal_latencies(npu, reuse, folder, monkeypatch):
    reports = []

    def run_digits(*arguments, **options):
        reports.append(sim.jobs.run_digits(*arguments, **options))
        return reports[-1]

    monkeypatch.setattr(sim.cli, "run_digits", run_digits)
    result = npu("run digits --images 1 --vcd digits.vcd --json figures.json")
    assert (result.status, result.err) == (0, "")
    assert re.search(r"^0 … 0 +(\d) +\1 *$", result.out, re.M)
    rows = {row["name"]: row for row in json.loads((folder / "figures.json").read_text())}
    assert rows["event → kernel, device timestamps"]["value"] == 2
    assert rows["event → kernel, waveform"]["value"] == 2
    assert rows["event → kernel, waveform"]["target"] == "= 2"
    assert (folder / "digits.vcd").exists()
    assert max(map(len, result.out.splitlines())) <= 80

    wrong = dataclasses.replace(reports[0], exact=False, wave_latency=3)
    monkeypatch.setattr(sim.cli, "run_digits", lambda *arguments, **options: wrong)
    result = npu("run digits --images 1")
    assert result.status == 1
    assert result.complaint == (
        "target missed: equal to the reference, bit for bit; event → kernel, waveform"
    )


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("bogus", "No such command 'bogus'; npu --help shows what it takes"),
        ("run bogus", "No such command 'bogus'; npu run --help shows what it takes"),
        ("info --bogus", "No such option: --bogus; npu info --help shows what it takes"),
        ("run gemm --a a.npy", "Missing option '--b'; npu run gemm --help shows what it takes"),
        ("disasm", "Missing argument 'BINARY'; npu disasm --help shows what it takes"),
        ("info --preset huge",
         "no preset is called 'huge'; choose one of tiny, small, base, large"),
        ("info --markdown --systemrdl",
         "--markdown, --c-header and --systemrdl exclude each other; give one"),
        (f"{GEMM} --preset huge",
         "no preset is called 'huge'; choose one of tiny, small, base, large"),
        (f"{GEMM} --engine fast",
         "no engine is called 'fast'; choose one of auto, compiled, pysim"),
        (f"{GEMM} --latency 1", "device_latency is 1; it must lie within 2 … 1048576"),
        (f"{GEMM} --stall 256", "stall is 256; it must lie within 0 … 240"),
        (f"{GEMM} --seed -1", "seed is -1; it must lie within 0 … 4294967296"),
        (f"{GEMM} --window 1:2",
         "--window 1:2 needs a waveform to be part of; give --vcd FILE too"),
        (f"{GEMM} --scope npu",
         "--scope needs a waveform to be part of; give --vcd FILE too"),
        (f"{GEMM} --vcd x.vcd --window soon",
         ("the window is 'soon'; write FIRST:STOP in cycles, such as 120000:121000, "
          "or task:ID, such as task:17")),
        (f"{GEMM} --vcd x.vcd --window 9:9",
         "the window '9:9' is empty; its second cycle must be greater"),
        (f"{GEMM} --vcd no/x.vcd", "cannot write no/x.vcd: no is no folder; create it first"),
        (f"{GEMM} --json no/x.json", "cannot write no/x.json: no is no folder; create it first"),
        (f"{GEMM} --json .", "cannot write .: it is a folder; name a file in it"),
        ("run gemm --a a.npy --b b.npy --out .",
         "cannot write .: it is a folder; name a file in it"),
        ("run gemm --a none.npy --b b.npy --out c.npy",
         "cannot read none.npy: No such file or directory; name a file"),
        ("run gemm --a . --b b.npy --out c.npy", "cannot read .: Is a directory; name a file"),
        ("run digits --images 0", "--images is 0; choose 1 … 1797"),
        ("run digits --images 2000", "--images is 2000; choose 1 … 1797"),
        ("run digits --batch 0", "--batch is 0; a kernel takes at least 1 image"),
        ("disasm none.bin", "cannot read none.bin: No such file or directory; name a file"),
        ("asm none.s -o x.bin", "cannot read none.s: No such file or directory; name a file"),
        ("wave none.vcd", "cannot read none.vcd: No such file or directory"),
        ("wave .", "cannot read .: Is a directory"),
        ("wave a.npy", "a.npy is no VCD file; record one with --vcd"),
    ],
)  # fmt: skip
def test_bad_input_ends_with_2_and_one_line(npu, matrices, folder, line, complaint):
    before = sorted(folder.iterdir())
    result = npu(line)
    assert (result.status, result.out) == (2, "")
    assert result.complaint == complaint
    assert sorted(folder.iterdir()) == before


def test_a_number_that_is_none_ends_with_2_and_one_line(npu):
    result = npu("run digits --images many")
    assert result.status == 2
    assert result.complaint.startswith("Invalid value for '--images': ")


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.ones((3, 5), np.int64), "--a a.npy has dtype int64; convert it to int8"),
        (np.ones((3, 5), np.uint8), "--a a.npy has dtype uint8; convert it to int8"),
        (np.ones((3, 5)), "--a a.npy has dtype float64; convert it to int8"),
        (np.int8(1), "--a a.npy has shape (); two dimensions of at least 1 are needed"),
        (np.ones(5, np.int8), "--a a.npy has shape (5,); two dimensions of at least 1 are needed"),
        (np.ones((1, 3, 5), np.int8),
         "--a a.npy has shape (1, 3, 5); two dimensions of at least 1 are needed"),
        (np.ones((0, 5), np.int8),
         "--a a.npy has shape (0, 5); two dimensions of at least 1 are needed"),
        (np.ones((3, 4), np.int8),
         "a is 3 × 4 and b 5 × 6; a needs as many columns as b has rows"),
    ],
)  # fmt: skip
def test_arrays_that_gemm_cannot_take_are_refused(npu, matrices, array, complaint):
    np.save("a.npy", array)
    result = npu(GEMM)
    assert (result.status, result.out, result.complaint) == (2, "", complaint)


def test_files_that_hold_no_array_are_refused(npu, matrices, folder):
    path = folder / "a.npy"
    whole = path.read_bytes()
    header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (%d, %d), }"
    huge = np.lib.format.MAGIC_PREFIX + b"\1\0\x76\0" + (header % (1 << 62, 4)).ljust(0x76)
    objects = io.BytesIO()
    np.save(objects, np.array([["x"]], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, a=np.ones((3, 5), np.int8))
    for content, complaint in (
        (b"", "--a a.npy is no .npy file; write it with numpy.save"),
        (b"1,2,3\n4,5,6\n", "--a a.npy is no .npy file; write it with numpy.save"),
        (pickle.dumps([[1]]), "--a a.npy is no .npy file; write it with numpy.save"),
        (archive.getvalue(), "--a a.npy is an archive; numpy.save writes a single array"),
        (objects.getvalue(), r"--a a.npy is a damaged .npy file \(Object arrays cannot be loaded"),
        (whole[:-1], r"--a a.npy is a damaged .npy file \("),
        (whole[:20], r"--a a.npy is a damaged .npy file \("),
        (whole[:8] + b"\xff\xff" + whole[10:], r"--a a.npy is a damaged .npy file \("),
        (huge, r"--a a.npy is a damaged .npy file \("),
    ):
        path.write_bytes(content)
        result = npu(GEMM)
        assert (result.status, result.out) == (2, "")
        assert re.match(complaint, result.complaint), result.complaint


def test_a_file_that_must_not_be_written_is_refused(npu, matrices, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    result = npu(GEMM)
    assert result.complaint == "cannot write c.npy: permission denied; name another file"
    assert result.status == 2


def test_a_waveform_without_an_npu_is_refused(npu, folder):
    (folder / "other.vcd").write_text(
        "$timescale 1 fs $end\n$scope module bench $end\n$scope module top $end\n"
        "$var wire 1 ! clk $end\n$upscope $end\n$upscope $end\n$enddefinitions $end\n"
        "#0\n1!\n#500000\n0!\n#1000000\n1!\n"
    )
    assert npu("wave other.vcd").complaint == (
        "other.vcd has no trace signals of an NPU; record it with npu run --vcd"
    )
    (folder / "still.vcd").write_text((folder / "other.vcd").read_text().replace("clk", "clock"))
    result = npu("wave still.vcd")
    assert result.complaint == "still.vcd has no clock bench.top.clk; record it with --vcd"
    assert result.status == 2


# ------------------------------------------------------------------------------------- asm, info


def test_texts_and_binaries_convert_exactly(npu, folder):
    shape = GemmShape(m=9, n=7, k=6, pitch_a=6, pitch_b=7, pitch_c=28)
    binary = gemm_kernel(shape, NpuConfig.preset("tiny"))
    (folder / "k.bin").write_bytes(binary)
    printed = npu("disasm k.bin")
    assert npu("disasm k.bin -o k.s").out == ""
    assert (folder / "k.s").read_text() == printed.out
    result = npu("asm k.s -o again.bin --preset large")
    assert (folder / "again.bin").read_bytes() == binary
    assert result.out == (
        f"again.bin: {len(binary)} bytes, {(len(binary) - 32) // 16} instructions, "
        f"for fingerprint {NpuConfig.preset('tiny').fingerprint:#010x}\n"
    )


def test_a_text_without_a_fingerprint_is_for_the_preset(npu, folder):
    (folder / "k.s").write_text(TEXT.split("\n", 1)[1])
    assert npu("asm k.s -o k.bin --preset small").status == 0
    fingerprint = NpuConfig.preset("small").fingerprint
    assert npu("disasm k.bin").out == TEXT.replace("0xa4933764", f"{fingerprint:#010x}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (TEXT + "jump", "line 5: no instruction is called 'jump'; there are "),
        (TEXT + "end now", "line 5: end has no field 'now'; it has none"),
        (TEXT + "loop count=many", "line 5: count takes a number, not 'many'"),
        (TEXT + "loop count=0x100000000000", "line 5: "),
        ("", "the text has 0 instructions; a kernel needs at least END"),
        ("\N{GREEK SMALL LETTER ALPHA}".encode("utf-16"), "k.s is no text; npu disasm reads"),
    ],
)  # fmt: skip
def test_texts_that_are_no_kernel_are_refused(npu, folder, text, complaint):
    (folder / "k.s").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = npu("asm k.s -o k.bin")
    assert (result.status, result.out) == (2, "")
    assert result.complaint.startswith(complaint)
    assert not (folder / "k.bin").exists()


def test_damaged_binaries_are_refused(npu, folder):
    path = folder / "k.bin"
    (folder / "k.s").write_text(TEXT)
    npu("asm k.s -o k.bin")
    whole = path.read_bytes()
    for content, complaint in (
        (b"", "the binary has 0 bytes; "),
        (whole[:40], "the binary has 40 bytes; "),
        (b"ELF!" + whole[4:], "the binary starts with 0x21464c45, not with CELK"),
        (whole[:-16], "the header announces 48 bytes of code, but 32 follow; "),
        (whole[:-1] + b"\1", "the code's CRC-32 is "),
    ):
        path.write_bytes(content)
        result = npu("disasm k.bin")
        assert (result.status, result.out) == (2, "")
        assert result.complaint.startswith(complaint)


@pytest.mark.parametrize("preset", PRESETS)
def test_info_shows_every_size_and_register_in_80_columns(npu, preset):
    result = npu(f"info --preset {preset}")
    assert (result.status, result.err) == (0, "")
    lines = [line.split() for line in result.out.splitlines()]
    assert max(map(len, result.out.splitlines())) <= 80
    for name, value in NpuConfig.preset(preset).as_dict().items():
        assert [name, str(value)] in lines
    for block in REGISTER_MAP:
        for register in block:
            address = f"{block.address(register):#06x}"
            access = register.ACCESS.name + ("*" if register.PRIVILEGED else "")
            row = [address, register.__name__, str(register.WIDTH), access]
            assert row in [line[:4] for line in lines]


def test_info_writes_every_format(npu):
    config = NpuConfig.preset("small")
    for option, text in (("markdown", markdown), ("c-header", c_header), ("systemrdl", systemrdl)):
        assert npu(f"info --preset small --{option}").out == text(config)


def test_version_and_help_are_results(npu):
    assert npu("--version").out == f"npu {sim.__version__}\n"
    for line in ("", "--help", "run", "run digits --help"):
        result = npu(line)
        assert (result.status, result.err) == (0, "")
        assert "Usage: npu" in result.out
