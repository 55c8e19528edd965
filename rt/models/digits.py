"""The main example: a quantised 64-32-10 network that reads handwritten digits.

Copies run on one stream and kernels on another; hardware events order them, so that the next
images are copied in while the array works and no host stands between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter, Unsupported
from ..event import Event
from ..golden import add_bias, matmul, requantise
from ..ops import Requantisation, channel_table, gemm
from ..session import Session
from ..task import Download, Task

__all__ = ["DigitsNetwork", "DigitsRun", "Inference", "images_and_labels", "split"]

WEIGHTS_FILE = Path(__file__).with_name("digits.npz")
SPLIT_SEED = 1
AHEAD = 3
"""Batches that are submitted before the oldest is waited for: events and rings are finite."""
RELU = Requantisation(zero_point=0, low=0, high=127)

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]


def images_and_labels() -> tuple[Int8, npt.NDArray[np.int64]]:
    """scikit-learn's digits: 1,797 images of 64 pixels, 0 … 16, and what they show.

    Without scikit-learn `Unsupported`.
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise Unsupported(
            "the digits come with scikit-learn, which is not installed; "
            "pip install 'celosia[digits]'"
        ) from None
    data: Any = load_digits()
    return data.data.astype(np.int8), data.target.astype(np.int64)


def split(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Indices of the images that are trained on (two thirds) and of those that are kept."""
    order = np.random.default_rng(SPLIT_SEED).permutation(count)
    return order[: count * 2 // 3], order[count * 2 // 3 :]


@dataclass(frozen=True)
class Inference:
    """What the network makes of N images."""

    hidden: Int8
    """N × 32."""
    logits: Int32
    """N × 10."""

    @property
    def predictions(self) -> npt.NDArray[np.int64]:
        """The digit of each image."""
        predictions: npt.NDArray[np.int64] = np.argmax(self.logits, axis=1)
        return predictions


@dataclass(frozen=True)
class DigitsRun:
    """An inference on the device, and what the device measured of it."""

    inference: Inference
    kernels: list[Task]
    """Launches, in order: two layers for each batch."""
    uploaded: list[int]
    """Cycles of the records of the finished copies that each batch's first layer waits for."""
    images: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates that the network needs, whatever the tiles are."""
        return self.images * (64 * 32 + 32 * 10)

    @property
    def event_latencies(self) -> list[int]:
        """Cycles from each copy's record to the start of the kernel that waits for it.

        From device timestamps. Only where the kernel had nothing else to wait for is this the
        latency of the event itself: the first is.
        """
        firsts = self.kernels[::2]
        return [
            kernel.profile.start - record
            for record, kernel in zip(self.uploaded, firsts, strict=True)
        ]


@dataclass(frozen=True)
class DigitsNetwork:
    """Weights of the network, as `train_digits` made them.

    Layer 1: int8 = ReLU(requantise(x @ w1 + b1)), layer 2: int32 = hidden @ w2 + b2.
    """

    w1: Int8
    b1: Int32
    multiplier1: Int32
    shift1: npt.NDArray[np.uint8]
    w2: Int8
    b2: Int32

    @classmethod
    def load(cls, path: Path = WEIGHTS_FILE) -> DigitsNetwork:
        """The network that is committed with the project."""
        with np.load(path) as arrays:
            return cls(**{name: arrays[name] for name in arrays.files})

    def reference(self, images: Int8) -> Inference:
        """The same integers in numpy. images: int8, N × 64."""
        hidden = requantise(
            matmul(images, self.w1), self.b1, self.multiplier1, self.shift1,
            zero_point=RELU.zero_point, low=RELU.low, high=RELU.high,
        )  # fmt: skip
        return Inference(hidden, add_bias(matmul(hidden, self.w2), self.b2))

    def run(
        self,
        session: Session,
        images: Int8,
        *,
        batch: int = 8,
        progress: Callable[[int], None] = lambda done: None,
    ) -> DigitsRun:
        """Classifies `images` (int8, N × 64) on the device, `batch` at a time.

        `progress` is called with the number of images that are done.
        """
        if images.dtype != np.int8 or images.ndim != 2 or images.shape[1] != 64:
            raise InvalidParameter(
                f"images are {images.dtype} of shape {images.shape}; int8 of shape N × 64 is needed"
            )
        if not len(images) or batch < 1:
            raise InvalidParameter(
                f"there are {len(images)} images in batches of {batch}; both must be at least 1"
            )
        copies, kernels = session.stream(), session.stream()
        w1, w2 = session.buffer(self.w1, copies), session.buffer(self.w2, copies)
        table1 = session.buffer(
            channel_table(self.b1, self.multiplier1, self.shift1, channels=32), copies
        )
        table2 = session.buffer(channel_table(self.b2, channels=10), copies)
        slots = [_Slot(session, min(batch, len(images))) for _ in range(2)]
        batches = [images[first : first + batch] for first in range(0, len(images), batch)]
        launches: list[Task] = []
        uploaded: list[Event] = []
        results: list[tuple[Download, Download]] = []

        def upload(number: int) -> None:
            part = np.ascontiguousarray(batches[number])
            copies.upload(slots[number % 2].of(len(part))[0], part)
            uploaded.append(session.event(timing=True))
            copies.record(uploaded[number])

        def finish(number: int) -> None:
            results[number][1].wait()
            progress(min(len(images), (number + 1) * batch))

        upload(0)
        for number, part in enumerate(batches):
            if number >= AHEAD:
                finish(number - AHEAD)
            x, hidden, logits = slots[number % 2].of(len(part))
            done = session.event()
            kernels.wait(uploaded[number])
            launches += gemm(
                kernels, x, w1, hidden, table=table1, requantise=RELU, profile=True
            )
            launches += gemm(kernels, hidden, w2, logits, table=table2, profile=True)
            kernels.record(done)
            # The other slot is free: its results were copied out in the turn before.
            if number + 1 < len(batches):
                upload(number + 1)
            copies.wait(done)
            results.append((copies.download(hidden), copies.download(logits)))
        for number in range(max(0, len(batches) - AHEAD), len(batches)):
            finish(number)
        session.synchronise()
        inference = Inference(
            np.concatenate([hidden.result() for hidden, _ in results]),
            np.concatenate([logits.result() for _, logits in results]),
        )
        return DigitsRun(inference, launches, [event.cycle for event in uploaded], len(images))


class _Slot:
    """Buffers for one batch; two of them let copies and kernels overlap."""

    def __init__(self, session: Session, batch: int) -> None:
        self.x = session.empty((batch, 64), np.int8)
        self.hidden = session.empty((batch, 32), np.int8)
        self.logits = session.empty((batch, 10), np.int32)

    def of(self, count: int) -> tuple[Any, Any, Any]:
        """Views of the first `count` rows."""
        return tuple(  # type: ignore[return-value]
            buffer.part(0, (count, buffer.shape[1]), buffer.dtype)
            for buffer in (self.x, self.hidden, self.logits)
        )
