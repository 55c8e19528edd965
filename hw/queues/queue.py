"""Submission queues: fetches the entries of every stream and their arguments ahead of time."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..interface import ArgumentPort, Head, ReadPort
from .arguments import ArgumentMemory
from .caller import Caller
from .fetcher import Fetcher
from .judge import Judge
from .staging import RingSignature

__all__ = ["SubmissionQueues"]


class SubmissionQueues(wiring.Component):
    """The rings of all streams: each entry is read, checked, and offered in order as a head.

    Streams with something to fetch and a free slot are served round-robin. An entry and, if the
    stream has an `args_base`, its argument block are read back to back; the next entry's reads
    follow without waiting for answers. A good KERNEL whose block lies elsewhere has it read from
    there before its head shows. Reads are bursts of 64 bytes, or of `burst_bytes` if that is less.

    A bad entry is a head like others, with its cause: that of a failed read, with the address of
    the first bad beat, else CHECKSUM, else what `hw.queues.decode.check` says.

    A CALL's list has slots of its own, and is fetched like a ring as soon as the CALL is a good
    head of an active ring. The order of heads is: the CALL; from `enter` on the entries of its
    list, as listed; when all of those have retired the CALL again, as returned. Only then may it
    be taken.

    With a free fetcher, a doorbell in cycle t has its first request valid in t + 2, and then one
    a cycle; so has the list of a CALL that becomes the head in t. From the last beat that a task
    needs in t on, its head is valid in t + 2. A block from another place is requested 4 cycles
    after the last beat of its entry. What was fetched is valid in the cycle after `enter`, and
    after the one before was taken; a CALL returns in the cycle after its list's last retirement.
    A slot that is freed in t has its next entry requested in t + 2.

    Parameters
    ----------
    config: sizes.

    Members
    -------
    rings: control of each stream; see `RingSignature`.
    heads: the next task of each stream.
    retire: one bit for each stream: its oldest taken task has ended, and the slot is free.
    overrun: one bit for each stream: a doorbell was refused in this cycle.
    memory: reads; a beat is taken in every cycle.
    arguments: reads the staged argument blocks, data one cycle later, for each core.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "rings": In(RingSignature()).array(config.streams),
            "heads": Out(stream.Signature(Head)).array(config.streams),
            "retire": In(config.streams),
            "overrun": Out(config.streams),
            "memory": Out(ReadPort(config.data_bytes)),
            "arguments": In(ArgumentPort()).array(config.cores),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetcher = fetcher = Fetcher(self.config)
        m.submodules.judge = judge = Judge(self.config)
        m.submodules.arguments = arguments = ArgumentMemory(self.config)
        connect(m, fetcher.requests, flipped(self.memory.requests))
        connect(m, fetcher.reads, judge.reads)
        connect(m, flipped(self.memory.beats), judge.beats)
        connect(m, judge.refetches, fetcher.refetches)
        connect(m, judge.blocks, arguments.blocks)
        for n, port in enumerate(self.arguments):
            connect(m, flipped(port), arguments.ports[n])
        for i, ring in enumerate(self.rings):
            m.submodules[f"stream{i}"] = caller = Caller(self.config)
            connect(m, flipped(ring), caller.ring)
            connect(m, caller.tasks, flipped(self.heads[i]))
            connect(m, caller.fetch, fetcher.fetches[i])
            m.d.comb += [
                fetcher.contexts[i].eq(ring.context),
                judge.epochs[i].eq(caller.epoch),
                caller.verdict.eq(judge.verdict),
                caller.judged.eq(judge.judged[i]),
                caller.retire.eq(self.retire[i]),
                self.overrun[i].eq(caller.overrun),
            ]
        return m
