"""Copies and kernels beside each other: how much they overlap, and how busy all can be."""

from __future__ import annotations

import numpy as np

from hw.config import NpuConfig
from hw.regs.instruction import Address, End, Load, Loop, Matmul, Next, Source, Store
from hw.regs.pmu import PmuEvent
from rt.kernel.assembler import encode
from rt.ops import gemm
from rt.stream import Stream
from rt.task import Task

from .scene import Counts, Scene, end, start
from .sheet import Point, Raw, Sample, Sheet, Target, between

__all__ = ["Pipeline", "overlap", "saturation"]

STAGES = 16
"""Of the pipeline. With equal ones 2 × 16 ÷ 17 = 1.88 is the most that overlap can give."""
ROWS = 8
"""Of a product: so many cycles of the array."""
COMPUTE = 1024
"""Cycles of the array in the kernel of a stage, beside the latencies of both memories."""
COPIES = 8
KERNELS = 24
"""Tasks of each stream that saturates the device."""
BEATS = 1024
"""Of each of these copies."""
WINDOW = 7000
"""Cycles in which the saturated device is looked at: several tasks of each stream end in it."""


def repeated_product(config: NpuConfig, times: int) -> bytes:
    """A kernel that computes more than it loads: so many times the product of two operands.

    Inputs: int8, `ROWS` × rows of the array, and rows × columns of the array. Output: int32.
    """
    left, right, out, left_words, right_words, sums = range(6)
    product = dict(
        activations=left_words, weights=right_words, accumulators=sums, rows=ROWS,
        depth=config.rows,
    )  # fmt: skip
    return encode([
        Address(register=left, source=Source.ARGUMENT, argument=0),
        Address(register=right, source=Source.ARGUMENT, argument=1),
        Address(register=out, source=Source.ARGUMENT, argument=8),
        Address(register=left_words),
        Address(register=right_words, offset=ROWS),
        Address(register=sums),
        Load(memory=left, local=left_words, rows=ROWS, row_bytes=config.rows, pitch=config.rows),
        Load(memory=right, local=right_words, rows=config.rows, row_bytes=config.columns,
             pitch=config.columns, signal_next=1),
        Matmul(**product, wait_previous=1),
        Loop(count=times - 2), Matmul(**product, accumulate=1, keep=1), Next(),
        Matmul(**product, accumulate=1, keep=1, signal_next=1),
        Store(memory=out, accumulators=sums, rows=ROWS, columns=config.columns,
              pitch=4 * config.columns, wait_previous=1),
        End(),
    ], config.fingerprint)  # fmt: skip


class Pipeline:
    """Stages that copy a block from the host and multiply what it begins with, in two buffers.

    Copies and kernels take equally long, to a few cycles: the size of a block is chosen so.

    Attributes
    ----------
    times, left, right: each kernel gives `times` × left @ right.
    outs: where the results go, in turn.
    """

    def __init__(self, scene: Scene) -> None:
        self._session = session = scene.session
        config, board = scene.config, scene.transport.board_config
        self.times = (COMPUTE + board.host_latency + board.device_latency) // ROWS
        self._kernel = session.load(repeated_product(config, self.times))
        rng = np.random.default_rng(scene.random.randrange(1 << 32))
        self.left = rng.integers(-128, 128, (ROWS, config.rows), np.int8)
        self.right = rng.integers(-128, 128, (config.rows, config.columns), np.int8)
        self.outs = [session.empty((ROWS, config.columns), np.int32) for _ in range(2)]
        self._weights = session.buffer(self.right)
        self._resize(COMPUTE * config.data_bytes)
        stream = scene.streams[0]
        for _ in range(2):  # the first brings the code into the core
            copy, kernel = self._copy(stream, 0), self._multiply(stream, 0)
            session.synchronise()
        more = (kernel.profile.cycles - copy.profile.cycles) * config.data_bytes
        self._resize(max(self.left.nbytes, len(self._block) + more))

    def _resize(self, size: int) -> None:
        self._block = np.zeros(size, np.int8)
        self._block[: self.left.size] = self.left.reshape(-1)
        self._targets = [self._session.empty(size, np.int8) for _ in range(2)]

    def _copy(self, stream: Stream, stage: int) -> Task:
        return stream.upload(self._targets[stage % 2], self._block, profile=True)

    def _multiply(self, stream: Stream, stage: int) -> Task:
        operands = self._targets[stage % 2], self._weights
        return stream.launch(self._kernel, operands, [self.outs[stage % 2]], profile=True)

    def run(self, copies: Stream, kernels: Stream) -> tuple[Point, Point]:
        """Runs all stages on one stream or two: the first start and the last end."""
        session = self._session
        copied, multiplied = ([session.event() for _ in range(2)] for _ in range(2))
        with copies.batch(), kernels.batch():
            for stage in range(STAGES):
                copies.wait(multiplied[stage % 2])
                copy = self._copy(copies, stage)
                copies.record(copied[stage % 2])
                kernels.wait(copied[stage % 2])
                kernel = self._multiply(kernels, stage)
                kernels.record(multiplied[stage % 2])
                if not stage:
                    first = copy
        session.synchronise()
        return start(first), end(kernel)


def overlap(scene: Scene, sheet: Sheet) -> None:
    """The same stages on one stream and on two."""
    pipeline = Pipeline(scene)
    one, two, *_ = scene.streams
    serial, parallel = pipeline.run(one, one), pipeline.run(one, two)
    group = f"{STAGES} uploads and {STAGES} kernels, equally long"
    sheet.add(group, "one stream", between(*serial))
    sheet.add(group, "two streams", between(*parallel))
    points = (*serial, *parallel)
    sheet.add(
        group, "one ÷ two streams",
        Sample(
            tuple(point.cycle for point in points),
            lambda recording: tuple(point.find(recording) for point in points),
        ),
        Target(1.8, least=True), unit="×", value=_ratio,
    )  # fmt: skip


def _ratio(raw: Raw) -> float:
    return (raw[1] - raw[0]) / (raw[3] - raw[2])


def saturation(scene: Scene, sheet: Sheet) -> None:
    """Copies on two streams and products on a third: what a window in the middle shows."""
    session, config = scene.session, scene.config
    size = 2 * config.columns
    left, right = (session.empty((size, size), np.int8) for _ in range(2))
    out = session.empty((size, size), np.int32)
    blocks = [session.empty(BEATS * config.data_bytes, np.uint8) for _ in range(4)]
    scene.calm()
    scene.count(PmuEvent.CORE_BUSY, PmuEvent.READ_BEATS)
    kernels, *copies = scene.opener, *scene.streams[:2]
    with kernels.batch(), copies[0].batch(), copies[1].batch():
        for _ in range(KERNELS):
            gemm(kernels, left, right, out)
        for _ in range(COPIES):
            copies[0].copy(blocks[0], blocks[1])
            copies[1].copy(blocks[2], blocks[3])
    scene.settle()
    before = Counts(scene)
    scene.transport.run_until(interrupt=False, cycle=before.cycle + WINDOW)
    after = Counts(scene)
    session.synchronise()
    busy, beats = (after.values[n] - before.values[n] for n in range(2))
    first, stop = before.cycle, after.cycle
    cores = [engine for engine in config.engines if engine.startswith("core")]
    group = "copies and kernels at once"
    target = Target(95, least=True)
    sheet.add(
        group, "core busy",
        Sample((busy, len(cores) * (stop - first)), lambda recording: (
            sum(recording.busy(core, first, stop) for core in cores), len(cores) * (stop - first)
        )), target, unit="%", value=_share,
    )  # fmt: skip
    sheet.add(
        group, "read channel beats",
        Sample((beats, stop - first), lambda recording: (
            recording.beats(first, stop), stop - first
        )), target, unit="%", value=_share,
    )  # fmt: skip


def _share(raw: Raw) -> float:
    return 100 * raw[0] / raw[1]
