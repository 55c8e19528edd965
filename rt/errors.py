"""Exceptions of the runtime."""

from hw.regs.errors import ConfigError, EncodingError, NpuError

__all__ = ["ConfigError", "EncodingError", "NpuError", "TransportError"]


class TransportError(NpuError):
    """The link to the NPU, or the device at its other end, refused an operation."""
