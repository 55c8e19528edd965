"""Generated gemm kernels on the golden model of the core, against numpy."""

import random
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hw.config import NpuConfig
from hw.regs.instruction import ChannelRecord, OutputFormat
from rt.errors import KernelError
from rt.kernel.assembler import assemble, disassemble
from rt.kernel.gemm import GemmShape, gemm_kernel, greatest_columns
from tests.models.kernel import KernelModel

TINY = NpuConfig.preset("tiny")
WIDE = NpuConfig.preset("tiny", rows=2, columns=8)
TALL = NpuConfig.preset("tiny", rows=8, columns=4)
CONFIGS = {"tiny": TINY, "wide": WIDE, "tall": TALL, "base": NpuConfig.preset("base")}


def run_gemm(config, m, n, k, *, int8, seed=0, extremes=False, order=lambda units: units):
    rng = np.random.default_rng(seed)
    values = [-128, 127] if extremes else np.arange(-128, 128)
    a = rng.choice(values, (m, k)).astype(np.int8)
    b = rng.choice(values, (k, n)).astype(np.int8)
    bias = rng.integers(-(2**31), 2**31, n) if extremes else rng.integers(-999, 999, n)
    multiplier = rng.integers(0, 2**31, n)
    shift = rng.integers(30, 50, n)
    table = b"".join(
        ChannelRecord(bias=int(x), multiplier=int(y), shift=int(z)).to_bytes()
        for x, y, z in zip(bias, multiplier, shift, strict=True)
    )
    size = 1 if int8 else 4
    where = [64, 64 + a.size + 7, 0, 0]
    where[2] = where[1] + b.size + 5
    where[3] = where[2] + len(table) + 3
    memory = bytearray(where[3] + m * n * size + 16)
    for at, data in zip(where, (a.tobytes(), b.tobytes(), table), strict=False):
        memory[at : at + len(data)] = data
    shape = GemmShape(
        m, n, k, pitch_a=k, pitch_b=n, pitch_c=n * size, bias=True,
        output=OutputFormat.INT8 if int8 else OutputFormat.INT32,
        zero_point=3 if int8 else 0, low=-100 if int8 else 0, high=90 if int8 else 0,
    )  # fmt: skip
    binary = gemm_kernel(shape, config)
    model = KernelModel(config, memory)
    model.run(binary, [*where[:3], 0, 0, 0, 0, 0, where[3]], order)
    result = bytes(memory[where[3] : where[3] + m * n * size])
    sums = a.astype(np.int64) @ b.astype(np.int64)
    exact = [[int(x) for x in row] for row in sums + bias]
    if int8:
        expected = [
            [min(max(nearest_even(x * int(y), int(z)) + 3, -100), 90)
             for x, y, z in zip(row, multiplier, shift, strict=True)]
            for row in exact
        ]  # fmt: skip
        assert result == np.array(expected, np.int8).tobytes()
    else:
        assert result == (np.array(exact) & 0xFFFFFFFF).astype(np.uint32).tobytes()
    return binary, model


def nearest_even(value, shift):
    quotient, rest = divmod(value, 1 << shift)
    return quotient + (2 * rest > 1 << shift or (2 * rest == 1 << shift and quotient % 2))


@given(
    st.sampled_from(list(CONFIGS)),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 90),
    st.booleans(),
    st.integers(0, 2**32),
)
@example("tiny", 1, 1, 1, True, 0)
@example("tiny", 4, 4, 4, False, 0)
@example("tiny", 5, 5, 5, True, 0)
@example("tiny", 3, 3, 3, True, 0)
@example("tiny", 97, 13, 31, True, 0)
@example("base", 17, 15, 31, True, 0)
@example("base", 600, 33, 257, True, 0)
def test_any_shape_equals_numpy_however_the_units_interleave(name, m, n, k, int8, seed):
    shuffle = random.Random(seed)
    run_gemm(
        CONFIGS[name], m, n, k, int8=int8, seed=seed,
        order=lambda units: shuffle.sample(units, len(units)),
    )  # fmt: skip


@pytest.mark.parametrize("favourite", ["load", "compute", "store"])
@pytest.mark.parametrize("int8", [False, True])
def test_no_unit_overtakes_a_buffer_in_use(favourite, int8):
    """Runs one unit as far ahead as tokens allow: a missing token would corrupt the result."""
    run_gemm(
        TINY, 150, 22, 50, int8=int8,
        order=lambda units: sorted(units, key=lambda unit: unit != favourite),
    )  # fmt: skip


@pytest.mark.parametrize("int8", [False, True])
def test_extreme_values_wrap_and_clamp_as_numpy_says(int8):
    run_gemm(TINY, 9, 7, 33, int8=int8, extremes=True)


def test_every_mac_is_done_once():
    _, model = run_gemm(TINY, 8, 8, 12, int8=True)
    assert model.macs == 8 * 8 * 12


@pytest.mark.parametrize("name", CONFIGS)
def test_code_fits_the_smallest_instruction_memory(name):
    config = CONFIGS[name]
    binary, _ = run_gemm(config, 70, 37, 95, int8=True)
    assert (len(binary) - 32) // 16 <= config.instructions
    assert assemble(disassemble(binary)) == binary


@pytest.mark.parametrize("field", ["m", "n", "k"])
def test_empty_shapes_are_refused(field):
    shape = {**dict(m=1, n=1, k=1), field: 0}
    with pytest.raises(KernelError, match=f"gemm has {field} = 0; it must be at least 1"):
        gemm_kernel(GemmShape(**shape, pitch_a=1, pitch_b=1, pitch_c=4), TINY)


def test_too_many_columns_are_refused_with_the_limit():
    limit = greatest_columns(TINY)
    message = f"n = {limit + 1}; one kernel takes up to {limit} columns"
    with pytest.raises(KernelError, match=re.escape(message)):
        gemm_kernel(GemmShape(1, limit + 1, 1, pitch_a=1, pitch_b=1, pitch_c=4), TINY)
