"""Places are evaluated in one order, switched by guards, and sleep when nothing changes."""

from threading import Thread

from amaranth.hdl import Assert, ClockDomain, Module, Print, Signal
from amaranth.lib.memory import Memory
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.model import Model
from sim.engine.netlist import read
from sim.engine.partition import partition
from sim.engine.program import compile

from .designs import designs
from .stimuli import joined

FOR_EVER = 10**12
"""Cycles that take hours unless nothing is awake."""


def finished(call):
    """What a call returns, in a list; an empty list: it does not end."""
    result = []
    thread = Thread(target=lambda: result.append(call()), daemon=True)
    thread.start()
    thread.join(5)
    return result


def module():
    m = Module()
    m.domains.sync = ClockDomain(reset_less=True)
    return m


def kept(netlist):
    """All nodes with a value of their own: what `compile` keeps by default, and more."""
    return [
        node
        for limbs in netlist.signals.values()
        for node in limbs
        if netlist.graph.ops[node] not in ("const", "state")
    ]


def computed(found, roots, cluster):
    """Nodes that a place computes, and the stored ones of other clusters that it reads."""
    graph = found.netlist.graph
    inside, reads, waiting = set(), set(), list(roots)
    while waiting:
        node = waiting.pop()
        if node in inside or graph.ops[node] in ("const", "state"):
            continue
        if found.stored.get(node, cluster) != cluster:
            reads.add(node)
            continue
        inside.add(node)
        waiting += graph.operands(node)
    return inside, reads


def check_order(found):
    """No cluster reads what is computed later; each stored node has exactly one home."""
    for number, cluster in enumerate(found.clusters):
        assert all(found.stored[node] == number for node in cluster.roots)
        assert len(set(cluster.roots)) == len(cluster.roots)
        guards = [found.groups[at].guard for at in cluster.guards]
        checked = [check.enable for check in cluster.checks]
        _, reads = computed(found, [*cluster.roots, *guards, *checked], number)
        assert all(found.stored[node] < number for node in reads), number
    roots = [node for cluster in found.clusters for node in cluster.roots]
    assert sorted(roots) == sorted(found.stored)


def check_switches(found):
    """Exactly one cluster switches each group that has a guard."""
    switched = sorted(number for cluster in found.clusters for number in cluster.guards)
    guarded = [n for n, group in enumerate(found.groups) if group.guard is not None]
    assert switched == guarded


@settings(max_examples=8)
@given(st.lists(designs(), min_size=2, max_size=2), st.booleans())
def test_random_designs_are_evaluated_in_one_order(found, everything):
    design, _ = joined(found)
    netlist = read(design)
    parts = partition(netlist, kept(netlist) if everything else ())
    check_order(parts)
    check_switches(parts)
    updated = [number for group in parts.groups for number, _ in group.elements]
    assert len(set(updated)) == len(updated)


def there_and_back(m):
    """Logic of two modules that need each other's results, without a loop."""
    one, two = Module(), Module()
    m.submodules.one, m.submodules.two = one, two
    source = Signal(32)
    values = [source]
    for step in range(6):
        values.append(Signal(32, name=f"value{step}"))
        home = (one, two)[step % 2]
        home.d.comb += values[-1].eq(values[-2] * values[-2] + step)
    out = Signal(32)
    m.d.sync += out.eq(values[-1])
    return source, values, out


def test_modules_that_need_each_other_are_divided_by_levels():
    m = module()
    _, values, _ = there_and_back(m)
    netlist = read(m)
    found = partition(netlist, kept(netlist))
    check_order(found)
    places = [found.stored[netlist.signals[value][0]] for value in values[1:]]
    assert places == sorted(places)
    assert len(set(places)) == 6
    assert [found.clusters[at].level for at in places] == [0, 1, 2, 3, 4, 5]
    homes = [netlist.modules[found.clusters[at].module] for at in places]
    assert homes == ["one", "two"] * 3


def test_what_is_not_kept_is_stored_only_when_several_places_read_it():
    m = module()
    there_and_back(m)
    assert partition(read(m)).stored == {}  # one register reads all of it
    m = module()
    _, values, _ = there_and_back(m)
    other = Signal(32)
    with m.If(values[-1] == 7):
        m.d.sync += other.eq(values[-2])
    netlist = read(m)
    found = partition(netlist)
    check_order(found)
    assert netlist.signals[values[-2]][0] in found.stored


def test_a_guard_switches_the_registers_that_it_changes():
    m = module()
    enable, value = Signal(), Signal(8)
    ones = [Signal(8, name=f"one{n}") for n in range(2)]
    always = Signal(8)
    with m.If(enable):
        m.d.sync += [ones[0].eq(value), ones[1].eq(~value)]
    m.d.sync += always.eq(value)
    netlist = read(m)
    found = partition(netlist)
    check_switches(found)
    names = {
        group.guard: {netlist.elements[number].name.split()[0] for number, _ in group.elements}
        for group in found.groups
    }
    assert names == {netlist.signals[enable][0]: {"one0", "one1"}, None: {"always"}}


def test_writes_and_messages_are_switched_by_their_enables():
    m = module()
    enable, printed, address = Signal(), Signal(), Signal(4)
    m.submodules.memory = memory = Memory(shape=8, depth=16, init=[])
    port = memory.write_port()
    m.d.comb += [port.en.eq(enable), port.addr.eq(address), port.data.eq(address + 1)]
    with m.If(printed):
        m.d.sync += Print(address)
    netlist = read(m)
    found = partition(netlist)
    check_switches(found)
    guards = {
        "write" if group.write else "checks": group.guard
        for group in found.groups if group.write or group.checks
    }  # fmt: skip
    signals = netlist.signals
    assert guards == {"write": signals[enable][0], "checks": signals[printed][0]}


# ----------------------------------------------------------------------------------- sleep


def model_of(m):
    program = compile(m)
    return Model(program, optimise=0), program.slot


def test_an_idle_design_is_through_with_any_number_of_cycles_at_once():
    m = module()
    value, enable, out = Signal(8), Signal(), Signal(8)
    with m.If(enable):
        m.d.sync += out.eq(out + value)
    model, slot = model_of(m)
    assert finished(lambda: model.step(FOR_EVER)) == [FOR_EVER]
    assert model.get(slot(out)) == 0


def test_a_register_that_has_reached_its_value_sleeps():
    m = module()
    value, one, two = Signal(8), Signal(8), Signal(8)
    m.d.sync += [one.eq(value), two.eq(one)]
    model, slot = model_of(m)
    model.set(slot(value), 9)
    assert finished(lambda: model.step(FOR_EVER)) == [FOR_EVER]
    assert (model.get(slot(one)), model.get(slot(two))) == (9, 9)


def test_what_is_set_wakes_an_idle_design():
    m = module()
    value, count = Signal(8), Signal(32)
    with m.If(count < value):
        m.d.sync += count.eq(count + 1)
    model, slot = model_of(m)
    for top in (7, 7, 200):
        model.set(slot(value), top)
        assert finished(lambda: model.step(FOR_EVER)) == [FOR_EVER]
        assert model.get(slot(count)) == top


def test_a_counter_keeps_running():
    m = module()
    count = Signal(20)
    m.d.sync += count.eq(count + 1)
    model, slot = model_of(m)
    assert model.step(3_000_001) == 3_000_001
    assert model.get(slot(count)) == 3_000_001 % (1 << 20)


def test_an_assert_that_fails_reports_again_and_again():
    m = module()
    good = Signal(init=1)
    m.d.sync += Assert(good)
    model, slot = model_of(m)
    assert finished(lambda: model.step(FOR_EVER)) == [FOR_EVER]
    model.set(slot(good), 0)
    for _ in range(3):
        assert finished(lambda: model.step(FOR_EVER)) == [1]
        assert len(model.messages()) == 1


def test_a_write_that_repeats_keeps_awake_what_it_must():
    m = module()
    enable, address = Signal(init=1), Signal(4, init=3)
    m.submodules.memory = memory = Memory(shape=8, depth=16, init=[])
    port = memory.write_port()
    m.d.comb += [port.en.eq(enable), port.addr.eq(address), port.data.eq(5)]
    model, slot = model_of(m)
    (info,) = model.program.memories
    model.step(2)
    model.write_memory(info, 3, 77)
    model.step(1)
    assert model.read_memory(info, 3) == 5
    model.set(slot(enable), 0)
    model.write_memory(info, 3, 77)
    assert finished(lambda: model.step(FOR_EVER)) == [FOR_EVER]
    assert model.read_memory(info, 3) == 77
