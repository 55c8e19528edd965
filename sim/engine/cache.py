"""The user's cache: what takes long to make, kept between runs and shared by processes."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from hw.regs.errors import NpuError

from .lock import lock

__all__ = ["Cache", "CacheError", "user_folder"]

T = TypeVar("T")

LAYOUT = "v1"
"""Changes when entries of older versions cannot be understood any more."""
ABANDONED = 24 * 3600
"""Seconds after which the work of a process that died is swept away."""


class CacheError(NpuError):
    """The cache's folder fails: full, or gone."""


def user_folder() -> Path:
    """Where this user's cache lies: `CELOSIA_CACHE`, else the place that the system has for it.

    RuntimeError: the user has no home folder.
    """
    chosen = os.environ.get("CELOSIA_CACHE")
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        base = Path(local) if local else Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = configured if configured.is_absolute() else Path.home() / ".cache"
    return base / "celosia"


class Cache:
    """Files and pickled objects, found by key and made by the first who asks.

    Several processes and threads may use one folder. An entry is there whole or not at all; while
    one makes it, others wait for it. Its name holds the SHA-256 of its content: a damaged one,
    or one of another user, is made anew. The folder is for its user only, since it holds code
    (libraries, pickles) that will run.

    Parameters
    ----------
    folder: of the cache; None: `user_folder()`. If it cannot be used, a temporary one is.
    limit: bytes above which entries go, those that were not used for longest first.
    patience: seconds to wait for another who makes the same entry; then it is made here, too.

    Members
    -------
    root: where entries lie.
    notice: why `root` is not where the user expects it, or None.
    """

    def __init__(
        self, folder: Path | None = None, *, limit: int = 1 << 30, patience: float = 600
    ) -> None:
        self.limit = limit
        self.patience = patience
        self.root, self.notice = _usable_root(folder)

    def file(self, key: str, make: Callable[[Path], None], suffix: str = "") -> Path:
        """The file of a key. `make` writes it; it may put other files beside it, which go."""
        return self._entry(key, suffix, make, lambda path, content: path)

    def object(self, key: str, make: Callable[[], T]) -> T:
        """The object of a key, always as read back from its pickle."""

        def write(path: Path) -> None:
            path.write_bytes(pickle.dumps(make(), pickle.HIGHEST_PROTOCOL))

        def read(path: Path, content: bytes) -> T:
            result: T = pickle.loads(content)
            return result

        return self._entry(key, ".pickle", write, read)

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A private folder on the file system of the entries; afterwards it is gone."""
        work = self.root / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def _entry(
        self,
        key: str,
        suffix: str,
        make: Callable[[Path], None],
        read: Callable[[Path, bytes], T],
    ) -> T:
        try:
            found = self._find(key, suffix, read)
            if not found:
                shelf = self._shelf(key)
                shelf.mkdir(mode=0o700, exist_ok=True)
                with lock(shelf / f"{key}.lock", self.patience):
                    found = self._find(key, suffix, read)
                    if not found:
                        path, content = self._make(key, suffix, make)
                        found = [read(path, content)]
                        self._evict(path)
        except OSError as error:
            raise CacheError(
                f"the cache in {self.root} fails: {error}; free space there, or set "
                "CELOSIA_CACHE to another folder"
            ) from error
        return found[0]

    def _shelf(self, key: str) -> Path:
        return self.root / f"{key[:2]}.d"

    def _find(self, key: str, suffix: str, read: Callable[[Path, bytes], T]) -> list[T]:
        """The entry as `read` understands it, or nothing."""
        for path in self._shelf(key).glob(f"{key}-*{suffix}"):
            content = _intact(path)
            if content is None:
                continue
            try:
                result = read(path, content)
            except Exception:
                # Reading a pickle of classes that have changed can raise anything.
                continue
            with suppress(OSError):
                os.utime(path)
            return [result]
        return []

    def _make(
        self, key: str, suffix: str, make: Callable[[Path], None]
    ) -> tuple[Path, bytes]:
        with self.workspace() as work:
            part = work / f"entry{suffix}"
            make(part)
            content = part.read_bytes()
            for useless in self._shelf(key).glob(f"{key}-*{suffix}"):
                useless.unlink(missing_ok=True)
            path = self._shelf(key) / f"{key}-{hashlib.sha256(content).hexdigest()}{suffix}"
            part.replace(path)
        return path, content

    def _evict(self, kept: Path) -> None:
        """Brings all entries below the limit and sweeps up after processes that died."""
        entries = []
        for path in self.root.glob("*.d/*-*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            entries.append((status.st_mtime_ns, status.st_size, path))
        size = sum(each for _, each, _ in entries)
        for _, each, path in sorted(entries):
            if size <= self.limit:
                break
            if path != kept:
                path.unlink(missing_ok=True)
                size -= each
        for folder in (self.root / "work").iterdir():
            try:
                age = time.time() - folder.stat().st_mtime
            except FileNotFoundError:
                continue
            if age > ABANDONED:
                shutil.rmtree(folder, ignore_errors=True)


def _intact(path: Path) -> bytes | None:
    """The content of an entry, if it is this user's and what its name says."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not _own(status):
                return None
            content = file.read()
    except OSError:
        return None
    named = path.stem.rpartition("-")[2]
    return content if hashlib.sha256(content).hexdigest() == named else None


def _own(status: os.stat_result) -> bool:
    return sys.platform == "win32" or status.st_uid == os.geteuid()


def _usable_root(folder: Path | None) -> tuple[Path, str | None]:
    """Where entries can lie, and why that is not where they should."""
    try:
        wanted = (user_folder() if folder is None else folder) / LAYOUT
    except RuntimeError as error:
        what = f"there is no cache folder ({error})"
    else:
        reason = _prepare(wanted)
        if reason is None:
            return wanted, None
        what = f"the cache folder {wanted} cannot be used ({reason})"
    # Directly in the system's folder, where nobody can exchange what another has made.
    user = "" if sys.platform == "win32" else f"-{os.geteuid()}"
    root = Path(tempfile.gettempdir()) / f"celosia{user}-{LAYOUT}"
    if _prepare(root) is not None:
        root = Path(tempfile.mkdtemp(prefix="celosia-"))
    return root, f"{what}; {root} is used, set CELOSIA_CACHE to a folder that lasts"


def _prepare(root: Path) -> str | None:
    """Makes the folder, for its user only; says why it cannot be used."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.lstat()
        if not stat.S_ISDIR(status.st_mode) or not _own(status):
            return "it belongs to another user"
        if sys.platform != "win32" and stat.S_IMODE(status.st_mode) & 0o077:
            root.chmod(0o700)
        with tempfile.TemporaryFile(dir=root):
            return None
    except OSError as error:
        return error.strerror or str(error)
