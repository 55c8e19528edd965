"""Random programs over several streams against numpy, in the order of their signals."""

import itertools
import random

import numpy as np
import pytest

from tests.rt.machine import ADD, binary, machine


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_equal_numpy(seed):
    rng = random.Random(seed)
    sizes = dict(device_bytes=1 << 16, host_bytes=1 << 16, notifies=6)
    with machine(**sizes) as device, device.session() as session:
        program(rng, session)
    assert device.device_pool.available == device.device_pool.size
    assert len(device.events.free) == device.config.events
    assert len(device.counters.free) == device.config.notifies


def program(rng, session):
    """Buffers are handed from stream to stream, each time with a signal in between."""
    streams = [session.stream(rng.randrange(8), depth=rng.choice([2, 4, 8])) for _ in range(3)]
    kernel = session.load(binary(ADD, session.device.config))
    events = [session.event(timing=rng.random() < 0.3) for _ in range(4)]
    notifies = {pair: session.notify() for pair in itertools.permutations(streams, 2)}
    marks, marked = session.buffer(np.zeros(len(streams), np.uint64)), [0] * len(streams)
    called, returned = [], []
    buffers, owners, expected, downloads = [], [], [], []
    for _ in range(4):
        buffers.append(session.empty(512, np.uint8))
        owners.append(streams[0])
        streams[0].fill(buffers[-1], 0)
        expected.append(np.zeros(512, np.uint8))

    def claim(stream, *numbers):
        for number in numbers:
            if owners[number] is not stream:
                hand_over(owners[number], stream)
                owners[number] = stream

    def hand_over(owner, stream):
        """What the stream does next comes after all that the owner was given."""
        match rng.randrange(5):
            case 0:
                event = rng.choice(events)
                owner.record(event)
                stream.wait(event)
            case 1:
                amount = rng.randrange(1, 4)
                owner.notify(notifies[owner, stream], amount)
                stream.wait_notify(notifies[owner, stream], amount)
            case 2:
                place = streams.index(owner)
                marked[place] += 1
                owner.write_value(marks, 8 * place, marked[place])
                stream.wait_value(marks, 8 * place, marked[place])
            case 3:
                stream.wait(owner)
            case 4:
                stream.barrier()

    def step(stream):
        one, two = rng.sample(range(4), 2)
        first, size = rng.randrange(500), rng.randrange(1, 13)
        match rng.randrange(8):
            case 0:
                claim(stream, one)
                data = np.frombuffer(rng.randbytes(512), np.uint8)
                stream.upload(buffers[one], data)
                expected[one] = data.copy()
            case 1:
                claim(stream, one, two)
                stream.copy(buffers[one].part(first, size, np.uint8),
                            buffers[two].part(512 - first - size, size, np.uint8))  # fmt: skip
                expected[one][first : first + size] = expected[two][
                    512 - first - size : 512 - first
                ]
            case 2:
                claim(stream, one)
                stream.fill(buffers[one].part(first, size, np.uint8), size)
                expected[one][first : first + size] = size
            case 3:
                claim(stream, one, two)
                stream.launch(kernel, [buffers[one]], [buffers[two]], [size, 512])
                expected[two] = expected[one] + np.uint8(size)
            case 4:
                claim(stream, one)
                downloads.append((stream.download(buffers[one]), expected[one].copy()))
            case 5:
                claim(stream, one)
                replaced = session.empty(512, np.uint8)
                stream.copy(replaced, buffers[one])
                buffers[one].free()
                buffers[one] = replaced
            case 6:
                rng.choice(streams).query()
            case 7:
                number = len(called)
                called.append(stream)
                stream.callback(returned.append, (stream, number))

    for _ in range(60):
        stream = rng.choice(streams)
        with stream.batch():
            for _ in range(rng.randrange(1, 4)):
                step(stream)
    for number in range(4):
        claim(streams[0], number)
        downloads.append((streams[0].download(buffers[number]), expected[number]))
    session.synchronise()
    assert sorted(number for _, number in returned) == list(range(len(called)))
    for stream in streams:
        order = [number for caller, number in returned if caller is stream]
        assert order == sorted(order)
    for download, values in downloads:
        assert (download.result() == values).all()
