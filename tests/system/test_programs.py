"""Random programs on the whole machine against the functional model of the device.

Both get the same calls; then all of device memory and everything that was downloaded is equal, and
no task began before what it depends on had ended.
"""

import random

import pytest

from rt import Device
from tests.models.device import ModelDevice
from tests.models.kernel import DeviceKernels
from tests.system.programs import check_order, open_sides, play


def check(transport, seed, programs, steps=7):
    """Several programs, one after the other, on the machine and on the model."""
    transport.reset()
    transport.write_device(0, bytes(transport.device_bytes))
    model = ModelDevice(transport.config, kernel=DeviceKernels(transport.config),
                        device_bytes=transport.device_bytes)  # fmt: skip
    device = Device(transport, patience=20_000, watchdog=5_000)
    golden = Device(model, patience=100_000)
    sides, expected_sides = (open_sides(random.Random(seed), each) for each in (device, golden))
    for number in range(programs):
        name = f"{seed}.{number}"
        results = play(random.Random(name), sides, steps)
        expected = play(random.Random(name), expected_sides, steps)
        assert results == expected, name
        assert transport.device_memory() == model.memory.device, name
        check_order(sides)
        check_order(expected_sides)
        assert len(device.events.free) == device.config.events


@pytest.mark.parametrize("seed", range(5))
def test_four_random_programs_equal_the_functional_model(machine, seed):
    check(machine, seed, 4)


@pytest.mark.parametrize("seed", range(2))
def test_two_random_programs_on_memories_that_stall_equal_the_functional_model(stalling, seed):
    check(stalling, f"stall {seed}", 2)


@pytest.mark.parametrize("seed", range(60))
def test_five_longer_random_programs_equal_the_functional_model(machine, stalling, seed):
    check(stalling if seed % 3 == 0 else machine, f"more {seed}", 5, steps=16)
