"""The cache, used by several at once and damaged in all ways."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import sim.engine.cache
from sim.engine.cache import ABANDONED, Cache, CacheError, user_folder

KEY = "a1" + "0" * 62


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


class Maker:
    """Writes a text and counts how often; may wait in the middle."""

    def __init__(self, text="made"):
        self.text = text
        self.calls = 0
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, path):
        self.calls += 1
        path.write_text(self.text[:2])
        self.begun.set()
        assert self.go_on.wait(60)
        path.write_text(self.text)


def entries(cache):
    return sorted(cache.root.glob("*.d/*"))


def leftovers(cache):
    return list((cache.root / "work").iterdir())


def test_a_file_is_made_once_and_found_by_the_next(cache):
    make = Maker()
    path = cache.file(KEY, make, ".txt")
    assert path.read_text() == "made"
    assert path.suffix == ".txt"
    assert Cache(cache.root.parent).file(KEY, make, ".txt") == path
    assert make.calls == 1
    assert entries(cache) == [path]
    assert leftovers(cache) == []


def test_keys_and_kinds_of_files_are_apart(cache):
    texts = {
        cache.file(key, Maker(text), suffix).read_text()
        for key, suffix, text in [
            (KEY, ".a", "one"), (KEY, ".b", "two"), ("b2" + KEY, ".a", "three")
        ]
    }  # fmt: skip
    assert texts == {"one", "two", "three"}
    assert len(entries(cache)) == 3


def test_an_object_comes_back_from_its_pickle_the_first_time_too(cache):
    made = []

    def make():
        made.append({"rows": [1, 2]})
        return made[0]

    first, second = cache.object(KEY, make), cache.object(KEY, make)
    assert first == second == made[0]
    assert first is not made[0]
    assert len(made) == 1


@pytest.mark.parametrize("damage", [b"", b"ma", b"mada", b"made and more"])
def test_a_damaged_entry_is_made_again(cache, damage):
    make = Maker()
    path = cache.file(KEY, make)
    path.write_bytes(damage)
    assert cache.file(KEY, make).read_text() == "made"
    assert make.calls == 2
    assert len(entries(cache)) == 1


def test_what_replaces_a_damaged_entry_may_differ(cache):
    damaged = cache.file(KEY, Maker("first"))
    damaged.write_text("broken")
    path = cache.file(KEY, Maker("second"))
    assert path.read_text() == "second"
    assert entries(cache) == [path]


class Sample:
    pass


def test_an_object_whose_class_is_gone_is_made_again(cache, monkeypatch):
    assert isinstance(cache.object(KEY, Sample), Sample)
    monkeypatch.delattr(sys.modules[__name__], "Sample")
    assert cache.object(KEY, lambda: 5) == 5
    assert cache.object(KEY, lambda: 6) == 5


def test_an_entry_of_another_user_is_made_again(cache, monkeypatch):
    make = Maker()
    cache.file(KEY, make)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    cache.file(KEY, make)
    assert make.calls == 2


def test_a_link_is_no_entry(cache, tmp_path):
    make = Maker()
    path = cache.file(KEY, make)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not cache.file(KEY, make).is_symlink()
    assert make.calls == 2


def test_nothing_remains_when_making_fails(cache):
    def fail(path):
        path.write_text("ma")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cache.file(KEY, fail)
    assert entries(cache) == leftovers(cache) == []
    assert cache.file(KEY, Maker()).read_text() == "made"


def test_who_comes_second_waits_for_the_first(cache):
    make = Maker()
    make.go_on.clear()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(cache.file(KEY, make))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert make.begun.wait(60)
    assert found == []
    make.go_on.set()
    for thread in threads:
        thread.join()
    assert make.calls == 1
    assert len(set(found)) == 1
    assert entries(cache) == [found[0]]


def test_who_waited_too_long_makes_it_too(cache):
    slow, hasty = Maker(), Maker()
    slow.go_on.clear()
    thread = threading.Thread(target=lambda: cache.file(KEY, slow))
    thread.start()
    assert slow.begun.wait(60)
    path = Cache(cache.root.parent, patience=0).file(KEY, hasty)
    assert path.read_text() == "made"
    slow.go_on.set()
    thread.join()
    assert (slow.calls, hasty.calls) == (1, 1)
    assert entries(cache) == [path]


ASK = """
import sys, time
from pathlib import Path
from sim.engine.cache import Cache
folder, log, key, mode = sys.argv[1:]

def make(path):
    with open(log, "a") as file:
        file.write("made\\n")
    path.write_text("ma")
    if mode == "hang":
        print("half", flush=True)
        sys.stdin.read()
    time.sleep(0.2)
    path.write_text("made")

print(Cache(Path(folder)).file(key, make).read_text())
"""


@pytest.fixture
def ask(cache, tmp_path):
    def ask(mode):
        return subprocess.Popen(
            [sys.executable, "-c", ASK, cache.root.parent, tmp_path / "log", KEY, mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    return ask


def test_processes_at_once_make_it_once(ask, cache, tmp_path):
    processes = [ask("go") for _ in range(4)]
    assert [process.communicate()[0] for process in processes] == ["made\n"] * 4
    assert (tmp_path / "log").read_text() == "made\n"
    assert len(entries(cache)) == 1


def test_a_process_killed_in_the_middle_leaves_no_entry_and_stops_nobody(ask, cache):
    with ask("hang") as process:
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
    assert len(leftovers(cache)) == 1
    assert cache.file(KEY, Maker()).read_text() == "made"
    (entry,) = entries(cache)
    assert entry.read_text() == "made"


def test_work_of_the_dead_is_swept_away_after_a_day(cache):
    with cache.workspace() as work:
        (work / "part").write_text("x")
        shutil.copytree(work, work.parent / "old")
        os.utime(work.parent / "old", (0, 0))
        cache.file(KEY, Maker())
        assert work.exists()
        assert not (work.parent / "old").exists()
    assert ABANDONED == 86400


def test_the_least_recently_used_entries_go_first(tmp_path):
    cache = Cache(tmp_path, limit=250)
    old, used, new = ("a" * 64, "b" * 64, "c" * 64)
    for age, key in ((2000, used), (1000, old)):
        os.utime(cache.file(key, Maker("x" * 100)), (10_000 - age, 10_000 - age))
    kept = cache.file(used, Maker())
    added = cache.file(new, Maker("z" * 100))
    assert entries(cache) == [kept, added]


def test_an_entry_above_the_limit_is_there_for_who_made_it(tmp_path):
    cache = Cache(tmp_path, limit=10)
    first = cache.file("a" * 64, Maker("x" * 100))
    assert first.exists()
    second = cache.file("b" * 64, Maker("y" * 100))
    assert entries(cache) == [second]


def test_the_folder_is_for_its_user_only(cache, tmp_path):
    def mode(path):
        return stat.S_IMODE(path.stat().st_mode)

    assert mode(cache.root) == 0o700
    assert cache.notice is None
    cache.root.chmod(0o777)
    Cache(tmp_path / "cache")
    assert mode(cache.root) == 0o700


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_folder_that_cannot_be_is_replaced_and_said(tmp_path, temporary):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    assert cache.root == temporary / f"celosia-{os.geteuid()}-v1"
    assert cache.notice == (
        f"the cache folder {tmp_path}/file/v1 cannot be used (Not a directory); {cache.root} is "
        "used, set CELOSIA_CACHE to a folder that lasts"
    )
    assert cache.file(KEY, Maker()).is_relative_to(temporary)


def test_a_folder_of_another_user_is_not_touched(tmp_path, temporary, monkeypatch):
    (tmp_path / "v1").mkdir(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    cache = Cache(tmp_path)
    assert "it belongs to another user" in cache.notice
    assert cache.root.parent == temporary
    assert stat.S_IMODE((tmp_path / "v1").stat().st_mode) == 0o755


def test_who_has_no_home_still_has_a_cache(temporary, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    for name in ("CELOSIA_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    cache = Cache()
    assert cache.notice.startswith("there is no cache folder (Could not determine home")
    assert cache.root.parent == temporary


def test_a_full_disk_is_an_error_with_a_remedy(cache, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sim.engine.cache.Path, "replace", full)
    with pytest.raises(CacheError, match=r"fails: .*No space left on device; free space there"):
        cache.file(KEY, Maker())
    assert entries(cache) == leftovers(cache) == []


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the place that Linux has")
def test_the_place_is_chosen_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("CELOSIA_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert user_folder() == Path("/home/someone/.cache/celosia")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert user_folder() == Path("/home/someone/.cache/celosia")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    assert user_folder() == Path("/var/caches/celosia")
    monkeypatch.setenv("CELOSIA_CACHE", "here")
    monkeypatch.chdir(tmp_path)
    assert user_folder() == tmp_path / "here"
