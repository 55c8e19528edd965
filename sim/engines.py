"""Which engine runs a simulated NPU, and why that one."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any, NamedTuple

from hw.config import NpuConfig
from hw.regs.errors import ConfigError

from .board.config import BoardConfig
from .engine.base import Engine
from .engine.cache import Cache
from .engine.compiler import INSTALL, compiler
from .engine.keys import design_key

__all__ = ["ENGINES", "Choice", "choose", "make_engine"]

ENGINES = ("auto", "compiled", "pysim")
"""Names of the engines; `auto` is the fastest that is there."""
KEPT = ("irq", "accesses__ready", "answers__valid", "answers__payload", "npu.trace_*")
"""Combinational signals at hand at full speed: the host's, and those that say what runs where."""


class Choice(NamedTuple):
    """An engine, by name, and why it is that one."""

    name: str
    why: str
    advice: str | None = None
    """How to get a faster one."""


def choose(name: str) -> Choice:
    """What `auto` means here; every other name of `ENGINES` means itself."""
    if name not in ENGINES:
        raise ConfigError(f"no engine is called {name!r}; choose one of {', '.join(ENGINES)}")
    if name != "auto":
        return Choice(name, "chosen")
    found = compiler(Cache())
    if found is None:
        advice = f"the engine compiled is thousands of times faster: {INSTALL} brings a C compiler"
        return Choice("pysim", "no C compiler", advice)
    return Choice("compiled", f"by {found.name}")


def make_engine(name: str, config: NpuConfig, board: BoardConfig, npu: Any = None) -> Engine:
    """An engine with an NPU on its board.

    What is compiled is cached, unless `npu` gives a component of its own.

    Parameters
    ----------
    name: "compiled" or "pysim".
    npu: a component to use in place of `Npu(config)`.
    """

    def make() -> Any:
        from .board.board import Board

        if npu is not None:
            return Board(npu, config, board)
        from hw.npu import Npu

        return Board(Npu(config), config, board)

    # Each engine is imported when it is used, so that the other's start is no slower.
    if name == "pysim":
        from .engine.pysim import PysimEngine

        return PysimEngine(make(), clock_mhz=config.clock_mhz)
    from .engine.compiled import CompiledBoard

    key = None if npu is not None else design_key("board", config, board, KEPT)
    return CompiledBoard(make, clock_mhz=config.clock_mhz, keep=KEPT, key=key)
