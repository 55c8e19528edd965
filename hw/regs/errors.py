"""The root of every exception of the project, and those of its lowest layer."""

__all__ = ["ConfigError", "EncodingError", "NpuError"]


class NpuError(Exception):
    """Any error of Celosia. The message says what, the value, the limit and the remedy."""


class ConfigError(NpuError, ValueError):
    """A size of an `NpuConfig`, or the name of a preset, that no NPU can have."""


class EncodingError(NpuError, ValueError):
    """A value that does not fit the field of a register, descriptor or instruction word."""
