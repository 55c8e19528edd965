"""A whole simulated machine: made once for each test process and engine, reset for each test.

Tests run on the compiled engine. Those marked `oracle` also run on pysim every time; the others
do with `-m slow`.
"""

import pytest

import sim
from rt import Device
from sim.board.config import BoardConfig


def pytest_generate_tests(metafunc):
    if "engine_name" in metafunc.fixturenames:
        oracle = metafunc.definition.get_closest_marker("oracle")
        pysim = pytest.param("pysim", marks=() if oracle else pytest.mark.slow)
        metafunc.parametrize("engine_name", ["compiled", pysim], indirect=True, scope="session")


@pytest.fixture(scope="session")
def engine_name(request):
    return request.param


@pytest.fixture(scope="session")
def machine(engine_name):
    """`tiny` with memories of latency 8 and full bandwidth."""
    transport = sim.open("tiny", board=BoardConfig.fast(), engine=engine_name)
    yield transport
    transport.close()


@pytest.fixture(scope="session")
def stalling(engine_name):
    """The same with memories that hold every fourth handshake back."""
    transport = sim.open("tiny", board=BoardConfig.fast(stall=64), engine=engine_name)
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
