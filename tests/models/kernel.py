"""Golden model of the matrix core: runs a kernel binary on bytes, one instruction at a time.

Tokens do not matter to a sequential run, except that a legal kernel has enough of them: the
model plays the three units as queues that advance only when their tokens are there, and so
finds kernels that would wait for ever or overwrite a buffer in use.
"""

import zlib
from collections import deque

import numpy as np

from hw.regs.instruction import (
    INSTRUCTIONS,
    ChannelRecord,
    Condition,
    KernelHeader,
    Load,
    Matmul,
    Opcode,
    OutputFormat,
)
from rt.kernel.assembler import decode

STALE = 0x5A


class Deadlock(Exception):
    """A unit waits for a token that nobody gives."""


class KernelModel:
    """One core of configuration `config` with `memory`, a bytearray that starts at address 0.

    Attributes
    ----------
    instructions: how many were executed. rows: activation rows that entered the array.
    macs: multiply-accumulates that they made.
    """

    def __init__(self, config, memory):
        self.config = config
        self.memory = memory
        # What another kernel has left: nothing may depend on it.
        self.scratchpad = np.full((config.scratchpad_words, config.word_bytes), STALE, np.int8)
        self.accumulators = np.full((config.accumulator_rows, config.columns), STALE, np.int32)
        self.instructions = self.rows = self.macs = 0

    def run(self, binary, arguments=(), order=lambda units: units):
        """Runs the kernel; `order` may permute the units that are ready, to find races."""
        _, words = decode(binary)
        self.table = np.zeros((3, self.config.columns), np.int64)
        self.weights = None
        self.arguments = list(arguments) + [0] * (16 - len(arguments))
        self.registers = [dict(base=0, strides=[0] * 8, rotation=0, ring=1) for _ in range(16)]
        self.tokens = dict(load=0, compute=0, compute_back=0, store=0)
        self.queues = {"load": deque(), "compute": deque(), "store": deque()}
        self.order = order
        loops = []  # [first instruction, count, index]
        pc = 0
        while True:
            code = Opcode(words[pc] & 0xFF)
            ins = INSTRUCTIONS[code].from_int(words[pc])
            pc += 1
            self.instructions += 1
            if code in (Opcode.END, Opcode.FENCE):
                self.drain()
                if code == Opcode.END:
                    return
            elif code == Opcode.LOOP:
                loops.append([pc, ins.count, 0])
            elif code == Opcode.NEXT:
                loops[-1][2] += 1
                if loops[-1][2] < loops[-1][1]:
                    pc = loops[-1][0]
                else:
                    loops.pop()
            elif code == Opcode.SKIP:
                _, count, index = loops[ins.level]
                holds = index == (0 if ins.condition in (0, 1) else count - 1)
                if holds == (ins.condition in (Condition.FIRST, Condition.LAST)):
                    pc += ins.count
            elif code == Opcode.ADDRESS:
                base = ins.offset + (self.arguments[ins.argument] if ins.source else 0)
                self.registers[ins.register] = dict(base=base, strides=[0] * 8, rotation=0)
            elif code == Opcode.STRIDE:
                self.registers[ins.register]["strides"][ins.level] = ins.stride
            elif code == Opcode.ROTATE:
                for n, register in enumerate(self.registers):
                    if ins.registers >> n & 1:
                        register["rotation"] = (register["rotation"] + ins.step) % ins.size
            elif code == Opcode.GRANT:
                self.tokens["load"] += ins.load
                self.tokens["compute_back"] += ins.compute
            else:
                unit = {Load: "load", Matmul: "compute"}.get(type(ins), "store")
                self.queues[unit].append((ins, self.operands(ins, [i for _, _, i in loops])))

    def operands(self, ins, indices):
        names = ("memory", "local", "activations", "weights", "accumulators")
        values = {}
        for name in names:
            if name in ins.as_dict():
                register = self.registers[ins.as_dict()[name]]
                steps = sum(i * s for i, s in zip(indices, register["strides"], strict=False))
                values[name] = register["base"] + register["rotation"] + steps
        return values

    def drain(self):
        while any(self.queues.values()):
            ready = [unit for unit, queue in self.queues.items() if queue and self.ready(unit)]
            if not ready:
                raise Deadlock({unit: len(queue) for unit, queue in self.queues.items()})
            unit = self.order(ready)[0]
            ins, operands = self.queues[unit].popleft()
            getattr(self, type(ins).__name__.lower())(ins, **operands)

    def ready(self, unit):
        """Takes the tokens of the unit's next instruction if they are all there."""
        ins = self.queues[unit][0][0].as_dict()
        previous = {"load": None, "compute": "compute", "store": "store"}[unit]
        back = {"load": "load", "compute": "compute_back", "store": None}[unit]
        needed = [
            name
            for name, flag in ((previous, "wait_previous"), (back, "wait_next"))
            if ins.get(flag)
        ]
        return all(self.tokens[name] for name in needed)

    def exchange(self, ins, unit):
        values = ins.as_dict()
        back = {"compute": "load", "store": "compute_back"}
        forward = {"load": "compute", "compute": "store"}
        waits = {"compute": "compute", "store": "store"}
        wait_back = {"load": "load", "compute": "compute_back"}
        for flag, names, step in (
            ("wait_previous", waits, -1), ("wait_next", wait_back, -1),
            ("signal_previous", back, 1), ("signal_next", forward, 1),
        ):  # fmt: skip
            if values.get(flag):
                self.tokens[names[unit]] += step

    def load(self, ins, memory, local):
        self.exchange(ins, "load")
        width = self.config.word_bytes
        words = -(-ins.row_bytes // width)
        for row in range(ins.rows):
            at = memory + row * ins.pitch
            data = np.frombuffer(bytes(self.memory[at : at + ins.row_bytes]), np.int8)
            assert len(data) == ins.row_bytes
            padded = np.zeros(words * width, np.int8)
            padded[: len(data)] = data
            first = local + row * words
            assert first + words <= len(self.scratchpad)
            self.scratchpad[first : first + words] = padded.reshape(words, width)

    def matmul(self, ins, activations, weights, accumulators):
        self.exchange(ins, "compute")
        rows, columns = self.config.rows, self.config.columns
        if not ins.keep:
            lines = weights + ins.weight_pitch * np.arange(ins.depth)
            self.weights = self.scratchpad[lines, :columns].astype(np.int64)
        lines = activations + ins.pitch * np.arange(ins.rows)
        assert ins.depth <= rows
        left = self.scratchpad[lines, : ins.depth].astype(np.int64)
        sums = left @ self.weights[: ins.depth]
        target = slice(accumulators, accumulators + ins.rows)
        assert accumulators + ins.rows <= len(self.accumulators)
        if ins.accumulate:
            sums = sums + self.accumulators[target]
        self.accumulators[target] = sums.astype(np.uint32).view(np.int32)
        self.rows += ins.rows
        self.macs += ins.rows * ins.depth * columns

    def channel(self, ins, local):
        self.exchange(ins, "store")
        size = ChannelRecord.BYTES
        words = -(-self.config.columns * size // self.config.word_bytes)
        raw = self.scratchpad[local : local + words].tobytes()
        for column in range(self.config.columns):
            record = ChannelRecord.from_bytes(raw[column * size : column * size + size])
            assert record == ChannelRecord(
                bias=record.bias, multiplier=record.multiplier, shift=record.shift
            ), "reserved bits are set"
            self.table[:, column] = record.bias, record.multiplier, record.shift

    def store(self, ins, memory, accumulators):
        self.exchange(ins, "store")
        sums = self.accumulators[accumulators : accumulators + ins.rows, : ins.columns]
        sums = sums.astype(np.int64)
        bias, multiplier, shift = self.table[:, : ins.columns]
        if ins.bias:
            sums = sums + bias
        for row in range(ins.rows):
            if ins.format == OutputFormat.INT32:
                data = sums[row].astype(np.uint32).tobytes()
            else:
                scaled = [
                    round_half_even(int(s) * int(m), int(h))
                    for s, m, h in zip(sums[row], multiplier, shift, strict=True)
                ]
                clamped = [min(max(s + ins.zero_point, ins.low), ins.high) for s in scaled]
                data = np.array(clamped, np.int8).tobytes()
            at = memory + row * ins.pitch
            assert at + len(data) <= len(self.memory)
            self.memory[at : at + len(data)] = data


class DeviceKernels:
    """The kernels of a `ModelDevice`, each on a fresh core. Sums up what `KernelModel` counts."""

    def __init__(self, config):
        self.config = config
        self.instructions = self.rows = self.macs = 0

    def __call__(self, memory, context, code, arguments):
        header = KernelHeader(
            fingerprint=self.config.fingerprint, code_bytes=len(code), crc=zlib.crc32(code)
        )
        model = KernelModel(self.config, memory.device)
        words = [*arguments.inputs, *arguments.outputs, *arguments.scalars]
        model.run(header.to_bytes() + code, words)
        self.instructions += model.instructions
        self.rows += model.rows
        self.macs += model.macs
        return 50 + model.instructions


def round_half_even(value, shift):
    """value ÷ 2^shift, to the nearest integer, halves to the even one."""
    down = value >> shift
    rest = value - (down << shift)
    half = (1 << shift) >> 1
    return down + (rest > half or (rest == half and shift > 0 and down & 1))
