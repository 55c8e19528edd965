"""Numbered codes that say what they mean."""

from __future__ import annotations

import enum
from typing import Self

__all__ = ["Code"]


class Code(enum.IntEnum):
    """An enumeration whose members are written as `NAME = number, "One line."`."""

    doc: str
    """What the code means."""

    def __new__(cls, value: int, doc: str) -> Self:
        self = int.__new__(cls, value)
        self._value_ = value
        self.doc = doc
        return self
