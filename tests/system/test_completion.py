"""Completion entries as the host sees them, whatever the moment at which it looks."""

from hw.regs.descriptor import Completion


def test_an_entry_is_whole_in_the_cycle_in_which_its_phase_is_new(transport, session):
    """Looks at the ring in every cycle while entries are being written, beat by beat."""
    stream = session.stream()
    ring = session._ring
    buffer = session.empty(64, "u1")
    tasks = [stream.fill(buffer, value) for value in range(3)]
    seen = []
    for _ in range(600):
        transport.run_until(interrupt=False, cycle=transport.now() + 1)
        raw = transport.read_host(ring.base + len(seen) * Completion.BYTES, Completion.BYTES)
        entry = Completion.from_bytes(raw)
        if entry.phase:
            seen.append(entry)
        if len(seen) == len(tasks):
            break
    assert [entry.task_id for entry in seen] == [task.id for task in tasks]
    assert all(0 < entry.start <= entry.end for entry in seen)
    stream.synchronise()
