"""The register map: no overlaps, all within the control space, and the capabilities."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.config import PRESETS, ConfigError, NpuConfig
from hw.regs.capability import SIZES, capabilities, config_from
from hw.regs.register import Access
from hw.regs.registers import (
    CONTEXT,
    REGISTER_MAP,
    STREAM,
    WINDOW,
    ArraySize,
    BusSize,
    Doorbell,
    FaultClear,
    Fingerprint,
    Identity,
    RingBase,
    StreamConfig,
    Version,
    WindowBase,
    WindowLimit,
)

GREATEST = NpuConfig(streams=32, contexts=16, windows=16)
REGISTERS = [register for block in REGISTER_MAP for register in block]


@pytest.mark.parametrize("config", [NpuConfig.preset("tiny"), GREATEST], ids=["tiny", "greatest"])
def test_registers_do_not_overlap_and_lie_in_the_control_space(config):
    taken = {}
    for block in REGISTER_MAP:
        for index in range(block.count(config)):
            for register in block:
                for word in range(register.words()):
                    address = block.address(register, index) + 4 * word
                    assert address < 1 << 16
                    assert address not in taken, f"{register} hides {taken[address]}"
                    taken[address] = register


@pytest.mark.parametrize("block", REGISTER_MAP, ids=lambda block: block.name)
def test_blocks_are_aligned_to_their_stride_and_hold_their_registers(block):
    assert block.stride & (block.stride - 1) == 0
    assert block.base % block.stride == 0
    for register in block:
        assert register.OFFSET % (4 * register.words()) == 0
        assert register.OFFSET + 4 * register.words() <= block.stride
    assert [r.OFFSET for r in block] == sorted(r.OFFSET for r in block)


def test_checked_fields_name_a_size_and_lie_in_one_word():
    checked = [field for register in REGISTERS for field in register.FIELDS if field.below]
    assert [field.name for field in checked] == ["slot", "counter"]
    for field in checked:
        assert 0 < getattr(GREATEST, field.below) <= 1 << field.width
        assert field.offset // 32 == (field.offset + field.bits - 1) // 32


def test_names_are_used_once():
    names = [register.__name__ for register in REGISTERS]
    assert len(names) == len(set(names))


def test_orders_are_never_split_over_two_words():
    for register in REGISTERS:
        if register.ACCESS in (Access.WO, Access.W1C):
            assert register.words() == 1


def test_windows_and_what_chooses_them_are_privileged():
    privileged = {register for register in REGISTERS if register.PRIVILEGED}
    assert privileged == {StreamConfig, WindowBase, WindowLimit}


def test_addresses_of_the_map():
    assert STREAM.address(RingBase, 0) == 0x4000
    assert STREAM.address(Doorbell, 31) == 0x5F18
    assert CONTEXT.address(FaultClear, 15) == 0x8F64
    assert WINDOW.address(WindowLimit, 255) == 0xCFF8


@pytest.mark.parametrize("preset", PRESETS)
def test_the_configuration_comes_back_from_the_capabilities(preset):
    config = NpuConfig.preset(preset)
    contents = capabilities(config)
    assert config_from(contents) == config
    raw = {register: register.from_int(word.to_int()) for register, word in contents.items()}
    assert config_from(raw) == config
    assert raw[Fingerprint].fingerprint == config.fingerprint
    assert raw[Identity].to_bytes() == b"CELO"
    assert raw[Version].major >= 1


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_every_size_comes_back_from_the_capabilities(choice):
    sizes = {}
    for name, (low, high) in NpuConfig.LIMITS.items():
        if name in NpuConfig.POWERS_OF_TWO:
            powers = [1 << n for n in range(20) if low <= 1 << n <= high]
            sizes[name] = choice.draw(st.sampled_from(powers))
        else:
            sizes[name] = choice.draw(st.integers(low, high))
    try:
        config = NpuConfig(**sizes)
    except ConfigError:
        return
    assert config_from(capabilities(config)) == config


def test_capabilities_are_all_constant_registers_and_all_sizes():
    contents = capabilities(NpuConfig())
    assert set(contents) == {r for r in REGISTERS if r.ACCESS is Access.CONST}
    shown = {field.name for register in SIZES for field in register.FIELDS}
    assert {field.name for field in dataclasses.fields(NpuConfig)} <= shown


def test_sizes_of_no_npu_are_refused():
    contents = capabilities(NpuConfig())
    with pytest.raises(ConfigError, match="rows is 0; it must lie within"):
        config_from({**contents, ArraySize: ArraySize()})
    with pytest.raises(ConfigError, match="burst_beats is 3; it must be a power of two"):
        config_from({**contents, BusSize: contents[BusSize].replace(burst_beats=3)})
