"""The root of every exception of the project, and those of its lowest layer."""

__all__ = ["ConfigError", "EncodingError", "NpuError"]


class NpuError(Exception):
    """Any error of Celosia. The message says what, the value, the limit and the remedy."""


class ConfigError(NpuError, ValueError):
    """A size, name or setting with which no NPU, board or recording can be made."""


class EncodingError(NpuError, ValueError):
    """A value that does not fit the field of a register, descriptor or instruction word."""
