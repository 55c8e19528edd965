"""Bytes of a storage: snapshots cost what changed, and bring all of it back."""

import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.config import ConfigError
from sim.engine.pages import GROUP, PAGE, Pages

SIZE = 3 * GROUP * PAGE + 5 * PAGE + 100
places = st.sampled_from(
    [0, PAGE - 3, PAGE, GROUP * PAGE - 1, GROUP * PAGE, 2 * GROUP * PAGE + 77, SIZE - 100]
)
writes = st.tuples(st.just("write"), places, st.binary(min_size=1, max_size=100))
steps = st.lists(
    writes | st.just(("snapshot",)) | st.tuples(st.just("restore"), st.integers(0, 9)), max_size=20
)


@given(steps)
def test_any_order_of_writes_snapshots_and_restores_gives_the_right_bytes(steps):
    pages = Pages(SIZE)
    model = {}
    taken = [(pages.snapshot(), {})]
    for kind, *arguments in steps:
        if kind == "write":
            at, data = arguments
            pages.write(at, data)
            model |= {at + index: value for index, value in enumerate(data)}
        elif kind == "snapshot":
            taken.append((pages.snapshot(), dict(model)))
        else:
            image, contents = taken[arguments[0] % len(taken)]
            pages.restore(image)
            model = dict(contents)
        content = np.frombuffer(pages.view, np.uint8)
        assert {int(at): int(content[at]) for at in np.flatnonzero(content)} == {
            at: value for at, value in model.items() if value
        }


def test_a_snapshot_shares_every_page_that_did_not_change():
    pages = Pages(SIZE)
    pages.write(5 * PAGE + 1, b"one")
    first = pages.snapshot()
    pages.write(GROUP * PAGE - 1, b"ab")
    second = pages.snapshot()
    assert [old is new for old, new in zip(first, second, strict=True)] == [0, 0, 1, 1]
    shared = [old is new for old, new in zip(first[0], second[0], strict=True)]
    assert shared == [True] * (GROUP - 1) + [False]
    assert second[0][GROUP - 1][-1:] + second[1][0][:1] == b"ab"
    pages.write(5 * PAGE + 1, b"one")
    assert pages.snapshot()[0][5] is first[0][5]


def test_what_is_written_through_the_view_and_marked_is_in_the_snapshot():
    pages = Pages(2 * PAGE)
    pages.view[PAGE] = 7
    assert pages.snapshot()[0][1][0] == 0
    pages.dirty[1] = 1
    assert pages.snapshot()[0][1][0] == 7
    assert not pages.dirty.any()


def test_gibibytes_take_memory_only_where_they_are_touched():
    pages = Pages(1 << 30)
    before = resident()
    pages.write((1 << 30) - 8, b"the last")
    pages.write(1 << 29, b"the middle")
    image = pages.snapshot()
    pages.write(0, b"the first")
    pages.restore(image)
    assert bytes(pages.view[:9]) == bytes(9)
    assert bytes(pages.view[-8:]) == b"the last"
    assert resident() - before < 16 << 20


def resident():
    """Bytes of memory that this process has."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except FileNotFoundError:
        pytest.skip("this system does not tell how much memory a process has")


def test_a_memory_that_does_not_fit_the_machine_is_refused():
    with pytest.raises(ConfigError, match="no room for a memory of 4611686018427387904 bytes"):
        Pages(1 << 62)
