import numpy as np
import pytest

from hw.config import PRESETS, NpuConfig
from hw.regs.capability import capabilities
from hw.regs.registers import (
    ArraySize,
    CompletionConfig,
    Fingerprint,
    Identity,
    InterruptEnable,
    RingBase,
    StreamCommand,
    StreamConfig,
    StreamState,
    Version,
    Watchdog,
    WindowLimit,
)
from rt import Device
from rt.driver import Driver
from rt.errors import ConfigError, EncodingError, IncompatibleDevice
from tests.models.device import ModelDevice


@pytest.mark.parametrize("preset", PRESETS)
def test_the_configuration_comes_from_the_device(preset):
    config = NpuConfig.preset(preset)
    assert Driver(ModelDevice(config)).config == config


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [
        (Identity, Identity(ident=7), "says 0x00000007, not 0x4f4c4543 .CELO.: it is no Celosia"),
        (Version, Version(major=9, minor=3, isa=1), r"map 9\.3 and ISA 1, .* map 1\.x and ISA 1"),
        (Version, Version(isa=77), r"map 1\.0 and ISA 77, .* map 1\.x and ISA 1"),
        (Fingerprint, Fingerprint(fingerprint=5), "reports fingerprint 0x00000005, its sizes"),
    ],
)
def test_a_device_that_is_not_understood_is_refused(register, value, message):
    model = ModelDevice(NpuConfig.preset("tiny"))
    model.constants[register] = value
    with pytest.raises(IncompatibleDevice, match=message):
        Driver(model)


def test_a_newer_minor_version_is_accepted():
    model = ModelDevice(NpuConfig.preset("tiny"))
    model.constants[Version] = Version(minor=200)
    assert Driver(model).config.rows == 4


def test_impossible_sizes_are_refused():
    model = ModelDevice(NpuConfig.preset("tiny"))
    model.constants[ArraySize] = ArraySize(rows=3, columns=4)
    with pytest.raises(ConfigError, match="rows is 3; it must be a power of two"):
        Driver(model)


def test_registers_by_name():
    config = NpuConfig.preset("tiny")
    driver = Driver(ModelDevice(config))
    driver.write(RingBase(address=0x89_1234_5640), StreamConfig(size=5, priority=3), index=2)
    driver.write(Watchdog(cycles=77))
    assert driver.read(RingBase, 2).address == 0x89_1234_5640
    assert driver.read(StreamConfig, 2).priority == 3
    assert driver.read(StreamConfig, 1) == StreamConfig()
    assert driver.read_all((ArraySize, Watchdog)) == [
        capabilities(config)[ArraySize], Watchdog(cycles=77)
    ]  # fmt: skip
    with pytest.raises(EncodingError, match="must lie within"):
        driver.write(StreamConfig(priority=8))


def test_interrupts_are_told_by_cause_and_cleared():
    config = NpuConfig.preset("tiny")
    model = ModelDevice(config)
    driver = Driver(model)
    driver.write(InterruptEnable(stopped=1), index=1)
    driver.write(StreamConfig(size=3, context=1), StreamCommand(start=1), index=0)
    assert driver.interrupts() == {}
    driver.write(StreamCommand(abort=1), index=0)
    assert model.irq
    causes = driver.interrupts()
    assert list(causes) == [1]
    assert causes[1].as_dict() | dict(reserved=0) == dict(
        completion=0, fault=0, full=0, stopped=1, callback=0, reserved=0
    )
    assert not model.irq


def test_windows_open_and_close():
    config = NpuConfig.preset("tiny")
    driver = Driver(ModelDevice(config))
    driver.window(1, 2, 64, 127, execute=True)
    limit = driver.read(WindowLimit, 1 * config.windows + 2)
    assert (limit.address, limit.read, limit.write, limit.execute) == (127, 1, 1, 1)
    driver.close_window(1, 2)
    assert driver.read(WindowLimit, 1 * config.windows + 2) == WindowLimit()


def test_a_device_that_another_driver_left_running_is_taken_over():
    model = ModelDevice(NpuConfig.preset("tiny"), kernel=None)
    first = Device(model)
    session = first.session()
    stream, event = session.stream(), session.event()
    for _ in range(2 * first.config.events):
        stream.record(event)
        stream.synchronise()
    second = Device(model)
    assert second.driver.stream_state(stream.number) is StreamState.DISABLED
    with second.session() as session:
        one, two, event = session.stream(), session.stream(), session.event()
        one.record(event)
        assert event.record.generation == 3
        two.wait(event)
        session.synchronise()


def test_a_new_driver_ends_completions_interrupts_and_windows_of_another():
    model = ModelDevice(NpuConfig.preset("tiny"))
    first = Device(model)
    for session in (first.session(), first.session()):
        stream, buffer = session.stream(), session.empty(64, np.uint8)
        stream.fill(buffer, 1)
    first.driver.window(1, 3, 0, 63)  # no session opens this one
    model.run_until(interrupt=True, cycle=None)
    config = Device(model).config
    assert not model.irq
    for context in range(config.contexts):
        assert model.get(CompletionConfig, context) == CompletionConfig()
        assert model.get(InterruptEnable, context) == InterruptEnable()
    for window in range(config.contexts * config.windows):
        assert model.get(WindowLimit, window) == WindowLimit()


def test_engines_have_names():
    driver = Driver(ModelDevice(NpuConfig.preset("tiny")))
    names = [driver.engine_name(number) for number in (0, 1, 2, 3, 4, 0xFE, 0xFF, 9)]
    assert names == [
        "copy0", "copy1", "core0", "control", "value", "queue", "completion", "engine 9"
    ]
