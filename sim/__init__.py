"""Runs the gateware: engines, the board around the NPU, waveforms and the `npu` command."""

from .link import open

__version__ = "0.1.0"

__all__ = ["open"]
