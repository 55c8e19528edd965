"""Ends that leave nothing half done."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["finish"]


def finish(*steps: Callable[[], object]) -> None:
    """Takes every step in order, whatever those before it raise; then raises the first error."""
    first: BaseException | None = None
    for step in steps:
        try:
            step()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first
