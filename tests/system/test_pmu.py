"""Every event of the PMU, counted by the device and, independently, in the waveform of the run.

One workload keeps all engines busy: copies and fills, kernels with channel tables, streams that
wait for events and values, a list, a refused task, on memories that hold handshakes back. It runs
once for each group of eight events, each time from reset, so always in the same cycles; the first
time its waveform is recorded.
"""

from collections import deque
from contextlib import nullcontext

import numpy as np
import pytest

from hw.config import HOST_BASE
from hw.pmu import event_codes
from hw.regs.descriptor import CallPayload, CopyPayload, Sqe, TaskType, seal
from hw.regs.instruction import (
    Address,
    End,
    Grant,
    Load,
    Loop,
    Matmul,
    Next,
    Opcode,
    OutputFormat,
    Source,
    Store,
)
from hw.regs.pmu import PmuEvent
from hw.regs.registers import (
    FaultCount,
    PmuCommand,
    PmuControl,
    PmuCycle,
    PmuSelect,
    PmuValue,
    StreamState,
)
from rt import Device, DeviceFault
from rt.kernel.assembler import encode
from rt.kernel.gemm import GemmShape, gemm_kernel
from rt.ops import Requantisation, channel_table, gemm
from rt.task import Task
from sim.timeline import Timeline
from sim.wave import Waveform
from tests.models.device import ModelDevice
from tests.models.kernel import DeviceKernels
from tests.system.recording import AR, AW, B, R, W, channel, record, samples

M, N, K = 3, 4, 21
LISTED = [seal(Sqe(task_id=(1 << 62) + n)) for n in range(2)]
"""Tasks of a list that do nothing."""
HOW = Requantisation(low=-50, high=60)
SHAPE = GemmShape(
    M, N, K, pitch_a=K, pitch_b=N, pitch_c=N, output=OutputFormat.INT8, bias=True,
    low=HOW.low, high=HOW.high,
)  # fmt: skip


def single_buffer_kernel(config):
    """Three products from one buffer: each LOAD waits until the MATMUL before has read it."""
    load = Load(memory=1, local=0, rows=4, row_bytes=4, pitch=4, wait_next=1, signal_next=1)
    matmul = Matmul(rows=4, depth=4, wait_previous=1, signal_previous=1)
    setup = (Grant(load=1), Address(register=1, source=Source.ARGUMENT), Loop(count=3))
    return encode([*setup, load, matmul, Next(), End()], config.fingerprint)


class Snapshot:
    """The counters and the cycle, as they are when it is made."""

    def __init__(self, driver):
        driver.write(PmuCommand(snapshot=1))
        self.cycle = driver.read(PmuCycle).cycle
        self.values = [driver.read(PmuValue, n).value for n in range(driver.config.counters)]


class Run:
    """The workload on a fresh device, counting `codes`.

    Attributes
    ----------
    middle, end: snapshots. profiles: of tasks, by task id. faults: in the refused task's context.
    """

    def __init__(self, transport, codes):
        device = Device(transport, patience=20_000, watchdog=5_000)
        driver = device.driver
        one, other = device.session(), device.session()
        copies, kernels = one.stream(), one.stream()
        third, wrong = other.stream(), other.stream()
        a, b = one.empty((M, K), np.int8), one.empty((K, N), np.int8)
        table, out = one.empty(N * 16, np.uint8), one.empty((M, N), np.int8)
        spare, fresh = (other.empty(300, np.uint8) for _ in range(2))
        beside = one.empty(1024, np.uint8)
        ready, done = one.event(), one.event(timing=True)
        filled, copied = other.event(), other.event()
        one.load(gemm_kernel(SHAPE, device.config))
        single = one.load(single_buffer_kernel(device.config))
        flag = other.buffer(np.zeros(8, np.uint8))
        entries = b"".join(sqe.to_bytes() for sqe in LISTED)
        listed = one.buffer(np.frombuffer(entries, np.uint8))
        for number, code in enumerate(codes):
            driver.write(PmuSelect(event=code), index=number)
        driver.write(PmuCommand(clear=1), PmuControl(enable=1))

        ones = np.ones((M, K), np.int8)
        with copies.batch():
            tasks = [
                copies.upload(a, ones, profile=True),
                copies.upload(b, np.ones((K, N), np.int8), profile=True),
                copies.upload(table, channel_table(7, 1 << 20, 30, channels=N), profile=True),
            ]
            copies.record(ready)
            tasks.append(copies.fill(beside, 1, profile=True))
        kernels.wait(ready)
        with kernels.batch():
            tasks += gemm(kernels, a, b, out, table=table, requantise=HOW, profile=True)
            tasks.append(kernels.launch(single, [a], profile=True))
            kernels.record(done)
        third.wait_value(flag, 0, 1)
        wrong.write_value(flag, 0, 1)
        with wrong.batch():
            tasks.append(wrong.fill(fresh.part(3, 97, "u1"), 9, profile=True))
            wrong.record(filled)
        third.wait(filled)
        with third.batch():
            tasks.append(third.copy(spare, fresh, profile=True))
            third.record(copied)
        copies.wait(done)
        tasks.append(copies.download(out, profile=True))
        call = CallPayload(list_address=listed.address, entries=len(LISTED))
        copies.prepare().submit(
            Task(copies, device.task_id()), Sqe(type=TaskType.CALL, payload=call.to_int())
        )
        self.middle = Snapshot(driver)
        wrong.wait(copied)
        forbidden = CopyPayload(source=HOST_BASE, destination=0, row_bytes=8)
        wrong.prepare().submit(
            Task(wrong, device.task_id()), Sqe(type=TaskType.MEMCPY, payload=forbidden.to_int())
        )
        one.synchronise()
        with pytest.raises(DeviceFault):
            other.synchronise()
        self.end = Snapshot(driver)
        self.faults = driver.read(FaultCount, other.context).count
        self.profiles = {task.id: task.profile for task in tasks}


def groups(config):
    """All codes, as many at a time as there are counters."""
    codes, step = event_codes(config), config.counters
    codes += [PmuEvent.NONE] * (-len(codes) % step)
    return [codes[first : first + step] for first in range(0, len(codes), step)]


@pytest.fixture(scope="module")
def runs(stalling, tmp_path_factory):
    """A run for each group. The first has `timeline` and `wave`, of all of its cycles."""
    path = tmp_path_factory.mktemp("pmu") / "run.vcd"
    results = []
    for codes in groups(stalling.config):
        stalling.reset()
        with nullcontext() if results else record(stalling, path):
            results.append(Run(stalling, codes))
    results[0].timeline, results[0].wave = Timeline(path), Waveform(path)
    return results


@pytest.fixture(scope="module")
def seen(runs, stalling):
    """What each event adds in each cycle, from the waveform."""
    return amounts(runs[0].timeline, runs[0].wave, stalling.config)


def counted(run, codes, seen, first, stop):
    """The counters' values, from the waveform, over the cycles from `first` to before `stop`."""
    enabled = samples(run.wave, "npu.pmu.enable") != 0
    enabled[stop:] = False
    enabled[:first] = False
    return [int(seen[code][enabled].sum()) if code else 0 for code in codes]


def test_every_event_is_counted_as_the_waveform_shows_it(runs, seen, stalling):
    codes = [code for group in groups(stalling.config) for code in group]
    first = runs[0]
    for name in ("middle", "end"):
        stop = getattr(first, name).cycle
        assert [getattr(run, name).cycle for run in runs] == [stop] * len(runs)
        device = [value for run in runs for value in getattr(run, name).values]
        expected = counted(first, codes, seen, 0, stop)
        differences = {
            PmuEvent(min(code, PmuEvent.STREAM_WAIT)).name + f" ({code})": (value, wanted)
            for code, value, wanted in zip(codes, device, expected, strict=True)
            if value != wanted
        }
        assert differences == {}
    assert [code for code, value in zip(codes, device, strict=True) if code and not value] == []


def test_the_waveform_itself_shows_what_the_program_asked_for(runs, seen, stalling):
    """Figures that follow from the program alone, with the kernels run by the golden model."""
    run = runs[0]
    total = {code: int(seen[code].sum()) for code in seen}
    kernels = DeviceKernels(stalling.config)
    model = ModelDevice(stalling.config, kernel=kernels)
    Run(model, groups(stalling.config)[0])
    assert kernels.instructions == total[PmuEvent.INSTRUCTIONS]
    assert kernels.rows == total[PmuEvent.ARRAY_BUSY]
    assert kernels.macs == total[PmuEvent.MACS]
    assert total[PmuEvent.FAULTS] == run.faults == 1
    assert total[PmuEvent.EVENT_RECORDS] == 4
    assert total[PmuEvent.TASKS] == len(run.timeline.runs)
    # Argument blocks are fetched for the rings, not for the list; of the list no task reports its
    # end, all others do. The timed record has 16 bytes more.
    in_rings = len(run.timeline.runs) - len(LISTED)
    beats = (in_rings * (64 + 128) + len(LISTED) * 64) // 8
    assert total[PmuEvent.QUEUE_READ_BEATS] == beats
    assert total[PmuEvent.COMPLETION_WRITE_BEATS] == (in_rings * 64 + 16) // 8
    assert total[PmuEvent.CALLS] == total[PmuEvent.VALUE_WRITE_BEATS] == 1


def test_a_completion_entry_has_the_deltas_of_its_task(runs, seen, stalling):
    """From the cycle of its start to that of its end, both included."""
    first = runs[0]
    for codes, run in zip(groups(stalling.config), runs, strict=True):
        assert list(run.profiles) == list(first.profiles)
        for number, profile in run.profiles.items():
            shown = first.timeline.run(number)
            assert (profile.start, profile.end) == (shown.start, shown.end)
            expected = counted(first, codes, seen, shown.start, shown.end + 1)
            assert list(profile.counters) == expected, number
            if PmuEvent.CYCLES in codes:
                cycles = profile.counters[codes.index(PmuEvent.CYCLES)]
                assert cycles == profile.end - profile.start + 1


def test_a_snapshot_is_of_one_cycle_while_the_counters_go_on(session, device):
    """All counters count cycles: torn ones would differ, as reading them takes many cycles."""
    driver = device.driver
    for number in range(device.config.counters):
        driver.write(PmuSelect(event=PmuEvent.CYCLES), index=number)
    driver.write(PmuCommand(clear=1), PmuControl(enable=1))
    stream = session.stream()
    stream.fill(session.empty(512, "u1"), 1)
    snapshots = []
    for _ in range(3):
        before = driver.transport.now()
        snapshots.append(Snapshot(driver))
        assert driver.transport.now() - before > 50
        assert before <= snapshots[-1].cycle < before + 4
        again = [driver.read(PmuValue, n).value for n in range(device.config.counters)]
        assert again == snapshots[-1].values
    stream.synchronise()
    for taken in snapshots:
        assert taken.values == taken.values[:1] * device.config.counters
        assert taken.cycle - taken.values[0] == snapshots[0].cycle - snapshots[0].values[0]


def by_client(passes, owners, clients, prefix):
    """Cycles in which an item passes whose owner is a client with that prefix."""
    numbers = [n for n, name in enumerate(clients) if name.startswith(prefix)]
    return passes & np.isin(owners, numbers)


def write_owners(wave, passes_w):
    """The client of each write beat: the beats of an address follow in the order of addresses."""
    passes, _ = channel(wave, AW)
    ids, lengths = samples(wave, f"{AW}__payload.id"), samples(wave, f"{AW}__payload.len")
    addresses = deque()
    owners = np.full(len(passes), -1)
    for cycle in np.flatnonzero(passes | passes_w):
        if passes_w[cycle]:
            addresses[0][1] -= 1
            owners[cycle] = addresses[0][0]
            if addresses[0][1] < 0:
                addresses.popleft()
        if passes[cycle]:
            addresses.append([ids[cycle] >> 1, lengths[cycle]])
    return owners


def in_flight(starts, ends):
    """How many have started in earlier cycles and not ended in earlier ones."""
    change = starts.astype(int) - ends.astype(int)
    return np.cumsum(change) - change


def begins(level):
    """The cycle before each in which a level rises: its cause."""
    return np.append((level[1:] != 0) & (level[:-1] == 0), False)


def operations(wave, unit):
    """(cycle in which it is taken, instruction) of each operation of a unit."""
    prefix = f"npu.core0.{unit}.operations"
    taken, _ = channel(wave, prefix)
    layouts = {Opcode.LOAD: Load, Opcode.MATMUL: Matmul, Opcode.STORE: Store}
    found = []
    for cycle in np.flatnonzero(taken):
        word = wave.value(f"{prefix}__payload.word", wave.first + int(cycle))
        layout = layouts.get(Opcode(word & 0xFF))
        found.append((cycle, word, layout and layout.from_int(word)))
    return found


def busy_until_written(wave, unit, words):
    """A unit is busy from the cycle after it takes an operation to that of its last word."""
    written = np.flatnonzero(samples(wave, f"npu.core0.{unit}.write__enable"))
    taken = operations(wave, unit)
    busy = np.zeros(wave.last - wave.first + 1, int)
    total = 0
    for cycle, _, instruction in taken:
        total += words(instruction)
        busy[cycle + 1 : written[total - 1] + 1] = 1
    assert total == len(written)
    return busy


def token_waits(wave, unit, **counters):
    """Cycles from the one after an operation was taken to the first with all its tokens there."""
    pending = {flag: samples(wave, f"npu.core0.{name}.pending") for flag, name in counters.items()}
    waits = np.zeros(wave.last - wave.first + 1, int)
    for cycle, word, _ in operations(wave, unit):
        flags = Store.from_int(word) if unit == "store" else Matmul.from_int(word)
        missing = np.zeros(len(waits), bool)
        for flag, tokens in pending.items():
            if getattr(flags, flag):
                missing |= tokens == 0
        first = cycle + 1
        waits[first : first + int(np.argmin(missing[first:]))] = 1
    return waits


def amounts(timeline, wave, config):
    """What each event adds in each cycle, from bus handshakes, trace signals and the units'."""
    size = wave.last - wave.first + 1
    ar, ar_waits = channel(wave, AR)
    r, _ = channel(wave, R)
    aw, _ = channel(wave, AW)
    w, w_waits = channel(wave, W)
    b, _ = channel(wave, B)
    last = samples(wave, f"{R}__payload.last") != 0
    readers = samples(wave, f"{R}__payload.id") >> 1
    writers = write_owners(wave, w)

    def pulses(cycles):
        counts = np.zeros(size, int)
        np.add.at(counts, np.array(cycles, int) - wave.first, 1)
        return counts

    def core(name):
        return samples(wave, f"npu.core0.{name}") != 0

    def trace(name):
        return samples(wave, f"npu.trace_{name}")

    copying = sum(trace(f"copy{n}_busy") for n in range(config.copy_channels))
    computing = trace("core0_busy")
    waiting = [
        (trace(f"stream{s}_wait") != 0)
        & (trace(f"stream{s}_running") == 0)
        & (trace(f"stream{s}_state") == StreamState.ACTIVE)
        for s in range(config.streams)
    ]
    loads_wait = core("load.operations__valid") & (
        samples(wave, "npu.core0.compute_to_load.pending") == 0
    )
    loads = samples(wave, "npu.core0.load.operations__payload.word")
    loads_wait &= np.array([bool(Load.from_int(int(word)).wait_next) for word in loads])
    width = config.word_bytes
    return {
        PmuEvent.CYCLES: np.ones(size, int),
        PmuEvent.TASKS: pulses([run.released - 1 for run in timeline.runs]),
        PmuEvent.FAULTS: pulses([cycle for cycle, _ in timeline.faults]),
        PmuEvent.EVENT_RECORDS: pulses([record.cycle for record in timeline.records]),
        PmuEvent.EVENT_WAIT: sum(waits.astype(int) for waits in waiting),
        PmuEvent.CALLS: sum(begins(trace(f"stream{s}_called")) for s in range(config.streams)),
        PmuEvent.READ_BURSTS: ar,
        PmuEvent.READ_BEATS: r,
        PmuEvent.READ_OUTSTANDING: in_flight(ar, r & last),
        PmuEvent.WRITE_BURSTS: aw,
        PmuEvent.WRITE_BEATS: w,
        PmuEvent.WRITE_OUTSTANDING: in_flight(aw, b),
        PmuEvent.READ_STALL: ar_waits,
        PmuEvent.WRITE_STALL: w_waits,
        **{
            code: by_client(r, readers, config.read_clients, prefix)
            for code, prefix in (
                (PmuEvent.QUEUE_READ_BEATS, "queue"), (PmuEvent.COPY_READ_BEATS, "copy"),
                (PmuEvent.CODE_READ_BEATS, "code"), (PmuEvent.LOAD_READ_BEATS, "load"),
                (PmuEvent.VALUE_READ_BEATS, "value"),
            )
        },
        **{
            code: by_client(w, writers, config.write_clients, prefix)
            for code, prefix in (
                (PmuEvent.COMPLETION_WRITE_BEATS, "completion"),
                (PmuEvent.COPY_WRITE_BEATS, "copy"), (PmuEvent.STORE_WRITE_BEATS, "store"),
                (PmuEvent.VALUE_WRITE_BEATS, "value"),
            )
        },
        PmuEvent.COPY_BUSY: copying,
        PmuEvent.CORE_BUSY: computing,
        PmuEvent.COPY_CORE_OVERLAP: (copying != 0) & (computing != 0),
        PmuEvent.INSTRUCTIONS: core("sequencer.issued"),
        PmuEvent.MACS: samples(wave, "npu.core0.compute.macs"),
        PmuEvent.ARRAY_BUSY: core("compute.array.activations.valid"),
        PmuEvent.LOAD_BUSY: busy_until_written(
            wave, "load", lambda load: load.rows * -(-load.row_bytes // width)
        ),
        PmuEvent.COMPUTE_BUSY: busy_until_written(wave, "compute", lambda matmul: matmul.rows),
        PmuEvent.STORE_BUSY: core("activity.store_busy"),
        PmuEvent.LOAD_TOKEN_WAIT: loads_wait,
        PmuEvent.COMPUTE_TOKEN_WAIT: token_waits(
            wave, "compute", wait_previous="load_to_compute", wait_next="store_to_compute"
        ),
        PmuEvent.STORE_TOKEN_WAIT: token_waits(
            wave, "store", wait_previous="compute_to_store"
        ),
        PmuEvent.WEIGHT_WAIT: (
            core("compute.weights__enable") & ~core("compute.activations__enable")
            & ~core("compute.row_stage.conflict")
        ),
        **{PmuEvent.STREAM_WAIT + s: waiting[s] for s in range(config.streams)},
    }  # fmt: skip
