"""Task graphs on the whole machine: lists that the device calls, and their prefetched arguments."""

import numpy as np
import pytest

from rt import TaskDesc
from rt.errors import StreamAborted
from rt.kernel.gemm import GemmShape, gemm_kernel
from rt.ops import gemm

ONE = np.ones((4, 4), np.int8)


def product(session):
    """A kernel: int8 4 × 4 times int8 4 × 4, as int32."""
    shape = GemmShape(m=4, n=4, k=4, pitch_a=4, pitch_b=4, pitch_c=16)
    return session.load(gemm_kernel(shape, session.device.config))


def factors(session, count):
    rng = np.random.default_rng(count)
    arrays = [rng.integers(-128, 128, (4, 4), np.int8) for _ in range(count)]
    return arrays, [session.buffer(array) for array in arrays]


def times(one, two):
    return one.astype(np.int32) @ two.astype(np.int32)


@pytest.mark.oracle
def test_a_graph_of_two_streams_is_replayed(session):
    kernel = product(session)
    arrays, buffers = factors(session, 5)
    outs = [session.empty((4, 4), np.int32) for _ in range(4)]
    tasks = [
        TaskDesc(n, kernel, buffers[n : n + 2], [outs[n]], event_deps=deps)
        for n, deps in enumerate([(), (0,), (0,), (1, 2)])
    ]
    one, two = session.stream(), session.stream()
    with session.graph(tasks, streams=2) as graph:
        for _ in range(3):
            for out in outs:
                one.fill(out, 0)
            replay = one.replay(graph, two)
            results = [one.download(out) for out in outs]
            for n, result in enumerate(results):
                assert (result.result() == times(arrays[n], arrays[n + 1])).all()
            assert replay.done


def test_updated_arguments_are_those_that_the_next_replay_reads(session):
    """Lists and arguments are fetched ahead: never before an update has landed."""
    kernel = product(session)
    arrays, buffers = factors(session, 8)
    outs = [session.empty((4, 4), np.int32) for _ in range(2)]
    fixed = session.buffer(ONE)
    tasks = [
        TaskDesc(0, kernel, [buffers[0], fixed], [outs[0]]),
        TaskDesc(1, kernel, [buffers[0], fixed], [outs[1]]),
    ]
    one, two = session.stream(), session.stream()
    graph = session.graph(tasks, streams=2)
    downloads = []
    for array, buffer in zip(arrays, buffers, strict=True):
        for task in (0, 1):
            graph.update(task, inputs=[buffer, fixed])
        one.replay(graph, two)
        downloads.append((array, [one.download(out) for out in outs]))
    for array, results in downloads:
        for result in results:
            assert (result.result() == times(array, ONE)).all()


def test_a_captured_pipeline_overlaps_copies_and_products(session):
    copies, work = session.stream(), session.stream()
    arrays, buffers = factors(session, 3)
    local, out = session.empty((4, 4), np.int8), session.empty((4, 4), np.int32)
    sums = [session.empty((4, 4), np.int32) for _ in arrays]
    there, free = session.event(), session.event()
    weights = session.buffer(ONE)
    with copies.capture("pipeline") as graph:
        for buffer, result in zip(buffers, sums, strict=True):
            copies.wait(free)
            copies.copy(local, buffer)
            copies.record(there)
            work.wait(there)
            gemm(work, local, weights, out)
            work.record(free)
            work.copy(result, out)
        copies.wait(work)
    for _ in range(2):
        for result in sums:
            copies.fill(result, 0)
        copies.replay(graph)
        downloads = [copies.download(result) for result in sums]
        for array, download in zip(arrays, downloads, strict=True):
            assert (download.result() == times(array, ONE)).all()


def test_an_abort_in_a_list_leaves_a_graph_that_can_be_replayed(session):
    one, two = session.stream(), session.stream()
    large, small = session.empty(4000, np.uint8), session.buffer(np.zeros(64, np.uint8))
    with one.capture() as graph:
        one.fill(small, 1)
        two.wait(one)
        two.fill(large, 2)
        one.wait(two)
        one.copy(small, large.part(3936, 64, np.uint8))
    transport = session.device.driver.transport
    for victim in (two, one):
        for cycles in (10, 60, 200, 400):
            replay = one.replay(graph)
            transport.run_until(interrupt=False, cycle=transport.now() + cycles)
            victim.abort()
            assert not replay.done
            assert (one.download(small).result() < 3).all()
            one.fill(large, 0)
            one.replay(graph)
            assert (one.download(small).result() == 2).all()
            with pytest.raises(StreamAborted):
                victim.synchronise()
    session.synchronise()
