# amaranth: UnusedElaboratable=no
"""Windows after the fact: the waveform that direct recording gives, and a run that goes on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.history
import sim.link
from hw.config import HOST_BASE, ConfigError
from rt.transport import Read, Reason, TransportError, Write
from sim.board.config import BoardConfig
from sim.engine.base import holds
from sim.history import History, ReplayError
from sim.wave import Waveform, Window

from . import stub

BOARD = BoardConfig.fast(host_bytes=1 << 16, device_bytes=1 << 16, stall=30)


def open_link(engine, **options):
    return sim.link.open(
        config=stub.CONFIG, board=BOARD, npu=stub.Stub(), engine=engine, **options
    )


@pytest.fixture(scope="module", params=["pysim", "compiled"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def opened(kind):
    transport = open_link(kind)
    yield transport
    transport.close()


@pytest.fixture
def link(opened):
    return fresh(opened)


def fresh(link):
    """The link at cycle 0 with empty memories and a new history of dense snapshots."""
    link.engine.end_capture()
    link.reset()
    for direction in ("read", "write"):
        link.inject(direction, 0, 0, None)
    link.write_device(0, bytes(link.device_bytes))
    link.write_host(HOST_BASE, bytes(link.host_bytes))
    link.keep_history(every=16)
    return link


def program(link, resets=1):
    """Accesses, copies, waits, errors and resets: about 600 cycles, then 250 after each reset."""
    for part in range(resets + 1):
        if part:
            link.reset()
        link.control([Write(stub.SCRATCH, 0x50 + part), Read(stub.IDENT), Write(stub.TIMER, 150)])
        link.write_host(HOST_BASE + 64, bytes([part + 1]) * 8)
        link.run_until(interrupt=True, cycle=None)
        link.control([Write(stub.CLEAR, 0)])
        for hosts, target in ((1, 4096), (0b10, 8192)):
            link.control([
                Write(stub.SOURCE, 64 if hosts == 1 else 4096), Write(stub.TARGET, target),
                Write(stub.HOSTS, hosts), Write(stub.COPY, 1),
            ])  # fmt: skip
            assert link.run_until(interrupt=True, cycle=2000).reason is Reason.INTERRUPT
            link.control([Write(stub.CLEAR, 0)])
        with pytest.raises(TransportError):
            link.control([Read(stub.UNMAPPED)])
        link.inject("read", 64, 64)
        link.read_host(HOST_BASE + 8192, 8)
        link.run_until(interrupt=False, cycle=link.now() + (20 if part else 300))
        link.inject("read", 64, 64, None)


def everything(link):
    engine = link.engine
    values = {name: engine.peek(name) for name in engine.signals}
    return link.now(), values, bytes(engine.memory("device")), bytes(engine.memory("host"))


def direct(link, path, window, scopes=()):
    """The waveform of the program, recorded at once; None without one."""
    fresh(link)
    path.unlink(missing_ok=True)
    link.capture(path, window, scopes=scopes, afterwards=False)
    program(link)
    link.engine.end_capture()
    return path.read_bytes() if path.exists() else None


@pytest.fixture(scope="module")
def past(kind):
    """A link behind the program, with its history."""
    transport = open_link(kind)
    program(fresh(transport))
    yield transport
    transport.close()


def afterwards(past, path, window, scopes=()):
    """The waveform of the past, after which everything is as before."""
    path.unlink(missing_ok=True)
    before = everything(past)
    recorded = past.replay(window, vcd=path, scopes=scopes)
    assert everything(past) == before
    assert recorded == path.exists()
    return path.read_bytes() if recorded else None


TIMER = Window(None, None, ((("npu.timer", 75), ("npu.scratch", 0x50)), (("npu.timer", 74),)))
SECOND = Window(None, None, ((("npu.copier_state", 3), ("npu.scratch", 0x51)),))
SHORT = Window(None, None, ((("npu.control__ar__valid", 1),),))


@pytest.mark.parametrize(
    "window",
    [":", "0:1", "100:140", "300:", "480:500", "700:900", TIMER, SECOND, SHORT,
     Window(None, None, ((("npu.scratch", 9),),))],
    ids=str,
)  # fmt: skip
def test_the_waveform_is_byte_for_byte_that_of_direct_recording(opened, past, tmp_path, window):
    mine = afterwards(past, tmp_path / "after.vcd", window)
    assert mine == direct(opened, tmp_path / "direct.vcd", window)


def test_all_engines_record_the_same(tmp_path):
    links = [open_link(engine) for engine in ("pysim", "compiled")]
    for number, window in enumerate((":", TIMER, SECOND, SHORT)):
        waves = [direct(link, tmp_path / f"{number}.vcd", window) for link in links]
        assert waves[0] == waves[1]
    for link in links:
        link.close()


@settings(max_examples=8)
@given(start=st.integers(0, 700), length=st.integers(1, 60))
def test_any_window_of_cycles_is_that_of_direct_recording(
    opened, past, tmp_path_factory, start, length
):
    folder = tmp_path_factory.mktemp("waves")
    window = Window(start, start + length)
    mine = afterwards(past, folder / "after.vcd", window)
    assert mine == direct(opened, folder / "direct.vcd", window)


def test_scopes_hold_afterwards_too(opened, past, tmp_path):
    scopes = ("npu.copier_state", "host")
    mine = afterwards(past, tmp_path / "after.vcd", "200:230", scopes)
    assert mine == direct(opened, tmp_path / "direct.vcd", "200:230", scopes)
    with pytest.raises(ConfigError, match="no scope is called 'nowhere'"):
        afterwards(past, tmp_path / "x.vcd", "1:2", ("nowhere",))
    assert past.replay("1:2", vcd=tmp_path / "x.vcd")


def test_a_window_is_replayed_from_the_snapshot_before_it(past, tmp_path, monkeypatch):
    restored = []
    restore = past.engine.restore

    def noted(snapshot):
        restored.append(snapshot.cycle)
        restore(snapshot)

    monkeypatch.setattr(past.engine, "restore", noted)
    path = tmp_path / "x.vcd"
    marks = [mark.place for mark in past._host.marks]
    assert max(marks) > (1, 100)
    past.replay("200:210", vcd=path)
    assert restored == [max(mark for mark in marks if mark <= (0, 200))[1], past.now()]
    restored.clear()
    past.replay(SECOND, vcd=path)
    place = (1, Waveform(path).first)
    assert restored == [0, max(mark for mark in marks if mark <= place)[1], past.now()]


def test_snapshots_get_rarer_as_a_run_gets_longer(link):
    history = History(link.engine, every=4, keep=8)
    link._host = history
    for end in (20, 21, 700):
        link.run_until(interrupt=False, cycle=end)
    places = [mark.snapshot.cycle for mark in history.marks]
    gaps = {after - before for before, after in zip(places, places[1:], strict=False)}
    assert places[0] == 0
    assert 4 <= len(places) <= 8
    assert max(gaps) <= 128
    assert 700 - places[-1] <= 128


def test_the_run_goes_on_as_if_nothing_had_been(opened, link, tmp_path):
    program(link)
    program(link)
    expected = everything(link)
    fresh(link)
    program(link)
    assert link.replay("20:90", vcd=tmp_path / "x.vcd")
    assert link.replay(SECOND, vcd=tmp_path / "x.vcd")
    program(link)
    assert everything(link) == expected
    assert link.replay("0:5", vcd=tmp_path / "x.vcd")


class Broken(BaseException):
    """What ends a run from outside, as a key does."""


def test_a_run_that_breaks_off_is_known_up_to_there(link, tmp_path, monkeypatch):
    link.control([Write(stub.TIMER, 500)])
    run_until = link.engine.run_until

    def broken(signal, cycle, value=None):
        run_until(signal, min(cycle, 90), value)
        if link.now() == 90:
            raise Broken

    monkeypatch.setattr(link.engine, "run_until", broken)
    with pytest.raises(Broken):
        link.run_until(interrupt=True, cycle=300)
    monkeypatch.undo()
    link.control([Read(stub.IDENT)])
    assert link.replay(":", vcd=tmp_path / "x.vcd")
    wave = Waveform(tmp_path / "x.vcd")
    assert (wave.first, wave.last) == (0, link.now() - 1)


def test_an_access_that_breaks_off_ends_what_can_be_replayed(tmp_path, monkeypatch):
    # Only on pysim is an access several calls, of which one can fail.
    link = fresh(open_link("pysim"))
    link.run_until(interrupt=False, cycle=40)

    def broken(signal, cycle, value=None):
        raise Broken

    monkeypatch.setattr(link.engine, "run_until", broken)
    with pytest.raises(Broken):
        link.control([Read(stub.IDENT)])
    monkeypatch.undo()
    assert link.now() == 41
    assert link.replay("10:35", vcd=tmp_path / "x.vcd")
    with pytest.raises(ReplayError, match="cycle 41 came to cycle 40"):
        link.replay("10:", vcd=tmp_path / "x.vcd")


def test_what_bypasses_the_link_is_noticed(link, tmp_path):
    program(link, resets=0)
    link.engine.step(3)
    link.control([Read(stub.IDENT)])
    with pytest.raises(ReplayError, match=r"came to cycle \d+ when it was replayed"):
        link.replay(":", vcd=tmp_path / "x.vcd")
    assert not link.engine.capturing
    fresh(link)
    link.engine.poke("npu.scratch", 3)
    link.keep_history()
    assert link.control([Read(stub.SCRATCH)]) == [3]
    link.engine.poke("npu.scratch", 4)
    assert link.control([Read(stub.SCRATCH)]) == [4]
    with pytest.raises(ReplayError, match="a read that gave 4 in cycle 3 gave 3 when"):
        link.replay(":", vcd=tmp_path / "x.vcd")


def test_a_link_records_a_window_when_it_is_closed(kind, tmp_path):
    direct_path, path = tmp_path / "direct.vcd", tmp_path / "after.vcd"
    for target, later in ((direct_path, False), (path, True)):
        link = open_link(kind, record=False)
        link.capture(target, "30:60", scopes=["npu"], afterwards=later)
        program(link)
        assert target.exists() != later
        link.close()
        link.close()
    assert path.read_bytes() == direct_path.read_bytes()


def test_engines_that_replay_record_windows_afterwards(link, tmp_path, monkeypatch):
    monkeypatch.setattr(type(link.engine), "replays", True)
    link.capture(tmp_path / "x.vcd")
    assert link.engine.capturing
    link.engine.end_capture()
    link.capture(tmp_path / "x.vcd", "3:9")
    assert not link.engine.capturing
    link._afterwards = None


def test_what_cannot_be_replayed_is_refused(link, kind, tmp_path):
    link.capture(tmp_path / "x.vcd", ":", afterwards=False)
    with pytest.raises(ConfigError, match="a waveform is being recorded"):
        link.replay("1:2", vcd=tmp_path / "y.vcd")
    link.engine.end_capture()
    other = open_link(kind)
    with pytest.raises(ConfigError, match="no history was kept; open the link with history=True"):
        other.replay("1:2", vcd=tmp_path / "y.vcd")
    other.close()
    with pytest.raises(TransportError, match="closed"):
        other.keep_history()
    kept = open_link(kind, history=True)
    assert not kept.replay("1:2", vcd=tmp_path / "y.vcd")
    kept.close()


def test_scopes_limit_a_recording_to_signals_in_them(link, tmp_path):
    scopes = ["npu.scratch", "host.read_bursts"]
    link.capture(tmp_path / "x.vcd", ":", scopes=scopes, afterwards=False)
    link.control([Write(stub.SCRATCH, 5)])
    link.engine.end_capture()
    wave = Waveform(tmp_path / "x.vcd")
    assert wave.value("npu.scratch", 2) == 5
    assert {name.split(".")[0] for name in wave.signals} == {"clk", "npu", "host"}
    assert [name for name in wave.signals if name.startswith("npu")] == ["npu.scratch"]
    assert all(name.startswith("host.read_bursts.") for name in wave.signals if name[0] == "h")
    assert "host.read_bursts.level" in wave.signals
    assert holds(link.engine, ((("npu.scratch", 5),),))
