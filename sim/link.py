"""The link to a simulated NPU in this process: `open` gives a `Transport`."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hw.axi import Response
from hw.config import HOST_BASE, NpuConfig
from hw.regs.errors import ConfigError
from rt.transport import Operation, Read, Reason, Stop, TransportError, Write

from .board.config import BoardConfig
from .engine.base import Engine
from .engines import ENGINES, Choice, choose, make_engine
from .history import History
from .host import PATIENCE, Action, Direction, Host, Kind
from .wave import Window

__all__ = ["ENGINES", "Action", "SimTransport", "open"]

CONTROL_BYTES = 1 << 16


class SimTransport:
    """`rt.transport.Transport` on a simulated board.

    A control access takes 3 cycles and those that the NPU takes to answer: the same sequence of
    calls gives the same cycles, always.

    Attributes
    ----------
    engine: what runs the gateware. choice: why it is that one.
    actions: what the host did since the link was opened, if it was opened to record that.
    """

    def __init__(
        self,
        config: NpuConfig,
        board: BoardConfig,
        engine: Engine,
        *,
        choice: Choice | None = None,
        record: bool = True,
    ) -> None:
        self.config = config
        self.board_config = board
        self.engine = engine
        self.choice = choice or Choice(engine.name, "chosen")
        self.actions: list[Action] = []
        self._record = record
        self._host: Host | History = Host(engine)
        self._afterwards: tuple[Path, Window, Sequence[str]] | None = None
        self._closed = False

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
        self._check_host(address, size)
        content: bytes = self._do("read_host", address, size)[1]
        return content

    def write_host(self, address: int, data: bytes | bytearray | memoryview) -> None:
        content = bytes(data)
        self._check_host(address, len(content))
        self._do("write_host", address, content)

    def run_until(self, *, interrupt: bool, cycle: int | None) -> Stop:
        self._check_open()
        if not interrupt and cycle is None:
            raise TransportError("run_until waits for nothing; give an interrupt or a cycle")
        action, reached = self._do("run_until", interrupt, cycle)
        stop = Stop(Reason.INTERRUPT if reached else Reason.CYCLE, self.now())
        action.result = stop
        return stop

    def now(self) -> int:
        return self.engine.now

    def reset(self) -> None:
        self._check_open()
        self._do("reset")

    def close(self) -> None:
        if self._closed:
            return
        try:
            self.end_capture()
        finally:
            self._closed = True
            self.engine.close()

    # ------------------------------------------------------------ what only a simulation has

    def capture(
        self,
        path: str | Path,
        window: str | Window | None = None,
        *,
        scopes: Sequence[str] = (),
        afterwards: bool | None = None,
    ) -> None:
        """Records a waveform, within `window` or until `end_capture`.

        Parameters
        ----------
        window: see `Window.parse`.
        scopes: only signals in these ("npu.core0"), and the clock.
        afterwards: recorded when the recording is ended, by a replay of what happens from now on,
            instead of at once. By default a window is, on engines that are faster so.
        """
        self._check_open()
        recording = (*_recording(path, window, self.config), tuple(scopes))
        if afterwards is None:
            afterwards = self.engine.replays and window is not None
        if afterwards:
            # Says at once what is wrong with it.
            self.engine.capture(*recording)
            self.engine.end_capture()
            self.keep_history()
            self._afterwards = recording
        else:
            self.engine.capture(*recording)

    def end_capture(self) -> None:
        """Ends a recording, as `close` does; one that is made afterwards is made now."""
        self._check_open()
        recording, self._afterwards = self._afterwards, None
        if recording is None:
            self.engine.end_capture()
            return
        try:
            self._replay(*recording)
        finally:
            self.forget()

    def keep_history(self, *, every: int = 2048) -> None:
        """From now on keeps what `replay` needs: snapshots, and a log of what the host does.

        `every`: cycles between snapshots at first, while the history is short.
        """
        self._check_open()
        self._host = History(self.engine, every=every)

    def forget(self) -> None:
        """Drops the history."""
        self._host = Host(self.engine)

    def replay(
        self, window: str | Window, *, vcd: str | Path, scopes: Sequence[str] = ()
    ) -> bool:
        """Records a window of the past, from `keep_history` on. The run itself goes on unchanged.

        The waveform is, byte for byte, what `capture` would have recorded. Returns whether any
        cycle was in the window; otherwise there is no file.
        """
        self._check_open()
        return self._replay(*_recording(vcd, window, self.config), scopes)

    def device_memory(self) -> memoryview:
        """The bytes of device memory, to look at: without a copy and without time."""
        return self.engine.memory("device").toreadonly()

    def write_device(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Backdoor for tests: writes device memory without time."""
        self._check_open()
        content = bytes(data)
        if not 0 <= address <= self.device_bytes - len(content):
            raise TransportError(
                f"{len(content)} bytes at {address:#x} are not within device memory, "
                f"0 … {self.device_bytes - 1:#x}"
            )
        self._do("write_device", address, content)

    def inject(
        self,
        direction: Direction,
        first: int,
        last: int,
        response: Any = Response.SLVERR,
    ) -> None:
        """Lets the memories answer accesses to `first` … `last` with a `Response`; None ends it."""
        self._check_open()
        self._do("inject", direction, first, last, response)

    def _access(self, operation: Operation) -> int:
        address = operation.address
        if not 0 <= address < CONTROL_BYTES or address % 4:
            raise TransportError(
                f"control address {address:#x} is not a multiple of 4 below {CONTROL_BYTES:#x}"
            )
        if not isinstance(operation, Write):
            action, answer = self._do("read", address)
        elif 0 <= operation.value < 1 << 32:
            action, answer = self._do("write", address, operation.value)
        else:
            raise TransportError(
                f"{operation.value:#x} for control address {address:#x} exceeds 32 bits"
            )
        if answer is None:
            raise TransportError(
                f"no answer from control address {address:#x} within {PATIENCE} cycles; "
                "reset the device"
            )
        result: int = answer.data
        if action.kind == "read":
            action.result = result
        if answer.response is not Response.OKAY:
            kind = "write to" if action.kind == "write" else "read of"
            raise TransportError(
                f"{kind} control address {address:#x} was answered with {answer.response.name} "
                f"in cycle {self.now()}"
            )
        return result

    def _check_host(self, address: int, size: int) -> None:
        self._check_open()
        offset = address - HOST_BASE
        if size < 0 or not 0 <= offset <= self.host_bytes - size:
            raise TransportError(
                f"{size} bytes at {address:#x} are not within host memory, "
                f"{HOST_BASE:#x} … {HOST_BASE + self.host_bytes - 1:#x}"
            )

    def _do(self, kind: Kind, *arguments: Any) -> tuple[Action, Any]:
        action = Action(self.engine.now, kind, arguments)
        if self._record:
            self.actions.append(action)
        return action, self._host.perform(action)

    def _replay(self, path: Path, window: Window, scopes: Sequence[str]) -> bool:
        if not isinstance(self._host, History):
            raise ConfigError(
                f"the window {window} is over, and no history was kept; open the link with "
                "history=True"
            )
        return self._host.replay(path, window, scopes)

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
    scopes: Sequence[str] = (),
    record: bool = True,
    history: bool = False,
    npu: Any = None,
) -> SimTransport:
    """A simulated NPU on its board.

    Parameters
    ----------
    preset: sizes of the NPU, unless `config` gives them.
    board: memories around it.
    engine: what runs the gateware, one of `ENGINES`.
    vcd: file for a waveform; window, scopes: the part that is recorded, see
        `SimTransport.capture`.
    record: whether what the host does is kept, to replay it; the list of a long run is long.
    history: whether snapshots are kept, too, to record any window afterwards; see
        `SimTransport.replay`.
    npu: a component to use in place of `Npu(config)`.
    """
    if window is not None and vcd is None:
        raise ConfigError(f"the window {window} needs a file to record into; give vcd as well")
    config = config or NpuConfig.preset(preset)
    board = board or BoardConfig()
    choice = choose(engine)
    if scopes and vcd is None:
        raise ConfigError(f"the scopes {', '.join(scopes)} need a file to record into; give vcd")
    if vcd is not None:
        _recording(vcd, window, config)
    chosen = make_engine(choice.name, config, board, npu)
    transport = SimTransport(config, board, chosen, choice=choice, record=record)
    if history:
        transport.keep_history()
    if vcd is not None:
        transport.capture(vcd, window, scopes=scopes)
    return transport
