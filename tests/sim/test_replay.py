"""Watchers of a replay: they stop in the right cycle, whatever the host waits for."""

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from sim.engine.pysim import PysimEngine
from sim.replay import CHUNK, Finder, Follower, Reached
from sim.wave import Window


class Counter(wiring.Component):
    """`tick` is high in every eighth cycle."""

    count: Out(16)
    tick: Out(1)

    def __init__(self):
        super().__init__()
        self.storages = {}

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + 1)
        m.d.comb += self.tick.eq(self.count[:3] == 0)
        return m


@pytest.fixture
def engine():
    return PysimEngine(Counter())


@pytest.mark.parametrize(
    ("signal", "cycle", "value", "outcome", "now"),
    [
        (None, 10, None, False, 10), (None, 30, None, Reached, 20),
        ("tick", 10, None, True, 8), ("tick", None, None, True, 8), ("tick", 5, None, False, 5),
        ("tick", 8, None, True, 8), ("count", 30, 12, True, 12), ("count", 30, 20, True, 20),
        ("count", 20, 25, False, 20), ("count", 30, 25, Reached, 20),
        ("count", None, 25, Reached, 20),
    ],
)  # fmt: skip
def test_a_finder_stops_before_a_cycle_with_a_condition_is_left(
    engine, signal, cycle, value, outcome, now
):
    engine.step()
    finder = Finder(engine, ((("count", 20), ("tick", 0)), (("count", 1), ("tick", 1))))
    if outcome is Reached:
        with pytest.raises(Reached):
            finder.run_until(signal, cycle, value)
    else:
        assert finder.run_until(signal, cycle, value) is outcome
    assert finder.now == now


def test_a_finder_looks_at_what_was_poked(engine):
    finder = Finder(engine, ((("count", 77),),))
    finder.step(3)
    finder.poke("count", 77)
    assert finder.run_until("count", 10, 77)
    with pytest.raises(Reached):
        finder.step()
    assert (finder.now, finder.peek("count")) == (3, 77)


@pytest.mark.parametrize("stop", [40, None])
def test_a_follower_stops_soon_after_the_recording(engine, tmp_path, stop):
    window = Window(5, 40) if stop else Window(None, None, ((("count", 15),),))
    engine.capture(tmp_path / "x.vcd", window)
    follower = Follower(engine, stop)
    assert not follower.run_until(None, 7)
    assert follower.run_until("count", 20, 11)
    assert follower.now == 11
    with pytest.raises(Reached):
        follower.run_until("count", None, 20_000)
    assert follower.now == (41 if stop else 11 + CHUNK)
    assert not engine.capturing
