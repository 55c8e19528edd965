"""How a word of bits is described: fields in order, each with width, meaning and reset.

Everything that crosses between hardware and software (registers, descriptors, instructions,
headers) is a subclass of `Layout`. Gateware derives its structures from it, the driver encodes
and decodes with it, and the documentation prints it; nothing is typed twice.
"""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self, overload

from .errors import EncodingError

__all__ = ["Array", "Field", "Layout", "Reserved", "snake_case"]


def snake_case(name: str) -> str:
    """How the word of class `name` is called in gateware and exports: RingBase is ring_base."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Field:
    """`width` bits with one meaning. Least significant first, in the order of the class body.

    Parameters
    ----------
    width: bits.
    doc: one line.
    enum: the names of its codes, if they are enumerated. Any other code is refused.
    signed: two's complement.
    reset: the value when nothing is given.
    below: name of the `NpuConfig` size that it must stay below. The device checks it.
    """

    count = 1

    def __init__(
        self,
        width: int,
        doc: str,
        *,
        enum: type[enum.IntEnum] | None = None,
        signed: bool = False,
        reset: int = 0,
        below: str | None = None,
    ) -> None:
        self.width = width
        self.doc = doc
        self.enum = enum
        self.signed = signed
        self.reset = reset
        self.below = below
        self.name = ""
        self.offset = 0  # bits; set by Layout

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Layout, owner: type) -> int: ...
    def __get__(self, instance: Layout | None, owner: type) -> Self | int:
        return self if instance is None else instance._values[self.name]

    @property
    def bits(self) -> int:
        """Bits of the whole field."""
        return self.width

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value that fit."""
        if self.signed:
            return -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        return 0, (1 << self.width) - 1

    def check(self, value: Any, where: str) -> int:
        """`value` as an int, or `EncodingError`."""
        try:
            number = operator.index(value)
        except TypeError:
            raise EncodingError(f"{where} takes an integer, not {value!r}") from None
        low, high = self.limits
        if not low <= number <= high:
            raise EncodingError(f"{where} is {number}; it must lie within {low} … {high}")
        if self.enum is not None and number not in set(self.enum):
            names = ", ".join(f"{member.name}={member.value}" for member in self.enum)
            raise EncodingError(f"{where} is {number}, which has no meaning; choose one of {names}")
        return number

    def pack(self, value: Any) -> int:
        return int(value) & ((1 << self.width) - 1)

    def unpack(self, raw: int) -> Any:
        raw &= (1 << self.width) - 1
        return raw - (1 << self.width) if self.signed and raw >> (self.width - 1) else raw


class Array(Field):
    """`count` equal elements of `width` bits each; its value is a tuple of ints."""

    def __init__(self, width: int, doc: str, *, count: int, signed: bool = False) -> None:
        super().__init__(width, doc, signed=signed)
        self.count = count

    @overload  # type: ignore[override]
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Layout, owner: type) -> tuple[int, ...]: ...
    def __get__(self, instance: Layout | None, owner: type) -> Self | tuple[int, ...]:
        return self if instance is None else instance._values[self.name]

    @property
    def bits(self) -> int:
        return self.width * self.count

    def check(self, value: Any, where: str) -> Any:
        if isinstance(value, int) and value == self.reset:
            value = ()
        try:
            values = tuple(value)
        except TypeError:
            raise EncodingError(f"{where} takes {self.count} integers, not {value!r}") from None
        if len(values) > self.count:
            raise EncodingError(f"{where} has {len(values)} elements; it takes up to {self.count}")
        values += (0,) * (self.count - len(values))
        return tuple(super(Array, self).check(v, f"{where}[{i}]") for i, v in enumerate(values))

    def pack(self, value: Any) -> int:
        return sum(super(Array, self).pack(v) << (i * self.width) for i, v in enumerate(value))

    def unpack(self, raw: int) -> Any:
        return tuple(super(Array, self).unpack(raw >> (i * self.width)) for i in range(self.count))


class Reserved(Field):
    """Bits without a meaning: zero. The device treats anything else as a fault."""

    def __init__(self, width: int) -> None:
        super().__init__(width, "Reserved, zero.")

    def check(self, value: Any, where: str) -> int:
        if value:
            raise EncodingError(f"{where} is reserved and must be 0, not {value!r}")
        return 0


class Layout:
    """A word made of fields. Subclasses list them; instances hold one value for each.

    ``Sqe(type=TaskType.NOP, task_id=7)`` checks every value against its field and raises
    `EncodingError`; `to_int`, `to_bytes` and their inverses convert. Instances are immutable
    and compare by value; `replace` gives a changed copy.
    """

    WIDTH: ClassVar[int]
    """Bits of the whole word."""
    BYTES: ClassVar[int]
    """Bytes of the whole word."""
    FIELDS: ClassVar[tuple[Field, ...]]
    """The fields, least significant first."""
    MASK: ClassVar[int]
    """The bits that have a meaning."""

    def __init_subclass__(cls, *, width: int | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fields = tuple(item for item in vars(cls).values() if isinstance(item, Field))
        offset = 0
        for field in fields:
            field.offset = offset
            offset += field.bits
        if width is not None:
            assert offset <= width, f"{cls.__name__} has {offset} bits, more than {width}"
        cls.FIELDS = fields
        cls.WIDTH = offset if width is None else width
        cls.BYTES = (cls.WIDTH + 7) // 8
        cls.MASK = sum(
            ((1 << field.bits) - 1) << field.offset
            for field in fields
            if not isinstance(field, Reserved)
        )

    def __init__(self, **values: Any) -> None:
        known = [field.name for field in self.FIELDS]
        for name in values:
            if name not in known:
                raise EncodingError(
                    f"{type(self).__name__} has no field {name!r}; it has {', '.join(known)}"
                )
        self._values: dict[str, Any] = {
            field.name: field.check(
                values.get(field.name, field.reset), f"{type(self).__name__}.{field.name}"
            )
            for field in self.FIELDS
        }

    def to_int(self) -> int:
        return sum(field.pack(self._values[field.name]) << field.offset for field in self.FIELDS)

    def to_bytes(self) -> bytes:
        return self.to_int().to_bytes(self.BYTES, "little")

    @classmethod
    def from_int(cls, raw: int) -> Self:
        """The fields of `raw` as they are: what the device wrote is shown, not refused."""
        self = cls.__new__(cls)
        self._values = {field.name: field.unpack(raw >> field.offset) for field in cls.FIELDS}
        return self

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        return cls.from_int(int.from_bytes(raw[: cls.BYTES], "little"))

    def replace(self, **changes: Any) -> Self:
        return type(self)(**{**self._values, **changes})

    def as_dict(self) -> Mapping[str, Any]:
        return dict(self._values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values == other._values

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._values.values())))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._values.items() if value)
        return f"{type(self).__name__}({shown})"
