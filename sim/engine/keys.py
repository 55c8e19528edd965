"""What identifies something in the cache."""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from hw.regs.errors import ConfigError

__all__ = ["cpu", "design_key", "digest", "sources"]

_CPU_FIELDS = {
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
    "isa", "uarch",
}  # fmt: skip
"""Of /proc/cpuinfo: what the instruction set and its costs depend on, unlike the clock."""


def digest(*parts: str | bytes) -> str:
    """SHA-256 of all parts; where one ends and the next begins counts, too."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def sources(*packages: str) -> str:
    """Digest of every file of installed packages, names included."""
    parts: list[str | bytes] = []
    for package in packages:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ConfigError(
                f"the sources of {package!r} identify what is made from them, but it is no "
                "installed package; name one that can be imported"
            )
        for folder in map(Path, spec.submodule_search_locations):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    parts += [package, path.relative_to(folder).as_posix(), path.read_bytes()]
    return digest(*parts)


def design_key(*parameters: object) -> str:
    """Identifies what is made of the gateware of this project with parameters.

    Depends on the parameters' representations (frozen dataclasses have whole ones), on every file
    of `hw`, `sim.board` and `sim.engine`, and on the versions of Amaranth and Python.
    """
    files = sources("hw", "sim.board", "sim.engine")
    return digest("design", files, version("amaranth"), sys.version, *map(repr, parameters))


@functools.cache
def cpu() -> str:
    """Describes the processor that code is compiled for."""
    try:
        first, _, _ = Path("/proc/cpuinfo").read_text().partition("\n\n")
    except OSError:
        # No such list there: the host's name keeps apart machines that share a home folder.
        return " ".join([platform.machine(), platform.processor(), platform.node()])
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in _CPU_FIELDS]
    return "\n".join([platform.machine(), *lines])
