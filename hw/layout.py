"""Amaranth structures from the descriptions in `hw.regs`."""

from amaranth import signed, unsigned
from amaranth.lib import data

from .regs.layout import Array, Layout

__all__ = ["struct"]


def struct(layout: type[Layout]) -> data.StructLayout:
    """The structure with the fields of `layout`, bit for bit, padded to its width.

    Enumerated fields are plain numbers here: what memory holds may be any of them.
    """
    members = {}
    for field in layout.FIELDS:
        shape = signed(field.width) if field.signed else unsigned(field.width)
        if isinstance(field, Array):
            shape = data.ArrayLayout(shape, field.count)
        members[field.name] = shape
    used = sum(field.bits for field in layout.FIELDS)
    if used < layout.WIDTH:
        members["padding"] = unsigned(layout.WIDTH - used)
    return data.StructLayout(members)
