"""The memory port keeps the rules of AXI4 in every cycle of a whole run."""

from types import SimpleNamespace

import numpy as np

from rt import Device
from rt.golden import matmul
from rt.ops import matmul as device_matmul
from sim.wave import Waveform
from tests.models.axi_checker import CHANNELS, AxiChecker
from tests.system.recording import AR, AW, B, R, W, record, samples

FIELDS = {
    "ar": (AR, ("addr", "id", "len", "size", "burst")),
    "r": (R, ("id", "last", "resp", "data")),
    "aw": (AW, ("addr", "id", "len", "size", "burst")),
    "w": (W, ("last", "strb", "data")),
    "b": (B, ("id", "resp")),
}


def seen(wave):
    """What is on the port in each cycle, as `AxiChecker.see` takes it."""
    def column(signal):
        return samples(wave, signal).tolist()

    columns = []
    for prefix, fields in (FIELDS[name] for name in CHANNELS):
        payloads = zip(*(column(f"{prefix}__payload.{field}") for field in fields), strict=True)
        valid, ready = column(f"{prefix}__valid"), column(f"{prefix}__ready")
        columns.append(zip(valid, ready, payloads, strict=True))
    for cycle in zip(*columns, strict=True):
        yield {
            name: (valid, ready, SimpleNamespace(**dict(zip(FIELDS[name][1], values, strict=True))))
            for name, (valid, ready, values) in zip(CHANNELS, cycle, strict=True)
        }


def test_a_product_with_copies_breaks_no_rule_of_axi_on_memories_that_stall(stalling, tmp_path):
    stalling.reset()
    rng = np.random.default_rng(9)
    a = rng.integers(-128, 128, (7, 11)).astype(np.int8)
    b = rng.integers(-128, 128, (11, 6)).astype(np.int8)
    text = rng.integers(0, 256, 777).astype(np.uint8)
    with record(stalling, tmp_path / "run.vcd") as path:
        device = Device(stalling, patience=20_000, watchdog=5_000)
        with device.session() as session:
            stream = session.stream()
            source = session.buffer(text, stream)
            target = session.empty(800, np.uint8)
            stream.copy(target.part(3, 777, "u1"), source)
            assert np.array_equal(device_matmul(session, a, b), matmul(a, b))
            assert np.array_equal(stream.download(target.part(3, 777, "u1")).result(), text)
    config = stalling.config
    checker = AxiChecker(config.data_bytes, config.burst_beats)
    for cycle in seen(Waveform(path)):
        checker.see(**cycle)
    assert checker.idle
    assert checker.passed["aw"] == checker.passed["b"] > 50
    assert min(checker.passed["r"], checker.passed["w"]) > 3 * 777 // config.data_bytes
