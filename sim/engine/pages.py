"""The bytes of a storage: allocated as they are used, with snapshots that share what is equal."""

from __future__ import annotations

import mmap
from itertools import groupby

import numpy as np
import numpy.typing as npt

from hw.regs.errors import ConfigError

__all__ = ["PAGE", "Image", "Pages"]

PAGE = 4096
"""Bytes of a page."""
GROUP = 512
"""Pages that an image shares together while none of them changes."""

_ZERO = bytes(PAGE)
_EMPTY = (_ZERO,) * GROUP

Image = tuple[tuple[bytes, ...], ...]
"""Contents of all pages, in groups. Equal pages and groups of one storage's images are shared."""


class Pages:
    """Bytes that start as zero. Those that were never touched take no memory.

    A snapshot costs time and memory for the pages that changed since the last one. For that,
    whoever writes through `view` sets the bytes of `dirty` that stand for the pages written:
    native code, too, which takes its addresses from both. `write` does so itself.

    Parameters
    ----------
    size: bytes.

    Members
    -------
    view: the bytes, without a copy; also for `numpy.frombuffer`.
    dirty: one byte per page, not zero when it may have changed since the last snapshot.
    """

    def __init__(self, size: int) -> None:
        try:
            self._mapping = mmap.mmap(-1, size, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise ConfigError(
                f"this machine has no room for a memory of {size} bytes ({error.strerror}); "
                "choose a smaller one"
            ) from error
        self.view = memoryview(self._mapping)
        self.dirty: npt.NDArray[np.uint8] = np.zeros(-(-size // PAGE), np.uint8)
        self._image: Image = (_EMPTY,) * -(-len(self.dirty) // GROUP)

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Writes bytes from `at` on."""
        self.view[at : at + len(data)] = data
        self.dirty[at // PAGE : -(-(at + len(data)) // PAGE)] = 1

    def snapshot(self) -> Image:
        """The present contents."""
        image = list(self._image)
        changed = np.flatnonzero(self.dirty)
        for group, pages in groupby(changed.tolist(), lambda page: page // GROUP):
            contents = list(image[group])
            for page in pages:
                content = bytes(self.view[page * PAGE : (page + 1) * PAGE])
                if content != contents[page % GROUP]:
                    contents[page % GROUP] = content
            image[group] = tuple(contents)
        self.dirty[changed] = 0
        self._image = tuple(image)
        return self._image

    def restore(self, image: Image) -> None:
        """Contents as they were; costs what differs."""
        assert len(image) == len(self._image), "an image of another storage"
        for group, (present, wanted) in enumerate(zip(self._image, image, strict=True)):
            if present is not wanted:
                first = group * GROUP
                differing = [
                    first + index
                    for index, (old, new) in enumerate(zip(present, wanted, strict=True))
                    if old is not new
                ]
                self.dirty[differing] = 1
        changed = np.flatnonzero(self.dirty)
        for page in changed.tolist():
            part = self.view[page * PAGE : (page + 1) * PAGE]
            part[:] = image[page // GROUP][page % GROUP][: len(part)]
        self.dirty[changed] = 0
        self._image = image
