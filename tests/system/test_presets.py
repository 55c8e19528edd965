"""The whole machine in every preset, and with arrays that are not square."""

import numpy as np
import pytest

import sim
from hw.config import NpuConfig
from rt import Device
from rt.golden import matmul, requantise
from rt.ops import Requantisation, channel_table, gemm
from sim.board.config import BoardConfig

SIZES = {
    "small": {},
    "base": {},
    "large": {},
    "tiny, wide": dict(rows=2, columns=8),
    "tiny, tall": dict(rows=16, columns=4),
    "tiny, one of each": dict(streams=1, contexts=1, windows=2, staging=1, copy_channels=1,
                              outstanding=1),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["pysim", pytest.param("compiled", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SIZES)
def test_a_product_with_edges_is_exact_and_the_driver_reads_the_sizes(name, engine):
    """Too short a run for it to be compiled each time; with -m slow it is."""
    config = NpuConfig.preset(name.split(",")[0], **SIZES[name])
    transport = sim.open(config=config, board=BoardConfig.fast(), engine=engine)
    device = Device(transport, patience=20_000, watchdog=5_000)
    assert device.config == config
    rng = np.random.default_rng(3)
    m, n, k = config.columns + 3, config.columns + 1, config.rows * 2 + 5
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    multiplier, shift = rng.integers(1 << 29, 1 << 30, n), np.full(n, 38)
    with device.session() as session:
        stream = session.stream()
        left, right = session.buffer(a, stream), session.buffer(b, stream)
        table = session.buffer(channel_table(7, multiplier, shift, channels=n), stream)
        wide, narrow = session.empty((m, n), np.int32), session.empty((m, n), np.int8)
        gemm(stream, left, right, wide)
        gemm(stream, left, right, narrow, table=table, requantise=Requantisation(low=-90))
        results = stream.download(wide), stream.download(narrow)
        session.synchronise()
        sums = matmul(a, b)
        assert np.array_equal(results[0].result(), sums)
        expected = requantise(sums, np.full(n, 7), multiplier, shift, low=-90)
        assert np.array_equal(results[1].result(), expected)
    transport.close()
