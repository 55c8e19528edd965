"""Tables, rows, and histograms of measures that are given."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from hw.config import NpuConfig
from sim.console import InputError
from sim.latency.picture import Scale, check_format, picture, write_picture
from sim.latency.report import print_sheet, rows, short
from sim.latency.sheet import Difference, Measure, Point, Sample, Sheet, Target, between
from sim.wave import WaveError

SPACE = "{http://www.w3.org/2000/svg}"


def span(first, last, seen=None):
    """A sample from cycle to cycle, of which the waveform says the same, or `seen`."""
    return Sample((first, last), lambda recording: seen or (first, last))


@pytest.fixture
def sheet():
    """Three samples of a time that keeps its target, two that do not, and a share."""
    sheet = Sheet()
    for first, last in ((10, 12), (20, 22), (30, 34)):
        sheet.add("record → start", "kernel", span(first, last), Target(4))
    sheet.add("record → start", "copy", span(40, 43), Target(4))
    sheet.add("record → start", "copy", span(50, 55, seen=(51, 55)), Target(4))
    sheet.add(
        "load", "core busy", Sample((97, 100), lambda recording: (97, 100)),
        Target(95, least=True), unit="%", value=lambda raw: 100 * raw[0] / raw[1],
    )  # fmt: skip
    return sheet


def show(sheet, differences, config=None):
    console = Console(width=80, record=True, file=open("/dev/null", "w"))
    with console.file:
        print_sheet(sheet, differences, config or NpuConfig.preset("tiny"), console)
    return console.export_text()


def test_a_sample_is_compared_by_both_of_its_ends(sheet):
    """Equal lengths are not enough: the cycles themselves must be equal."""
    sheet.add("late", "both", span(60, 63, seen=(61, 64)))
    assert sheet.differences(None) == [
        Difference("record → start: copy", 1, (50, 55), (51, 55)),
        Difference("late: both", 0, (60, 63), (61, 64)),
    ]


def test_what_the_waveform_does_not_show_is_a_difference():
    def find(recording):
        raise WaveError("no interrupt behind cycle 7 is recorded")

    sheet = Sheet()
    sheet.add("a", "b", between(Point(7, lambda recording: 7), Point(9, find)))
    (difference,) = sheet.differences(None)
    assert str(difference) == (
        "a: b, sample 0: the device says (7, 9), the waveform no interrupt behind cycle 7 is "
        "recorded"
    )


def test_the_table_shows_spreads_in_cycles_and_ns_targets_and_how_many_samples_agree(sheet):
    lines = show(sheet, sheet.differences(None), NpuConfig.preset("tiny", clock_mhz=500))
    lines = [line.rstrip() for line in lines.splitlines()]
    assert lines == [
        "                              cycles               ns",
        "                           min median   max   min median   max   target samples",
        "record → start",
        "  kernel                     2      2     4     4      4     8      ≤ 4       3",
        "  copy                       3      4     5     6      8    10    ≤ 4 ✗  1 of 2",
        "load",
        "  core busy                 97     97    97 %                      ≥ 95       1",
        "record → start: copy, sample 1: the device says (50, 55), the waveform (51, 55)",
    ]


def test_a_few_differences_are_printed_and_the_others_counted(sheet):
    differences = [Difference("a: b", number, (1, 2), (1, 3)) for number in range(8)]
    lines = show(sheet, differences).splitlines()
    assert lines[-2].startswith("a: b, sample 4: ")
    assert lines[-1].strip() == "… and 3 more"


def test_rows_name_value_unit_and_the_target_with_what_must_keep_it(sheet):
    found = list(rows(sheet, sheet.differences(None)))
    assert [(row.name, row.value, row.unit, row.target, row.met) for row in found] == [
        ("record → start: kernel, min", 2, "cycles", "", True),
        ("record → start: kernel, median", 2, "cycles", "", True),
        ("record → start: kernel, max", 4, "cycles", "≤ 4", True),
        ("record → start: copy, min", 3, "cycles", "", True),
        ("record → start: copy, median", 4, "cycles", "", True),
        ("record → start: copy, max", 5, "cycles", "≤ 4", False),
        ("load: core busy, min", 97, "%", "≥ 95", True),
        ("load: core busy, median", 97, "%", "", True),
        ("load: core busy, max", 97, "%", "", True),
        ("samples that device and waveform agree on", 5, "samples", "= 6", False),
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (2.5, "2.5"), (99.9412, "99.94"), (48345.0, "48345")]
)
def test_values_are_short(value, text):
    assert short(value) == text


def scale(*lengths, target=None, unit="cycles"):
    measure = Measure("a", "b", target, unit, value=lambda raw: raw[0])
    measure.samples += [Sample((length,), None) for length in lengths]
    return Scale(measure)


def test_a_histogram_begins_at_zero_or_before_the_least_value_and_reaches_to_a_near_target():
    near = scale(2, 2, 4, target=Target(4))
    assert near.bars == {2: 2, 4: 1}
    assert (near.label(0), near.label(4), near.limit) == ("0", "4", 5)
    far = scale(115, 117, target=Target(120))
    assert (far.label(0), far.bars, far.limit, far.count) == ("114", {1: 1, 3: 1}, 7, 7)
    assert scale(115, target=Target(500)).limit is None


def test_a_wide_histogram_has_bars_of_several_cycles():
    wide = scale(100, 150, 1000)
    assert (wide.step, wide.label(0), wide.count) == (4100, "59", 23)
    assert wide.bars == {1: 1, 2: 1, 22: 1}


def test_a_histogram_of_shares_ends_at_100_percent():
    full = scale(100, target=Target(95, least=True), unit="%")
    assert (full.label(0), full.label(full.count - 1)) == ("95%", "100%")
    assert (full.bars, full.limit) == ({5: 1}, 0)
    assert scale(80, unit="%").label(0) == "79%"


def test_the_picture_has_every_group_and_measure_and_all_its_bars_within_its_frame(sheet):
    root = ElementTree.fromstring(picture(sheet, "small & <fast>"))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SPACE}text")]
    for text in ("small & <fast>", "record → start", "kernel", "copy", "load", "core busy",
                 "target ≤ 4", "target ≥ 95"):  # fmt: skip
        assert text in texts
    bars = [rect for rect in root.iter(f"{SPACE}rect") if rect.get("x")]
    assert len(bars) == 5
    for bar in bars:
        assert 0 < float(bar.get("x")) + float(bar.get("width")) < float(root.get("width"))
        assert 0 < float(bar.get("y")) + float(bar.get("height")) < float(root.get("height"))


def test_a_png_is_made_by_cairosvg_where_it_is_installed(monkeypatch, tmp_path):
    asked = []
    module = SimpleNamespace(svg2png=lambda **options: asked.append(options))
    monkeypatch.setitem(sys.modules, "cairosvg", module)
    path = tmp_path / "a.png"
    check_format(path)
    write_picture("<svg/>", path)
    assert asked == [{"bytestring": b"<svg/>", "write_to": str(path), "scale": 2}]


def test_what_cannot_be_drawn_is_refused_before_anything_is_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(InputError, match=r"cannot draw a\.png: PNG needs cairosvg; pip install"):
        check_format(Path("a.png"))
    with pytest.raises(InputError, match=r"a\.jpg: its name must end with \.svg or \.png"):
        check_format(Path("a.jpg"))
    check_format(None)
