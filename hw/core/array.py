"""The systolic array: int8 × int8 → int32, weights stationary."""

from itertools import pairwise

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SystolicArray", "activation_row", "latency", "sum_row", "weight_row"]


def activation_row(config):
    """An activation for each row of the array, and the weight bank that multiplies it."""
    return data.StructLayout({
        "valid": 1, "bank": 1, "lanes": data.ArrayLayout(signed(8), config.rows),
    })  # fmt: skip


def weight_row(config):
    """The weights of one row of the array, for one bank."""
    return data.StructLayout({
        "valid": 1, "row": range(config.rows), "bank": 1,
        "lanes": data.ArrayLayout(signed(8), config.columns),
    })  # fmt: skip


def sum_row(config):
    """A sum from each column of the array."""
    return data.StructLayout({
        "valid": 1, "lanes": data.ArrayLayout(signed(32), config.columns),
    })  # fmt: skip


def latency(config):
    """Cycles from an activation row to its sums."""
    return config.rows + config.columns - 1


class SystolicArray(wiring.Component):
    """Multiplies one activation row by the weights of a bank in each cycle.

    sums[c] = Σ activations[r] × weights[r][c]. Nothing can overflow here. Rows enter straight
    and sums leave straight: the skew is inside. An activation row that enters in cycle t is at
    row r and column c in cycle t + r + c, and weights that are written in cycle t get there one
    step behind it. So weights may be written from the cycle after the last activation row that
    uses what they replace, and row r of a new bank may be written as late as r − 1 cycles after
    the first activation row that uses it.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    activations: `activation_row`; always taken.
    weights: `weight_row`; always taken.
    sums: `sum_row`, rows + columns − 1 cycles after its activation row.
    clear: forgets what is inside; weights already in place stay.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "activations": In(activation_row(config)),
            "weights": In(weight_row(config)),
            "sums": Out(sum_row(config)),
            "clear": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        rows, columns = self.config.rows, self.config.columns
        depth = latency(self.config)
        sum_shape = signed(16 + (rows - 1).bit_length())

        # What entered k cycles ago is on the k-th anti-diagonal: one bit there serves all of it.
        valids = Signal(depth)
        banks = Signal(depth)
        flowing = Signal()
        m.d.comb += flowing.eq(self.activations.valid | valids.any())
        valid_at = Cat(self.activations.valid, valids)
        bank_at = Cat(self.activations.bank, banks)
        with m.If(flowing):
            m.d.sync += [valids.eq(valid_at), banks.eq(bank_at)]

        weights = self._weights(m)
        sums = [[Signal(sum_shape, name=f"sum_{r}_{c}") for c in range(columns)]
                for r in range(rows)]  # fmt: skip
        lanes = []
        for r in range(rows):
            travelling = Signal(8 * (r + columns - 1), name=f"activations_{r}")
            lanes.append(Cat(self.activations.lanes[r].as_unsigned(), travelling))
            with m.If(flowing):
                m.d.sync += travelling.eq(lanes[r])
        for step in range(depth):
            with m.If(valid_at[step]):
                for r in range(max(0, step - columns + 1), min(rows, step + 1)):
                    c = step - r
                    activation = lanes[r].word_select(step, 8).as_signed()
                    weight = Mux(bank_at[step], weights[1][c][r], weights[0][c][r])
                    above = sums[r - 1][c] if r else 0
                    m.d.sync += sums[r][c].eq(above + activation * weight)

        m.d.comb += self.sums.valid.eq(valids[-1])
        for c in range(columns):
            width = len(sums[-1][c])
            waiting = Signal(width * (columns - 1 - c), name=f"waiting_{c}")
            column = Cat(sums[-1][c].as_unsigned(), waiting)
            m.d.comb += self.sums.lanes[c].eq(column[len(waiting) :].as_signed())
            with m.If(flowing):
                m.d.sync += waiting.eq(column)
        with m.If(self.clear):
            m.d.sync += valids.eq(0)
        return m

    def _weights(self, m):
        """The weights, by bank and column; they are written one column a cycle."""
        config = self.config
        shape = data.ArrayLayout(signed(8), config.rows)
        weights = [[Signal(shape, name=f"weights{bank}_{c}") for c in range(config.columns)]
                   for bank in range(2)]  # fmt: skip
        place = data.StructLayout({"valid": 1, "row": range(config.rows), "bank": 1})
        places = [Signal(place, name=f"weights_at_{c}") for c in range(config.columns)]
        m.d.comb += [places[0][name].eq(self.weights[name]) for name in ("valid", "row", "bank")]
        for before, after in pairwise(places):
            m.d.sync += after.valid.eq(before.valid & ~self.clear)
            with m.If(before.valid):
                m.d.sync += [after.row.eq(before.row), after.bank.eq(before.bank)]

        loading = Signal()
        m.d.comb += loading.eq(Cat(at.valid for at in places).any())
        for c, at in enumerate(places):
            waiting = Signal(8 * c, name=f"weights_waiting_{c}")
            column = Cat(self.weights.lanes[c].as_unsigned(), waiting)
            with m.If(loading):
                m.d.sync += waiting.eq(column)
            for bank in range(2):
                with m.If(at.valid & (at.bank == bank)):
                    m.d.sync += weights[bank][c][at.row].eq(column.word_select(c, 8).as_signed())
        return weights
