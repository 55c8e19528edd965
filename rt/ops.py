"""Operations on device buffers, as kernels on a stream."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hw.regs.instruction import ChannelRecord, OutputFormat

from .copy import check_array
from .errors import InvalidParameter
from .golden import integers
from .kernel.gemm import GemmShape, gemm_kernel, greatest_columns
from .memory import Buffer
from .session import Session
from .stream import Stream
from .task import Task

__all__ = ["Requantisation", "channel_table", "gemm", "matmul"]

FIELDS = np.dtype({
    "names": ["bias", "multiplier", "shift"],
    "formats": ["<i4", "<i4", "u1"],
    "offsets": [
        field.offset // 8
        for field in (ChannelRecord.bias, ChannelRecord.multiplier, ChannelRecord.shift)
    ],
    "itemsize": ChannelRecord.BYTES,
})  # fmt: skip


@dataclass(frozen=True)
class Requantisation:
    """How int32 sums become int8: scales are in the channel table, these are the rest.

    ReLU is ``low = zero_point``.
    """

    zero_point: int = 0
    low: int = -128
    high: int = 127


def channel_table(
    bias: npt.ArrayLike | None = None,
    multiplier: npt.ArrayLike | None = None,
    shift: npt.ArrayLike | None = None,
    *,
    channels: int,
) -> npt.NDArray[np.uint8]:
    """The constants of `channels` output channels as bytes, to be uploaded for `gemm`.

    bias: int32. multiplier: 0 … 2^31 − 1. shift: 0 … 63. Each has one element or `channels`;
    without them a channel has no bias and the scale 1.
    """
    if channels < 1:
        raise InvalidParameter(f"the table is for {channels} channels; it must be at least 1")
    records = np.zeros(channels, FIELDS)
    for field, given in (
        (ChannelRecord.bias, 0 if bias is None else bias),
        (ChannelRecord.multiplier, 1 if multiplier is None else multiplier),
        (ChannelRecord.shift, 0 if shift is None else shift),
    ):
        values = np.asarray(given)
        if values.ndim > 1 or values.size not in (1, channels):
            raise InvalidParameter(
                f"{field.name} has shape {values.shape}; it takes one element or {channels}"
            )
        records[field.name] = integers(field.name, values, field)
    return records.view(np.uint8)


def gemm(
    stream: Stream,
    a: Buffer,
    b: Buffer,
    out: Buffer,
    *,
    table: Buffer | None = None,
    requantise: Requantisation | None = None,
    profile: bool = False,
) -> list[Task]:
    """Enqueues out = a @ b.

    Parameters
    ----------
    a: int8, M × K. b: int8, K × N. out: M × N, int32, or int8 with `requantise`.
    table: `channel_table` of N channels, in device memory. Needed for int8; for int32 its bias
        is added.
    requantise: how sums become int8.
    profile: the launches carry start, end and counters after synchronise.

    Returns
    -------
    The launches, one for each group of columns that one kernel can take.

    Raises
    ------
    InvalidParameter: shapes or dtypes that do not fit.
    """
    with stream.monitor:
        return _gemm(stream, a, b, out, table, requantise, profile)


def _gemm(
    stream: Stream,
    a: Buffer,
    b: Buffer,
    out: Buffer,
    table: Buffer | None,
    requantise: Requantisation | None,
    profile: bool,
) -> list[Task]:
    (m, k), n = _check(a, b, out, table, requantise)
    config = stream.session.device.config
    step = greatest_columns(config)
    element = out.dtype.itemsize
    launches = []
    for first in range(0, n, step):
        shape = GemmShape(
            m=m, n=min(step, n - first), k=k, pitch_a=k, pitch_b=n, pitch_c=n * element,
            output=OutputFormat.INT32 if requantise is None else OutputFormat.INT8,
            bias=table is not None,
            zero_point=requantise.zero_point if requantise else 0,
            low=requantise.low if requantise else 0,
            high=requantise.high if requantise else 0,
        )  # fmt: skip
        kernel = stream.session.load(gemm_kernel(shape, config))
        inputs = [a, _from(b, first)]
        if table is not None:
            inputs.append(_from(table, first * ChannelRecord.BYTES))
        outputs = [_from(out, first * element)]
        launches.append(stream.launch(kernel, inputs=inputs, outputs=outputs, profile=profile))
    return launches


def matmul(
    session: Session,
    a: npt.NDArray[np.int8],
    b: npt.NDArray[np.int8],
    *,
    bias: npt.NDArray[np.int32] | None = None,
) -> npt.NDArray[np.int32]:
    """a @ b (+ bias) as int32, modulo 2^32: uploads, multiplies, downloads and waits.

    a: int8, M × K. b: int8, K × N. bias: int32, N.
    """
    for name, array in (("a", a), ("b", b)):
        check_array(array, np.dtype(np.int8))
        if array.ndim != 2:
            raise InvalidParameter(f"{name} has {array.ndim} dimensions; it must have 2")
    with session.monitor, session.stream() as stream, ExitStack() as buffers:

        def keep(buffer: Buffer) -> Buffer:
            buffers.callback(buffer.allocation.free)
            return buffer

        left, right = keep(session.buffer(a, stream)), keep(session.buffer(b, stream))
        out = keep(session.empty((a.shape[0], b.shape[1]), np.int32))
        table = None
        if bias is not None:
            table = keep(session.buffer(channel_table(bias, channels=b.shape[1]), stream))
        gemm(stream, left, right, out, table=table)
        return stream.download(out).result()


def _from(buffer: Buffer, offset: int) -> Buffer:
    """The bytes of `buffer` from `offset` on."""
    return buffer.part(offset, buffer.nbytes - offset, np.uint8)


def _check(
    a: Buffer,
    b: Buffer,
    out: Buffer,
    table: Buffer | None,
    requantise: Requantisation | None,
) -> tuple[tuple[int, int], int]:
    for name, buffer, dtype in (
        ("a", a, np.int8), ("b", b, np.int8),
        ("out", out, np.int32 if requantise is None else np.int8),
    ):  # fmt: skip
        if buffer.dtype != dtype:
            raise InvalidParameter(
                f"{name} has dtype {buffer.dtype}; gemm takes {np.dtype(dtype)} there"
            )
        if len(buffer.shape) != 2:
            raise InvalidParameter(f"{name} has shape {buffer.shape}; it must have 2 dimensions")
    (m, k), (k_b, n) = a.shape, b.shape
    if k != k_b:
        raise InvalidParameter(f"a is {m} × {k} and b {k_b} × {n}; a's columns must be b's rows")
    if out.shape != (m, n):
        raise InvalidParameter(f"out has shape {out.shape}; the product has ({m}, {n})")
    if requantise is not None:
        if table is None:
            raise InvalidParameter("int8 output needs the scales of a channel table; give table=")
        values = (requantise.low, requantise.zero_point, requantise.high)
        if not all(-128 <= value <= 127 for value in values) or requantise.low > requantise.high:
            raise InvalidParameter(
                f"{requantise} is no int8 range; -128 … 127 and low ≤ high are needed"
            )
    if table is not None and table.nbytes < n * ChannelRecord.BYTES:
        raise InvalidParameter(
            f"the table has {table.nbytes} bytes; {n} channels need {n * ChannelRecord.BYTES}"
        )
    return (m, k), n
