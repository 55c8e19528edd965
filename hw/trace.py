"""What waveforms show under lasting names: who runs where, who waits, what is recorded."""

from amaranth import C, Mux

__all__ = ["traced"]


def traced(config, *, scheduler, events, faults, irq):
    """Name of each trace signal, without its prefix, and its value.

    For each of `NpuConfig.engines`: ``busy``, and of its task ``stream``, ``task_id``, ``started``
    and ``ended``. For each stream: ``state``, ``running``, ``waiting`` (dependencies that are not
    recorded), ``wait`` (the `Wait` of its next task) and ``called`` (a list runs). Of the whole:
    ``record`` with slot and generation, ``fault`` with cause, and ``irq``.

    Parameters
    ----------
    config: `NpuConfig`.
    scheduler, events, faults: the blocks.
    irq: the interrupt line.
    """
    values = {}
    for n, name in enumerate(config.engines):
        values |= {
            f"{name}_busy": scheduler.busy[n],
            f"{name}_stream": scheduler.tasks[n].stream,
            f"{name}_task_id": scheduler.tasks[n].task_id,
            f"{name}_started": scheduler.started[n],
            f"{name}_ended": scheduler.ended[n],
        }
    for s, stream in enumerate(scheduler.streams):
        values |= {
            f"stream{s}_state": stream.state,
            f"stream{s}_running": stream.running,
            f"stream{s}_waiting": stream.waiting,
            f"stream{s}_wait": stream.wait_kind,
            f"stream{s}_called": stream.called,
        }
    cause = C(0, 8)
    for fault in reversed(faults.events):
        cause = Mux(fault.valid, fault.report.cause, cause)
    return values | {
        "record": events.recorded,
        "record_slot": events.record.slot,
        "record_generation": events.record.generation,
        "fault": faults.amount != 0,
        "fault_cause": cause,
        "irq": irq,
    }
