"""Everything that is measured, in rounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..link import SimTransport
from .events import dependencies, dependents, fan_out
from .load import overlap, saturation
from .recording import Recording, signals
from .replays import callbacks, nodes
from .scene import Scene
from .sheet import Difference, Sheet
from .starts import doorbells, interrupts, successors

__all__ = ["LOADS", "PATHS", "measure"]

PATHS = (dependents, dependencies, fan_out, doorbells, successors, interrupts, nodes, callbacks)
"""Short paths, measured in every round."""
LOADS = (overlap, saturation)
"""Long runs, measured once."""


def measure(
    transport: SimTransport,
    vcd: Path,
    *,
    rounds: int,
    seed: int,
    loads: bool = True,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Sheet, list[Difference]]:
    """Measures, records the run into `vcd`, and compares. Closes `transport`.

    Gives all samples, and those on which device and waveform differ. loads: long runs, too.
    """
    sheet = Sheet()
    transport.capture(vcd, scopes=signals(transport.config))
    scene = Scene(transport, seed)
    for done in range(rounds):
        progress(done)
        for path in PATHS:
            path(scene, sheet)
    for load in LOADS if loads else ():
        load(scene, sheet)
    transport.close()
    return sheet, sheet.differences(Recording(vcd))
