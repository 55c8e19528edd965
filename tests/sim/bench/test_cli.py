"""``npu bench sim`` from the command line to its files."""

import json
import pickle
import xml.etree.ElementTree as ElementTree

import pytest

import sim.cli
from sim.bench.child import Child, ChildError


@pytest.fixture
def npu(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def npu(line):
        status = sim.cli.main(line.split())
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return npu


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--engines pysim,vcs", "no engine is called 'vcs'; choose of pysim, amaranth, compiled"),
        ("--preset tiny,huge", "no preset is called 'huge'"),
        ("--rounds 0", "--rounds is 0; it must be at least 1"),
        ("--size 0", "--size is 0; it must be at least 1"),
        ("--json nowhere/a.json", "nowhere is no folder"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_built(npu, options, complaint):
    status, out, err = npu(f"bench sim {options}")
    assert (status, out) == (2, "")
    assert complaint in err


def test_engines_are_measured_in_rounds_into_a_table_json_and_a_picture(npu, tmp_path):
    data, drawing = tmp_path / "a.json", tmp_path / "a.svg"
    status, out, err = npu(
        "bench sim --preset tiny --engines pysim --rounds 2 --cycles 20 --size 4 "
        f"--json {data} --plot {drawing}"
    )
    assert (status, err) == (0, "")
    assert out.startswith("tiny: GEMM 4³ with copies and events, ")
    (preset,) = json.loads(data.read_text())["presets"]
    (engine,) = preset["engines"]
    assert engine["name"] == "pysim"
    assert len(engine["busy"]["values"]) == 2
    assert len(engine["idle"]["values"]) == 1
    assert preset["window"][1] - preset["window"][0] == 20
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")


def test_an_engine_in_another_process_runs_the_workload_whole_and_in_part(workload, tmp_path):
    path = tmp_path / "workload"
    path.write_bytes(pickle.dumps(workload))
    start, stop = workload.kernels
    with Child("pysim", "tiny") as child:
        child.ask("workload", path=str(path))
        assert child.ask("run")["cycles"] == workload.cycles
        assert child.ask("window", start=start, stop=stop)["cycles"] == stop - start
        again = child.ask("window", start=start, stop=stop, repeat=2)
        assert again["cycles"] == 2 * (stop - start)
        assert child.ask("idle", cycles=7)["cycles"] == 7
        assert child.ask("access", count=2)["cycles"] == 3
        recorded = child.ask("record", start=start, stop=start + 5)
        assert recorded["cycles"] == 5
        assert recorded["signals"] > 1000
        assert child.ask("usage")["memory"] > 1 << 20
        failure = r"(?s)^pysim at tiny failed \(status 1\): .*no_such_thing"
        with pytest.raises(ChildError, match=failure):
            child.ask("no_such_thing")


def test_an_engine_that_says_more_than_a_pipe_holds_goes_on(monkeypatch):
    monkeypatch.setenv("PYTHONVERBOSE", "1")
    with Child("pysim", "tiny") as child:
        assert child.ask("usage")["memory"] > 1 << 20
