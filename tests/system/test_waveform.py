"""The whole machine in a waveform: each engine, at once or afterwards, writes the same bytes."""

import numpy as np

import sim
from rt import Device
from rt.ops import gemm
from sim.board.config import BoardConfig
from sim.wave import Waveform


def product(transport):
    """A product with its copies; what ran as a kernel."""
    device = Device(transport, patience=20_000, watchdog=5_000)
    with device.session() as session:
        stream = session.stream()
        rows, columns = np.arange(-36, 36).reshape(8, 9), np.arange(-28, 35).reshape(9, 7)
        left, right = [session.buffer(x.astype(np.int8), stream) for x in (rows, columns)]
        out = session.empty((8, 7), np.int32)
        (task,) = gemm(stream, left, right, out)
        session.synchronise()
    return task


def test_a_kernel_is_recorded_alike_by_both_engines(tmp_path):
    waves = []
    for engine in ("pysim", "compiled"):
        transport = sim.open("tiny", board=BoardConfig.fast(), engine=engine, history=True)
        task = product(transport)
        path = tmp_path / f"{engine}.vcd"
        assert transport.replay(f"task:{task.id}", vcd=path)
        transport.close()
        waves.append(path.read_bytes())
    assert waves[0] == waves[1]
    wave = Waveform(path)
    assert wave.last - wave.first > 50
    assert len(wave.signals) > 10_000
