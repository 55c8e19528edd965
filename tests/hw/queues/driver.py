"""One submission queue with some memory, driven cycle by cycle."""

from hw.config import NpuConfig
from hw.queues.queue import SubmissionQueues
from hw.regs.descriptor import CallPayload, KernelPayload, Sqe, TaskType, seal
from hw.regs.fault import FaultCause
from tests.models.port import ReadMemory
from tests.simulation import simulate

__all__ = [
    "ARGS", "ELSEWHERE", "LISTED", "LISTS", "RING", "SIZE", "TINY", "Queue", "call", "kernel",
    "nop",
]  # fmt: skip

TINY = NpuConfig.preset("tiny", streams=1)
RING = 0x0000
ARGS = 0x4000
ELSEWHERE = 0xC000
LISTS = 0x10000
SIZE = 0x30000
LISTED = 16
"""Bit of a slot that says that it is one of those of lists."""


def nop(task_id):
    return seal(Sqe(task_id=task_id))


def kernel(args_address, **fields):
    payload = KernelPayload(kernel_address=0x40, args_address=args_address).to_int()
    return seal(Sqe(type=TaskType.KERNEL, payload=payload, **fields))


def call(list_address, entries, *, args_address=0, epoch=0, **fields):
    payload = CallPayload(
        list_address=list_address, entries=entries, epoch=epoch, args_address=args_address
    ).to_int()
    return seal(Sqe(type=TaskType.CALL, payload=payload, **fields))


class Queue:
    """Stream 0 of a device with some memory, driven cycle by cycle."""

    def __init__(self, ring, *lists, config=TINY, latency=1, args_base=0):
        self.dut = SubmissionQueues(config)
        self.memory = ReadMemory(self.dut.memory, config, SIZE, latency=latency)
        self.port, self.head = self.dut.rings[0], self.dut.heads[0]
        self.args_base = args_base
        self.entries = len(ring)
        self.put(RING, ring)
        for i, entries in enumerate(lists):
            self.put(LISTS + i * 0x1000, entries)

    def put(self, address, entries):
        self.memory.put(address, b"".join(entry.to_bytes() for entry in entries))

    def run(self, bench):
        simulate(self.dut, bench, background=[self.memory.serve])

    async def start(self, ctx, announced=None):
        """Starts the ring and announces its entries."""
        port = self.port
        ctx.set(port.base, RING)
        ctx.set(port.args_base, self.args_base)
        ctx.set(port.size, 3)
        ctx.set(port.start, 1)
        await ctx.tick()
        ctx.set(port.start, 0)
        ctx.set(port.active, 1)
        ctx.set(port.rung, 1)
        ctx.set(port.doorbell, self.entries if announced is None else announced)
        await ctx.tick()
        ctx.set(port.rung, 0)

    def shown(self, ctx):
        """(task_id, listed, returned) of the head, or None."""
        p = self.head.p
        if not ctx.get(self.head.valid):
            return None
        return ctx.get(p.sqe.task_id), ctx.get(p.listed), ctx.get(p.returned)

    async def until_shown(self, ctx):
        for _ in range(2000):
            if ctx.get(self.head.valid):
                return self.shown(ctx)
            await ctx.tick()
        raise AssertionError("no head shows")

    async def pulse(self, ctx, *signals):
        for signal in signals:
            ctx.set(signal, 1)
        await ctx.tick()
        for signal in signals:
            ctx.set(signal, 0)

    async def enter(self, ctx):
        await self.pulse(ctx, self.port.enter)

    async def take(self, ctx):
        """Takes the head, and lets it end in the cycle after."""
        await self.pulse(ctx, self.head.ready)
        await self.pulse(ctx, self.dut.retire)

    async def flush(self, ctx):
        """Flushes; returns for how many cycles."""
        ctx.set(self.port.active, 0)
        ctx.set(self.port.flush, 1)
        await ctx.tick()
        cycles = 1
        while not ctx.get(self.port.flushed):
            await ctx.tick()
            cycles += 1
        ctx.set(self.port.flush, 0)
        return cycles

    async def run_all(self, ctx, count):
        """Enters and takes whatever shows, `count` heads; returns them and their slots."""
        heads, slots = [], []
        while len(heads) < count:
            head = await self.until_shown(ctx)
            heads.append(head)
            slots.append(ctx.get(self.head.p.slot))
            is_call = ctx.get(self.head.p.sqe.type) == TaskType.CALL
            good = ctx.get(self.head.p.cause) == FaultCause.NONE
            if is_call and good and not head[2]:
                await self.enter(ctx)
            else:
                await self.take(ctx)
        return heads, slots
