"""The graph keeps values while it simplifies, and equal nodes are one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.graph import LIMB, Graph, mask

from .evaluator import evaluate, signed_of

WIDTHS = (1, 1, 3, 3, 8, 8, 64)
CONSTANTS = ((1, 0), (1, 1), (3, 0), (3, 7), (8, 0), (8, 1), (8, 255), (8, 6), (64, 2**64 - 1))
STATES = (
    (0, 0, 0, 0, 0, 0, 0),
    (1, 1, 7, 7, 255, 255, 2**64 - 1),
    (1, 0, 5, 2, 128, 127, 1 << 63),
    (0, 1, 1, 6, 1, 200, 0x0123456789ABCDEF),
    (1, 0, 4, 4, 77, 77, 77),
)
ROWS = [(at * 0x9E3779B97F4A7C15F39CC0605CEDC835) % (1 << 130) for at in range(5)]
"""One memory of 130 bits, of which an address of 3 bits reaches beyond the end."""


class Pool:
    """Nodes, each with the values that it must have for all `STATES`."""

    def __init__(self, graph):
        self.graph = graph
        self.nodes, self.values = [], []
        for number, width in enumerate(WIDTHS):
            self.add(graph.node("state", width, number), [state[number] for state in STATES])
        for width, value in CONSTANTS:
            self.add(graph.const(width, value), [value] * len(STATES))

    def add(self, node, values):
        width = self.graph.widths[node]
        self.nodes.append(node)
        self.values.append([value & mask(width) for value in values])

    def pick(self, number):
        """A node, its values and its width."""
        at = number % len(self.nodes)
        return self.nodes[at], self.values[at], self.graph.widths[self.nodes[at]]

    def fitted(self, number, width):
        """A node of a width, and its values."""
        node, values, own = self.pick(number)
        if own > width:
            return self.graph.slice(node, 0, width), [value & mask(width) for value in values]
        return self.graph.zext(node, width), values


def add_slice(pool, a, bit, size, _):
    node, values, width = pool.pick(a)
    bit %= width
    size = size % (width - bit) + 1
    made = pool.graph.slice(node, bit, size)
    assert pool.graph.widths[made] == size
    pool.add(made, [value >> bit for value in values])


def add_cat(pool, a, b, c, count):
    chosen = [pool.pick(number) for number in (a, b, c)[: count % 3 + 1]]
    while sum(width for *_, width in chosen) > LIMB:
        chosen.pop()
    if not chosen:
        return
    position, total = 0, [0] * len(STATES)
    for _, values, width in chosen:
        total = [sum_ | value << position for sum_, value in zip(total, values, strict=True)]
        position += width
    made = pool.graph.cat([node for node, *_ in chosen])
    assert pool.graph.widths[made] == position
    pool.add(made, total)


def add_extended(pool, a, more, signed, _):
    node, values, width = pool.pick(a)
    wide = width + more % (LIMB - width + 1)
    if signed % 2:
        pool.add(pool.graph.sext(node, wide), [signed_of(value, width) for value in values])
    else:
        pool.add(pool.graph.zext(node, wide), values)


def add_inverted(pool, a, *_):
    node, values, _ = pool.pick(a)
    pool.add(pool.graph.invert(node), [~value for value in values])


def add_pair(pool, a, b, kind, _):
    node, values, width = pool.pick(a)
    other, others = pool.fitted(b, width)
    graph, pairs = pool.graph, list(zip(values, others, strict=True))
    made, function = (
        (lambda: graph.bitwise("and", (node, other)), lambda x, y: x & y),
        (lambda: graph.bitwise("or", (node, other)), lambda x, y: x | y),
        (lambda: graph.bitwise("xor", (node, other)), lambda x, y: x ^ y),
        (lambda: graph.arithmetic("add", node, other), lambda x, y: x + y),
        (lambda: graph.arithmetic("sub", node, other), lambda x, y: x - y),
        (lambda: graph.arithmetic("mul", node, other), lambda x, y: x * y),
        (lambda: graph.equal(node, other), lambda x, y: x == y),
        (lambda: graph.less(node, other), lambda x, y: x < y),
        (
            lambda: graph.less(node, other, signed=True),
            lambda x, y: signed_of(x, width) < signed_of(y, width),
        ),
    )[kind % 9]
    pool.add(made(), [function(x, y) for x, y in pairs])


def add_shift(pool, a, b, kind, _):
    node, values, width = pool.pick(a)
    amount, amounts, _ = pool.pick(b)
    op = ("shl", "shr", "sar")[kind % 3]
    function = {
        "shl": lambda x, n: x << min(n, width),
        "shr": lambda x, n: x >> n,
        "sar": lambda x, n: signed_of(x, width) >> n,
    }[op]
    pool.add(
        pool.graph.shift(op, node, amount),
        [function(x, n) for x, n in zip(values, amounts, strict=True)],
    )


def add_parity(pool, a, *_):
    node, values, _ = pool.pick(a)
    pool.add(pool.graph.parity(node), [value.bit_count() for value in values])


def add_mux(pool, a, b, c, _):
    condition, holds = pool.fitted(a, 1)
    node, values, width = pool.pick(b)
    other, others = pool.fitted(c, width)
    pool.add(
        pool.graph.mux(condition, node, other),
        [x if hold else y for hold, x, y in zip(holds, values, others, strict=True)],
    )


def add_select(pool, a, b, c, count):
    number, numbers, bits = pool.pick(a)
    others, default, width = pool.pick(b)
    cases = {case: pool.fitted(c + case, width) for case in range(min(count % 4, 1 << bits))}
    pool.add(
        pool.graph.select(number, others, {case: node for case, (node, _) in cases.items()}),
        [
            cases[n][1][at] if n in cases else default[at] for at, n in enumerate(numbers)
        ],
    )


def add_row(pool, a, limb, *_):
    address, addresses = pool.fitted(a, 3)
    bit = limb % 3 * LIMB
    node = pool.graph.node("memory", min(LIMB, 130 - bit), 0, address, bit)
    pool.add(node, [(ROWS[at] if at < len(ROWS) else 0) >> bit for at in addresses])


OPERATIONS = {
    function.__name__: function
    for function in (
        add_slice, add_cat, add_extended, add_inverted, add_pair, add_shift, add_parity, add_mux,
        add_select, add_row,
    )
}  # fmt: skip
NUMBERS = st.integers(0, 999)
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    min_size=5,
    max_size=40,
)


def built(graph, steps):
    pool = Pool(graph)
    for name, *numbers in steps:
        OPERATIONS[name](pool, *numbers)
    return pool


@settings(max_examples=150)
@given(STEPS)
def test_simplified_expressions_keep_their_values(steps):
    graph = Graph()
    pool = built(graph, steps)
    for at, state in enumerate(STATES):
        known = {}
        found = [evaluate(graph, node, state, [ROWS], known) for node in pool.nodes]
        assert found == [values[at] for values in pool.values], state


@settings(max_examples=40)
@given(STEPS)
def test_what_is_built_twice_is_one(steps):
    graph = Graph()
    first = built(graph, steps).nodes
    count = len(graph)
    assert built(graph, steps).nodes == first
    assert len(graph) == count
    keys = set(zip(graph.ops, graph.widths, graph.args, strict=True))
    assert len(keys) == count


@settings(max_examples=40)
@given(STEPS)
def test_operands_are_made_before_users_and_no_node_is_wider_than_a_limb(steps):
    graph = Graph()
    built(graph, steps)
    for node in range(len(graph)):
        assert 1 <= graph.widths[node] <= LIMB
        assert all(operand < node for operand in graph.operands(node))


@pytest.fixture
def graph():
    return Graph()


def state(graph, width, number=0):
    return graph.node("state", width, number)


def test_operands_of_commutative_operations_have_no_order(graph):
    a, b = state(graph, 8), state(graph, 8, 1)
    for op in ("and", "or", "xor"):
        assert graph.bitwise(op, (a, b)) == graph.bitwise(op, (b, a))
    for op in ("add", "mul"):
        assert graph.arithmetic(op, a, b) == graph.arithmetic(op, b, a)
    assert graph.equal(a, b) == graph.equal(b, a)
    assert graph.arithmetic("sub", a, b) != graph.arithmetic("sub", b, a)
    assert graph.less(a, b) != graph.less(b, a)


def test_neutral_and_absorbing_operands_leave_no_operation(graph):
    a = state(graph, 8)
    zero, one, ones = (graph.const(8, value) for value in (0, 1, 255))
    assert graph.bitwise("and", (a, ones)) == graph.bitwise("or", (a, zero)) == a
    assert graph.bitwise("xor", (zero, a)) == graph.bitwise("and", (a, a)) == a
    assert graph.bitwise("and", (zero, a)) == graph.bitwise("xor", (a, a)) == zero
    assert graph.bitwise("or", (a, graph.invert(a))) == graph.bitwise("or", (ones, a)) == ones
    assert graph.bitwise("xor", (a, ones)) == graph.invert(a)
    assert graph.invert(graph.invert(a)) == a
    assert graph.arithmetic("add", zero, a) == graph.arithmetic("sub", a, zero) == a
    assert graph.arithmetic("mul", one, a) == a
    assert graph.arithmetic("mul", a, zero) == zero


def test_bits_are_found_where_they_come_from(graph):
    a, b = state(graph, 8), state(graph, 16, 1)
    both = graph.cat((a, b))
    assert graph.slice(both, 0, 8) == a
    assert graph.slice(both, 8, 16) == b
    assert graph.slice(graph.slice(b, 2, 12), 3, 4) == graph.slice(b, 5, 4)
    assert graph.cat((graph.slice(b, 0, 5), graph.slice(b, 5, 11))) == b
    assert graph.cat((a, graph.const(8, 0))) == graph.zext(a, 16)
    assert graph.slice(graph.zext(a, 20), 8, 12) == graph.const(12, 0)
    assert graph.zext(graph.zext(a, 12), 20) == graph.zext(a, 20)
    assert graph.sext(graph.sext(a, 12), 20) == graph.sext(a, 20)
    bit = state(graph, 1, 2)
    assert graph.cat((bit, bit, bit)) == graph.sext(bit, 3)


def test_chunks_of_a_row_are_joined_within_a_limb_only(graph):
    address = state(graph, 3)
    low, high, above = (graph.node("memory", 32, 0, address, bit) for bit in (0, 32, 64))
    assert graph.cat((low, high)) == graph.node("memory", 64, 0, address, 0)
    assert graph.ops[graph.cat((high, above))] == "cat"


def test_a_choice_between_equal_things_is_none(graph):
    condition, a, b = state(graph, 1), state(graph, 8, 1), state(graph, 8, 2)
    assert graph.mux(condition, a, a) == a
    assert graph.mux(graph.const(1, 1), a, b) == a
    assert graph.mux(graph.const(1, 0), a, b) == b
    once = graph.mux(condition, a, b)
    assert graph.mux(condition, once, b) == graph.mux(condition, a, once) == once
    assert graph.mux(graph.invert(condition), b, a) == once
    assert graph.select(a, b, {1: b, 2: b}) == b
    assert graph.select(graph.const(8, 2), a, {2: b}) == b
    assert graph.ops[graph.select(a, b, {1: a, 2: once})] == "select"
    assert graph.ops[graph.select(a, b, {1: a})] == "mux"


def test_shifts_by_constants_are_wires(graph):
    a = state(graph, 8)
    amount = graph.const(3, 2)
    assert graph.shift("shr", a, amount) == graph.zext(graph.slice(a, 2, 6), 8)
    assert graph.shift("sar", a, amount) == graph.sext(graph.slice(a, 2, 6), 8)
    assert graph.slice(graph.shift("shl", a, amount), 2, 6) == graph.slice(a, 0, 6)
    assert graph.shift("shl", a, graph.const(8, 8)) == graph.const(8, 0)


def test_comparisons_that_have_one_outcome_are_constants(graph):
    a = state(graph, 8)
    assert graph.value(graph.equal(a, a)) == 1
    assert graph.value(graph.less(a, a)) == 0
    assert graph.value(graph.less(a, graph.const(8, 0))) == 0
    assert graph.value(graph.less(graph.const(8, 255), a)) == 0
    assert graph.value(graph.equal(graph.zext(a, 9), graph.const(9, 256))) == 0
    assert graph.less(a, graph.const(8, 1)) == graph.equal(a, graph.const(8, 0))


def test_a_node_belongs_to_the_module_that_made_it_first(graph):
    graph.home = 3
    a = state(graph, 8)
    graph.home = 4
    inverted = graph.invert(a)
    assert state(graph, 8) == a
    assert (graph.homes[a], graph.homes[inverted]) == (3, 4)
