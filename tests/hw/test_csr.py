# amaranth: UnusedElaboratable=no
"""The register file against a model that knows only the register map."""

import random

import pytest
from amaranth.hdl import Cat

from hw.axi import Response
from hw.config import NpuConfig
from hw.csr import Csr, member_name, register_name
from hw.regs.capability import capabilities
from hw.regs.register import Access
from hw.regs.registers import (
    CONTEXT,
    COUNTER,
    DEVICE,
    EVENT,
    PMU,
    REGISTER_MAP,
    STREAM,
    WINDOW,
    Cycle,
    Doorbell,
    EventRecord,
    EventTime,
    FaultTask,
    Identity,
    InterruptStatus,
    PmuControl,
    PmuCycle,
    PmuSelect,
    RingBase,
    StreamConfig,
    WindowBase,
)
from tests.simulation import simulator_of

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny")
OKAY, SLVERR, DECERR = Response.OKAY, Response.SLVERR, Response.DECERR


def locations():
    """(address, register, port path, word) of every word of the map."""
    for block in REGISTER_MAP:
        for index in range(block.count(CONFIG)):
            for register in block:
                for word in range(register.words()):
                    address = block.address(register, index) + 4 * word
                    yield address, register, (member_name(block), index), word


def port_of(csr, register, path):
    member, index = path
    block = getattr(csr, member)
    return getattr(block[index] if isinstance(block, list) else block, register_name(register))


def in_range(register, raw):
    """Whether the fields written stay below the sizes that they name."""
    return all(
        field.unpack(raw >> field.offset) < getattr(CONFIG, field.below)
        for field in register.FIELDS
        if field.below is not None
    )


async def write(ctx, bus, address, value, *, strb=0xF, prot=1, wait=(0, 0, 0)):
    """One write with the channels' waits; checks that the response follows in the next cycle."""
    ctx.set(bus.aw.p, {"addr": address, "prot": prot})
    ctx.set(bus.w.p, {"data": value, "strb": strb})
    address_done, data_done, taken, seen = None, None, None, []
    for cycle in range(100):
        ctx.set(bus.aw.valid, address_done is None and cycle >= wait[0])
        ctx.set(bus.w.valid, data_done is None and cycle >= wait[1])
        ctx.set(bus.b.ready, len(seen) >= wait[2])
        _, _, aw, w, valid, ready, resp = await ctx.tick().sample(
            bus.aw.valid & bus.aw.ready, bus.w.valid & bus.w.ready,
            bus.b.valid, bus.b.ready, bus.b.p.resp,
        )  # fmt: skip
        if aw:
            address_done = cycle
        if w:
            data_done = cycle
        if valid:
            seen.append((cycle, resp))
            if ready:
                taken = cycle
                break
    ctx.set(bus.b.ready, 0)
    assert taken is not None, "no response within 100 cycles"
    assert seen[0][0] == max(address_done, data_done) + 1
    assert len({resp for _, resp in seen}) == 1
    return seen[0][1]


async def read(ctx, bus, address, *, wait=(0, 0)):
    """One read with the channels' waits; checks that the data follows in the next cycle."""
    await ctx.tick().repeat(wait[0] + 1)
    ctx.set(bus.ar.p, {"addr": address, "prot": 0})
    ctx.set(bus.ar.valid, 1)
    assert ctx.get(bus.ar.ready)
    await ctx.tick()
    ctx.set(bus.ar.valid, 0)
    answers = []
    for cycle in range(wait[1] + 1):
        ctx.set(bus.r.ready, cycle == wait[1])
        _, _, valid, data, resp = await ctx.tick().sample(
            bus.r.valid, bus.r.p.data, bus.r.p.resp
        )
        assert valid
        answers.append((data, resp))
    ctx.set(bus.r.ready, 0)
    assert len(set(answers)) == 1
    return answers[0]


def simulate(*testbenches, csr=None):
    csr = csr or Csr(CONFIG)
    simulator = simulator_of(csr)
    simulator.add_clock(1e-6)
    pulses = []
    strobes = [
        (port_of(csr, register, path).written, register, path)
        for _, register, path, word in locations()
        if word == 0 and register.ACCESS in (Access.RW, Access.WO)
    ]
    orders = Cat(
        port_of(csr, register, path).value.as_value()
        for _, register, path, _ in locations()
        if register.ACCESS is Access.WO
    )

    async def monitor(ctx):
        async for _, _, flags, idle in ctx.tick().sample(
            Cat(strobe for strobe, _, _ in strobes), orders == 0
        ):
            for number, (_, register, path) in enumerate(strobes):
                if flags >> number & 1:
                    pulses.append((register, path))
                    idle |= register.ACCESS is Access.WO
            assert idle, "an order shows without its pulse"

    simulator.add_testbench(monitor, background=True)  # first: the others look at its notes
    for testbench in testbenches:

        async def bench(ctx, testbench=testbench):
            await testbench(ctx, csr, pulses)

        simulator.add_testbench(bench)
    simulator.run()


def test_random_accesses_agree_with_the_model():
    rng = random.Random(1)
    words = list(locations())
    constants = capabilities(CONFIG)
    model = {
        (register, path): register().to_int()
        for _, register, path, _ in words
        if register.ACCESS in (Access.RW, Access.W1C)
    }
    mapped = {address for address, *_ in words}
    unmapped = [a for a in range(0, 1 << 16, 4) if a not in mapped] + [a + 2 for a in mapped]

    async def bench(ctx, csr, pulses):
        kept = (None, 0)
        for _ in range(900):
            wait = [rng.choice((0, 0, 1, 3)) for _ in range(3)]
            if rng.random() < 0.05:
                address = rng.choice(unmapped)
                assert await write(ctx, csr.control, address, 1, wait=wait) == DECERR
                assert await read(ctx, csr.control, address, wait=wait[:2]) == (0, DECERR)
                continue
            address, register, path, word = rng.choice(words)
            key = register, path
            access, shift = register.ACCESS, 32 * word
            port = None if access is Access.CONST else port_of(csr, register, path)
            if access is Access.RO:
                shown = rng.getrandbits(register.WIDTH)
                ctx.set(port.value.as_value(), shown)
            if access is Access.W1C and rng.random() < 0.8:
                raised = rng.getrandbits(register.WIDTH) & register.MASK
                ctx.set(port.set.as_value(), raised)
                await ctx.tick()
                ctx.set(port.set.as_value(), 0)
                model[key] |= raised
            if rng.random() < 0.5:
                value = rng.getrandbits(32)
                strb = rng.choice((0xF, 0xF, 0xF, rng.getrandbits(4)))
                prot = rng.getrandbits(3)
                allowed = strb == 0xF and (prot & 1 or not register.PRIVILEGED)
                allowed = allowed and access not in (Access.RO, Access.CONST)
                allowed = allowed and in_range(register, value << shift)
                pulses.clear()
                response = await write(
                    ctx, csr.control, address, value, strb=strb, prot=prot, wait=wait
                )
                assert response == (OKAY if allowed else SLVERR), register
                written = (value << shift) & register.MASK
                if allowed and access is Access.RW:
                    model[key] = model[key] & ~(0xFFFF_FFFF << shift) | written
                if allowed and access is Access.W1C:
                    model[key] &= ~written
                pulsing = allowed and access in (Access.RW, Access.WO)
                assert pulses == ([key] if pulsing else [])
            else:
                if access is Access.CONST:
                    value = constants[register].to_int()
                else:
                    value = shown if access is Access.RO else model.get(key, 0)
                expected = (value >> shift) & 0xFFFF_FFFF
                if access is Access.RO and register.words() == 2:
                    if word == 0:
                        kept = key, value >> 32
                    elif kept[0] == key:
                        expected = kept[1]
                assert await read(ctx, csr.control, address, wait=wait[:2]) == (expected, OKAY)
            if key in model:
                assert ctx.get(port.value.as_value()) == model[key], register

    simulate(bench)


def test_an_order_shows_with_its_pulse_in_the_cycle_after_the_write():
    async def bench(ctx, csr, pulses):
        port = csr.streams[2].doorbell
        address = STREAM.address(Doorbell, 2)
        ctx.set(csr.control.aw.p.addr, address)
        ctx.set(csr.control.w.p, {"data": 0x1234, "strb": 0xF})
        ctx.set(csr.control.aw.valid, 1)
        ctx.set(csr.control.w.valid, 1)
        seen = []
        for _ in range(4):
            _, _, value, written = await ctx.tick().sample(port.value.tail, port.written)
            seen.append((value, written))
            ctx.set(csr.control.aw.valid, 0)
            ctx.set(csr.control.w.valid, 0)
        assert seen == [(0, 0), (0x1234, 1), (0, 0), (0, 0)]

    simulate(bench)


def test_new_contents_show_with_their_pulse_in_the_cycle_after_the_write():
    async def bench(ctx, csr, pulses):
        port = csr.counters[7].pmu_select
        ctx.set(csr.control.aw.p.addr, COUNTER.address(PmuSelect, 7))
        ctx.set(csr.control.w.p, {"data": 33, "strb": 0xF})
        ctx.set(csr.control.w.valid, 1)
        await ctx.tick()
        ctx.set(csr.control.w.valid, 0)
        ctx.set(csr.control.aw.valid, 1)
        seen = []
        for _ in range(3):
            _, _, value, written = await ctx.tick().sample(port.value.event, port.written)
            seen.append((value, written))
            ctx.set(csr.control.aw.valid, 0)
        assert seen == [(0, 0), (33, 1), (33, 0)]

    simulate(bench)


def test_writes_back_to_back_take_two_cycles_each():
    async def bench(ctx, csr, pulses):
        bus = csr.control
        ctx.set(bus.aw.p.addr, STREAM.address(Doorbell, 1))
        ctx.set(bus.w.p, {"data": 1, "strb": 0xF})
        for stream in (bus.aw, bus.w):
            ctx.set(stream.valid, 1)
        ctx.set(bus.b.ready, 1)
        await ctx.tick().repeat(20)
        for stream in (bus.aw, bus.w):
            ctx.set(stream.valid, 0)
        await ctx.tick().repeat(3)
        assert pulses == [(Doorbell, ("streams", 1))] * 10

    simulate(bench)


def test_a_bit_that_is_set_in_the_cycle_in_which_it_is_cleared_stays_set():
    async def bench(ctx, csr, pulses):
        bus = csr.control
        port = csr.contexts[1].interrupt_status
        ctx.set(port.set, {"completion": 1, "fault": 1})
        await ctx.tick()
        assert ctx.get(port.value.as_value()) == 0b11
        ctx.set(port.set, {"completion": 1, "fault": 0})
        ctx.set(bus.aw.p.addr, CONTEXT.address(InterruptStatus, 1))
        ctx.set(bus.w.p, {"data": 0b11, "strb": 0xF})
        ctx.set(bus.aw.valid, 1)
        ctx.set(bus.w.valid, 1)
        await ctx.tick()
        ctx.set(port.set, {"completion": 0, "fault": 0})
        ctx.set(bus.aw.valid, 0)
        ctx.set(bus.w.valid, 0)
        ctx.set(bus.b.ready, 1)
        for _ in range(3):
            assert ctx.get(port.value.as_value()) == 0b01
            await ctx.tick()
        ctx.set(bus.b.ready, 0)
        assert await write(ctx, bus, CONTEXT.address(InterruptStatus, 1), 0b11) == OKAY
        assert ctx.get(port.value.as_value()) == 0
        assert ctx.get(csr.contexts[0].interrupt_status.value.as_value()) == 0

    simulate(bench)


def test_wide_read_only_registers_do_not_tear():
    async def bench(ctx, csr, pulses):
        cycle = csr.device.cycle.value.as_value()
        low = DEVICE.address(Cycle)
        ctx.set(cycle, 0x1_FFFF_FFFF)
        assert await read(ctx, csr.control, low) == (0xFFFF_FFFF, OKAY)
        ctx.set(cycle, 0x2_0000_0000)
        assert await read(ctx, csr.control, DEVICE.address(Identity)) == (Identity().ident, OKAY)
        assert await read(ctx, csr.control, low + 4) == (1, OKAY)
        # The kept word belongs to Cycle: another register's high word reads as it is.
        ctx.set(csr.contexts[0].fault_task.value.as_value(), 7 << 32)
        address = CONTEXT.address(FaultTask, 0)
        assert await read(ctx, csr.control, address + 4) == (7, OKAY)
        assert await read(ctx, csr.control, address) == (0, OKAY)
        assert await read(ctx, csr.control, low + 4) == (2, OKAY)

    simulate(bench)


def test_reads_and_writes_go_on_at_the_same_time():
    async def writer(ctx, csr, pulses):
        for number in range(20):
            address = STREAM.address(RingBase, number % 4)
            assert await write(ctx, csr.control, address, number << 8, wait=(0, 1, 2)) == OKAY

    async def reader(ctx, csr, pulses):
        seen = []
        for _ in range(40):
            data, response = await read(ctx, csr.control, STREAM.address(RingBase, 3))
            assert response == OKAY
            seen.append(data >> 8)
        assert seen == sorted(seen)
        assert {3, 7, 11, 15, 19} <= set(seen)

    simulate(writer, reader)


def test_privileged_registers_refuse_plain_writes():
    async def bench(ctx, csr, pulses):
        address = WINDOW.address(WindowBase, 5)
        assert await write(ctx, csr.control, address, 0x1000, prot=0b110) == SLVERR
        assert await read(ctx, csr.control, address) == (0, OKAY)
        assert await write(ctx, csr.control, address, 0x1000, prot=0b001) == OKAY
        assert await read(ctx, csr.control, address) == (0x1000, OKAY)
        assert pulses == [(WindowBase, ("windows", 5))]

    simulate(bench)


def test_a_record_of_a_slot_that_does_not_exist_is_refused_whole():
    async def bench(ctx, csr, pulses):
        address = EVENT.address(EventRecord)
        for slot in (CONFIG.events, CONFIG.events + 3, 4095):
            word = EventRecord(slot=slot, generation=1).to_int()
            assert await write(ctx, csr.control, address, word) == SLVERR
        assert pulses == []
        word = EventRecord(slot=CONFIG.events - 1, generation=1).to_int()
        assert await write(ctx, csr.control, address, word) == OKAY
        assert pulses == [(EventRecord, ("event", 0))]

    simulate(bench)


@pytest.mark.parametrize(
    ("block", "count"),
    [(COUNTER, 8), (STREAM, 4), (CONTEXT, 2), (WINDOW, 8)],
    ids=["counters", "streams", "contexts", "windows"],
)
def test_blocks_stand_as_often_as_the_configuration_says(block, count):
    assert block.count(CONFIG) == count
    assert len(getattr(Csr(CONFIG), member_name(block))) == count


def test_ports_are_named_after_the_registers():
    csr = Csr(CONFIG)
    assert csr.pmu.pmu_control.value.enable.shape().width == 1
    assert set(csr.event.signature.members) == {
        "event_record", "event_select", "event_value", "event_time",
        "notify_select", "notify_value", "notify_set",
    }  # fmt: skip
    assert "identity" not in csr.device.signature.members
    assert set(csr.device.cycle.signature.members) == {"value"}
    assert {EVENT.name, PMU.name} <= set(csr.signature.members)
    assert [register_name(r) for r in (PmuControl, PmuCycle, EventTime, StreamConfig)] == [
        "pmu_control", "pmu_cycle", "event_time", "stream_config",
    ]  # fmt: skip
