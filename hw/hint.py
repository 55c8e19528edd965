"""Tells the cores which kernel is likely to be started next."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .arbiter import Arbiter
from .core.fetch import Hint
from .interface import Head
from .layout import struct
from .regs.descriptor import KernelPayload, TaskType
from .regs.fault import FaultCause
from .regs.registers import StreamConfig
from .schedule.dispatch import PRIORITIES

__all__ = ["PrefetchHint"]


class PrefetchHint(wiring.Component):
    """Names the next kernel of the ACTIVE stream that has the greatest priority.

    That is, of those whose head is a good KERNEL; among equals, of the lowest-numbered. So its code
    is fetched while it waits for events or for the task before it.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    heads, valid: heads of the streams, and which of them are there.
    active: which streams are ACTIVE.
    settings: of each stream.
    hint: combinational.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "heads": In(Head).array(config.streams),
            "valid": In(config.streams),
            "active": In(config.streams),
            "settings": In(struct(StreamConfig)).array(config.streams),
            "hint": Out(Hint),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.choice = choice = Arbiter(self.config.streams, PRIORITIES)
        m.d.comb += self.hint.valid.eq(choice.valid)
        for s, (head, settings) in enumerate(zip(self.heads, self.settings, strict=True)):
            is_kernel = (head.sqe.type == TaskType.KERNEL) & (head.cause == FaultCause.NONE)
            payload = struct(KernelPayload)(head.sqe.payload)
            m.d.comb += [
                choice.requests[s].eq(self.valid[s] & self.active[s] & is_kernel),
                choice.priorities[s].eq(settings.priority),
            ]
            with m.If(choice.grant[s]):
                m.d.comb += [
                    self.hint.kernel.address.eq(payload.kernel_address),
                    self.hint.kernel.context.eq(settings.context),
                    self.hint.kernel.invalidate.eq(head.sqe.option),
                ]
        return m
