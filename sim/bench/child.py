"""The bench's side of `worker`: an engine in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hw.regs.errors import NpuError

__all__ = ["Child", "ChildError"]


class ChildError(NpuError):
    """An engine failed in its process."""


class Child:
    """A worker, used as a context. See `Worker` for what it can be asked.

    Parameters
    ----------
    engine, preset, trace: of the worker.
    cache: folder of its cache, if not the user's.

    Attributes
    ----------
    seconds, cpu_seconds: from the start of the process until the engine was in cycle 0; the
        compilers that it started included.
    """

    def __init__(
        self, engine: str, preset: str, *, trace: bool = False, cache: Path | None = None
    ) -> None:
        self._name = f"{engine} at {preset}"
        environment = dict(os.environ)
        if cache is not None:
            environment["CELOSIA_CACHE"] = str(cache)
        # No pipe, which would stop a child that says much.
        self._said = tempfile.TemporaryFile()
        start = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sim.bench.worker", engine, preset, "trace" if trace else ""],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            env=environment,
        )  # fmt: skip
        self.cpu_seconds: float = self._answer()["cpu"]
        self.seconds = time.perf_counter() - start

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._said.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._process.communicate()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()[-2000:]
        raise ChildError(f"{self._name} failed (status {self._process.returncode}): {said}")
