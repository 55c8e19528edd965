"""The registers that never change: identity, versions and every size of the device."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import NpuConfig
from .register import Access, Register
from .registers import (
    REGISTER_MAP,
    ArraySize,
    BusSize,
    Clock,
    Fingerprint,
    MemorySize,
    ProtectionSize,
    QueueSize,
)  # fmt: skip

__all__ = ["SIZES", "capabilities", "config_from"]

SIZES: tuple[type[Register], ...] = (
    ArraySize, MemorySize, QueueSize, ProtectionSize, BusSize, Clock,
)  # fmt: skip
"""Registers whose fields have the names and values of those of `NpuConfig`."""


def capabilities(config: NpuConfig) -> dict[type[Register], Register]:
    """The contents of every CONST register of a device of that configuration."""
    contents = {
        register: register()
        for block in REGISTER_MAP
        for register in block
        if register.ACCESS is Access.CONST
    }
    sizes = config.as_dict()
    for register in SIZES:
        named = {field.name: sizes[field.name] for field in register.FIELDS if field.name in sizes}
        contents[register] = register(**named)
    contents[Fingerprint] = Fingerprint(fingerprint=config.fingerprint)
    return contents


def config_from(values: Mapping[type[Register], Register]) -> NpuConfig:
    """The configuration of the device that showed these registers; needs those of `SIZES`.

    Raises `ConfigError` when they are not the sizes of any NPU. That the identity and versions
    are known, and that the fingerprint agrees, is for the driver to check.
    """
    return NpuConfig(
        **{
            field.name: getattr(values[register], field.name)
            for register in SIZES
            for field in register.FIELDS
            if field.name in NpuConfig.LIMITS
        }
    )
