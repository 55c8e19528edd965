"""Sizes and timing of a board."""

from __future__ import annotations

from dataclasses import dataclass

from hw.config import HOST_BASE
from hw.regs.errors import ConfigError

__all__ = ["BoardConfig"]


@dataclass(frozen=True)
class BoardConfig:
    """What surrounds the NPU. Impossible values raise `ConfigError`.

    Memories are allocated page by page as they are used.
    """

    device_bytes: int = 1 << 30
    """Bytes of device memory, at address 0."""
    host_bytes: int = 1 << 30
    """Bytes of host memory, at `HOST_BASE`."""
    device_latency: int = 100
    """Cycles from an address taken to the first beat, and from the last write beat to its answer,
    in device memory."""
    host_latency: int = 400
    """The same in host memory."""
    device_interval: int = 1
    """Cycles from beat to beat in device memory: 1 is full bandwidth."""
    host_interval: int = 2
    """The same in host memory."""
    stall: int = 0
    """Out of 256, how often the memories hold back a handshake for a cycle."""
    seed: int = 1
    """Seed of the stalls."""

    LIMITS = {
        "device_bytes": (4096, HOST_BASE),
        "host_bytes": (4096, HOST_BASE),
        "device_latency": (2, 1 << 20),
        "host_latency": (2, 1 << 20),
        "device_interval": (1, 1 << 16),
        "host_interval": (1, 1 << 16),
        "stall": (0, 240),
        "seed": (0, 1 << 32),
    }

    def __post_init__(self) -> None:
        for name, (low, high) in self.LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"{name} is {value!r}; it must lie within {low} … {high}")
        for name in ("device_bytes", "host_bytes"):
            if getattr(self, name) % 4096:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be a multiple of 4096")

    @classmethod
    def fast(cls, **changes: int) -> BoardConfig:
        """Short latencies and full bandwidth on both sides, for tests of behaviour."""
        values = {
            "device_bytes": 1 << 20, "host_bytes": 1 << 20,
            "device_latency": 8, "host_latency": 8, "host_interval": 1,
        }  # fmt: skip
        return cls(**{**values, **changes})
