"""Products of any shape on the whole machine, equal to numpy's bit for bit."""

import numpy as np
import pytest

from rt.golden import add_bias, matmul, requantise
from rt.ops import Requantisation, channel_table, gemm
from rt.ops import matmul as device_matmul

SHAPES = [
    (1, 1, 1), (4, 4, 4), (3, 3, 3), (5, 5, 5), (1, 13, 7), (11, 1, 5), (7, 11, 1), (13, 7, 23),
    (4, 8, 41), (66, 5, 9),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_int32_products_of_any_shape_equal_numpy(session, m, n, k):
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    assert np.array_equal(device_matmul(session, a, b), matmul(a, b))


@pytest.mark.parametrize("seed", range(4))
def test_random_int8_products_equal_the_golden_requantisation(session, seed):
    rng = np.random.default_rng(seed)
    m, n, k = rng.integers(1, 12, 2).tolist() + [int(rng.integers(1, 30))]
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    bias = rng.integers(-5000, 5000, n)
    multiplier = rng.integers(1 << 20, 1 << 31, n)
    shift = rng.integers(30, 45, n)
    how = Requantisation(zero_point=int(rng.integers(-20, 20)), low=-90, high=int(seed * 30 + 20))
    stream = session.stream()
    out = session.empty((m, n), np.int8)
    gemm(
        stream, session.buffer(a, stream), session.buffer(b, stream), out,
        table=session.buffer(channel_table(bias, multiplier, shift, channels=n), stream),
        requantise=how,
    )  # fmt: skip
    result = stream.download(out).result()
    expected = requantise(
        matmul(a, b), bias, multiplier, shift,
        zero_point=how.zero_point, low=how.low, high=how.high,
    )  # fmt: skip
    assert np.array_equal(result, expected)


def test_extreme_values_wrap_as_int32_does(session):
    a = np.full((5, 9), -128, np.int8)
    b = np.full((9, 6), -128, np.int8)
    bias = np.array([2**31 - 1, -(2**31), 0, -1, 2**31 - 147456, 1], np.int32)
    result = device_matmul(session, a, b, bias=bias)
    assert np.array_equal(result, add_bias(matmul(a, b), bias))
