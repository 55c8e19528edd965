"""Compares what happened on a device with the reference."""

import itertools
from typing import Protocol

import numpy as np

from hw.regs.registers import EventRecord
from rt import Device
from rt.transport import Reason
from tests.system.semantics.calls import Mark
from tests.system.semantics.execution import run
from tests.system.semantics.player import Player
from tests.system.semantics.reference import Reference, members

__all__ = ["Bench", "check"]

QUIET = 2000
"""Cycles for which the interrupt line stays low after a program."""


class Bench(Protocol):
    """A device, and what only a test can do with it.

    exact: its times are those of the gateware. On others a task may begin in the cycle in which
        what it waits for ends.
    """

    device: Device
    exact: bool

    def memory(self, address, size):
        """Bytes of device memory."""

    def set_index(self, stream, index):
        """The next entry of a hardware stream, which is idle, has that index."""


def check(program, bench):
    """Runs a program in a session of its own.

    Memory, counters and downloads are as the reference says, no task began before what it waits
    for had ended, and everything that was taken is given back.
    """
    reference = Reference(len(program.streams), program.graphs, program.calls)
    expected = run(reference, lambda ready: ready[0])
    device = bench.device
    begin(device, program.origin)
    with device.session() as session:
        player = Player(program, session, bench)
        player.play()
        check_results(player, expected)
        check_times(player, reference)
        player.close()
        assert (session._pool.deferred, session._staging.deferred) == (0, 0)
        assert session.stranded == []
    check_given_back(device)


def begin(device, origin):
    """Numbers of the device begin there."""
    device._numbers = itertools.count(origin.task)
    for slot in range(device.config.events):
        for generation in (origin.generation // 2, origin.generation):
            device.driver.write(EventRecord(slot=slot, generation=generation))


def check_given_back(device):
    """Nothing of the device is in use, and it is quiet."""
    assert len(device.events.free) == device.config.events
    assert len(device.counters.free) == device.config.notifies
    assert device._streams == set(range(device.config.streams))
    for pool in (device.device_pool, device.host_pool):
        assert pool.available == pool.size
    transport = device.driver.transport
    stop = transport.run_until(interrupt=True, cycle=transport.now() + QUIET)
    assert stop.reason is Reason.CYCLE


def check_results(player, expected):
    """What is in memory and counters, and what was downloaded."""
    memory = np.concatenate([
        np.frombuffer(player.bench.memory(buffer.address, buffer.nbytes), np.uint8)
        for buffer in player.buffers
    ])
    wrong = np.flatnonzero((memory != expected.memory) & expected.known)
    assert not len(wrong), f"bytes {wrong} of memory"
    assert [notify.value for notify in player.notifies] == expected.counters
    for call, download in player.downloads.items():
        if download.done:
            found, (wanted, sure) = download.result(), expected.downloads[call]
            assert (found == wanted)[sure].all(), f"the download of call {call}"


def check_times(player, reference):
    """Nothing began before what it waits for had ended."""
    times = player.times()
    for task in reference.tasks:
        if (task.call, task.node) not in times:
            continue
        start, _ = times[task.call, task.node]
        for number in members(task.before):
            before = reference.tasks[number]
            _, end = times.get((before.call, before.node), (0, -1))
            # A record passes in the cycle in which the task that carries it ends.
            assert end < start + (not player.bench.exact or isinstance(task.work, Mark)), (
                f"{task} began in cycle {start}, but {before} ended in {end}"
            )
