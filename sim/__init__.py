"""Runs the gateware: engines, the board around the NPU, waveforms and the `npu` command."""

from .link import open

__all__ = ["open"]
