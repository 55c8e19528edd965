"""From C to a shared library, through the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .cache import Cache
from .compiler import LIBRARY_SUFFIX, Compiler, find_compiler
from .keys import digest

__all__ = ["HEADER", "build"]

HEADER = "program.h"
"""What the header is called in the sources' `#include`."""
_JOBS = 2
"""Compilers that run at once; more would be in the way of other work."""


def build(
    sources: str | Sequence[str],
    header: str = "",
    *,
    optimise: int = 3,
    cache: Cache | None = None,
) -> Path:
    """A shared library of one or several C translation units; compiled only if the cache has none.

    Links with nothing but what the process has: no libc beyond memcpy, memset and allocation, no
    128-bit division. BuildError: no compiler, or what it said.

    Parameters
    ----------
    sources: texts of the units. Several are compiled side by side.
    header: text that units may include as `program.h`.
    optimise: 0 to 3, the compiler's -O.
    cache: None: the user's.
    """
    units = [sources] if isinstance(sources, str) else list(sources)
    cache = cache or Cache()
    chosen = find_compiler(cache)
    key = digest("library", chosen.identity, str(optimise), header, *units)
    return cache.file(
        key,
        lambda library: _compile(chosen, units, header, f"-O{optimise}", library),
        LIBRARY_SUFFIX,
    )


def _compile(
    chosen: Compiler, units: list[str], header: str, level: str, library: Path
) -> None:
    work = library.parent
    (work / HEADER).write_text(header)
    names = [f"unit{index}" for index in range(len(units))]
    for name, text in zip(names, units, strict=True):
        (work / f"{name}.c").write_text(text)
    if len(names) == 1:
        chosen.run([level, "-shared", "-o", library.name, f"{names[0]}.c"], work)
        return

    def compile_unit(name: str) -> None:
        chosen.run([level, "-c", "-o", f"{name}.o", f"{name}.c"], work)

    with ThreadPoolExecutor(min(_JOBS, os.cpu_count() or 1)) as pool:
        jobs = [pool.submit(compile_unit, name) for name in names]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    chosen.run([level, "-shared", "-o", library.name, *(f"{n}.o" for n in names)], work)
