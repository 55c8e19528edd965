"""One engine in a process of its own: does what the bench says and measures it.

Reads a JSON object per line from stdin: ``{"do": name of a method of Worker, …arguments}``, and
answers each with one on stdout. The first answer is that of the start.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from hw.config import NpuConfig

from ..board.config import BoardConfig
from ..engines import ENGINES, make_engine
from ..host import Host
from ..wave import Window
from .workload import Player, Workload

__all__ = ["Worker", "main"]

ID_REGISTER = 0
"""Address of a register that is read to measure an access."""


class Worker:
    """An engine with a board at rest.

    Parameters
    ----------
    engine: its name, that of a peer, or "amaranth". preset: sizes of the NPU.
    trace: a peer is built to record waveforms.
    """

    def __init__(self, engine: str, preset: str, trace: bool) -> None:
        config = NpuConfig.preset(preset)
        self._engine: Any
        # Each imports only what it needs: the start is measured.
        if engine in ENGINES:
            self._engine = make_engine(engine, config, BoardConfig())
        elif engine == "amaranth":
            from .amaranth_loop import AmaranthLoop
            from .peers import make_board

            self._engine = AmaranthLoop(make_board(config))
        else:
            from .peers import PEERS, open_peer

            self._engine = open_peer(PEERS[engine], config, trace=trace)
        self._host = Host(self._engine)
        self._workload: Workload | None = None
        self._mark: tuple[int, Any, Player, int] | None = None
        self._player: Player | None = None
        """Of a window of the workload, while nothing else was done since."""

    def workload(self, path: str) -> dict[str, Any]:
        """Takes the workload from a file, as pickled by the bench."""
        self._workload = pickle.loads(Path(path).read_bytes())
        return {}

    def run(self) -> dict[str, Any]:
        """The whole workload from reset on, checked."""
        player = self._begin()
        measured = self._measure(player.play)
        player.check_end()
        return measured

    def window(self, start: int, stop: int, repeat: int = 1) -> dict[str, Any]:
        """The workload in a range of its cycles, several times."""
        total: dict[str, Any] = {"cycles": 0, "cpu": 0, "wall": 0}
        for _ in range(repeat):
            player = self._seek(start)
            measured = self._measure(partial(player.play, stop))
            total = {name: total[name] + measured[name] for name in total}
        return total

    def idle(self, cycles: int) -> dict[str, Any]:
        """Cycles in which there is nothing to do, after reset."""
        self._begin()
        return self._measure(lambda: self._engine.step(cycles))

    def record(self, start: int, stop: int) -> dict[str, Any]:
        """Such a range with a waveform of everything."""
        player = self._seek(start)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "all.vcd"

            def run() -> None:
                self._engine.capture(path, Window.parse(":", engines=()))
                player.play(stop)
                self._engine.end_capture()

            measured = self._measure(run)
            with path.open() as file:
                signals = sum(line.lstrip().startswith("$var") for line in file)
            return {**measured, "bytes": path.stat().st_size, "signals": signals}

    def access(self, count: int) -> dict[str, Any]:
        """Reads of a register: seconds for each, beside those of as many idle cycles."""
        self._begin()
        self._host.read(ID_REGISTER)

        def read() -> None:
            for _ in range(count):
                self._host.read(ID_REGISTER)

        accesses = self._measure(read)
        cycles = accesses["cycles"]
        stepped = self._measure(lambda: self._engine.step(cycles))
        return {
            "seconds": (accesses["cpu"] - stepped["cpu"]) / count, "cycles": cycles / count,
            "count": count,
        }  # fmt: skip

    def usage(self) -> dict[str, Any]:
        """Memory that this process has used at most, in bytes."""
        return {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}

    def _begin(self) -> Player:
        assert self._workload is not None, "no workload was chosen"
        self._mark = self._player = None
        player = Player(self._workload, self._host, self._engine)
        player.rewind()
        return player

    def _seek(self, start: int) -> Player:
        """The workload in that cycle: where it just is, or back there by a snapshot, or anew."""
        if self._player is not None and self._engine.now == start:
            return self._player
        if self._mark is not None and self._mark[0] == start:
            _, snapshot, player, place = self._mark
            self._engine.restore(snapshot)
            player.resume(place)
            self._player = player
            return player
        player = self._begin()
        player.play(start)
        self._player = player
        if hasattr(self._engine, "snapshot"):
            self._mark = start, self._engine.snapshot(), player, player.place()
        return player

    def _measure(self, run: Any) -> dict[str, Any]:
        before = self._engine.now
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        cpu = time.process_time() - cpu
        wall = time.perf_counter() - wall
        return {"cycles": self._engine.now - before, "cpu": cpu, "wall": wall}


def main() -> None:
    """Serves the bench until stdin ends."""
    engine, preset, trace = sys.argv[1:4]
    # What the engine or its compiler prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(engine, preset, trace == "trace")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    answer = {"cpu": sum(each.ru_utime + each.ru_stime for each in used)}
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
