# amaranth: UnusedElaboratable=no

"""The transport on a stub NPU: every behaviour that the driver relies on."""

from contextlib import suppress

import pytest

import sim.host
import sim.link
from hw.axi import Response
from hw.config import HOST_BASE, ConfigError
from rt.transport import Read, Reason, Stop, Transport, TransportError, Write
from sim.board.config import BoardConfig

from . import stub

HOST_BYTES = 1 << 16


def open_stub(**options):
    board = options.pop("board", BoardConfig.fast(host_bytes=HOST_BYTES, device_bytes=HOST_BYTES))
    return sim.link.open(config=stub.CONFIG, board=board, npu=stub.Stub(), **options)


@pytest.fixture(scope="module", params=["pysim", "compiled"])
def opened(request):
    transport = open_stub(engine=request.param)
    yield transport
    transport.close()


@pytest.fixture
def link(opened):
    opened.reset()
    return opened


def replay(link, actions):
    """Does what a log says from reset on, each in its cycle; returns the new log."""
    link.reset()
    del link.actions[:]
    for action in actions:
        assert link.now() == action.cycle
        match action.kind:
            case "read" | "write":
                operation = Read if action.kind == "read" else Write
                with suppress(TransportError):
                    link.control([operation(*action.arguments)])
            case "run_until":
                interrupt, cycle = action.arguments
                link.run_until(interrupt=interrupt, cycle=cycle)
            case kind:
                getattr(link, kind)(*action.arguments)
    return list(link.actions)


def copy(link, source, target, hosts):
    link.control([
        Write(stub.SOURCE, source), Write(stub.TARGET, target), Write(stub.HOSTS, hosts),
        Write(stub.COPY, 1),
    ])  # fmt: skip
    stop = link.run_until(interrupt=True, cycle=link.now() + 200)
    assert stop.reason is Reason.INTERRUPT
    (status,) = link.control([Read(stub.STATUS)])
    link.control([Write(stub.CLEAR, 0)])
    return status >> 2, status & 3


def test_is_a_transport(link):
    assert isinstance(link, Transport)
    assert (link.host_bytes, link.device_bytes) == (HOST_BYTES, HOST_BYTES)


def test_each_control_access_has_its_own_cycle_and_reads_give_their_values(link):
    values = link.control([Read(stub.IDENT), Write(stub.SCRATCH, 0xCAFE), Read(stub.SCRATCH)])
    assert values == [0x1234, 0xCAFE]
    assert link.now() == 9
    logged = [(action.cycle, action.kind) for action in link.actions[-3:]]
    assert logged == [(0, "read"), (3, "write"), (6, "read")]


@pytest.mark.parametrize(
    ("operation", "name"), [(Read(stub.UNMAPPED), "DECERR"), (Write(stub.UNMAPPED, 1), "SLVERR")]
)
def test_an_error_answer_names_the_address_and_ends_the_batch(link, operation, name):
    with pytest.raises(TransportError, match=f"0x100 was answered with {name}"):
        link.control([operation, Write(stub.SCRATCH, 7)])
    assert link.control([Read(stub.SCRATCH)]) == [0]


@pytest.mark.parametrize("operation", [Read(2), Read(1 << 16), Read(-4), Write(4, 1 << 32)])
def test_impossible_accesses_are_refused_before_the_bus(link, operation):
    with pytest.raises(TransportError, match="control address"):
        link.control([operation])
    assert link.now() == 0


def test_an_npu_that_does_not_answer_is_given_up(link, monkeypatch):
    monkeypatch.setattr(sim.host, "PATIENCE", 50)
    link.control([Write(stub.MUTE, 1)])
    with pytest.raises(TransportError, match="no answer from control address 0x0"):
        link.control([Read(stub.IDENT)])
    link.reset()
    assert link.control([Read(stub.IDENT)]) == [0x1234]


def test_run_until_stops_in_the_cycle_of_the_interrupt_or_at_the_cycle(link):
    link.control([Write(stub.TIMER, 20)])
    # Written in cycle 1, the timer holds 20 in cycle 2; the line is high 20 cycles later.
    assert link.run_until(interrupt=True, cycle=15) == Stop(Reason.CYCLE, 15)
    assert link.run_until(interrupt=True, cycle=1000) == Stop(Reason.INTERRUPT, 22)
    assert link.run_until(interrupt=True, cycle=1000) == Stop(Reason.INTERRUPT, 22)
    assert link.run_until(interrupt=False, cycle=30) == Stop(Reason.CYCLE, 30)
    with pytest.raises(TransportError, match="waits for nothing"):
        link.run_until(interrupt=False, cycle=None)


def test_memories_are_reached_by_the_host_and_by_the_device(link):
    link.write_host(HOST_BASE + 64, b"12345678")
    assert copy(link, 64, 4096, hosts=0b01) == (0, 0)
    assert bytes(link.device_memory()[4096:4104]) == b"12345678"
    assert copy(link, 4096, HOST_BYTES - 8, hosts=0b10) == (0, 0)
    assert link.read_host(HOST_BASE + HOST_BYTES - 8, 8) == b"12345678"


def test_memories_survive_a_reset_and_time_starts_again(link):
    link.write_host(HOST_BASE, b"kept")
    link.control([Write(stub.SCRATCH, 1)])
    link.reset()
    assert link.now() == 0
    assert link.read_host(HOST_BASE, 4) == b"kept"
    assert link.control([Read(stub.SCRATCH)]) == [0]


@pytest.mark.parametrize(
    ("address", "size"), [(HOST_BASE - 1, 1), (HOST_BASE + HOST_BYTES - 3, 4), (0, 1)]
)
def test_host_accesses_outside_name_the_bounds(link, address, size):
    with pytest.raises(TransportError, match="0x8000000000 … 0x800000ffff"):
        link.read_host(address, size)
    with pytest.raises(TransportError, match="not within host memory"):
        link.write_host(address, bytes(size))


def test_accesses_outside_the_memories_answer_decerr(link):
    decerr = Response.DECERR.value
    assert copy(link, HOST_BYTES, 0, hosts=0) == (decerr, 0)
    assert copy(link, 0, HOST_BYTES, hosts=0b10) == (0, decerr)


def test_injected_errors_are_answered_and_end_again(link):
    link.inject("read", 4096, 4103, Response.SLVERR)
    link.inject("write", HOST_BASE + 16, HOST_BASE + 16, Response.DECERR)
    link.write_host(HOST_BASE, bytes(32))
    assert copy(link, 4096, 8, hosts=0b10) == (Response.SLVERR.value, 0)
    assert copy(link, 4104, 16, hosts=0b10) == (0, Response.DECERR.value)
    link.inject("read", 0, 0, None)
    link.inject("write", 0, 0, None)
    assert copy(link, 4096, 16, hosts=0b10) == (0, 0)


def test_the_same_program_takes_the_same_cycles(link):
    def program():
        link.reset()
        del link.actions[:]
        link.control([Write(stub.TIMER, 5), Read(stub.IDENT)])
        copy(link, 0, 8, hosts=0b01)
        return link.now(), list(link.actions)

    assert program() == program()


def test_the_log_replays_a_run_with_errors_and_accesses_without_an_answer(link, monkeypatch):
    monkeypatch.setattr(sim.host, "PATIENCE", 50)
    del link.actions[:]
    link.inject("read", 64, 64, Response.SLVERR)
    link.write_host(HOST_BASE, b"12345678")
    assert copy(link, 64, 8, hosts=0b01) == (0, 0)
    with pytest.raises(TransportError, match="DECERR"):
        link.control([Read(stub.UNMAPPED)])
    link.control([Write(stub.MUTE, 1)])
    for operation in (Read(stub.IDENT), Write(stub.SCRATCH, 5)):
        with pytest.raises(TransportError, match="no answer"):
            link.control([operation])
    link.inject("read", 0, 0, None)
    logged = list(link.actions)
    unanswered = [(action.kind, action.arguments, action.result) for action in logged[-3:-1]]
    assert unanswered == [("read", (stub.IDENT,), None), ("write", (stub.SCRATCH, 5), None)]
    assert replay(link, logged) == logged


def test_a_link_that_does_not_record_keeps_no_log():
    link = open_stub(engine="pysim", record=False)
    link.write_host(HOST_BASE, b"kept")
    assert link.control([Write(stub.SCRATCH, 9), Read(stub.SCRATCH)]) == [9]
    assert link.run_until(interrupt=False, cycle=20) == Stop(Reason.CYCLE, 20)
    assert link.actions == []
    link.close()


def test_latency_decides_when_a_copy_ends():
    ends = []
    for latency in (8, 30):
        board = BoardConfig.fast(device_latency=latency)
        link = open_stub(engine="pysim", board=board)
        copy(link, 0, 8, hosts=0)
        ends.append(link.now())
        link.close()
    # One read and one write.
    assert ends[1] - ends[0] == 2 * (30 - 8)


def test_a_closed_link_refuses_everything():
    link = open_stub(engine="pysim")
    link.close()
    link.close()
    for call in (
        lambda: link.control([Read(0)]), lambda: link.read_host(HOST_BASE, 1), link.reset,
        lambda: link.run_until(interrupt=True, cycle=1), lambda: link.write_host(HOST_BASE, b""),
    ):  # fmt: skip
        with pytest.raises(TransportError, match="closed"):
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "verilator"}, "no engine is called 'verilator'; choose one of auto, "),
        ({"window": "1:2"}, "needs a file"),
        ({"vcd": "x.vcd", "window": "five"}, "the window is 'five'"),
        ({"vcd": "x.vcd", "window": "5:5"}, "is empty"),
        ({"vcd": "no/such/folder/x.vcd"}, "is no folder"),
    ],
)
def test_bad_options_name_value_and_remedy(options, message):
    with pytest.raises(ConfigError, match=message):
        open_stub(**options)


def test_unknown_presets_are_refused():
    with pytest.raises(ConfigError, match="no preset is called 'huge'"):
        sim.link.open("huge")


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"host_bytes": 5000}, "multiple of 4096"), ({"device_latency": 1}, "within 2"),
     ({"stall": 255}, "within 0 … 240")],
)  # fmt: skip
def test_impossible_boards_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        BoardConfig(**changes)
