"""A lock that processes and threads share through a file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["lock"]

INTERVAL = 0.02
"""Seconds between two attempts."""


@contextmanager
def lock(path: Path, patience: float) -> Iterator[bool]:
    """Holds the lock named by a file that need not exist; afterwards it does not.

    The system frees the lock of a process that dies, so that none is ever stale.

    Gives False, and holds nothing, when another held it for all of `patience` seconds or the file
    system knows no locks.
    """
    deadline = time.monotonic() + patience
    handle = None
    while handle is None:
        try:
            handle = _attempt(path)
        except OSError:
            break
        if handle is None:
            if time.monotonic() >= deadline:
                break
            time.sleep(INTERVAL)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            _release(path, handle)


def _attempt(path: Path) -> int | None:
    """The open file, locked, or None while another holds it. OSError: this will never work."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if _try(handle) and _names(path, handle):
            return handle
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _try(handle: int) -> bool:
    if sys.platform == "win32":
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
    else:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _names(path: Path, handle: int) -> bool:
    """The path still means the open file: its last holder did not remove it meanwhile."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _release(path: Path, handle: int) -> None:
    if sys.platform == "win32":
        # An open file cannot be removed there; it stays, unlocked.
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
        os.close(handle)
    else:
        # Removed while it is held: who waits for the old file finds out and opens a new one.
        path.unlink(missing_ok=True)
        os.close(handle)
