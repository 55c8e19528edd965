"""Waveforms of a test's own machine, and what is counted in them cycle by cycle."""

from contextlib import contextmanager

import numpy as np

__all__ = ["AR", "AW", "B", "R", "W", "CONTROL_W", "channel", "record", "samples"]

AR, R, AW, W, B = (f"npu.memory__{name}" for name in ("ar", "r", "aw", "w", "b"))
"""Channels of the NPU's memory port in a waveform."""
CONTROL_W = "npu.control__w"


class _Span:
    """From the present cycle until it is told to stop: a `sim.engine.base.Capture`."""

    conditions = ()

    def __init__(self, start):
        self.start = start
        self.stop = None


@contextmanager
def record(transport, path):
    """Records the cycles of the body into `path`, which is complete behind it."""
    span = _Span(transport.now())
    transport.engine.capture(path, span)
    yield path
    span.stop = transport.now()
    transport.run_until(interrupt=False, cycle=span.stop + 1)


def samples(wave, signal):
    """Value of a signal in each cycle from `wave.first` to `wave.last`, as an array."""
    edges = [*wave.changes(signal), (wave.last + 1, 0)]
    lengths = [end - at for (at, _), (end, _) in zip(edges, edges[1:], strict=False)]
    return np.repeat([value for _, value in edges[:-1]], lengths)


def channel(wave, name):
    """Whether an item passes on a channel, and whether one waits, in each cycle."""
    valid = samples(wave, f"{name}__valid") != 0
    ready = samples(wave, f"{name}__ready") != 0
    return valid & ready, valid & ~ready
