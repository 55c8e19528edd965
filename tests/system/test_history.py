"""The past of the whole machine: from any snapshot, every signal goes on as it did."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rt import Device
from rt.ops import gemm

WINDOW = 25


def program(transport):
    """A small product with its copies and events, on a machine with a history. Its kernel."""
    transport.reset()
    transport.write_device(0, bytes(transport.device_bytes))
    transport.keep_history(every=100)
    device = Device(transport, patience=20_000, watchdog=5_000)
    with device.session() as session:
        copies, kernels = session.stream(), session.stream()
        left = session.buffer(np.arange(12, dtype=np.int8).reshape(3, 4), copies)
        right = session.buffer(np.full((4, 5), -3, np.int8), copies)
        out = session.empty((3, 5), np.int32)
        ready = session.event()
        copies.record(ready)
        kernels.wait(ready)
        (task,) = gemm(kernels, left, right, out)
        session.synchronise()
    return task


@pytest.fixture(scope="module")
def past(machine):
    """A machine with a past, and the kernel in it."""
    yield machine, program(machine)
    machine.forget()


def recorded(transport, path, window):
    """A window of the past, after which the machine is as before."""
    now, device = transport.now(), bytes(transport.device_memory())
    assert transport.replay(window, vcd=path)
    assert (transport.now(), bytes(transport.device_memory())) == (now, device)
    return path.read_bytes()


@settings(max_examples=5)
@given(place=st.floats(0, 1))
def test_from_any_snapshot_every_signal_is_that_of_the_run(past, tmp_path_factory, place):
    transport, _ = past
    path = tmp_path_factory.mktemp("waves") / "x.vcd"
    history = transport._host
    first = int(place * (transport.now() - WINDOW))
    window = f"{first}:{first + WINDOW}"
    restored = recorded(transport, path, window)
    marks, history.marks = history.marks, history.marks[:1]
    try:
        assert recorded(transport, path, window) == restored
    finally:
        history.marks = marks


@pytest.mark.oracle
def test_a_tasks_window_is_byte_for_byte_that_of_direct_recording(past, tmp_path):
    transport, task = past
    mine = recorded(transport, tmp_path / "after.vcd", f"task:{task.id}")
    transport.capture(tmp_path / "direct.vcd", f"task:{task.id}", afterwards=False)
    assert program(transport).id == task.id
    transport.engine.end_capture()
    assert mine == (tmp_path / "direct.vcd").read_bytes()
