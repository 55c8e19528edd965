# amaranth: UnusedElaboratable=no

"""The recorded workload, replayed cycle by cycle without the runtime."""

import dataclasses

import pytest

from hw.config import NpuConfig
from sim.bench.amaranth_loop import AmaranthLoop
from sim.bench.peers import make_board
from sim.bench.workload import Mismatch, Player
from sim.engine.pysim import PysimEngine
from sim.host import Host


@pytest.fixture(scope="module", params=[PysimEngine, AmaranthLoop])
def machine(request):
    board = make_board(NpuConfig.preset("tiny"))
    engine = request.param(board)
    return Host(engine), engine


@pytest.fixture
def player(machine, workload):
    player = Player(workload, *machine)
    player.rewind()
    return player


def test_a_replay_has_the_cycles_the_answers_and_the_memories_of_the_recording(player, workload):
    player.play()
    player.check_end()
    assert player.cycle == workload.cycles


def test_a_replay_stops_in_any_cycle_and_goes_on_from_there(player, workload):
    first, last = workload.kernels
    for cycle in (100, first, (first + last) // 2, last):
        player.play(cycle)
        assert cycle <= player.cycle <= cycle + 3
    player.play()
    player.check_end()


def test_a_replay_resumes_at_a_snapshot(machine, player, workload):
    _, engine = machine
    start, _ = workload.kernels
    player.play(start)
    snapshot, place = engine.snapshot(), player.place()
    player.play()
    engine.restore(snapshot)
    player.resume(place)
    assert player.cycle == start
    player.play()
    player.check_end()


def test_a_run_that_differs_is_refused(machine, workload):
    number, read = next(
        (n, action) for n, action in enumerate(workload.actions) if action.kind == "read"
    )
    wrong = dataclasses.replace(read, result=read.result ^ 1)
    actions = (*workload.actions[:number], wrong, *workload.actions[number + 1 :])
    player = Player(dataclasses.replace(workload, actions=actions), *machine)
    player.rewind()
    with pytest.raises(Mismatch, match=r"^read \(0,\) in cycle 3: .* instead of"):
        player.play()


def test_memories_that_differ_at_the_end_are_refused(machine, player):
    host, _ = machine
    player.play()
    host.write_device(4096, b"\xff" * 64)
    with pytest.raises(Mismatch, match="^device memory in cycle"):
        player.check_end()


def test_utilisation_is_the_share_of_the_multiplications_of_the_array(workload):
    assert workload.utilisation(16) == 4**3 / (16 * 4 * 4)
