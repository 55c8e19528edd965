# amaranth: UnusedElaboratable=no
"""The board as native code: what is kept of it, and what is known by which name."""

import pytest
from amaranth.hdl import Elaboratable, Module, Signal

from hw.regs.errors import ConfigError
from sim.engine.compiled import CompiledBoard
from sim.engine.model import ModelError


class Counter(Elaboratable):
    """Counts by `amount`; `odd` and `half` are made of it."""

    storages = {}

    def __init__(self):
        self.amount = Signal(4, init=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Module()
        count = Signal(8)
        odd = Signal()
        half = Signal(7)
        m.d.sync += count.eq(count + self.amount)
        inner.d.comb += [odd.eq(count[0] ^ self.amount[3]), half.eq(count[1:] + self.amount[3])]
        return m


class Makes:
    """A function that makes a board, and counts that."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return Counter()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path))


@pytest.mark.parametrize("keep", [("inner.odd",), ("inner.o*",), ("*dd",)])
def test_what_has_a_key_is_made_once_and_then_known_by_name(keep):
    make = Makes()
    for cycles in (3, 5):
        board = CompiledBoard(make, keep=keep, key="counter")
        board.step(cycles)
        assert board.peek("count") == cycles
        assert board.peek("inner.odd") == 1
        board.poke("amount", 2)
        board.step()
        assert board.peek("count") == cycles + 2
        assert make.count == 1


def test_another_key_is_another_board():
    make = Makes()
    for key in ("a", "b", None):
        CompiledBoard(make, key=key)
    assert make.count == 3


def test_what_is_not_kept_takes_a_second_build_once_for_each_key():
    make = Makes()
    for number in range(2):
        board = CompiledBoard(make, keep=(), key="counter")
        board.step(6)
        assert make.count == 1 + number
        assert board.peek("inner.half") == 3
        assert make.count == 2
        assert "inner.half" in board.signals


def test_signals_are_objects_where_the_board_itself_was_given():
    counter = Counter()
    board = CompiledBoard(counter)
    board.poke(counter.amount, 3)
    board.step(2)
    assert [board.peek(each) for each in (counter.amount, counter.amount[1], "count")] == [3, 1, 6]


@pytest.mark.parametrize("key", [None, "counter"])
def test_names_that_are_none_and_signals_that_logic_drives_are_refused(key):
    board = CompiledBoard(Makes(), keep=("inner.odd",), key=key)
    poke, wait = (lambda name: board.poke(name, 1)), (lambda name: board.run_until(name, 5))
    for use in (board.peek, poke, wait):
        with pytest.raises(ConfigError, match=r"no signal is called 'inner\.even'; names are"):
            use("inner.even")
    with pytest.raises(ModelError, match="driven by combinational logic"):
        board.poke("inner.odd", 1)
