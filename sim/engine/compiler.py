"""Finds a C compiler that works."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hw.regs.errors import NpuError

from .cache import Cache
from .keys import cpu, digest

__all__ = ["LIBRARY_SUFFIX", "BuildError", "Compiler", "compiler", "find_compiler"]

LIBRARY_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
INSTALL = "pip install 'celosia[compiler]'"

_TARGETS = (("-march=native",), ("-mcpu=native",), ())
"""This processor, as compilers call it; the first that works is taken."""
_SHOWN = 12
"""Lines of a compiler's messages that an error shows."""
_PROBE = """
#include <stdint.h>
#include <string.h>
uint64_t probe(const uint8_t *from) { uint64_t to; memcpy(&to, from, sizeof to); return to; }
"""


class BuildError(NpuError):
    """No native code: there is no compiler, or it refused."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler that has made a library that loads and runs here."""

    command: tuple[str, ...]
    name: str
    """gcc, clang, zig, or cc for another."""
    version: str
    """In its own words, one line."""
    flags: tuple[str, ...]
    """For every call."""
    identity: str
    """Differs when the compiler, its flags or the processor do."""

    def run(self, arguments: Sequence[str], work: Path) -> None:
        """Calls it in the folder `work`, the only one it writes to."""
        command = [*self.command, *self.flags, *arguments]
        done = _call(command, work)
        if done.returncode:
            raise BuildError(
                f"{self.name} failed ({_status(done.returncode)}):\n{_essence(done.stdout)}\n"
                f"command: {shlex.join(command)}\n"
                "set CELOSIA_CC to another compiler, or simulate with the engine pysim"
            )


def compiler(cache: Cache) -> Compiler | None:
    """The compiler for this machine, or None.

    That in `CELOSIA_CC` (a command as for a shell; BuildError if it does not work), else the
    system's, else the one of the package ziglang. What was found once is remembered in the cache.
    """
    try:
        return find_compiler(cache)
    except NoCompiler:
        return None


class NoCompiler(BuildError):
    """Nothing that could be tried works."""


def find_compiler(cache: Cache) -> Compiler:
    """As `compiler`, but an error says what was tried."""
    chosen = os.environ.get("CELOSIA_CC")
    if chosen:
        try:
            return _remembered(tuple(shlex.split(chosen)), cache)
        except BuildError as error:
            raise BuildError(f"CELOSIA_CC={chosen} does not work: {error}") from error
    reasons = []
    for command in _candidates():
        try:
            return _remembered(command, cache)
        except BuildError as error:
            reasons.append(f"\n{shlex.join(command)}: {error}")
    raise NoCompiler(
        f"there is no C compiler: {INSTALL} brings one, or install gcc or clang, or name one in "
        f"CELOSIA_CC; the engine pysim needs none{''.join(reasons)}"
    )


def _candidates() -> Iterator[tuple[str, ...]]:
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            yield (path,)
    spec = find_spec("ziglang")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        # The program itself: `python -m ziglang` starts an interpreter first, each time.
        path = shutil.which("zig", path=folder)
        if path:
            yield (path, "cc")


def _remembered(command: tuple[str, ...], cache: Cache) -> Compiler:
    path = shutil.which(command[0])
    if path is None:
        raise BuildError(f"there is no program {command[0]}")
    command = (os.path.abspath(path), *command[1:])
    status = os.stat(path)
    key = digest(
        "compiler", cpu(), *command, os.path.realpath(path), str(status.st_size),
        str(status.st_mtime_ns), *_common_flags("gcc"), *_common_flags("zig"),
    )  # fmt: skip
    return cache.object(key, lambda: _probe(command, cache))


def _probe(command: tuple[str, ...], cache: Cache) -> Compiler:
    """Compiles a little library and calls it."""
    with cache.workspace() as work:
        version = _call([*command, "--version"], work).stdout
    name = _name(command, version)
    first = None
    for target in _TARGETS:
        flags = (*target, *_common_flags(name))
        identity = digest(name, version, cpu(), *command, *flags)
        found = Compiler(command, name, version.partition("\n")[0], flags, identity)
        try:
            with cache.workspace() as work:
                (work / "probe.c").write_text(_PROBE)
                library = work / f"probe{LIBRARY_SUFFIX}"
                found.run(["-O2", "-shared", "-o", library.name, "probe.c"], work)
                probe = ctypes.CDLL(str(library)).probe
                probe.argtypes, probe.restype = [ctypes.c_char_p], ctypes.c_uint64
                if probe((0x0123456789ABCDEF).to_bytes(8, sys.byteorder)) == 0x0123456789ABCDEF:
                    return found
                raise BuildError("what it compiles computes wrong results")
        except OSError as error:
            first = first or BuildError(f"what it compiles cannot be loaded: {error}")
        except BuildError as error:
            first = first or error
    assert first is not None
    raise first


def _call(command: Sequence[str], work: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(work)}
    if _nothing_to_cache():
        environment["ZIG_GLOBAL_CACHE_DIR"] = environment["ZIG_LOCAL_CACHE_DIR"] = str(work / "zig")
    try:
        return subprocess.run(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be started: {error}") from error


def _name(command: tuple[str, ...], version: str) -> str:
    if Path(command[0]).stem == "zig" or "ziglang" in command or "/ziglang" in version:
        return "zig"
    if "clang" in version:
        return "clang"
    return "gcc" if "Free Software Foundation" in version else "cc"


def _common_flags(name: str) -> tuple[str, ...]:
    flags = ["-fPIC", "-fno-strict-aliasing", "-w"]
    if platform.machine() in ("x86_64", "AMD64"):
        # gcc may move data through MMX registers, after which long doubles of others are invalid.
        flags.append("-mno-mmx")
    if sys.platform.startswith("linux"):
        # Calls inside the library are direct, whatever else the process has loaded.
        flags += ["-fno-semantic-interposition", "-Wl,-Bsymbolic"]
    if name == "zig":
        flags.append("-fno-sanitize=undefined")
        if _nothing_to_cache():
            # memcpy and memset come from the process. With a libc of its own, zig's first start
            # takes 3.4 s instead of 0.2 s.
            flags.append("-nostdlib")
    return tuple(flags)


def _nothing_to_cache() -> bool:
    """Zig needs no libraries that it would have to make first and keep."""
    return sys.platform.startswith("linux")


def _status(returncode: int) -> str:
    return f"signal {-returncode}" if returncode < 0 else f"status {returncode}"


def _essence(messages: str) -> str:
    """The first lines from the first error on."""
    lines = messages.strip().splitlines() or ["it said nothing"]
    start = next((i for i, line in enumerate(lines) if "error" in line), 0)
    shown = lines[start : start + _SHOWN]
    rest = len(lines) - start - len(shown)
    return "\n".join([*shown, f"({rest} more lines)"] if rest else shown)
