"""What the PMU counts: the amount that each event adds in a cycle."""

from .regs.pmu import PmuEvent

__all__ = ["amounts"]


def amounts(config, *, scheduler, bus, events, faults, cores):
    """Value of each `PmuEvent` in this cycle, but for CYCLES, which the PMU counts itself.

    Parameters
    ----------
    config: `NpuConfig`.
    scheduler, events, faults: the blocks.
    bus: `BusActivity` of the memory bus.
    cores: `CoreActivity` of each core.
    """
    copies = config.copy_channels
    copy_busy = scheduler.busy[:copies]
    core_busy = scheduler.busy[copies : copies + len(cores)]

    def beats(bits, clients, prefix):
        return sum(bits[n] for n, name in enumerate(clients) if name.startswith(prefix))

    def read(prefix):
        return beats(bus.read_beats, config.read_clients, prefix)

    def written(prefix):
        return beats(bus.write_beats, config.write_clients, prefix)

    def of_cores(name):
        return sum(getattr(core, name) for core in cores)

    return {
        PmuEvent.TASKS: scheduler.retired,
        PmuEvent.FAULTS: faults.amount,
        PmuEvent.EVENT_RECORDS: events.recorded,
        PmuEvent.EVENT_WAIT: sum(scheduler.blocked),
        PmuEvent.CALLS: sum(scheduler.calls),
        PmuEvent.READ_BURSTS: bus.read_issued,
        PmuEvent.READ_BEATS: bus.read_beat,
        PmuEvent.READ_OUTSTANDING: bus.reads,
        PmuEvent.WRITE_BURSTS: bus.write_issued,
        PmuEvent.WRITE_BEATS: bus.write_beat,
        PmuEvent.WRITE_OUTSTANDING: bus.writes,
        PmuEvent.READ_STALL: bus.read_stall,
        PmuEvent.WRITE_STALL: bus.write_stall,
        PmuEvent.QUEUE_READ_BEATS: read("queue"),
        PmuEvent.COPY_READ_BEATS: read("copy"),
        PmuEvent.CODE_READ_BEATS: read("code"),
        PmuEvent.LOAD_READ_BEATS: read("load"),
        PmuEvent.VALUE_READ_BEATS: read("value"),
        PmuEvent.COMPLETION_WRITE_BEATS: written("completion"),
        PmuEvent.COPY_WRITE_BEATS: written("copy"),
        PmuEvent.STORE_WRITE_BEATS: written("store"),
        PmuEvent.VALUE_WRITE_BEATS: written("value"),
        PmuEvent.COPY_BUSY: sum(copy_busy),
        PmuEvent.CORE_BUSY: sum(core_busy),
        PmuEvent.COPY_CORE_OVERLAP: copy_busy.any() & core_busy.any(),
        PmuEvent.INSTRUCTIONS: of_cores("instruction"),
        PmuEvent.MACS: of_cores("macs"),
        PmuEvent.ARRAY_BUSY: of_cores("array_busy"),
        PmuEvent.LOAD_BUSY: of_cores("load_busy"),
        PmuEvent.COMPUTE_BUSY: of_cores("compute_busy"),
        PmuEvent.STORE_BUSY: of_cores("store_busy"),
        PmuEvent.LOAD_TOKEN_WAIT: of_cores("load_token_wait"),
        PmuEvent.COMPUTE_TOKEN_WAIT: of_cores("compute_token_wait"),
        PmuEvent.STORE_TOKEN_WAIT: of_cores("store_token_wait"),
        PmuEvent.WEIGHT_WAIT: of_cores("weight_wait"),
        **{PmuEvent.STREAM_WAIT + s: scheduler.blocked[s] for s in range(config.streams)},
    }
