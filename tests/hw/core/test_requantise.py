import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.config import NpuConfig
from hw.core.requantise import REQUANTISE_LATENCY, Requantise
from hw.regs.instruction import OutputFormat
from rt.errors import InvalidParameter
from rt.golden import add_bias, matmul, requantise
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny")


def edges(low, high):
    """Any number of a range, its ends, small ones and powers of two more often."""
    powers = [sign << k for sign in (1, -1) for k in range(32) if low <= sign << k <= high]
    return st.one_of(
        st.integers(low, high),
        st.sampled_from([low, high, *powers]),
        st.integers(max(low, -5), min(high, 5)),
    )


INT32 = edges(-(2**31), 2**31 - 1)
INT8 = edges(-128, 127)
CHANNEL = st.fixed_dictionaries(
    {"bias": INT32, "multiplier": edges(0, 2**31 - 1), "shift": st.integers(0, 63)}
)


@st.composite
def rows(draw):
    """A row of sums and its processing."""
    low, high = sorted((draw(INT8), draw(INT8)))
    fields = dict(
        output=draw(st.sampled_from(OutputFormat)), bias=draw(st.integers(0, 1)),
        zero_point=draw(INT8), low=low, high=high, columns=draw(st.integers(1, CONFIG.columns)),
    )  # fmt: skip
    return draw(st.lists(INT32, min_size=4, max_size=4)), fields


def expected(table, sums, fields):
    """The bytes of a row, by the golden functions."""
    columns = {name: np.array([channel[name] for channel in table]) for name in table[0]}
    if not fields["bias"]:
        columns["bias"] = np.zeros(len(table), np.int64)
    sums = np.array([sums], np.int32)
    if fields["output"] == OutputFormat.INT32:
        return add_bias(sums, columns["bias"]).tobytes()
    clamp = {name: fields[name] for name in ("zero_point", "low", "high")}
    return requantise(sums, **columns, **clamp).tobytes()


def wraps(table, sums, fields):
    """Whether an INT32 that is stored does not fit 32 bits."""
    totals = [total + fields["bias"] * channel["bias"]
              for total, channel in zip(sums, table, strict=True)]  # fmt: skip
    stored = totals[: fields["columns"]]
    return fields["output"] == OutputFormat.INT32 and any(
        not -(2**31) <= total < 2**31 for total in stored
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(CHANNEL, min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), rows()), min_size=1, max_size=30),
)
def run_rows(simulator, plan, table, stream):
    if plan:
        simulator.reset()
    plan[:] = table, stream
    simulator.run()


def test_rows_equal_the_golden_functions_after_the_stated_latency():
    """One simulation; formats and constants change from row to row, with and without gaps."""
    unit = Requantise(CONFIG)
    plan = []

    async def bench(ctx):
        table, stream = plan
        ctx.set(unit.table, table)
        for cycle in range(len(stream) + REQUANTISE_LATENCY):
            row = stream[cycle] if cycle < len(stream) else None
            ctx.set(unit.i.valid, row is not None)
            if row is not None:
                ctx.set(unit.i.lanes, row[0])
                ctx.set(unit.i.processing, {**row[1], "tag": cycle % 4})
            due = cycle - REQUANTISE_LATENCY
            if due >= 0 and stream[due] is not None:
                assert ctx.get(unit.o.valid)
                want = int.from_bytes(expected(table, *stream[due]), "little")
                assert ctx.get(unit.o.bytes) == want
                assert ctx.get(unit.o.processing.columns) == stream[due][1]["columns"]
                assert ctx.get(unit.o.processing.tag) == due % 4
                assert ctx.get(unit.o.overflow) == wraps(table, *stream[due])
            else:
                assert not ctx.get(unit.o.valid)
            await ctx.tick()

    simulator = simulator_of(unit)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    run_rows(simulator, plan)


def test_golden_rounds_half_to_even_and_never_wraps():
    def one(total, multiplier, shift, bias=0, **clamp):
        sums = np.array([[total]], np.int32)
        return int(requantise(sums, bias, multiplier, shift, **clamp)[0, 0])

    assert [one(k, 1, 1) for k in (-5, -3, -1, 1, 3, 5)] == [-2, -2, 0, 0, 2, 2]
    assert [one(k, 3, 2) for k in (1, 2, 3, -1, -2)] == [1, 2, 2, -1, -2]
    lowest, highest = -(2**31), 2**31 - 1
    assert one(lowest, highest, 0, lowest) == -128
    assert one(highest, highest, 55, highest) == 127
    assert one(highest, highest, 57, highest) == 64
    assert one(lowest, highest, 63, lowest) == -1
    assert one(-9, 1, 0, zero_point=4, low=4) == 4
    assert matmul(np.full((1, 4), -128, np.int8), np.full((4, 1), -128, np.int8))[0, 0] == 65536
    ones = np.ones((1, 1), np.int8)
    assert matmul(ones, ones, np.array([[highest]], np.int32))[0, 0] == lowest


def test_golden_functions_refuse_what_the_hardware_cannot_take():
    ones = np.ones((1, 1), np.int32)
    with pytest.raises(InvalidParameter, match="activations has dtype int32; convert it to int8"):
        matmul(ones, ones)
    with pytest.raises(InvalidParameter, match="shift lies within 64 … 64; it must lie within 0"):
        requantise(ones, 0, 1, 64)
    with pytest.raises(InvalidParameter, match="low is 1, more than high, which is 0"):
        requantise(ones, 0, 1, 0, low=1, high=0)
    with pytest.raises(InvalidParameter, match="multiplier has dtype float64; it must be of int"):
        requantise(ones, 0, 0.5, 0)
