import numpy as np
import pytest

from rt.errors import InvalidParameter
from rt.ops import channel_table, matmul


@pytest.mark.parametrize(
    ("a", "b", "more", "message"),
    [
        (np.zeros((2, 3), np.int16), np.zeros((3, 4), np.int8), {}, "dtype int16, .* int8"),
        (np.zeros((2, 3), np.int8), np.zeros((3, 4)), {}, "dtype float64"),
        ([[1]], np.zeros((1, 1), np.int8), {}, "not list; use np.asarray"),
        (np.zeros(3, np.int8), np.zeros((3, 4), np.int8), {}, "a has 1 dimensions"),
        (np.zeros((2, 3), np.int8), np.zeros((4, 4), np.int8), {}, "a's columns must be b's rows"),
        (np.zeros((0, 3), np.int8), np.zeros((3, 4), np.int8), {}, "at least one size"),
        (np.zeros((2, 0), np.int8), np.zeros((0, 4), np.int8), {}, "at least one size"),
        (np.zeros((2, 3), np.int8), np.zeros((3, 0), np.int8), {}, "at least one size"),
        (np.zeros((2, 3), np.int8, order="F"), np.zeros((3, 4), np.int8), {}, "ascontiguousarray"),
        (np.zeros((2, 3), np.int8), np.zeros((4, 3), np.int8).T, {}, "ascontiguousarray"),
        (np.zeros((2, 3), np.int8), np.zeros((3, 4), np.int8), dict(bias=np.zeros(5, np.int32)),
         r"bias has shape \(5,\); it takes one element or 4"),
        (np.zeros((2, 3), np.int8), np.zeros((3, 4), np.int8), dict(bias=np.zeros(4)),
         "bias has dtype float64"),
    ],
)  # fmt: skip
def test_bad_matrices_are_refused_and_leave_nothing(session, a, b, more, message):
    before = session._pool.available
    with pytest.raises(InvalidParameter, match=message):
        matmul(session, a, b, **more)
    assert (session._pool.available, session._pool.deferred) == (before, 0)
    assert not session.streams


@pytest.mark.parametrize("channels", [0, -1])
def test_a_table_needs_channels(channels):
    with pytest.raises(InvalidParameter, match=f"for {channels} channels; it must be at least 1"):
        channel_table(channels=channels)
