"""What a core tells of itself in a fault record."""

from __future__ import annotations

from .layout import Field, Layout, Reserved

__all__ = ["CoreState"]


class CoreState(Layout, width=32):
    """What a core was doing in the cycle in which a fault was found: its `FaultState`."""

    load_busy = Field(1, "An operation is in the load unit.")
    compute_busy = Field(1, "An operation is in the compute unit.")
    store_busy = Field(1, "An operation is in the store unit.")
    scrubbing = Field(1, "Local memories are being cleared for another context.")
    load_waiting = Field(1, "The load unit waits for a token.")
    compute_waiting = Field(1, "The compute unit waits for a token.")
    store_waiting = Field(1, "The store unit waits for a token.")
    reserved0 = Reserved(1)
    load_queued = Field(1, "Operations wait for the load unit.")
    compute_queued = Field(1, "Operations wait for the compute unit.")
    store_queued = Field(1, "Operations wait for the store unit.")
    reserved1 = Reserved(1)
    fetching = Field(1, "The kernel is being read.")
    running = Field(1, "The sequencer runs the kernel.")
    blocked = Field(1, "The sequencer waits for units.")
    reserved2 = Reserved(1)
    load_to_compute = Field(4, "Tokens that compute can take from load.")
    compute_to_load = Field(4, "Tokens that load can take from compute.")
    compute_to_store = Field(4, "Tokens that store can take from compute.")
    store_to_compute = Field(4, "Tokens that compute can take from store.")

    def __str__(self) -> str:
        words = []
        for field in self.FIELDS:
            value, name = self.as_dict()[field.name], field.name.replace("_", " ")
            if value and not isinstance(field, Reserved):
                words.append(name if field.width == 1 else f"tokens {name}: {value}")
        return ", ".join(words) or "idle"
