"""Fixtures of the runtime's tests: a fresh model device, and a session on it."""

import pytest

from tests.rt.machine import machine


@pytest.fixture
def device():
    with machine() as device:
        yield device


@pytest.fixture
def session(device):
    return device.session()
