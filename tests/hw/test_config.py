"""Sizes that no NPU can have are refused; derived sizes are what they say."""

import pytest

from hw.config import HOST_BASE, PRESETS, ConfigError, NpuConfig
from hw.regs.errors import NpuError
from hw.regs.registers import EngineStatus


@pytest.mark.parametrize("name", NpuConfig.LIMITS)
def test_each_size_has_limits(name):
    low, high = NpuConfig.LIMITS[name]
    for value in (low - 1, high + 1):
        message = f"{name} is {value}; it must lie within {low} … {high}"
        with pytest.raises(ConfigError, match=message) as caught:
            NpuConfig(**{name: value})
        assert isinstance(caught.value, NpuError)


@pytest.mark.parametrize("value", [4.0, "4", None])
def test_sizes_are_integers(value):
    with pytest.raises(ConfigError, match="rows is .*; it must lie within"):
        NpuConfig(rows=value)


@pytest.mark.parametrize("name", NpuConfig.POWERS_OF_TWO)
def test_memory_like_sizes_are_powers_of_two(name):
    low, high = NpuConfig.LIMITS[name]
    value = next(n for n in range(low, high) if n & (n - 1))
    with pytest.raises(ConfigError, match=f"{name} is {value}; it must be a power of two"):
        NpuConfig(**{name: value})


def test_bursts_stay_within_4_kib():
    assert NpuConfig(columns=128, burst_beats=32).burst_bytes == 4096
    for columns in (2, 4, 8):
        assert NpuConfig(columns=columns, burst_beats=32).burst_bytes == 256


def test_engines_are_no_more_than_a_register_can_show():
    greatest = {name: high for name, (_, high) in NpuConfig.LIMITS.items()}
    engines = NpuConfig(copy_channels=greatest["copy_channels"], cores=greatest["cores"]).engines
    assert len(engines) <= EngineStatus.busy.width


def test_an_unknown_preset_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match="no preset is called 'huge'; choose one of tiny, small"):
        NpuConfig.preset("huge")


def test_a_preset_can_be_changed():
    config = NpuConfig.preset("tiny", streams=3)
    assert (config.rows, config.columns, config.streams) == (4, 4, 3)
    with pytest.raises(ConfigError, match="streams is 33"):
        NpuConfig.preset("tiny", streams=33)


@pytest.mark.parametrize(
    ("preset", "side"), [("tiny", 4), ("small", 8), ("base", 16), ("large", 32)]
)
def test_presets_have_their_arrays(preset, side):
    config = NpuConfig.preset(preset)
    assert (config.rows, config.columns) == (side, side)
    assert config.data_bytes == max(8, side)
    assert preset in PRESETS


def test_base_has_the_sizes_of_the_design():
    config = NpuConfig.preset("base")
    assert config.scratchpad_words * config.word_bytes == 256 << 10
    assert config.accumulator_rows * config.columns * 4 == 64 << 10
    assert config.outstanding >= 32
    assert HOST_BASE == 1 << 39


def test_engines_and_clients_are_named_in_the_order_of_their_numbers():
    config = NpuConfig(copy_channels=2)
    assert config.engines == ("copy0", "copy1", "core0", "control", "value")
    assert config.read_clients == ("queue", "value", "copy0", "copy1", "code0", "load0")
    assert config.write_clients == ("completion", "value", "copy0", "copy1", "store0")
    assert 1 << (config.id_bits - 1) >= len(config.read_clients)
    config = NpuConfig(copy_channels=1, cores=2)
    assert config.engines == ("copy0", "core0", "core1", "control", "value")
    assert config.read_clients == ("queue", "value", "copy0", "code0", "load0", "code1", "load1")
    assert config.write_clients == ("completion", "value", "copy0", "store0", "store1")


def test_the_fingerprint_changes_with_what_kernels_depend_on_and_nothing_else():
    config = NpuConfig.preset("tiny")
    assert NpuConfig.preset("tiny", streams=2, outstanding=4).fingerprint == config.fingerprint
    for name in ("rows", "columns", "scratchpad_words", "accumulator_rows", "instructions"):
        changed = NpuConfig.preset("tiny", **{name: getattr(config, name) * 2})
        assert changed.fingerprint != config.fingerprint, name


def test_cycles_in_nanoseconds():
    assert NpuConfig().nanoseconds(7) == 7
    assert NpuConfig(clock_mhz=500).nanoseconds(7) == 14


def test_configurations_are_values():
    assert NpuConfig() == NpuConfig.preset("base")
    assert NpuConfig(**NpuConfig().as_dict()) == NpuConfig()
    with pytest.raises(AttributeError):
        NpuConfig().rows = 3
