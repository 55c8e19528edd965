"""Random stimuli for random designs: inputs, resets and clocks of different ratios."""

import random
import warnings

from amaranth.hdl import ClockSignal, Fragment, Module, ResetSignal, SyntaxWarning
from amaranth.hdl._ast import SignalDict

__all__ = ["joined", "number", "stimulus"]

CHANGES = {
    "inputs": (0.6, 0.2, 0.05),
    "registers": (0.05, 0, 0.2),
    "resets": (0.1, 0.3, 0),
}
"""How often each is set before a clock moves; a stimulus has one of these rates."""


def joined(found):
    """One prepared design of several random ones, and what of it a stimulus may drive."""
    top = Module()
    built = []
    for index, each in enumerate(found):
        names = each.build()
        setattr(top.submodules, f"d{index}", names["m"])
        built.append((each, names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of what a person would not write
        warnings.simplefilter("ignore", DeprecationWarning)  # of domains that a submodule defines
        design = Fragment.get(top, None).prepare()
    return design, {
        kind: _used(design, built, kind) for kind in ("inputs", "registers", "resets", "clocks")
    }


def _used(design, built, kind):
    """The signals that the texts of the random designs mean, if they are part of the design."""
    found = SignalDict()
    for each, names in built:
        for text in getattr(each, kind):
            signal = eval(text, names)
            if isinstance(signal, ClockSignal | ResetSignal):
                sync = design.fragment.domains.get("sync")
                if sync is None:
                    continue
                signal = sync.clk if isinstance(signal, ClockSignal) else sync.rst
            if signal in design.signal_lca:
                found[signal] = None
    return list(found)


def stimulus(driven, seed, ticks):
    """Steps for `lockstep`. Clocks move alone, and so do resets: see `designs`."""
    random_ = random.Random(seed)
    clocks = [
        (clock, random_.choice((1, 1, 2, 3)), random_.randrange(3)) for clock in driven["clocks"]
    ]
    levels = SignalDict((clock, 0) for clock, _, _ in clocks)
    rates = {kind: random_.choice(choices) for kind, choices in CHANGES.items()}
    for tick in range(ticks):
        for kinds in (("inputs", "registers"), ("resets",)):
            step = SignalDict()
            for kind in kinds:
                for signal in driven[kind]:
                    if random_.random() < rates[kind]:
                        step[signal] = number(random_, len(signal))
            if step:
                yield step
        moved = SignalDict()
        for clock, period, phase in clocks:
            if (tick + phase) % period == 0:
                levels[clock] = moved[clock] = 1 - levels[clock]
        if moved:
            yield moved


def number(random_, width):
    """Often an end of the range, or of a part of it, or few bits."""
    bit = random_.randrange(width + 1)
    return random_.choice(
        (0, 1, -1, 1 << max(width - 1, 0), (1 << bit) - 1, 1 << bit, -1 << bit, -2 - bit,
         random_.getrandbits(3), *(random_.getrandbits(130) for _ in range(4)))
    ) & ((1 << width) - 1)  # fmt: skip
