"""Every size of an NPU, in one frozen dataclass, and the presets.

Nothing here needs Amaranth: the driver and the runtime read the same class.
"""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass
from typing import Self

from .regs.errors import ConfigError
from .regs.instruction import ADDRESS_REGISTERS, ISA_VERSION, LOOP_DEPTH

__all__ = ["ADDRESS_BITS", "HOST_BASE", "PRESETS", "ConfigError", "NpuConfig"]

ADDRESS_BITS = 40
"""Bits of a memory address."""
HOST_BASE = 1 << 39
"""First address of host memory; device memory starts at 0."""


@dataclass(frozen=True)
class NpuConfig:
    """The sizes of one NPU. Impossible ones raise `ConfigError`.

    A device reports each of them in its capability registers, so that a driver can rebuild
    the very object from hardware.
    """

    rows: int = 16
    """Rows of the array: the depth (K) of one weight tile."""
    columns: int = 16
    """Columns of the array: the output channels (N) of one weight tile."""
    scratchpad_words: int = 16384
    """Words of `word_bytes` bytes in the scratchpad (inputs, weights, channel table)."""
    accumulator_rows: int = 1024
    """Rows of `columns` int32 sums in the accumulator memory."""
    instructions: int = 512
    """Instructions that a kernel may have: the size of each of the two code banks."""
    streams: int = 8
    """Streams: submission queues, each in order."""
    staging: int = 8
    """Submission-queue entries that are fetched ahead for each stream."""
    events: int = 64
    """Event slots."""
    notifies: int = 16
    """Counters of the notify unit."""
    contexts: int = 4
    """Contexts: sessions that are protected from each other."""
    windows: int = 8
    """Access windows of each context."""
    copy_channels: int = 2
    """Copy engines."""
    cores: int = 1
    """Matrix cores, all alike: kernels go to the first that is free."""
    burst_beats: int = 16
    """Greatest number of beats in one burst."""
    outstanding: int = 32
    """Bursts that each reading or writing client may have in flight."""
    counters: int = 8
    """Programmable PMU counters."""
    clock_mhz: int = 1000
    """Reported clock: converts cycles to nanoseconds, nothing else."""

    LIMITS = {
        "rows": (2, 128),
        "columns": (2, 128),
        "scratchpad_words": (64, 1 << 16),
        "accumulator_rows": (16, 1 << 16),
        "instructions": (16, 4096),
        "streams": (1, 32),
        "staging": (1, 16),
        "events": (2, 1024),
        "notifies": (1, 64),
        "contexts": (1, 16),
        "windows": (1, 16),
        "copy_channels": (1, 4),
        "cores": (1, 4),
        "burst_beats": (2, 32),
        "outstanding": (1, 64),
        "counters": (8, 8),
        "clock_mhz": (1, 10000),
    }
    POWERS_OF_TWO = (
        "rows", "columns", "scratchpad_words", "accumulator_rows", "instructions",
        "staging", "events", "burst_beats", "outstanding",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name, (low, high) in self.LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"{name} is {value!r}; it must lie within {low} … {high}")
        for name in self.POWERS_OF_TWO:
            value = getattr(self, name)
            if value & (value - 1):
                raise ConfigError(f"{name} is {value}; it must be a power of two")
        if self.burst_bytes > 4096:
            raise ConfigError(
                f"burst_beats is {self.burst_beats}; with {self.data_bytes} bytes a beat a burst "
                f"would cross 4 KiB, choose {4096 // self.data_bytes} or less"
            )

    @classmethod
    def preset(cls, name: str, **changes: int) -> Self:
        """The preset of that name, with some sizes changed."""
        if name not in PRESETS:
            raise ConfigError(f"no preset is called {name!r}; choose one of {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], **changes})

    @property
    def data_bytes(self) -> int:
        """Bytes of a beat on the memory bus: one array row of int8, at least 8."""
        return max(8, self.columns)

    @property
    def burst_bytes(self) -> int:
        """Bytes of the longest burst. Bursts never cross a multiple of it, so never 4 KiB."""
        return self.burst_beats * self.data_bytes

    @property
    def word_bytes(self) -> int:
        """Bytes of a scratchpad word: one array row or column of int8."""
        return max(self.rows, self.columns)

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines that tasks run on, in the order of their numbers."""
        return (
            *(f"copy{n}" for n in range(self.copy_channels)),
            *(f"core{n}" for n in range(self.cores)),
            "control",
            "value",
        )

    @property
    def read_clients(self) -> tuple[str, ...]:
        """Clients of the memory bus's read channels, in the order of their AXI ID."""
        copies = (f"copy{n}" for n in range(self.copy_channels))
        cores = (f"{part}{n}" for n in range(self.cores) for part in ("code", "load"))
        return ("queue", "value", *copies, *cores)

    @property
    def write_clients(self) -> tuple[str, ...]:
        """Clients of the memory bus's write channels, in the order of their AXI ID."""
        copies = (f"copy{n}" for n in range(self.copy_channels))
        return ("completion", "value", *copies, *(f"store{n}" for n in range(self.cores)))

    @property
    def id_bits(self) -> int:
        """Bits of an AXI ID: client number above one epoch bit."""
        return (max(len(self.read_clients), len(self.write_clients)) - 1).bit_length() + 1

    @property
    def fingerprint(self) -> int:
        """32-bit hash of what a kernel binary depends on: it runs where this is equal."""
        sizes = (
            ISA_VERSION, LOOP_DEPTH, ADDRESS_REGISTERS, self.rows, self.columns,
            self.word_bytes, self.scratchpad_words, self.accumulator_rows, self.instructions,
        )  # fmt: skip
        return zlib.crc32(",".join(map(str, sizes)).encode())

    def nanoseconds(self, cycles: int) -> float:
        """Cycles at the reported clock, in nanoseconds."""
        return cycles * 1000 / self.clock_mhz

    def as_dict(self) -> dict[str, int]:
        return dataclasses.asdict(self)


PRESETS: dict[str, dict[str, int]] = {
    "tiny": dict(
        rows=4, columns=4, scratchpad_words=1024, accumulator_rows=128, instructions=256,
        streams=4, staging=2, events=16, notifies=4, contexts=2, windows=4,
    ),
    "small": dict(rows=8, columns=8, scratchpad_words=8192, accumulator_rows=512),
    "base": dict(rows=16, columns=16, scratchpad_words=16384, accumulator_rows=1024),
    "large": dict(rows=32, columns=32, scratchpad_words=32768, accumulator_rows=2048),
}  # fmt: skip
"""Sizes that differ from the defaults: 4×4 for pysim, 8×8, 16×16 and 32×32."""
