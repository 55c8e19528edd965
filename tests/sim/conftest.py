"""The command, run in this process on one simulated machine."""

from dataclasses import dataclass

import pytest

import sim
import sim.cli
from sim.board.config import BoardConfig


@dataclass(frozen=True)
class Outcome:
    """What the command did."""

    status: int
    out: str
    err: str

    @property
    def complaint(self):
        """The one line on stderr."""
        (line,) = self.err.splitlines()
        assert line.startswith("npu: "), line
        return line.removeprefix("npu: ")


@pytest.fixture(scope="session")
def machine():
    """`tiny` with 1 MiB of each memory, at latency 8, on the engine `compiled`."""
    transport = sim.open("tiny", board=BoardConfig.fast(), engine="compiled")
    yield transport
    transport.close()


@pytest.fixture
def npu(capsys, monkeypatch):
    """Runs the command with arguments as a shell splits them; files are separate arguments."""
    monkeypatch.setenv("COLUMNS", "80")

    def npu(line, *files):
        status = sim.cli.main([*line.split(), *map(str, files)])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return npu


@pytest.fixture
def reuse(machine, monkeypatch):
    """Lets the command find `machine` after a reset, instead of building one.

    `boards` are what it asked for; `fault` are arguments of `inject` for the next run.
    """

    def reopen(preset, *, board, engine, vcd, window, scopes, record):
        reopen.boards.append(board)
        machine.reset()
        if reopen.fault is not None:
            machine.inject(*reopen.fault)
        if vcd is not None:
            machine.capture(vcd, window, scopes=scopes)
        return machine

    reopen.boards = []
    reopen.fault = None
    monkeypatch.setattr(sim.cli, "open_simulation", reopen)
    monkeypatch.setattr(machine, "close", machine.end_capture)
    return reopen
