import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rt.errors import InvalidHandle, MemoryExhausted
from rt.memory import ALIGNMENT, Allocation, Pool

STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(1, 3000), st.sampled_from([64, 128, 256])), max_size=60
)


@given(STEPS)
def test_pieces_never_overlap_and_all_come_back(steps):
    pool = Pool(0x1010, 16_000, "test memory")
    live = {}
    for allocate, size, alignment in steps:
        if allocate:
            try:
                address = pool.allocate(size, alignment)
            except MemoryExhausted:
                continue
            assert address % alignment == 0
            assert 0x1010 <= address <= 0x1010 + 16_000 - size
            for other, length in live.items():
                assert address + size <= other or other + length <= address
            live[address] = size
        elif live:
            address = sorted(live)[size % len(live)]
            del live[address]
            pool.free(address)
        used = sum(-(-length // ALIGNMENT) * ALIGNMENT for length in live.values())
        assert pool.available == pool.size - used
    for address in live:
        pool.free(address)
    assert pool.largest == pool.available == pool.size


def test_exhaustion_names_sizes_and_limit():
    pool = Pool(0, 1024, "test memory")
    pool.allocate(1000)
    with pytest.raises(MemoryExhausted, match="64 bytes of test memory .* of 1024 bytes 0 are"):
        pool.allocate(1)


def test_a_freed_allocation_waits_for_its_users():
    pool = Pool(0, 1024, "test memory")
    allocation = Allocation(pool, 100)
    allocation.acquire()
    allocation.acquire()
    allocation.free()
    assert (pool.available, pool.deferred) == (1024 - 128, 1)
    allocation.release()
    allocation.release()
    assert (pool.available, pool.deferred) == (1024, 0)


def test_parts_share_memory_and_are_freed_with_the_whole(session):
    whole = session.buffer(np.arange(40, dtype=np.int32))
    part = whole.part(16, (2, 3), np.int16)
    assert (part.address, part.nbytes) == (whole.address + 16, 12)
    values = session.stream().download(part).result()
    assert (values == np.arange(40, dtype=np.int32).view(np.int16)[8:14].reshape(2, 3)).all()
    with pytest.raises(InvalidHandle, match="is a part of a buffer; free the whole"):
        part.free()
    whole.free()
    with pytest.raises(InvalidHandle, match="was freed"):
        part.check()


def test_a_buffer_says_what_it_is(session):
    buffer = session.empty((2, 3), np.int16)
    assert str(buffer) == f"buffer of shape (2, 3) and dtype int16 at 0x{buffer.address:010x}"
    assert buffer.address % ALIGNMENT == 0
