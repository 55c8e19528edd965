"""The lock of the cache."""

import os
import subprocess
import sys
import threading
import time

import pytest

import sim.engine.lock
from sim.engine.lock import lock

HOLD = """
import sys, time
from pathlib import Path
from sim.engine.lock import lock
with lock(Path(sys.argv[1]), 0) as held:
    print(held, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "lock"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_it_is_held_once_and_leaves_no_file(tmp_path):
    with lock(tmp_path / "lock", 0) as held:
        assert held
        with lock(tmp_path / "lock", 0) as again:
            assert not again
        with lock(tmp_path / "other", 0) as unrelated:
            assert unrelated
        assert os.listdir(tmp_path) == ["lock"]
    assert os.listdir(tmp_path) == []
    with lock(tmp_path / "lock", 0) as held:
        assert held


def test_another_process_keeps_us_out_until_it_is_done(other, tmp_path):
    with lock(tmp_path / "lock", 0) as held:
        assert not held
    other.stdin.close()
    with lock(tmp_path / "lock", 60) as held:
        assert held


def test_a_killed_process_holds_nothing(other, tmp_path):
    other.kill()
    other.wait()
    assert os.listdir(tmp_path) == ["lock"]
    with lock(tmp_path / "lock", 0) as held:
        assert held
    assert os.listdir(tmp_path) == []


def test_a_file_that_its_holder_removed_just_before_is_not_taken_for_the_lock(
    tmp_path, monkeypatch
):
    attempt = sim.engine.lock._try
    opened = []

    def removed_first(handle):
        if not opened:
            (tmp_path / "lock").unlink()
        opened.append(handle)
        return attempt(handle)

    monkeypatch.setattr(sim.engine.lock, "_try", removed_first)
    with lock(tmp_path / "lock", 60) as held:
        assert held
        with lock(tmp_path / "lock", 0) as again:
            assert not again
    assert len(opened) == 3


def test_those_who_come_and_go_never_hold_it_together(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")

    def count():
        for _ in range(25):
            with lock(tmp_path / "lock", 60) as held:
                assert held
                before = int(counter.read_text())
                time.sleep(0.0005)
                counter.write_text(str(before + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "100"
    assert not (tmp_path / "lock").exists()


def test_an_exception_frees_it(tmp_path):
    with pytest.raises(ZeroDivisionError), lock(tmp_path / "lock", 0):
        raise ZeroDivisionError
    with lock(tmp_path / "lock", 0) as held:
        assert held


def test_where_no_lock_can_be_nothing_is_held(tmp_path):
    with lock(tmp_path / "no" / "folder", 60) as held:
        assert not held
