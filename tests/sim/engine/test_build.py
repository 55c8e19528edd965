"""Shared libraries from C."""

import ctypes
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from hw.regs.errors import NpuError
from sim.engine.build import build
from sim.engine.cache import Cache
from sim.engine.compiler import BuildError, Compiler

SYSTEM = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
COMPILERS = [
    pytest.param(
        "system", marks=pytest.mark.skipif(SYSTEM is None, reason="no compiler of the system")
    ),
    pytest.param(
        "zig",
        marks=pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed"),
    ),
]
pytestmark = pytest.mark.parametrize("which", COMPILERS)

TWICE = "int twice(int x) { return 2 * x; }\n"
UNITS = [
    '#include "program.h"\nint total(int x) { return twice(x) + thrice(x); }\n',
    '#include "program.h"\nint twice(int x) { return 2 * x; }\n',
    '#include "program.h"\nint thrice(int x) { return 3 * x; }\n',
]
HEADER = "int twice(int); int thrice(int);\n"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Of a cache that all tests here share, so that each compiler is probed once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def cache(which, folder, monkeypatch):
    if which == "zig":
        monkeypatch.setenv("CELOSIA_CC", f"{sys.executable} -m ziglang cc")
    else:
        monkeypatch.setenv("CELOSIA_CC", SYSTEM)
    return Cache(folder)


def test_what_is_compiled_runs(cache):
    library = ctypes.CDLL(str(build(TWICE, cache=cache)))
    assert library.twice(21) == 42


@pytest.mark.parametrize("optimise", [0, 1, 2, 3])
def test_copying_and_clearing_work_at_every_level(cache, optimise):
    source = """
        #include <string.h>
        void move(unsigned char *to, const unsigned char *from, unsigned long n) {
            memset(to, 0, 64);
            memcpy(to, from, n);
        }
    """
    library = ctypes.CDLL(str(build(source, optimise=optimise, cache=cache)))
    to = ctypes.create_string_buffer(b"x" * 64)
    library.move(to, b"abcdef", ctypes.c_ulong(3))
    assert to.raw[:64] == b"abc" + bytes(61)


def test_units_are_linked_and_share_a_header(cache):
    library = ctypes.CDLL(str(build(UNITS, HEADER, cache=cache)))
    assert library.total(7) == 35


def test_the_same_text_is_compiled_once(cache, monkeypatch):
    path = build(UNITS, HEADER, optimise=1, cache=cache)

    def run(*arguments):
        raise AssertionError("compiled")

    monkeypatch.setattr(Compiler, "run", run)
    assert build(UNITS, HEADER, optimise=1, cache=cache) == path
    for sources, header, optimise in [
        (UNITS, HEADER + " ", 1), (UNITS, HEADER, 2), (UNITS[1:] + UNITS[:1], HEADER, 1)
    ]:  # fmt: skip
        with pytest.raises(AssertionError, match="compiled"):
            build(sources, header, optimise=optimise, cache=cache)


def test_pointers_of_other_types_see_what_was_written(cache):
    source = """
        #include <stdint.h>
        uint32_t alias(uint32_t *word, uint16_t *half) { *word = 1; *half = 7; return *word; }
    """
    library = ctypes.CDLL(str(build(source, cache=cache)))
    word = ctypes.c_uint32()
    expected = 7 if sys.byteorder == "little" else 7 << 16 | 1
    assert library.alias(ctypes.byref(word), ctypes.byref(word)) == expected


@pytest.mark.parametrize("units", [1, 3])
def test_an_error_shows_what_the_compiler_said(cache, units):
    sources = [*UNITS[: units - 1], "int f(void) { return lacking; }\n"]
    with pytest.raises(BuildError) as caught:
        build(sources, HEADER, cache=cache)
    assert isinstance(caught.value, NpuError)
    kind, place, *_, command, remedy = str(caught.value).splitlines()
    assert kind.endswith("failed (status 1):")
    assert place.startswith(f"unit{units - 1}.c:1:22: error: ")
    assert "lacking" in place
    assert command.startswith("command: ")
    assert f"unit{units - 1}.c" in command
    assert remedy == "set CELOSIA_CC to another compiler, or simulate with the engine pysim"


def test_only_the_first_messages_are_shown(cache):
    source = "".join(f"int f{i}(void) {{ return lacking{i}; }}\n" for i in range(15))
    with pytest.raises(BuildError) as caught:
        build(source, cache=cache)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 + 12 + 1 + 2
    assert lines[13].endswith(" more lines)")


def test_warnings_are_not_shown(cache, capfd):
    build("int odd(int x) { int unused; if ((x == 1)) return 1; return 0; }\n", cache=cache)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_left_behind(cache, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build(UNITS, HEADER + "/* fresh */", cache=cache)
    with pytest.raises(BuildError):
        build("error", cache=cache)
    assert list((cache.root / "work").iterdir()) == []
    assert list(cache.root.glob("*.d/*.lock")) == []
    assert os.listdir(tmp_path) == []


WRAPPER = """#!/bin/sh
case "$*" in
*unit0.c*) echo call >> "$(dirname "$0")/log"; {before} ;;
esac
exec {command} "$@"
"""


@pytest.fixture
def wrapped(cache, tmp_path, monkeypatch):
    """Puts a script before the compiler, which logs and does something before a unit."""

    def wrapped(before):
        script = tmp_path / "cc"
        script.write_text(WRAPPER.format(before=before, command=os.environ["CELOSIA_CC"]))
        script.chmod(0o755)
        monkeypatch.setenv("CELOSIA_CC", str(script))
        monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path / "cache"))

    return wrapped


def test_a_compiler_that_dies_is_reported(wrapped):
    wrapped("kill -9 $$")
    with pytest.raises(BuildError, match=r"failed \(signal 9\):\nit said nothing\ncommand: "):
        build(TWICE)


def test_processes_at_once_compile_once(wrapped, tmp_path):
    wrapped("sleep 0.3")
    code = f"from sim.engine.build import build; print(build({TWICE!r}))"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paths = {process.communicate()[0] for process in processes}
    assert len(paths) == 1
    assert ctypes.CDLL(paths.pop().strip()).twice(4) == 8
    assert (tmp_path / "log").read_text() == "call\n"
