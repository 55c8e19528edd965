# amaranth: UnusedElaboratable=no
"""Memory timing: exact latency and bandwidth, order and data under stalls, errors.

The manager is plain Python that drives the AXI channels through the engine, one cycle at a time.
"""

import random
from collections import deque

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from hw.axi import Response, Signature
from hw.config import HOST_BASE
from sim.board.memory import Injection, Region, Timing
from sim.board.switch import Switch
from sim.engine.pysim import PysimEngine
from tests.models.axi_checker import CHANNELS, AxiChecker
from tests.simulation import simulator_of

BYTES = 8
SIZE = 1 << 14
BUS = {"data_bytes": BYTES, "id_bits": 3}
OKAY, SLVERR, DECERR = Response.OKAY.value, Response.SLVERR.value, Response.DECERR.value


class Pair(wiring.Component):
    """Device and host memory behind the switch."""

    bus: In(Signature(**BUS))
    read_error: In(Injection)
    write_error: In(Injection)

    def __init__(self, device, host):
        super().__init__()
        self.device = Region(0, SIZE, device, **BUS)
        self.host = Region(HOST_BASE, SIZE, host, **BUS)
        self.storages = {"device": self.device.storage, "host": self.host.storage}

    def elaborate(self, platform):
        m = Module()
        m.submodules.switch = switch = Switch(**BUS)
        m.submodules.device, m.submodules.host = self.device, self.host
        connect(m, flipped(self.bus), switch.bus)
        connect(m, switch.lower, self.device.bus)
        connect(m, switch.upper, self.host.bus)
        for region in (self.device, self.host):
            m.d.comb += region.read_error.eq(self.read_error)
            m.d.comb += region.write_error.eq(self.write_error)
        return m


class Manager:
    """Sends what is in its queues as early as it can and notes the cycle of each handshake.

    With a `checker`, that sees each cycle.
    """

    def __init__(self, pair, *, chance=1.0, seed=0, checker=None):
        self.engine = PysimEngine(pair)
        self.bus = pair.bus
        self.pair = pair
        self.chance = chance
        self.checker = checker
        self.random = random.Random(seed)
        self.clear()

    def clear(self):
        self.queues = {"ar": deque(), "aw": deque(), "w": deque()}
        self.offered = {"ar": None, "aw": None, "w": None}
        self.taken = {"ar": [], "aw": [], "w": [], "r": [], "b": []}
        self.engine.reset()

    def read(self, address, beats, id=0):
        self.queues["ar"].append(self._address(address, beats, id))

    def write(self, address, words, id=0, strobe=0xFF):
        self.queues["aw"].append(self._address(address, len(words), id))
        for i, word in enumerate(words):
            last = i == len(words) - 1
            self.queues["w"].append({"data": word, "strb": strobe, "last": last})

    def _address(self, address, beats, id):
        return {"addr": address, "len": beats - 1, "id": id, "size": 3, "burst": 1}

    def cycle(self):
        """One cycle; handshakes in it are noted with its number."""
        engine, bus = self.engine, self.bus
        for name, queue in self.queues.items():
            channel = getattr(bus, name)
            if self.offered[name] is None and queue and self.random.random() < self.chance:
                self.offered[name] = queue.popleft()
                for field, value in self.offered[name].items():
                    member = getattr(channel.p, field)
                    engine.poke(getattr(member, "as_value", lambda m=member: m)(), int(value))
            engine.poke(channel.valid, self.offered[name] is not None)
        for name in ("r", "b"):
            engine.poke(getattr(bus, name).ready, self.random.random() < self.chance)
        for name in self.taken:
            channel = getattr(bus, name)
            if engine.peek(channel.valid) and engine.peek(channel.ready):
                fields = ("id", "resp", "last", "data") if name == "r" else ("id", "resp")
                if name in self.offered:
                    fields, self.offered[name] = (), None
                values = [engine.peek(getattr(channel.p, field)) for field in fields]
                self.taken[name].append((engine.now, *values))
        if self.checker is not None:
            self.checker.see(**{name: self._seen(getattr(bus, name)) for name in CHANNELS})
        engine.step()

    def _seen(self, channel):
        """What is on a channel: (valid, ready, payload)."""
        payload = channel.p.shape().from_bits(self.engine.peek(channel.p.as_value()))
        return self.engine.peek(channel.valid), self.engine.peek(channel.ready), payload

    def run(self, beats=0, answers=0, limit=3000):
        while len(self.taken["r"]) < beats or len(self.taken["b"]) < answers:
            assert self.engine.now < limit, "answers are missing"
            self.cycle()

    def times(self, channel):
        return [entry[0] for entry in self.taken[channel]]


@pytest.fixture(scope="module")
def shared():
    return Manager(Pair(Timing(8), Timing(20, interval=3)))


@pytest.fixture
def manager(shared):
    shared.clear()
    return shared


def test_the_first_beat_comes_exactly_latency_cycles_after_its_address(manager):
    manager.read(0, 4)
    manager.run(beats=4)
    (taken,) = manager.times("ar")
    assert manager.times("r") == [taken + 8, taken + 9, taken + 10, taken + 11]
    assert [entry[3] for entry in manager.taken["r"]] == [0, 0, 0, 1]


def test_bursts_that_are_asked_for_in_time_leave_no_gap(manager):
    for i in range(16):
        manager.read(i * 128, 16, id=i % 8)
    manager.run(beats=256)
    assert manager.times("ar") == list(range(16))
    assert manager.times("r") == list(range(8, 8 + 256))


def test_bandwidth_is_one_beat_in_so_many_cycles(manager):
    manager.read(HOST_BASE, 4)
    manager.write(HOST_BASE, [1, 2, 3, 4])
    manager.run(beats=4, answers=1)
    assert manager.times("r") == [20, 23, 26, 29]
    assert manager.times("w") == [1, 4, 7, 10]
    assert manager.times("b") == [30]


def test_a_write_is_answered_exactly_latency_cycles_after_its_last_beat(manager):
    manager.write(64, [5, 6, 7])
    manager.write(128, [8])
    manager.run(answers=2)
    assert manager.times("aw") == [0, 1]
    assert manager.times("w") == [1, 2, 3, 4]
    assert manager.times("b") == [3 + 8, 4 + 8]
    words = manager.engine.memory("device")[64:88].cast("Q").tolist()
    assert words == [5, 6, 7]


def test_strobes_choose_the_bytes_that_are_written(manager):
    manager.engine.memory("device")[0:8] = bytes(8)
    manager.write(0, [0x1122334455667788], strobe=0b10000101)
    manager.run(answers=1)
    assert bytes(manager.engine.memory("device")[:8]) == bytes.fromhex("8800660000000011")


def test_both_memories_work_at_the_same_time(manager):
    manager.read(HOST_BASE, 8, id=1)
    manager.read(0, 16, id=2)
    manager.run(beats=24)
    host = [at for at, id, *_ in manager.taken["r"] if id == 1]
    device = [at for at, id, *_ in manager.taken["r"] if id == 2]
    # The bus has room for both: the fast memory loses only the beats that the slow one takes.
    assert device[0] == 1 + 8
    assert host == [20 + 3 * i for i in range(8)]
    assert device[-1] - device[0] == 15 + sum(at < device[-1] for at in host)


def test_a_burst_waits_for_answers_of_its_id_from_the_other_memory(manager):
    manager.read(HOST_BASE, 2, id=1)
    manager.read(0, 2, id=1)
    manager.write(HOST_BASE, [1], id=3)
    manager.write(0, [1], id=3)
    manager.run(beats=4, answers=2)
    host_last = 23
    assert manager.times("r")[:2] == [20, host_last]
    assert manager.times("ar") == [0, host_last + 1]
    assert manager.times("aw")[1] == manager.times("b")[0] + 1


@pytest.mark.parametrize("address", [SIZE, HOST_BASE - 4096, HOST_BASE + SIZE])
def test_addresses_outside_answer_decerr_and_write_nothing(manager, address):
    before = [bytes(manager.engine.memory(name)) for name in ("device", "host")]
    manager.read(address, 3)
    manager.write(address, [1, 2, 3])
    manager.run(beats=3, answers=1)
    assert [entry[2] for entry in manager.taken["r"]] == [DECERR] * 3
    assert manager.taken["b"][0][2] == DECERR
    assert [bytes(manager.engine.memory(name)) for name in ("device", "host")] == before


def test_injected_errors_hit_the_beats_in_their_range(manager):
    engine, pair = manager.engine, manager.pair
    for error, response in ((pair.read_error, SLVERR), (pair.write_error, DECERR)):
        engine.poke(error.first, 8)
        engine.poke(error.last, 17)
        engine.poke(error.response.as_value(), response)
        engine.poke(error.enable, 1)
    engine.memory("device")[:32] = bytes(32)
    manager.read(0, 4)
    manager.write(0, [1, 2, 3, 4])
    manager.write(24, [5])
    manager.run(beats=4, answers=2)
    for error in (pair.read_error, pair.write_error):
        engine.poke(error.enable, 0)
    assert [entry[2] for entry in manager.taken["r"]] == [OKAY, SLVERR, SLVERR, OKAY]
    assert [entry[2] for entry in manager.taken["b"]] == [DECERR, OKAY]
    assert engine.memory("device")[:32].cast("Q").tolist() == [1, 0, 0, 5]


def test_bursts_that_break_the_rules_are_refused(manager):
    manager.read(4096 - 8, 2)
    with pytest.raises(AssertionError, match="crosses 4 KiB"):
        manager.run(beats=2)


@pytest.mark.parametrize("seed", [1, 2])
def test_stalls_keep_order_and_data(seed):
    chooser = random.Random(seed)
    manager = Manager(
        Pair(Timing(5, stall=90, seed=seed), Timing(11, interval=2, stall=60, seed=seed + 7)),
        chance=0.7,
        seed=seed,
        checker=AxiChecker(BYTES),
    )
    model = {}
    for base, name in ((0, "device"), (HOST_BASE, "host")):
        content = chooser.randbytes(SIZE)
        manager.engine.memory(name)[:] = content
        model[base] = bytearray(content)
    expected = {id: [] for id in range(8)}
    answers = {id: 0 for id in range(8)}
    for _ in range(40):
        base = chooser.choice((0, HOST_BASE))
        id = chooser.randrange(8)
        beats = chooser.randint(1, 8)
        # Reads and writes keep to their halves: their order among each other is not defined.
        at = chooser.randrange(0, SIZE // 2, 64)
        manager.read(base + at, beats, id)
        for i in range(beats):
            word = int.from_bytes(model[base][at + 8 * i : at + 8 * i + 8], "little")
            expected[id].append((OKAY, i == beats - 1, word))
        at = SIZE // 2 + chooser.randrange(0, SIZE // 2, 64)
        words = [chooser.getrandbits(64) for _ in range(beats)]
        # A fixed ID for each memory keeps writes to one address in order.
        id = 1 + (base != 0)
        manager.write(base + at, words, id)
        answers[id] += 1
        for i, word in enumerate(words):
            model[base][at + 8 * i : at + 8 * i + 8] = word.to_bytes(8, "little")
    manager.run(beats=sum(map(len, expected.values())), answers=40)
    for id, beats in expected.items():
        assert [tuple(entry[2:]) for entry in manager.taken["r"] if entry[1] == id] == beats
        assert sum(entry[1] == id for entry in manager.taken["b"]) == answers[id]
    for base, name in ((0, "device"), (HOST_BASE, "host")):
        assert bytes(manager.engine.memory(name)) == bytes(model[base])
    assert manager.checker.idle
    # The stalls are real: more cycles than beats at the slower memory's pace.
    assert manager.engine.now > len(manager.taken["r"])


@pytest.mark.usefixtures("engine")
def test_the_switch_offers_data_to_its_side_though_the_address_is_not_taken():
    """And keeps it from the other side, where a memory may take data before addresses."""
    dut = Switch(**BUS)

    async def bench(ctx):
        ctx.set(dut.bus.aw.valid, 1)
        ctx.set(dut.bus.aw.p.addr, HOST_BASE)
        ctx.set(dut.bus.w.valid, 1)
        ctx.set(dut.bus.w.p.last, 1)
        ctx.set(dut.lower.w.ready, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.upper.aw.valid)
        assert ctx.get(dut.upper.w.valid)
        assert not ctx.get(dut.lower.w.valid)
        assert not ctx.get(dut.bus.w.ready)
        ctx.set(dut.upper.w.ready, 1)
        assert ctx.get(dut.bus.w.ready)
        await ctx.tick()
        assert not ctx.get(dut.upper.w.valid)
        assert not ctx.get(dut.bus.aw.ready)
        ctx.set(dut.upper.aw.ready, 1)
        assert ctx.get(dut.bus.aw.ready)

    simulator = simulator_of(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
