"""A machine with two cores."""

import numpy as np
import pytest

import sim
from hw.config import NpuConfig
from hw.regs.pmu import PmuEvent
from hw.regs.registers import PmuCommand, PmuControl, PmuSelect, PmuValue
from rt import Device
from rt.golden import matmul
from rt.kernel.assembler import assemble
from rt.ops import gemm
from sim.board.config import BoardConfig

SPIN = """
LOOP count=300
NEXT
END
"""
WRITE = """
ADDRESS register=r0 source=ARGUMENT argument=output0
STORE memory=r0 accumulators=r1 rows=1 columns=4 pitch=16
""" + SPIN.lstrip()


@pytest.fixture(scope="module", params=["pysim", pytest.param("compiled", marks=pytest.mark.slow)])
def pair(request):
    config = NpuConfig.preset("tiny", cores=2)
    transport = sim.open(config=config, board=BoardConfig.fast(), engine=request.param)
    yield transport
    transport.close()


def test_two_streams_compute_at_the_same_time(pair):
    device = Device(pair, patience=20_000, watchdog=5_000)
    driver = device.driver
    assert device.config.engines == (
        "copy0", "copy1", "core0", "core1", "control", "value",
    )  # fmt: skip
    rng = np.random.default_rng(1)
    events = (PmuEvent.CORE_BUSY, PmuEvent.MACS)
    with device.session() as session:
        work = []
        for _ in range(2):
            stream = session.stream()
            a, b = (rng.integers(-128, 128, (12, 12)).astype(np.int8) for _ in range(2))
            buffers = session.buffer(a, stream), session.buffer(b, stream)
            work.append((stream, *buffers, session.empty((12, 12), np.int32), matmul(a, b)))
        session.synchronise()
        for n, event in enumerate(events):
            driver.write(PmuSelect(event=event), index=n)
        driver.write(PmuControl(enable=1))
        tasks = [gemm(stream, a, b, out, profile=True)[0] for stream, a, b, out, _ in work]
        session.synchronise()
        driver.write(PmuCommand(snapshot=1))
        busy, macs = (driver.read(PmuValue, n).value for n in range(2))
        first, second = (task.profile for task in tasks)
        assert (first.engine, second.engine) == ("core0", "core1")
        assert second.start < first.end
        assert first.start < second.end
        assert busy >= sum(profile.end - profile.start for profile in (first, second))
        assert macs == 2 * 12**3
        for stream, _, _, out, expected in work:
            assert np.array_equal(stream.download(out).result(), expected)


def test_code_that_one_core_discards_is_discarded_by_the_other(pair):
    """Two kernels at one address, of which both cores have run the first."""
    device = Device(pair, patience=20_000, watchdog=5_000)
    with device.session() as session:
        streams = [session.stream() for _ in range(2)]
        outs = [session.empty(4, np.int32) for _ in streams]

        def launch(kernel):
            """Which outputs the kernel has written when both cores have run it."""
            for stream, out in zip(streams, outs, strict=True):
                stream.fill(out, 0x11)
            session.synchronise()
            tasks = [stream.launch(kernel, outputs=[out], profile=True)
                     for stream, out in zip(streams, outs, strict=True)]  # fmt: skip
            session.synchronise()
            assert {task.profile.engine for task in tasks} == {"core0", "core1"}
            found = [stream.download(out) for stream, out in zip(streams, outs, strict=True)]
            return [bool((task.result() != 0x11111111).any()) for task in found]

        writing = session.load(assemble(WRITE, device.config.fingerprint))
        assert launch(writing) == [True, True]
        writing.free()
        spinning = session.load(assemble(SPIN, device.config.fingerprint))
        assert spinning.address == writing.address
        assert spinning.stale
        streams[0].launch(spinning)
        session.synchronise()
        assert not spinning.stale  # so the next launches read it from where a core has it
        assert launch(spinning) == [False, False]
