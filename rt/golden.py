"""What the matrix core computes, in numpy, bit for bit: compare results with these.

>>> sums = matmul(x, w)                                   # MATMUL
>>> sums = matmul(x2, w2, sums)                           # MATMUL with `accumulate`
>>> y = requantise(sums, bias, multiplier, shift, low=0)  # STORE as INT8, with ReLU
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hw.regs.instruction import ChannelRecord, Store
from hw.regs.layout import Field

from .errors import InvalidParameter

__all__ = ["add_bias", "integers", "matmul", "requantise"]

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]


def _checked(name: str, array: npt.ArrayLike, dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
    result = np.asarray(array)
    if result.dtype != dtype:
        raise InvalidParameter(f"{name} has dtype {result.dtype}; convert it to {np.dtype(dtype)}")
    return result


def integers(name: str, values: npt.ArrayLike, field: Field) -> npt.NDArray[np.int64]:
    """`values` as int64; raises unless they are integers that fit the field."""
    low, high = field.limits
    result = np.asarray(values)
    if not np.issubdtype(result.dtype, np.integer):
        raise InvalidParameter(f"{name} has dtype {result.dtype}; it must be of integers")
    if result.size and (result.min() < low or result.max() > high):
        raise InvalidParameter(
            f"{name} lies within {result.min()} … {result.max()}; "
            f"it must lie within {low} … {high}"
        )
    return result.astype(np.int64)


def matmul(activations: npt.ArrayLike, weights: npt.ArrayLike, sums: Any = None) -> Int32:
    """`activations` @ `weights` (+ `sums`), modulo 2^32.

    Parameters
    ----------
    activations: int8, M × K.
    weights: int8, K × N.
    sums: int32, M × N: what is accumulated to.
    """
    x = _checked("activations", activations, np.int8)
    w = _checked("weights", weights, np.int8)
    total = x.astype(np.int64) @ w.astype(np.int64)
    if sums is not None:
        total += _checked("sums", sums, np.int32)
    return total.astype(np.int32)


def add_bias(sums: npt.ArrayLike, bias: npt.ArrayLike) -> Int32:
    """What STORE writes as INT32 with `bias`: the sum modulo 2^32.

    Parameters
    ----------
    sums: int32, M × N.
    bias: int32, N.
    """
    total = _checked("sums", sums, np.int32).astype(np.int64)
    return (total + integers("bias", bias, ChannelRecord.bias)).astype(np.int32)


def requantise(
    sums: npt.ArrayLike,
    bias: npt.ArrayLike,
    multiplier: npt.ArrayLike,
    shift: npt.ArrayLike,
    *,
    zero_point: int = 0,
    low: int = -128,
    high: int = 127,
) -> Int8:
    """What STORE writes as INT8: clamp(zero_point + round((sums + bias) × multiplier ÷ 2^shift)).

    `sums + bias` has 33 bits and the product 64, so that nothing wraps; the quotient is rounded
    to the nearest integer, and half-way cases to the even one.

    Parameters
    ----------
    sums: int32, M × N.
    bias, multiplier, shift: N, or one for all: int32; 0 … 2^31 − 1; 0 … 63.
    zero_point, low, high: int8.
    """
    total = _checked("sums", sums, np.int32).astype(np.int64)
    total = total + integers("bias", bias, ChannelRecord.bias)
    bits = integers("shift", shift, ChannelRecord.shift)
    zero, least, greatest = (
        int(integers(field.name, value, field))
        for field, value in ((Store.zero_point, zero_point), (Store.low, low), (Store.high, high))
    )
    if least > greatest:
        raise InvalidParameter(f"low is {least}, more than high, which is {greatest}")
    product = total * integers("multiplier", multiplier, ChannelRecord.multiplier)
    quotient = product >> bits
    rest = product & ~(np.int64(-1) << bits)
    half = np.where(bits > 0, np.int64(1) << np.maximum(bits - 1, 0), np.iinfo(np.int64).max)
    quotient = quotient + ((rest > half) | ((rest == half) & (quotient & 1 == 1)))
    result: Int8 = np.clip(quotient + zero, least, greatest).astype(np.int8)
    return result
