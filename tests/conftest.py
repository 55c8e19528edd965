"""Settings of all tests, and the engine that simulations run on."""

import os

import pytest
from hypothesis import settings

from tests import simulation

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=20, database=None)
settings.register_profile("explore", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

ENGINES = os.environ.get("CELOSIA_ENGINE", ",".join(simulation.ENGINES)).split(",")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    """Name of the engine; tests that use this run on each, or on those in `CELOSIA_ENGINE`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "engine", request.param)
        yield request.param
