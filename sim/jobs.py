"""The jobs of ``npu run``: each drives a device and reports what it measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hw.config import NpuConfig
from rt import Device
from rt.golden import matmul
from rt.models.digits import DigitsNetwork, DigitsRun, images_and_labels, split
from rt.ops import gemm
from rt.task import Task
from rt.transport import Transport

from .timeline import Timeline

__all__ = ["DigitsReport", "GemmReport", "Row", "run_digits", "run_gemm"]

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Row:
    """One measured figure."""

    name: str
    value: float | int | str
    unit: str = ""
    target: str = ""
    note: str = ""
    """The value in other words, for the reader of a table."""
    met: bool = True
    """It is what the target asks for."""

    def as_dict(self) -> dict[str, float | int | str]:
        """Name, value, unit, and target where there is one, for JSON."""
        row = {"name": self.name, "value": self.value, "unit": self.unit}
        return {**row, "target": self.target} if self.target else row


def _exact(name: str, exact: bool) -> Row:
    return Row(name, "yes" if exact else "NO", target="yes", met=exact)


def _cycles(
    name: str, cycles: int, config: NpuConfig, target: str = "", met: bool = True
) -> Row:
    return Row(name, cycles, "cycles", target, f"{config.nanoseconds(cycles):g} ns", met)


def _span(tasks: list[Task]) -> tuple[int, int]:
    """First start and last end of tasks that were profiled."""
    return min(t.profile.start for t in tasks), max(t.profile.end for t in tasks)


@dataclass(frozen=True)
class DigitsReport:
    """A classification on the device, beside the numpy reference."""

    config: NpuConfig
    run: DigitsRun
    labels: npt.NDArray[np.int64]
    exact: bool
    """Every prediction and every tensor equals the reference, bit for bit."""
    reference_accuracy: float
    """Of the numpy reference, on all images that were not trained on."""
    cycles: int
    """From the start of the first kernel to the end of the last."""
    wave_latency: int | None
    """Record → dependent start of the first kernel, from the waveform; None without one."""

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        return np.equal(self.run.inference.predictions, self.labels)

    @property
    def event_latency(self) -> int:
        """Record → dependent start of the first kernel, from the device's timestamps."""
        return self.run.event_latencies[0]

    def rows(self) -> list[Row]:
        """The figures, for a table or JSON."""
        config = self.config
        macs_possible = self.cycles * config.rows * config.columns
        rows = [
            Row("images", len(self.labels)),
            Row("right", int(self.correct.sum())),
            Row("accuracy", round(100 * float(self.correct.mean()), 2), "%"),
            Row("reference accuracy, untrained images",
                round(100 * self.reference_accuracy, 2), "%", "≥ 96",
                met=self.reference_accuracy >= 0.96),
            _exact("equal to the reference, bit for bit", self.exact),
            _cycles("kernels, first start to last end", self.cycles, config),
            Row("per image", round(self.cycles / len(self.labels), 1), "cycles"),
            Row("MAC utilisation", round(100 * self.run.macs / macs_possible, 2), "%"),
            _cycles("event → kernel, device timestamps", self.event_latency, config, "≤ 4",
                    self.event_latency <= 4),
        ]  # fmt: skip
        if self.wave_latency is not None:
            rows.append(
                _cycles("event → kernel, waveform", self.wave_latency, config,
                        f"= {self.event_latency}", self.wave_latency == self.event_latency)
            )  # fmt: skip
        return rows


def run_digits(
    transport: Transport,
    *,
    images: int,
    batch: int = 8,
    vcd: Path | None = None,
    progress: Progress = lambda done: None,
) -> DigitsReport:
    """Classifies the first `images` of the digits that were not trained on, then the others.

    Closes `transport`, and with it the waveform `vcd` that it records, to measure in it.
    """
    every, labels = images_and_labels()
    seen, kept = split(len(every))
    chosen = np.concatenate([kept, seen])[:images]
    network = DigitsNetwork.load()
    device = Device(transport)
    config = device.config
    with device.session() as session:
        run = network.run(session, every[chosen], batch=batch, progress=progress)
        first, last = _span(run.kernels)
    transport.close()
    reference = network.reference(every[chosen])
    exact = all(
        np.array_equal(mine, numpys)
        for mine, numpys in (
            (run.inference.hidden, reference.hidden),
            (run.inference.logits, reference.logits),
        )
    )
    wave_latency = None
    if vcd is not None:
        timeline = Timeline(vcd)
        wave_latency = timeline.event_latency(run.kernels[0].id)
    kept_accuracy = float(np.mean(network.reference(every[kept]).predictions == labels[kept]))
    return DigitsReport(
        config=config, run=run, labels=labels[chosen], exact=exact,
        reference_accuracy=kept_accuracy, cycles=last - first + 1, wave_latency=wave_latency,
    )  # fmt: skip


@dataclass(frozen=True)
class GemmReport:
    """A product on the device, beside numpy's."""

    config: NpuConfig
    shape: tuple[int, int, int]
    result: npt.NDArray[np.int32]
    exact: bool
    start: int
    """Cycle in which the first kernel starts."""
    cycles: int
    """From there to the end of the last."""

    def rows(self) -> list[Row]:
        m, n, k = self.shape
        peak = self.cycles * self.config.rows * self.config.columns
        return [
            Row("M × N × K", f"{m} × {n} × {k}"),
            _exact("equal to numpy, bit for bit", self.exact),
            _cycles("kernels, first start to last end", self.cycles, self.config),
            Row("MAC utilisation", round(100 * m * n * k / peak, 2), "%"),
        ]  # fmt: skip


def run_gemm(transport: Transport, a: npt.NDArray[np.int8], b: npt.NDArray[np.int8]) -> GemmReport:
    """a @ b as int32. a: int8, M × K. b: int8, K × N. Closes `transport`."""
    device = Device(transport)
    with device.session() as session:
        copies, kernels = session.stream(), session.stream()
        left, right = session.buffer(a, copies), session.buffer(b, copies)
        out = session.empty((a.shape[0], b.shape[1]), np.int32)
        ready, done = session.event(), session.event()
        copies.record(ready)
        kernels.wait(ready)
        launches = gemm(kernels, left, right, out, profile=True)
        kernels.record(done)
        copies.wait(done)
        download = copies.download(out)
        session.synchronise()
        result = download.result()
        first, last = _span(launches)
    transport.close()
    return GemmReport(
        config=device.config, shape=(a.shape[0], b.shape[1], a.shape[1]), result=result,
        exact=np.array_equal(result, matmul(a, b)), start=first, cycles=last - first + 1,
    )  # fmt: skip
