"""Where what a design's user asks for is: signals, memories and messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .layout import Place

__all__ = ["CheckInfo", "MemoryInfo", "Piece", "Slot"]


@dataclass(frozen=True)
class Piece:
    """Bits of a signal: `width` bits from `position` on are those of a value from `shift` on.

    Without a place, they are always `constant`.
    """

    position: int
    width: int
    place: Place | None
    shift: int = 0
    constant: int = 0
    element: int | None = None
    """Its number, when it can be set."""


@dataclass(frozen=True)
class Slot:
    """Where a signal's value lies."""

    width: int
    pieces: tuple[Piece, ...]

    @property
    def settable(self) -> bool:
        return all(piece.element is not None for piece in self.pieces)


@dataclass(frozen=True)
class MemoryInfo:
    """A memory of the design. `external` names one whose bytes belong to the engine."""

    name: str
    width: int
    depth: int
    row_bytes: int
    offset: int
    data: Any
    external: str | None
    wakes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CheckInfo:
    """A `Print` or a property: texts, and values as (bits, format, whether signed)."""

    kind: str
    chunks: tuple[str | tuple[int, str, bool], ...]
    source: tuple[str, int] | None
    module: str
    clocked: bool
    """It reports what was so when a cycle was left."""
