"""Generates kernels that multiply int8 matrices of any shape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hw.config import NpuConfig
from hw.regs.instruction import (
    Address,
    Channel,
    ChannelRecord,
    Condition,
    End,
    Grant,
    Load,
    Loop,
    Matmul,
    Next,
    OutputFormat,
    Rotate,
    Skip,
    Source,
    Store,
    Stride,
)
from hw.regs.layout import Layout

from ..errors import KernelError
from .assembler import encode

__all__ = ["GemmShape", "gemm_kernel", "greatest_columns"]

A, B, TABLE, C, TABLE_LOCAL, SUMS, LEFT, RIGHT = 0, 1, 2, 3, 4, 5, 6, 11
"""Address registers; LEFT and RIGHT are the first of `TILES` each."""
TILES = 5
"""Greatest number of weight tiles in one block."""
N_LOOP, M_LOOP, K_LOOP = 0, 1, 2
INPUT_A, INPUT_B, INPUT_TABLE, OUTPUT_C = 0, 1, 2, 8
"""Argument words."""


@dataclass(frozen=True)
class GemmShape:
    """C[m × n] = A[m × k] @ B[k × n], all row-major, with rows `pitch_*` bytes apart.

    int32 output is the plain sum (+ bias); int8 output is requantised with the channel table
    and clamped to low … high.
    """

    m: int
    n: int
    k: int
    pitch_a: int
    pitch_b: int
    pitch_c: int
    output: OutputFormat = OutputFormat.INT32
    bias: bool = False
    zero_point: int = 0
    low: int = 0
    high: int = 0

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of C."""
        return 1 if self.output == OutputFormat.INT8 else 4

    @property
    def needs_table(self) -> bool:
        return self.bias or self.output == OutputFormat.INT8


@dataclass(frozen=True)
class Plan:
    """How a shape is cut: blocks of `rows` × (`tiles` weight tiles) × one column tile."""

    rows: int
    tiles: int
    buffers: int
    """Blocks of A and B in the scratchpad, and results in the accumulators."""
    table_words: int
    """Words of the channel table of one column tile."""
    b_start: int
    table_start: int


def greatest_columns(config: NpuConfig) -> int:
    """Columns of B that one kernel takes: their channel table fills a quarter of the scratchpad."""
    return config.scratchpad_words // 4 // _table_words(config) * config.columns


@functools.lru_cache(maxsize=256)
def gemm_kernel(shape: GemmShape, config: NpuConfig) -> bytes:
    """The kernel binary for `shape`. Inputs: A, B, channel table if needed; output: C.

    The load unit fetches the next block of A and B while the array works on this one, and the
    store unit writes one result while the next is summed. Edges are smaller blocks, cut by the
    kernel itself: nothing is padded in memory.
    """
    for name in ("m", "n", "k"):
        if getattr(shape, name) < 1:
            raise KernelError(f"gemm has {name} = {getattr(shape, name)}; it must be at least 1")
    if shape.n > greatest_columns(config):
        raise KernelError(
            f"gemm has n = {shape.n}; one kernel takes up to {greatest_columns(config)} columns "
            "of B: cut it by columns"
        )
    for tiles in range(TILES, 0, -1):
        code = list(_program(shape, config, _plan(shape, config, tiles)))
        if len(code) <= config.instructions:
            return encode(code, config.fingerprint)
    raise KernelError(
        f"the gemm kernel has {len(code)} instructions; this NPU holds {config.instructions}"
    )


def _table_words(config: NpuConfig) -> int:
    return -(-config.columns * ChannelRecord.BYTES // config.word_bytes)


def _plan(shape: GemmShape, config: NpuConfig, tiles: int) -> Plan:
    depth_tiles = -(-shape.k // config.rows)
    # A load packs rows into words: only where a word is as deep as the array can one load
    # bring several tiles.
    tiles = min(tiles, depth_tiles) if config.rows == config.word_bytes else 1
    table_words = _table_words(config)
    column_tiles = -(-shape.n // config.columns)
    table = column_tiles * table_words if shape.needs_table else 0
    room = config.scratchpad_words - table
    buffers = 2
    rows = min(shape.m, config.accumulator_rows // buffers)
    rows = min(rows, (room // buffers - tiles * config.rows) // tiles)
    if rows < 1:
        if tiles > 1:
            return _plan(shape, config, tiles - 1)
        raise KernelError(
            f"the scratchpad of {config.scratchpad_words} words has no room for two blocks "
            f"beside a channel table of {table} words: cut the gemm by columns"
        )
    b_start = buffers * rows * tiles
    return Plan(
        rows=rows, tiles=tiles, buffers=buffers, table_words=table_words, b_start=b_start,
        table_start=b_start + buffers * tiles * config.rows,
    )  # fmt: skip


def _program(shape: GemmShape, config: NpuConfig, plan: Plan) -> Iterator[Layout]:
    yield Grant(load=plan.buffers, compute=plan.buffers)
    for tile in range(plan.tiles):
        yield Address(register=LEFT + tile, offset=tile)
        yield Address(register=RIGHT + tile, offset=plan.b_start + tile * config.rows)
    yield Address(register=SUMS)
    if shape.needs_table:
        yield from _load_table(shape, config, plan)
    for first_column, columns, column_tiles in _cut(shape.n, config.columns):
        for first_row, rows, row_blocks in _cut(shape.m, plan.rows):
            yield from _operands(shape, config, plan, first_column, first_row)
            yield Loop(count=column_tiles)
            yield Loop(count=row_blocks)
            yield from _result(shape, config, plan, rows, columns)
            yield Next()
            yield Next()
    yield End()


def _cut(length: int, block: int) -> Iterator[tuple[int, int, int]]:
    """(first, size, count) of the whole blocks and of the rest, where there are any."""
    whole, rest = divmod(length, block)
    if whole:
        yield 0, block, whole
    if rest:
        yield whole * block, rest, 1


def _load_table(shape: GemmShape, config: NpuConfig, plan: Plan) -> Iterator[Layout]:
    """A CHANNEL reads a record for each column of the array, and reserved bits set are illegal:
    the columns that the last tile does not have get its first record, over what was there."""
    size = ChannelRecord.BYTES
    for first, columns, tiles in _cut(shape.n, config.columns):
        start = plan.table_start + first // config.columns * plan.table_words
        used = -(-columns * size // config.word_bytes)
        spare = (plan.table_words - used) // -(-size // config.word_bytes)
        yield Address(
            register=TABLE, source=Source.ARGUMENT, argument=INPUT_TABLE, offset=first * size
        )
        yield Address(register=TABLE_LOCAL, offset=start)
        yield Load(
            memory=TABLE, local=TABLE_LOCAL, rows=tiles, row_bytes=columns * size,
            pitch=config.columns * size,
        )  # fmt: skip
        if spare:
            yield Address(register=TABLE_LOCAL, offset=start + used)
            yield Load(memory=TABLE, local=TABLE_LOCAL, rows=spare, row_bytes=size, pitch=0)


def _operands(
    shape: GemmShape, config: NpuConfig, plan: Plan, first_column: int, first_row: int
) -> Iterator[Layout]:
    """Address registers for a region that starts at that column and row."""
    depth = plan.tiles * config.rows
    size = shape.element_bytes
    yield from _register(
        A, INPUT_A, first_row * shape.pitch_a,
        {M_LOOP: plan.rows * shape.pitch_a, K_LOOP: depth},
    )  # fmt: skip
    yield from _register(
        B, INPUT_B, first_column, {N_LOOP: config.columns, K_LOOP: depth * shape.pitch_b}
    )
    yield from _register(
        C, OUTPUT_C, first_row * shape.pitch_c + first_column * size,
        {N_LOOP: config.columns * size, M_LOOP: plan.rows * shape.pitch_c},
    )  # fmt: skip
    if shape.needs_table:
        first_tile = first_column // config.columns
        yield Address(register=TABLE_LOCAL, offset=plan.table_start + first_tile * plan.table_words)
        yield Stride(register=TABLE_LOCAL, level=N_LOOP, stride=plan.table_words)


def _register(
    register: int, argument: int, offset: int, strides: dict[int, int]
) -> Iterator[Layout]:
    yield Address(register=register, source=Source.ARGUMENT, argument=argument, offset=offset)
    for level, stride in strides.items():
        yield Stride(register=register, level=level, stride=stride)


def _result(
    shape: GemmShape, config: NpuConfig, plan: Plan, rows: int, columns: int
) -> Iterator[Layout]:
    """One result of `rows` × `columns`: its blocks over k, then the store."""
    depth = plan.tiles * config.rows
    blocks = -(-shape.k // depth)
    yield Loop(count=blocks)
    if blocks > 1:
        block = list(_block(shape, config, plan, rows, columns, depth, _first_or_later))
        yield Skip(condition=Condition.LAST, level=K_LOOP, count=len(block))
        yield from block
    last_depth = shape.k - (blocks - 1) * depth
    lead = _later if blocks > 1 else _first
    block = list(_block(shape, config, plan, rows, columns, last_depth, lead, signal_next=1))
    yield Skip(condition=Condition.NOT_LAST, level=K_LOOP, count=len(block))
    yield from block
    yield Next()
    if shape.needs_table:
        yield Channel(local=TABLE_LOCAL, wait_previous=1)
    int8 = shape.output == OutputFormat.INT8
    yield Store(
        memory=C, accumulators=SUMS, rows=rows, columns=columns, pitch=shape.pitch_c,
        format=shape.output, bias=int(shape.bias), wait_previous=int(not shape.needs_table),
        signal_previous=1, zero_point=shape.zero_point if int8 else 0,
        low=shape.low if int8 else 0, high=shape.high if int8 else 0,
    )  # fmt: skip
    yield Rotate(registers=1 << SUMS, step=plan.rows, size=plan.buffers * plan.rows)


def _block(
    shape: GemmShape,
    config: NpuConfig,
    plan: Plan,
    rows: int,
    columns: int,
    depth: int,
    lead: Callable[[Matmul], Iterator[Layout]],
    signal_next: int = 0,
) -> Iterator[Layout]:
    """Loads a block of A and B of that depth and multiplies it, tile by tile.

    `lead` places the first MATMUL: it alone may begin a new sum.
    """
    tiles = -(-depth // config.rows)
    yield Load(memory=A, local=LEFT, rows=rows, row_bytes=depth, pitch=shape.pitch_a, wait_next=1)
    yield Load(
        memory=B, local=RIGHT, rows=depth, row_bytes=columns, pitch=shape.pitch_b, signal_next=1
    )
    for tile in range(tiles):
        last = tile == tiles - 1
        matmul = Matmul(
            activations=LEFT + tile, weights=RIGHT + tile, accumulators=SUMS, rows=rows,
            depth=depth - tile * config.rows if last else config.rows, pitch=tiles,
            accumulate=1, wait_previous=int(tile == 0), signal_previous=int(last),
            signal_next=signal_next if last else 0,
        )  # fmt: skip
        yield from lead(matmul) if tile == 0 else (matmul,)
    step = plan.rows * plan.tiles
    yield Rotate(registers=_mask(LEFT, plan.tiles), step=step, size=plan.buffers * step)
    step = plan.tiles * config.rows
    yield Rotate(registers=_mask(RIGHT, plan.tiles), step=step, size=plan.buffers * step)


def _mask(first: int, count: int) -> int:
    return ((1 << count) - 1) << first


def _first(matmul: Matmul) -> Iterator[Layout]:
    """Begins a new sum, as soon as the accumulators have been stored."""
    yield matmul.replace(accumulate=0, wait_next=1)


def _later(matmul: Matmul) -> Iterator[Layout]:
    """Goes on with the sum."""
    yield matmul


def _first_or_later(matmul: Matmul) -> Iterator[Layout]:
    """Begins a new sum in the first turn of the loop over k, goes on in the others."""
    yield Skip(condition=Condition.NOT_FIRST, level=K_LOOP, count=1)
    yield from _first(matmul)
    yield Skip(condition=Condition.FIRST, level=K_LOOP, count=1)
    yield from _later(matmul)
