"""Random programs over several streams against numpy, in the order of their events."""

import random

import numpy as np
import pytest

from tests.rt.machine import ADD, binary, machine


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_equal_numpy(seed):
    rng = random.Random(seed)
    with machine(device_bytes=1 << 16, host_bytes=1 << 16) as device, device.session() as session:
        program(rng, session)
    assert device.device_pool.available == device.device_pool.size
    assert len(device.events.free) == device.config.events


def program(rng, session):
    """Buffers are handed from stream to stream, each time with an event in between."""
    streams = [session.stream(rng.randrange(8), depth=rng.choice([2, 4, 8])) for _ in range(3)]
    kernel = session.load(binary(ADD, session.device.config))
    events = [session.event(timing=rng.random() < 0.3) for _ in range(4)]
    buffers, owners, expected, downloads = [], [], [], []
    for _ in range(4):
        buffers.append(session.empty(512, np.uint8))
        owners.append(streams[0])
        streams[0].fill(buffers[-1], 0)
        expected.append(np.zeros(512, np.uint8))

    def claim(stream, *numbers):
        for number in numbers:
            if owners[number] is not stream:
                event = rng.choice(events)
                owners[number].record(event)
                stream.wait(event)
                owners[number] = stream

    def step(stream):
        one, two = rng.sample(range(4), 2)
        first, size = rng.randrange(500), rng.randrange(1, 13)
        match rng.randrange(7):
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

    for _ in range(60):
        stream = rng.choice(streams)
        with stream.batch():
            for _ in range(rng.randrange(1, 4)):
                step(stream)
    for number in range(4):
        claim(streams[0], number)
        downloads.append((streams[0].download(buffers[number]), expected[number]))
    session.synchronise()
    for download, values in downloads:
        assert (download.result() == values).all()
