"""The main example on the whole machine: bit for bit the numpy reference, at an exact latency."""

import numpy as np
import pytest

import sim
from rt.models.digits import DigitsNetwork, images_and_labels, split
from rt.models.train_digits import train
from sim.jobs import run_digits
from sim.timeline import Timeline
from sim.wave import Window

IMAGES, BATCH = 8, 5
RECORDED = 1400
"""Cycles of the waveform: until the first kernel has started."""


@pytest.fixture(scope="module")
def network():
    return DigitsNetwork.load()


@pytest.fixture(scope="module")
def kept():
    """Images that were not trained on, and what they show."""
    images, labels = images_and_labels()
    _, numbers = split(len(images))
    return images[numbers], labels[numbers]


def test_training_reproduces_the_committed_weights(network):
    arrays = train()
    assert sorted(arrays) == sorted(vars(network))
    for name, array in arrays.items():
        committed = getattr(network, name)
        assert array.dtype == committed.dtype, name
        assert np.array_equal(array, committed), name


def test_the_reference_reads_96_percent_of_the_images_not_trained_on(network, kept):
    images, labels = kept
    assert len(images) == 599
    assert np.mean(network.reference(images).predictions == labels) >= 0.96


@pytest.mark.oracle
def test_the_npu_computes_the_reference_and_starts_two_cycles_after_its_images_are_there(
    network, kept, transport, session, tmp_path
):
    """Two batches of different sizes, every tensor bit for bit.

    The latency is 2 cycles, from the cycle in which the event unit takes the record of the
    finished copy to the first instruction of the kernel that waits for it. A record is compared
    with all waiters in its cycle and the result registered (1), in which cycle the kernel is
    dispatched, whose code was fetched while it waited; a read of the code bank takes one more.
    Device timestamps and waveform are two independent measurements of it.
    """
    images = kept[0][:IMAGES]
    transport.capture(tmp_path / "digits.vcd", Window(0, RECORDED))
    run = network.run(session, images, batch=BATCH)
    reference = network.reference(images)
    assert run.inference.hidden.dtype == np.int8
    assert np.array_equal(run.inference.hidden, reference.hidden)
    assert run.inference.logits.dtype == np.int32
    assert np.array_equal(run.inference.logits, reference.logits)
    assert np.array_equal(run.inference.predictions, reference.predictions)

    first = run.kernels[0]
    assert len(run.kernels) == 4
    assert first.profile.start < RECORDED
    transport.end_capture()
    timeline = Timeline(tmp_path / "digits.vcd")
    assert run.event_latencies[0] == timeline.event_latency(first.id) == 2
    assert timeline.run(first.id).start == first.profile.start
    assert timeline.run(first.id).engine == first.profile.engine == "core0"
    assert run.uploaded[0] in [seen.cycle for seen in timeline.records]


@pytest.mark.slow
def test_all_images_are_exact_on_base():
    """`npu run digits`, on the compiled engine: 0.74 million cycles."""
    report = run_digits(sim.open("base", engine="compiled", record=False), images=1797)
    assert report.exact
    assert int(report.correct.sum()) == 1785
    assert report.cycles == 738_040
    assert len(report.run.event_latencies) == 225
    assert report.event_latency == 2
