"""The whole machine on both engines at once: equal in every cycle, to every signal with a name."""

import random

import pytest

from hw.config import NpuConfig
from hw.npu import Npu
from rt import Device
from sim.board.board import Board
from sim.board.config import BoardConfig
from sim.engine.pair import BoardPair
from sim.engine.program import ALL
from sim.link import SimTransport
from tests.system.programs import open_sides, play


def run(preset, keep, *, tasks, seed, stall=0):
    """Runs a program of two sessions; gives the pair."""
    config, around = NpuConfig.preset(preset), BoardConfig.fast(stall=stall)
    pair = BoardPair(Board(Npu(config), config, around), keep=keep)
    transport = SimTransport(config, around, pair)
    device = Device(transport, patience=20_000, watchdog=5_000)
    play(random.Random(seed), open_sides(random.Random(seed), device), tasks)
    pair.close()
    return pair


@pytest.mark.slow
@pytest.mark.parametrize("keep", [ALL, ()], ids=["all", "registers"])
def test_tiny_is_equal_in_every_signal(keep):
    pair = run("tiny", keep, tasks=9, seed=5, stall=64)
    assert pair.now > 2_000
    assert pair.compared > (7_000 if keep == ALL else 3_000)


@pytest.mark.slow
@pytest.mark.parametrize("keep", [ALL, ()], ids=["all", "registers"])
def test_small_is_equal_in_every_signal(keep):
    pair = run("small", keep, tasks=5, seed=7)
    assert pair.now > 1_000
