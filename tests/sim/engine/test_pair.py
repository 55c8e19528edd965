"""The board on both engines at once."""

import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.board.storage import Storage
from sim.engine.lockstep import Difference
from sim.engine.pages import PAGE
from sim.engine.pair import BoardPair
from sim.engine.script import Peek, Poke, Step, Until


class Copier(wiring.Component):
    """Copies words from the first half of a storage to the second, and adds them up."""

    go: In(1)
    done: Out(1)
    total: Out(40)

    def __init__(self):
        super().__init__()
        self.storage = Storage(4 * PAGE, 4)
        self.storages = {"bytes": self.storage}

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = self.storage
        half = 2 * PAGE // 4
        position = Signal(range(2 * half))
        reading = Signal()
        m.d.comb += [
            storage.read_enable.eq(self.go & ~self.done),
            storage.read_address.eq(position),
            storage.write_enable.eq(reading),
            storage.write_address.eq(position + half - 1),
            storage.write_data.eq(storage.read_data),
            storage.write_strobe.eq(0xF),
            self.done.eq(position == 8),
        ]
        m.d.sync += reading.eq(storage.read_enable)
        with m.If(storage.read_enable):
            m.d.sync += position.eq(position + 1)
        with m.If(reading):
            m.d.sync += self.total.eq(self.total + storage.read_data)
        return m


@pytest.fixture
def pair():
    return BoardPair(Copier())


def fill(pair):
    content = bytes(range(32))
    pair.memory("bytes")[:32] = content
    pair.dirty("bytes")[0] = 1
    return content


def test_a_program_of_the_host_runs_on_both(pair):
    content = fill(pair)
    run = pair.script([Poke("go"), Until("done", 20), Step(2), Peek("total")])
    total = sum(int.from_bytes(content[at : at + 4], "little") for at in range(0, 32, 4))
    assert run(1) == (total,)
    assert pair.now == 10
    assert bytes(pair.memory("bytes")[2 * PAGE : 2 * PAGE + 32]) == content
    assert bytes(pair.actual.memory("bytes")[2 * PAGE : 2 * PAGE + 32]) == content
    assert pair.run_until("total", 30, total)
    assert not pair.run_until("total", 13, 1)
    assert pair.now == 13
    assert pair.compared == 14
    pair.close()


def test_after_a_reset_it_runs_again_with_the_same_bytes(pair):
    fill(pair)
    for _ in range(2):
        pair.poke("go", 1)
        assert pair.run_until("done", None)
        assert pair.now == 8
        pair.reset()
        assert pair.now == 0
    pair.close()


def test_a_signal_that_differs_is_found_in_its_cycle(pair):
    pair.poke("go", 1)
    pair.step(3)
    pair.actual.poke("total", 7)
    with pytest.raises(Difference, match=r"^cycle 4: total is 0x7, not 0x0\ndriven at .*sync"):
        pair.step()


def test_a_byte_of_a_storage_that_differs_is_found_in_its_cycle(pair):
    fill(pair)
    pair.poke("go", 1)
    pair.step(2)
    pair.actual.memory("bytes")[9] = 99
    with pytest.raises(Difference, match="cycle 3: .*read_data"):
        pair.step()


def test_what_is_poked_is_compared_before_the_next_edge(pair):
    pair.step()
    pair.actual.poke("go", 1)
    pair.poke("total", 3)
    with pytest.raises(Difference, match="^cycle 1, before its edge: go is 0x1, not 0x0"):
        pair.peek("total")


def test_registers_are_compared_when_nothing_else_is_kept():
    pair = BoardPair(Copier(), keep=())
    fill(pair)
    pair.poke("go", 1)
    pair.step(12)
    assert 5 <= pair.compared < 14
    pair.close()
