"""The same calls take the same cycles and leave the same bytes, on every engine, every time."""

import random

import pytest

import sim
from hw.config import HOST_BASE
from rt import Device
from rt.transport import Read, Write
from sim.board.config import BoardConfig
from tests.system.programs import open_sides, play


@pytest.fixture(scope="module")
def other(engine_name):
    """A machine on the other engine, on which nothing else has run."""
    engine = "pysim" if engine_name == "compiled" else "compiled"
    transport = sim.open("tiny", board=BoardConfig.fast(), engine=engine)
    yield transport
    transport.close()


def clear(transport):
    """Back to cycle 0 and to empty memories."""
    transport.reset()
    transport.write_device(0, bytes(transport.device_bytes))
    transport.write_host(HOST_BASE, bytes(transport.host_bytes))
    transport.actions.clear()


def memories(transport):
    """All bytes; the host's have every completion entry with its cycles."""
    host = transport.read_host(HOST_BASE, transport.host_bytes)
    transport.actions.pop()
    return host, bytes(transport.device_memory())


def program(transport):
    """Runs a program of two sessions. What was done, when it ended, and what it left."""
    clear(transport)
    device = Device(transport, patience=20_000, watchdog=5_000)
    sides = open_sides(random.Random(5), device)
    assert [len(side.streams) for side in sides] == [2, 2]
    play(random.Random(5), sides, 9)
    return list(transport.actions), transport.now(), memories(transport)


def replay(transport, actions):
    """Does what a log says, in its order. Time passes as it did, or an assertion fails."""
    clear(transport)
    for action in actions:
        assert transport.now() == action.cycle
        match action.kind:
            case "read":
                assert transport.control([Read(*action.arguments)]) == [action.result]
            case "write":
                transport.control([Write(*action.arguments)])
            case "run_until":
                interrupt, cycle = action.arguments
                assert transport.run_until(interrupt=interrupt, cycle=cycle) == action.result
            case kind:
                getattr(transport, kind)(*action.arguments)
    return list(transport.actions), transport.now(), memories(transport)


@pytest.fixture(scope="module")
def first(machine):
    return program(machine)


def test_a_program_takes_the_same_cycles_again_after_a_reset(first, machine):
    assert program(machine) == first


def test_a_program_takes_the_same_cycles_on_a_fresh_machine_of_the_other_engine(first, other):
    assert program(other) == first


def test_the_log_of_actions_replays_the_run_on_the_other_engine(first, other):
    assert replay(other, first[0]) == first
