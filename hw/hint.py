"""Tells the cores which kernel is likely to be started next."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .core.fetch import Hint
from .interface import Head
from .layout import struct
from .regs.descriptor import KernelPayload, TaskType
from .regs.fault import FaultCause

__all__ = ["PrefetchHint"]


class PrefetchHint(wiring.Component):
    """Names the kernel of the lowest-numbered stream whose head is a good KERNEL.

    So its code is fetched while it waits for events or for the task before it.

    Parameters
    ----------
    config: `NpuConfig`.

    Members
    -------
    heads, valid: heads of the streams, and which of them are there.
    contexts: context of each stream.
    hint: combinational.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "heads": In(Head).array(config.streams),
            "valid": In(config.streams),
            "contexts": In(4).array(config.streams),
            "hint": Out(Hint),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        for s, head in reversed(list(enumerate(self.heads))):
            is_kernel = head.sqe.type == TaskType.KERNEL
            payload = struct(KernelPayload)(head.sqe.payload)
            with m.If(self.valid[s] & is_kernel & (head.cause == FaultCause.NONE)):
                m.d.comb += [
                    self.hint.valid.eq(1),
                    self.hint.kernel.address.eq(payload.kernel_address),
                    self.hint.kernel.context.eq(self.contexts[s]),
                    self.hint.kernel.invalidate.eq(head.sqe.option),
                ]
        return m
