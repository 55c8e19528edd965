"""A whole simulated machine: elaborated once for each test process, reset for each test."""

import pytest

import sim
from rt import Device
from sim.board.config import BoardConfig


@pytest.fixture(scope="session")
def machine():
    """`tiny` with memories of latency 8 and full bandwidth."""
    transport = sim.open("tiny", board=BoardConfig.fast())
    yield transport
    transport.close()


@pytest.fixture(scope="session")
def stalling():
    """The same with memories that hold every fourth handshake back."""
    transport = sim.open("tiny", board=BoardConfig.fast(stall=64))
    yield transport
    transport.close()


@pytest.fixture
def transport(machine):
    """The same after a reset, at cycle 0, without errors injected."""
    machine.reset()
    for direction in ("read", "write"):
        machine.inject(direction, 0, 0, None)
    machine.actions.clear()
    return machine


@pytest.fixture
def device(transport):
    return Device(transport, patience=20_000, watchdog=5_000)


@pytest.fixture
def session(device):
    with device.session() as session:
        yield session
