"""The interconnect and the whole memory bus before a checking memory."""

import random
from collections import Counter, deque

import pytest

from hw.bus.interconnect import Interconnect
from hw.bus.memory_bus import MemoryBus
from hw.config import NpuConfig
from hw.interface import Status
from tests.models.axi_memory import AxiMemory, Order
from tests.simulation import simulate

pytestmark = pytest.mark.usefixtures("engine")

CONFIG = NpuConfig.preset("tiny")
WIDTH = CONFIG.data_bytes
STATUS = {0: Status.OKAY, 2: Status.SLVERR, 3: Status.DECERR}


def open_window(ctx, dut):
    """The lower half of memory for context 0, everything but code for context 1."""
    whole = {"base": 0, "limit": 0x7FFF, "read": 1, "write": 1, "execute": 1}
    ctx.set(dut.windows[0], whole)
    ctx.set(dut.windows[CONFIG.windows], whole | {"execute": 0})


def test_addresses_take_turns_and_a_choice_stays():
    dut = Interconnect(CONFIG)
    readers = len(CONFIG.read_clients)

    async def bench(ctx):
        for number in (0, 2):
            ctx.set(dut.reads[number].ar.valid, 1)
            ctx.set(dut.reads[number].ar.p, {"addr": number << 8, "len": number, "epoch": 1})
        assert ctx.get(dut.memory.ar.valid)
        seen = ctx.get(dut.memory.ar.p.id)
        await ctx.tick()
        for number in range(readers):
            ctx.set(dut.reads[number].ar.valid, 1)
            ctx.set(dut.reads[number].ar.p, {"addr": number << 8, "len": number, "epoch": 1})
        ids = []
        for _ in range(4):
            assert ctx.get(dut.memory.ar.p.id) == seen
            await ctx.tick()
        ctx.set(dut.memory.ar.ready, 1)
        for _ in range(3 * readers):
            p = ctx.get(dut.memory.ar.p)
            client = p.id >> 1
            assert (p.id & 1, p.addr, p.len) == (1, client << 8, client)
            ids.append(client)
            assert [ctx.get(port.ar.ready) for port in dut.reads] == [
                number == client for number in range(readers)
            ]
            await ctx.tick()
        assert Counter(ids) == Counter(list(range(readers)) * 3)
        assert ids[:readers] == ids[readers : 2 * readers]

    simulate(dut, bench)


def test_answers_for_a_client_that_does_not_exist_are_swallowed():
    dut = Interconnect(CONFIG)

    async def bench(ctx):
        for channel, clients in ((dut.memory.r, dut.reads), (dut.memory.b, dut.writes)):
            ctx.set(channel.valid, 1)
            for client in range(1 << (CONFIG.id_bits - 1)):
                ctx.set(channel.p.id, client << 1)
                assert ctx.get(channel.ready) == (client >= len(clients))

    simulate(dut, bench)


def random_burst(rng, low):
    address = low + rng.randrange(0x400)
    room = CONFIG.burst_bytes - address % CONFIG.burst_bytes
    return address, rng.choice([rng.randrange(1, room + 1), min(room, rng.randrange(1, 20)), room])


@pytest.mark.parametrize("seed", [1, 2])
def test_all_clients_at_once_with_errors_denials_and_aborts(seed):
    dut = MemoryBus(CONFIG)
    memory = AxiMemory(dut.memory, latency=3, seed=seed)
    source = random.Random(seed).randbytes(0x500)
    memory.load(0x1000, source)
    memory.load(0x8000, source)
    memory.errors = {0x1000 + WIDTH * n: 2 + n // 5 % 2 for n in range(0, 160, 5)}
    for client in range(len(CONFIG.write_clients)):
        memory.errors[0x2100 + client * 0x1000] = 3
    beats, issued = Counter(), Counter()
    expected_image = {}

    def reader(number):
        port = dut.reads[number]
        rng = random.Random(seed * 100 + number)
        code = CONFIG.read_clients[number].startswith("code")

        async def bench(ctx):
            await ctx.tick()
            expected = deque()
            burst, accepted = None, 0
            while accepted < 60 or expected:
                if burst is None and rng.randrange(2) and accepted < 60:
                    burst = random_burst(rng, rng.choice([0x1000, 0x1000, 0x1000, 0x8000]))
                    context = rng.randrange(2)
                    ctx.set(port.requests.p, {
                        "address": burst[0], "bytes": burst[1], "context": context,
                    })  # fmt: skip
                    ctx.set(port.requests.valid, 1)
                ready = rng.randrange(5) != 0
                abort = rng.randrange(150) == 0
                ctx.set(port.beats.ready, ready)
                ctx.set(port.abort, abort)
                _, _, taken, valid, p = await ctx.tick().sample(
                    port.requests.ready, port.beats.valid, port.beats.p
                )
                if valid and ready:
                    address, last, status, text = expected.popleft()
                    assert (p.address, p.last, p.status) == (address, last, status)
                    assert (p.offset, p.count) == (address % WIDTH, len(text))
                    if status == Status.OKAY:
                        assert p.data.to_bytes(WIDTH, "little")[p.offset :][: p.count] == text
                if burst is not None and taken:
                    accepted += 1
                    ctx.set(port.requests.valid, 0)
                    address, count = burst
                    burst = None
                    good = address + count <= 0x8000 and not (code and context == 1)
                    while count:
                        part = min(count, WIDTH - address % WIDTH)
                        line = address - address % WIDTH
                        status = STATUS[memory.errors.get(line, 0)] if good else Status.DENIED
                        expected.append(
                            (address, part == count, status, memory.dump(address, part))
                        )
                        address, count = address + part, count - part
                if abort:
                    expected.clear()
                    burst = None
                    ctx.set(port.abort, 0)
                    ctx.set(port.requests.valid, 0)
                    await ctx.tick().until(port.idle)

        return bench

    def writer(number):
        port = dut.writes[number]
        rng = random.Random(seed * 200 + number)

        async def bench(ctx):
            await ctx.tick()
            responses, data = deque(), deque()
            burst, beat, accepted = None, None, 0
            ctx.set(port.responses.ready, 1)
            while accepted < 40 or responses:
                if burst is None and rng.randrange(2) and accepted < 40:
                    burst = random_burst(rng, rng.choice([0x2000 + number * 0x1000] * 3 + [0x9000]))
                    ctx.set(port.requests.p, {"address": burst[0], "bytes": burst[1]})
                    ctx.set(port.requests.valid, 1)
                if beat is None and data:
                    beat = data.popleft()
                    ctx.set(port.data.p, beat)
                    ctx.set(port.data.valid, 1)
                _, _, taken, data_taken, answered, p = await ctx.tick().sample(
                    port.requests.ready, port.data.ready, port.responses.valid, port.responses.p
                )
                if answered:
                    assert (p.status, p.address) == responses.popleft()
                if beat is not None and data_taken:
                    beat = None
                    ctx.set(port.data.valid, 0)
                if burst is not None and taken:
                    accepted += 1
                    ctx.set(port.requests.valid, 0)
                    address, count = burst
                    burst = None
                    good = address + count <= 0x8000
                    line = address - address % WIDTH
                    status = STATUS[memory.errors.get(line, 0)] if good else Status.DENIED
                    responses.append((status, address))
                    while count:
                        part = min(count, WIDTH - address % WIDTH)
                        offset = address % WIDTH
                        text = rng.randbytes(part)
                        if good:
                            expected_image.update(enumerate(text, address))
                        data.append({
                            "data": int.from_bytes(text, "little") << offset * 8,
                            "strobe": ((1 << part) - 1) << offset,
                        })  # fmt: skip
                        address, count = address + part, count - part

        return bench

    async def observe(ctx):
        open_window(ctx, dut)
        activity, bus = dut.activity, dut.memory
        reads = writes = 0
        async for sample in ctx.tick().sample(
            bus.ar.valid, bus.ar.ready, bus.r.valid, bus.r.ready, bus.r.p,
            bus.aw.valid, bus.aw.ready, bus.w.valid, bus.w.ready, bus.b.valid, bus.b.ready,
            activity.read_issued, activity.read_beat, activity.read_beats, activity.read_stall,
            activity.reads, activity.write_issued, activity.write_beat, activity.write_beats,
            activity.write_stall, activity.writes,
        ):  # fmt: skip
            (arv, arr, rv, rr, r, awv, awr, wv, wr, bv, br) = sample[2:13]
            assert sample[13:18] == (
                arv & arr, rv & rr, (rv & rr) << (r.id >> 1), arv & (arr ^ 1), reads
            )
            write_issued, write_beat, write_beats, write_stall, outstanding = sample[18:]
            assert (write_issued, write_beat) == (awv & awr, wv & wr)
            assert write_beats.bit_count() == write_beat
            assert (write_stall, outstanding) == (wv & (wr ^ 1), writes)
            reads += (arv & arr) - (rv & rr & r.last)
            writes += (awv & awr) - (bv & br)
            issued["r"] += arv & arr
            issued["w"] += awv & awr
            beats.update(n for n in range(8) if write_beats >> n & 1)

    simulate(
        dut,
        *(reader(number) for number in range(len(CONFIG.read_clients))),
        *(writer(number) for number in range(len(CONFIG.write_clients))),
        background=[memory.run, observe],
    )
    assert memory.checker.idle
    assert len(memory.reads) == issued["r"] > 100
    assert len(memory.writes) == issued["w"] > 60
    for client in range(len(CONFIG.write_clients)):
        lines = [burst[3] for burst in memory.writes if burst[1] >> 1 == client]
        assert sum(lines) == beats[client]
    assert {a: v for a, v in memory.content.items() if 0x2000 <= a < 0x8000} == expected_image


def test_a_read_and_a_write_reach_the_bus_one_cycle_after_their_request():
    dut = MemoryBus(CONFIG)

    async def bench(ctx):
        open_window(ctx, dut)
        ctx.set(dut.reads[1].requests.p, {"address": 0x123, "bytes": 30})
        ctx.set(dut.reads[1].requests.valid, 1)
        ctx.set(dut.writes[2].requests.p, {"address": 0x456, "bytes": 3})
        ctx.set(dut.writes[2].requests.valid, 1)
        assert ctx.get(dut.reads[1].requests.ready)
        assert ctx.get(dut.writes[2].requests.ready)
        assert not ctx.get(dut.memory.ar.valid)
        await ctx.tick()
        assert ctx.get(dut.memory.ar.valid)
        assert ctx.get(dut.memory.aw.valid)
        ar, aw = ctx.get(dut.memory.ar.p), ctx.get(dut.memory.aw.p)
        assert (ar.addr, ar.len, ar.id, ar.size, ar.burst.value) == (0x120, 4, 2, 3, 1)
        assert (aw.addr, aw.len, aw.id, aw.size, aw.burst.value) == (0x450, 1, 4, 3, 1)
        assert (ar.lock, ar.cache, ar.prot, ar.qos) == (0, 0, 0, 0)

    simulate(dut, bench)


def test_three_writers_keep_the_data_channel_full():
    """Bound: 16-beat bursts of three clients, always ready bus: one beat in every cycle."""
    dut = MemoryBus(CONFIG)
    memory = AxiMemory(dut.memory)
    seen = []

    def writer(number):
        async def bench(ctx):
            port = dut.writes[number]
            ctx.set(port.responses.ready, 1)
            ctx.set(port.data.valid, 1)
            ctx.set(port.data.p.strobe, 0xFF)
            ctx.set(port.requests.p, {"address": number * 0x1000, "bytes": CONFIG.burst_bytes})
            ctx.set(port.requests.valid, 1)
            await ctx.tick().repeat(200)

        return bench

    async def observe(ctx):
        open_window(ctx, dut)
        async for _, _, valid, ready in ctx.tick().sample(dut.memory.w.valid, dut.memory.w.ready):
            seen.append(valid and ready)

    simulate(dut, *map(writer, range(3)), background=[memory.run, observe])
    begin = seen.index(1)
    assert begin == 2
    assert all(seen[begin:])


def test_data_is_offered_one_cycle_after_its_address_though_neither_is_taken():
    dut = MemoryBus(CONFIG)

    async def bench(ctx):
        open_window(ctx, dut)
        for number in (1, 2):
            ctx.set(dut.writes[number].requests.p, {"address": number << 8, "bytes": 8})
            ctx.set(dut.writes[number].requests.valid, 1)
            ctx.set(dut.writes[number].data.p, {"data": number, "strobe": 0xFF})
            ctx.set(dut.writes[number].data.valid, 1)
        await ctx.tick()
        for number in (1, 2):
            ctx.set(dut.writes[number].requests.valid, 0)
        assert ctx.get(dut.memory.aw.valid)
        first = ctx.get(dut.memory.aw.p.addr) >> 8
        assert not ctx.get(dut.memory.w.valid)
        for _ in range(3):
            await ctx.tick()
            assert ctx.get(dut.memory.w.valid)
            assert ctx.get(dut.memory.aw.valid)
            assert ctx.get(dut.memory.w.p.data) == ctx.get(dut.memory.aw.p.addr) >> 8 == first
        # The other client's data waits for its own address, even when this one's has gone.
        ctx.set(dut.memory.w.ready, 1)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.memory.w.valid)
        ctx.set(dut.memory.aw.ready, 1)
        await ctx.tick()
        assert ctx.get(dut.memory.aw.p.addr) >> 8 == 3 - first
        assert not ctx.get(dut.memory.w.valid)
        await ctx.tick()
        assert ctx.get(dut.memory.w.valid)
        assert ctx.get(dut.memory.w.p.data) == 3 - first

    simulate(dut, bench)


def test_writes_end_in_whichever_order_the_bus_takes_address_and_data():
    dut = MemoryBus(CONFIG)
    memory = AxiMemory(dut.memory, seed=6)
    clients = range(len(CONFIG.write_clients))
    rng = random.Random(6)
    expected = {}

    async def write_bursts(ctx, count, first):
        """Each client writes `count` bursts; returns the cycles until all were answered."""
        begin = memory.cycle
        asked, answered = Counter(), Counter()
        data = {number: deque() for number in clients}
        for number in clients:
            ctx.set(dut.writes[number].responses.ready, 1)
        while answered.total() < count * len(clients):
            assert memory.cycle - begin < 1000, "the bus does not go on"
            for number in clients:
                port = dut.writes[number]
                address = 0x1000 * number + 128 * (first + asked[number])
                beats = (number + asked[number]) % (CONFIG.burst_bytes // WIDTH) + 1
                ctx.set(port.requests.p, {"address": address, "bytes": beats * WIDTH})
                ctx.set(port.requests.valid, asked[number] < count)
                ctx.set(port.data.valid, bool(data[number]))
                if data[number]:
                    ctx.set(port.data.p, {"data": data[number][0], "strobe": 0xFF})
                if asked[number] < count and ctx.get(port.requests.ready):
                    asked[number] += 1
                    text = rng.randbytes(beats * WIDTH)
                    expected.update(enumerate(text, address))
                    words = memoryview(text).cast("Q").tolist()
                else:
                    words = []
                if data[number] and ctx.get(port.data.ready):
                    data[number].popleft()
                data[number].extend(words)
                answered[number] += ctx.get(port.responses.valid)
            await ctx.tick()

    async def bench(ctx):
        open_window(ctx, dut)
        await ctx.tick()
        for n, order in enumerate(Order):
            memory.orders = (order,)
            await write_bursts(ctx, 6, 6 * n)

    simulate(dut, bench, background=[memory.run])
    assert memory.checker.idle
    assert memory.content == expected
