"""Finding a compiler that works."""

import os
import platform
import shutil
import sys
from importlib.util import find_spec

import pytest

import sim.engine.compiler
from sim.engine.cache import Cache
from sim.engine.compiler import BuildError, NoCompiler, compiler, find_compiler

SYSTEM = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_system = pytest.mark.skipif(SYSTEM is None, reason="no compiler of the system")
needs_zig = pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("CELOSIA_CC", raising=False)
    return Cache(tmp_path / "cache")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder that comes first on the path; makes shell scripts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def script(name, body):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return script


@pytest.fixture
def without_ziglang(monkeypatch):
    monkeypatch.setattr(sim.engine.compiler, "find_spec", lambda name: None)


@needs_system
def test_the_systems_compiler_is_taken(cache):
    found = compiler(cache)
    assert found.name in ("gcc", "clang", "cc")
    assert found.version
    assert "\n" not in found.version
    assert "-march=native" in found.flags or "-mcpu=native" in found.flags


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="registers of x86")
def test_code_leaves_the_floating_point_unit_as_it_is(cache):
    assert "-mno-mmx" in compiler(cache).flags


@needs_system
def test_a_compiler_that_is_there_but_fails_is_passed_over(cache, programs):
    broken = programs("cc", "echo xcrun: error: no tools >&2; exit 1")
    working = programs("gcc", f'exec {SYSTEM} "$@"')
    assert find_compiler(cache).command == (str(working),)
    assert broken.exists()


@needs_system
def test_a_compiler_that_makes_nothing_that_loads_is_passed_over(cache, programs):
    programs("cc", "for last; do :; done; echo no library > probe.so")
    working = programs("gcc", f'exec {SYSTEM} "$@"')
    assert find_compiler(cache).command == (str(working),)


@needs_system
def test_a_compiler_without_native_targets_does_without(cache, programs, monkeypatch):
    refuse = 'case "$*" in *=native*) echo error: what is that; exit 1;; esac'
    old = programs("old", f'{refuse}; exec {SYSTEM} "$@"')
    monkeypatch.setenv("CELOSIA_CC", str(old))
    assert not any("native" in flag for flag in compiler(cache).flags)


@needs_system
def test_it_is_asked_once_and_then_remembered(cache, programs, tmp_path, monkeypatch):
    counting = programs("counting", f'echo call >> {tmp_path}/log; exec {SYSTEM} "$@"')
    monkeypatch.setenv("CELOSIA_CC", str(counting))
    first = compiler(cache)
    calls = (tmp_path / "log").read_text()
    assert compiler(cache) == first
    assert (tmp_path / "log").read_text() == calls
    os.utime(counting, (1, 1))
    assert compiler(cache) == first
    assert (tmp_path / "log").read_text() == calls * 2


@needs_system
def test_the_identity_knows_the_processor(cache, monkeypatch):
    here = compiler(cache).identity
    monkeypatch.setattr(sim.engine.compiler, "cpu", lambda: "another")
    assert compiler(cache).identity != here


@needs_system
def test_the_environment_names_a_command_with_arguments(cache, monkeypatch):
    monkeypatch.setenv("CELOSIA_CC", f"{SYSTEM} -DCELOSIA='a b'")
    assert compiler(cache).command == (SYSTEM, "-DCELOSIA=a b")


def test_a_chosen_compiler_that_fails_is_an_error(cache, programs, monkeypatch):
    monkeypatch.setenv("CELOSIA_CC", "celosia-absent-cc")
    with pytest.raises(BuildError, match="CELOSIA_CC=celosia-absent-cc does not work: there is no"):
        compiler(cache)
    monkeypatch.setenv("CELOSIA_CC", str(programs("cc", "echo error: out of order; exit 3")))
    with pytest.raises(BuildError, match=r"failed \(status 3\):\nerror: out of order\ncommand:"):
        compiler(cache)


def test_without_any_compiler_the_error_says_how_to_get_one(cache, without_ziglang, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert compiler(cache) is None
    with pytest.raises(NoCompiler) as caught:
        find_compiler(cache)
    assert str(caught.value) == (
        "there is no C compiler: pip install 'celosia[compiler]' brings one, or install gcc or "
        "clang, or name one in CELOSIA_CC; the engine pysim needs none"
    )


def test_the_error_says_why_compilers_that_are_there_do_not_count(
    cache, programs, without_ziglang, monkeypatch
):
    broken = programs("cc", "echo error: no licence; exit 1")
    monkeypatch.setenv("PATH", str(broken.parent))
    with pytest.raises(NoCompiler, match=rf"(?s)\n{broken}: cc failed .*error: no licence"):
        find_compiler(cache)


@needs_zig
def test_ziglang_is_the_compiler_where_there_is_no_other(cache, monkeypatch):
    monkeypatch.setenv("PATH", "")
    found = compiler(cache)
    assert found.name == "zig"
    assert found.command[1:] == ("cc",)
    assert "clang" in found.version


@needs_zig
def test_ziglang_can_be_chosen_as_a_module(cache, monkeypatch):
    monkeypatch.setenv("CELOSIA_CC", f"{sys.executable} -m ziglang cc")
    assert compiler(cache).name == "zig"
