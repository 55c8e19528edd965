"""One small workload at `tiny`, recorded once."""

import pytest

import sim
from sim.bench.workload import record


@pytest.fixture(scope="session")
def workload():
    return record(sim.open("tiny", engine="pysim"), 4)
