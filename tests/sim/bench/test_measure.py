"""What the bench asks of the processes of its engines, whose answers are made up here."""

from pathlib import Path

import pytest

from sim.bench import measure
from sim.bench.measure import Settings


class Made:
    """A `Child` that answers at once: a cycle takes a microsecond."""

    def __init__(self, name, preset, *, trace=False, cache=None):
        self.seconds, self.cpu_seconds = 2.0, 1.0
        self.asked = []
        Made.all.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, what, **arguments):
        self.asked.append((what, arguments))
        if what == "workload":
            assert Path(arguments["path"]).stat().st_size > 0
        cycles = arguments.get("cycles") or arguments.get("stop", 1) - arguments.get("start", 0)
        cycles *= arguments.get("repeat", 1)
        return {
            "cycles": cycles, "cpu": cycles * 1e-6, "seconds": 3e-6, "memory": 1 << 20,
            "signals": 5, "bytes": 100,
        }  # fmt: skip


@pytest.fixture
def measured(monkeypatch, workload):
    """One engine in Python and a fast one, in two rounds of 10 cycles; and what was asked."""
    Made.all = []
    monkeypatch.setattr(measure, "Child", Made)
    monkeypatch.setattr(measure, "load", lambda preset, size: workload)
    settings = Settings(("tiny",), ("pysim", "compiled"), rounds=2, cycles=10)
    (preset,) = measure.measure(settings)
    return preset, Made.all


def test_each_round_has_the_next_window_and_engines_in_python_idle_once(measured):
    preset, (python, *_) = measured
    start, _ = preset.window
    windows = [(a["start"], a["stop"]) for what, a in python.asked if what == "window"]
    assert windows == [(start, start + 10), (start + 10, start + 20)]
    assert [what for what, _ in python.asked] == ["workload", "idle", "window", "window", "usage"]


def test_fast_engines_are_measured_whole_busy_idle_and_recording(measured):
    preset, _ = measured
    compiled = preset.engines["compiled"]
    assert compiled.build == {"seconds": 2.0, "cpu": 1.0}
    for name in ("speed", "busy", "idle", "recording"):
        assert getattr(compiled, name).values == pytest.approx((1e6, 1e6)), name
    assert compiled.access.values == (3e-6, 3e-6)
    assert compiled.recorded == {"signals": 5, "bytes": 100}
