"""A board in another simulator behind the interface that a host needs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.regs.errors import ConfigError

from ..engine.pages import Pages
from ..engine.script import Operation, Script, interpreted
from .export import Port

__all__ = ["PeerEngine"]

NEVER = (1 << 64) - 1


class PeerEngine:
    """`Stepper` on a library that was made of `native/peer.cpp`. Only ports have names.

    Parameters
    ----------
    name: of the peer.
    library: path of it.
    ports: of the board, as exported.
    sizes: bytes of the storages `device` and `host`.
    """

    def __init__(
        self, name: str, library: Path, ports: tuple[Port, ...], sizes: dict[str, int]
    ) -> None:
        self.name = name
        self._library = ctypes.CDLL(str(library))
        for function, result, arguments in (
            ("new", ctypes.c_void_p, [ctypes.c_void_p] * 2),
            ("delete", None, [ctypes.c_void_p]),
            ("now", ctypes.c_uint64, [ctypes.c_void_p]),
            ("settle", None, [ctypes.c_void_p]),
            ("trace", ctypes.c_bool, [ctypes.c_void_p, ctypes.c_char_p]),
            ("port", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
            ("step", None, [ctypes.c_void_p, ctypes.c_uint64]),
            ("run_until", ctypes.c_bool, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]),
        ):
            entry = getattr(self._library, f"peer_{function}")
            entry.restype, entry.argtypes = result, arguments
        self._ports = ports
        self._storages = {side: Pages(sizes[side]) for side in ("device", "host")}
        self._model: int | None = None
        self.reset()

    @property
    def now(self) -> int:
        cycle: int = self._library.peer_now(self._model)
        return cycle

    def reset(self) -> None:
        if self._model is not None:
            self._library.peer_delete(self._model)
        addresses = (
            ctypes.addressof(ctypes.c_char.from_buffer(pages.view))
            for pages in self._storages.values()
        )
        self._model = self._library.peer_new(*addresses)
        self._stale = False
        self._bytes = {}
        for port in self._ports:
            at = self._library.peer_port(self._model, port.name.encode())
            self._bytes[port.name] = (ctypes.c_uint8 * ((port.width + 7) // 8)).from_address(at)

    def step(self, cycles: int = 1) -> None:
        self._settle()
        self._library.peer_step(self._model, cycles)

    def run_until(self, signal: str | None, cycle: int | None, value: int | None = None) -> bool:
        assert value is None, "the native loop waits for what is not zero"
        limit = NEVER if cycle is None else cycle
        if signal is None:
            self.step(max(0, limit - self.now))
            return False
        port = self._port(signal)
        assert len(port) == 1, "more bits than the native loop looks at"
        self._settle()
        reached: bool = self._library.peer_run_until(self._model, ctypes.addressof(port), limit)
        return reached

    def peek(self, signal: str) -> int:
        self._settle()
        return int.from_bytes(self._port(signal), "little")

    def poke(self, signal: str, value: int) -> None:
        port = self._port(signal)
        port[:] = list(value.to_bytes(len(port), "little"))
        self._stale = True

    def script(self, operations: Sequence[Operation]) -> Script:
        return interpreted(self, operations)

    def memory(self, name: str) -> memoryview:
        return self._storages[name].view

    def dirty(self, name: str) -> npt.NDArray[np.uint8]:
        """Only the host sets it; nothing here takes snapshots."""
        return self._storages[name].dirty

    def capture(self, path: Path, window: Any = None, scopes: Sequence[str] = ()) -> None:
        """Records everything from now on until `end_capture`, whatever the window."""
        if not self._library.peer_trace(self._model, str(path).encode()):
            raise ConfigError(f"{self.name} was built without waveforms; build it with trace")

    def end_capture(self) -> bool:
        return bool(self._library.peer_trace(self._model, None))

    def close(self) -> None:
        self.end_capture()

    def _settle(self) -> None:
        """Once for all that was poked."""
        if self._stale:
            self._library.peer_settle(self._model)
            self._stale = False

    def _port(self, signal: str) -> Any:
        """The bytes of a port."""
        try:
            return self._bytes[signal.replace("__", "_")]
        except KeyError:
            raise ConfigError(
                f"{signal!r} is no port of {self.name}; only ports have names there"
            ) from None
