"""The link to a simulated NPU in this process: `open` gives a `Transport`."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hw.axi import Response
from hw.config import HOST_BASE, NpuConfig
from hw.regs.errors import ConfigError
from rt.transport import Operation, Read, Reason, Stop, TransportError, Write

from .board.board import Board
from .board.config import BoardConfig
from .engine.base import Engine
from .engine.pysim import PysimEngine
from .wave import Window

__all__ = ["ENGINES", "Action", "SimTransport", "open"]

ENGINES = ("auto", "pysim")
"""Names of the engines; `auto` is the fastest that is there."""

CONTROL_BYTES = 1 << 16
PATIENCE = 100_000
"""Cycles after which a control access without an answer is given up."""


@dataclass(slots=True)
class Action:
    """One thing that the host did. The list of them replays a run exactly.

    It is logged before it is done, so that one that fails or never ends is in the list, too.
    """

    cycle: int
    kind: Literal["read", "write", "read_host", "write_host", "run_until", "reset", "inject"]
    arguments: tuple[Any, ...]
    result: Any = None
    """What a read or a run gave; None if it was not answered."""


class SimTransport:
    """`rt.transport.Transport` on a simulated board.

    A control access takes 3 cycles and those that the NPU takes to answer: the same sequence of
    calls gives the same cycles, always.

    Attributes
    ----------
    actions: what the host did since the link was opened, if it was opened to record that.
    """

    def __init__(self, board: Board, engine: Engine, *, record: bool = True) -> None:
        self.config: NpuConfig = board.config
        self.board_config: BoardConfig = board.board
        self.engine = engine
        self.actions: list[Action] = []
        self._record = record
        self._board = board
        self._memories = {name: engine.memory(name) for name in ("host", "device")}
        self._closed = False
        engine.poke(board.results.ready, 1)

    @property
    def host_bytes(self) -> int:
        return self.board_config.host_bytes

    @property
    def device_bytes(self) -> int:
        return self.board_config.device_bytes

    def control(self, operations: Sequence[Operation]) -> list[int]:
        self._check_open()
        values = []
        for operation in operations:
            value = self._access(operation)
            if isinstance(operation, Read):
                values.append(value)
        return values

    def read_host(self, address: int, size: int) -> bytes:
        at = self._host_offset(address, size)
        self._log("read_host", address, size)
        return bytes(self._memories["host"][at : at + size])

    def write_host(self, address: int, data: bytes | bytearray | memoryview) -> None:
        content = bytes(data)
        at = self._host_offset(address, len(content))
        self._log("write_host", address, content)
        self._memories["host"][at : at + len(content)] = content

    def run_until(self, *, interrupt: bool, cycle: int | None) -> Stop:
        self._check_open()
        if not interrupt and cycle is None:
            raise TransportError("run_until waits for nothing; give an interrupt or a cycle")
        action = self._log("run_until", interrupt, cycle)
        reached = self.engine.run_until(self._board.irq if interrupt else None, cycle)
        stop = Stop(Reason.INTERRUPT if reached else Reason.CYCLE, self.now())
        action.result = stop
        return stop

    def now(self) -> int:
        return self.engine.now

    def reset(self) -> None:
        self._check_open()
        self._log("reset")
        self.engine.reset()
        self.engine.poke(self._board.results.ready, 1)

    def close(self) -> None:
        if not self._closed:
            self.engine.close()
        self._closed = True

    # ------------------------------------------------------------ what only a simulation has

    def capture(self, path: str | Path, window: str | Window | None = None) -> None:
        """Records a waveform, within `window` (see `Window.parse`) or until `close`."""
        self._check_open()
        self.engine.capture(*_recording(path, window, self.config))

    def device_memory(self) -> memoryview:
        """Backdoor for tests: the bytes of device memory, without a copy and without time.

        What is written here is in no log: to replay such a run, write it again.
        """
        return self._memories["device"]

    def inject(
        self,
        direction: Literal["read", "write"],
        first: int,
        last: int,
        response: Any = Response.SLVERR,
    ) -> None:
        """Lets the memories answer accesses to `first` … `last` with a `Response`; None ends it."""
        self._check_open()
        self._log("inject", direction, first, last, response)
        error = self._board.read_error if direction == "read" else self._board.write_error
        self.engine.poke(error.first, first)
        self.engine.poke(error.last, last)
        if response is not None:
            self.engine.poke(error.response.as_value(), response.value)
        self.engine.poke(error.enable, response is not None)

    def _access(self, operation: Operation) -> int:
        board, engine = self._board, self.engine
        address = operation.address
        if not 0 <= address < CONTROL_BYTES or address % 4:
            raise TransportError(
                f"control address {address:#x} is not a multiple of 4 below {CONTROL_BYTES:#x}"
            )
        value = operation.value if isinstance(operation, Write) else 0
        if not 0 <= value < 1 << 32:
            raise TransportError(f"{value:#x} for control address {address:#x} exceeds 32 bits")
        start = engine.now
        writes = isinstance(operation, Write)
        action = self._log("write", address, value) if writes else self._log("read", address)
        command = board.commands
        engine.poke(command.p.write, writes)
        engine.poke(command.p.address, address)
        engine.poke(command.p.data, value)
        engine.poke(command.valid, 1)
        engine.step()
        engine.poke(command.valid, 0)
        if not engine.run_until(board.results.valid, start + PATIENCE):
            raise TransportError(
                f"no answer from control address {address:#x} within {PATIENCE} cycles; "
                "reset the device"
            )
        response = Response(engine.peek(board.results.p.response))
        result = engine.peek(board.results.p.data)
        engine.step()
        if not writes:
            action.result = result
        if response is not Response.OKAY:
            kind = "write to" if writes else "read of"
            raise TransportError(
                f"{kind} control address {address:#x} was answered with {response.name} "
                f"in cycle {engine.now}"
            )
        return result

    def _host_offset(self, address: int, size: int) -> int:
        self._check_open()
        offset = address - HOST_BASE
        if size < 0 or not 0 <= offset <= self.host_bytes - size:
            raise TransportError(
                f"{size} bytes at {address:#x} are not within host memory, "
                f"{HOST_BASE:#x} … {HOST_BASE + self.host_bytes - 1:#x}"
            )
        return offset

    def _log(self, kind: Any, *arguments: Any) -> Action:
        action = Action(self.now(), kind, arguments)
        if self._record:
            self.actions.append(action)
        return action

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError("the link is closed; open a new one")


def _recording(
    path: str | Path, window: str | Window | None, config: NpuConfig
) -> tuple[Path, Window]:
    """The checked arguments of a recording."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ConfigError(f"cannot write {path}: {target.parent} is no folder; create it first")
    if not isinstance(window, Window):
        window = Window.parse(window or ":", engines=config.engines)
    return target, window


def open(
    preset: str = "tiny",
    *,
    config: NpuConfig | None = None,
    board: BoardConfig | None = None,
    engine: str = "auto",
    vcd: str | Path | None = None,
    window: str | Window | None = None,
    record: bool = True,
    npu: Any = None,
) -> SimTransport:
    """A simulated NPU on its board.

    Parameters
    ----------
    preset: sizes of the NPU, unless `config` gives them.
    board: memories around it.
    engine: what runs the gateware, one of `ENGINES`.
    vcd: file for a waveform; window: the part that is recorded, see `Window.parse`.
    record: whether what the host does is kept, to replay it; the list of a long run is long.
    npu: a component to use in place of `Npu(config)`.
    """
    if engine not in ENGINES:
        raise ConfigError(f"no engine is called {engine!r}; choose one of {', '.join(ENGINES)}")
    if window is not None and vcd is None:
        raise ConfigError(f"the window {window} needs a file to record into; give vcd as well")
    config = config or NpuConfig.preset(preset)
    recording = None if vcd is None else _recording(vcd, window, config)
    if npu is None:
        from hw.npu import Npu  # here, so that commands that simulate nothing start sooner

        npu = Npu(config)
    whole = Board(npu, config, board or BoardConfig())
    transport = SimTransport(whole, PysimEngine(whole, clock_mhz=config.clock_mhz), record=record)
    if recording is not None:
        transport.capture(*recording)
    return transport
