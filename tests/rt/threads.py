"""Host threads in tests."""

import threading
import time
from contextlib import contextmanager

LONG = 20
"""Seconds that nothing lasts."""


@contextmanager
def threads(*functions):
    """Runs each in a thread beside the body; raises what one of them raised."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in running:
        thread.start()
    yield running
    for thread in running:
        thread.join(LONG)
    assert not any(thread.is_alive() for thread in running)
    for error in errors:
        raise error


def until(condition):
    """Waits in wall time, not long."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
