import numpy as np
import pytest

from hw.config import NpuConfig
from hw.core.array import SystolicArray, latency
from rt.golden import matmul
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")


def put_activations(ctx, array, row, bank):
    ctx.set(array.activations, {"valid": 1, "bank": bank, "lanes": [int(x) for x in row]})


def put_weights(ctx, array, weights, r, bank):
    lanes = [int(x) for x in weights[r]]
    ctx.set(array.weights, {"valid": 1, "row": r, "bank": bank, "lanes": lanes})


def take_sums(ctx, array):
    return [ctx.get(lane) for lane in array.sums.lanes] if ctx.get(array.sums.valid) else None


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 8), (8, 2)])
def test_every_row_is_multiplied_by_its_bank_after_the_stated_latency(rows, columns):
    """Weights arrive as late, and replace what is in use as early, as the contract allows."""
    config = NpuConfig.preset("tiny", rows=rows, columns=columns)
    array = SystolicArray(config)
    random = np.random.default_rng(rows)
    extremes = np.array([-128, 127, -1, 0], np.int8)
    tiles = [random.integers(-128, 128, (rows, columns), np.int8) for _ in range(12)]
    tiles[3] = random.choice(extremes, (rows, columns))
    tiles[5] = np.full((rows, columns), -128, np.int8)

    # When each tile's first weight row is written, and when its activation rows enter.
    start, activations, weights = 0, {}, {}
    for number, tile in enumerate(tiles):
        count = rows + int(random.integers(0, 4))
        for r in range(rows):
            weights[start + r] = (tile, r, number % 2)
        for k in range(count):
            row = random.integers(-128, 128, rows, np.int8)
            if number in (3, 5):
                row = random.choice(extremes[:1] if number == 5 else extremes, rows)
            activations[start + 1 + k] = (row, number % 2, matmul(row[None], tile)[0])
        start += count + int(random.integers(0, 3)) * (number > 6)

    async def bench(ctx):
        for cycle in range(start + 2 + latency(config)):
            ctx.set(array.weights, {})
            ctx.set(array.activations, {})
            if cycle in weights:
                put_weights(ctx, array, *weights[cycle])
            if cycle in activations:
                put_activations(ctx, array, *activations[cycle][:2])
            expected = activations.get(cycle - latency(config))
            sums = take_sums(ctx, array)
            assert sums == (None if expected is None else list(expected[2])), cycle
            await ctx.tick()

    simulate(array, bench)


def test_weights_of_one_bank_may_follow_the_last_row_that_uses_it_at_once():
    config = NpuConfig.preset("tiny")
    array = SystolicArray(config)
    random = np.random.default_rng(1)
    tiles = [random.integers(-128, 128, (4, 4), np.int8) for _ in range(5)]
    rows = random.integers(-128, 128, (5, 4, 4), np.int8)
    sums = [matmul(x, w) for x, w in zip(rows, tiles, strict=True)]

    async def bench(ctx):
        got = []
        for cycle in range(40):
            tile, r = divmod(cycle, 4)
            ctx.set(array.weights, {})
            ctx.set(array.activations, {})
            if tile < 5:
                put_weights(ctx, array, tiles[tile], r, 0)
            if 0 < cycle <= 20:
                tile, r = divmod(cycle - 1, 4)
                put_activations(ctx, array, rows[tile][r], 0)
            if (lanes := take_sums(ctx, array)) is not None:
                got.append(lanes)
            await ctx.tick()
        assert got == np.concatenate(sums).tolist()

    simulate(array, bench)


def test_clear_forgets_rows_inside_and_keeps_weights():
    config = NpuConfig.preset("tiny")
    array = SystolicArray(config)
    tile = np.arange(16, dtype=np.int8).reshape(4, 4)
    row = np.array([1, 2, 3, 4], np.int8)

    async def bench(ctx):
        for r in range(4):
            put_weights(ctx, array, tile, r, 1)
            await ctx.tick()
        ctx.set(array.weights, {})
        await ctx.tick().repeat(4)
        put_activations(ctx, array, row, 1)
        await ctx.tick().repeat(3)
        ctx.set(array.activations, {})
        ctx.set(array.clear, 1)
        await ctx.tick()
        ctx.set(array.clear, 0)
        for _ in range(12):
            assert take_sums(ctx, array) is None
            await ctx.tick()
        put_activations(ctx, array, row, 1)
        await ctx.tick()
        ctx.set(array.activations, {})
        await ctx.tick().repeat(latency(config) - 1)
        assert take_sums(ctx, array) == matmul(row[None], tile)[0].tolist()

    simulate(array, bench)
