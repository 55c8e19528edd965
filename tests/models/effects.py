"""Golden model of the engines: what tasks do to memory, and for how many cycles."""

import zlib

from hw.regs.descriptor import Arguments, CopyPayload, KernelPayload, TaskType, ValuePayload
from hw.regs.fault import FaultCause
from hw.regs.instruction import ISA_VERSION, KERNEL_MAGIC, KernelHeader
from tests.models.memory import Fault

VALUE_CYCLES = 10


class Effects:
    """Runs tasks of `config` on `memory`; `kernel` runs kernels."""

    def __init__(self, config, memory, kernel):
        self.config, self.memory, self.kernel = config, memory, kernel

    def engines(self, kind):
        """Numbers of the engines that run a type of task."""
        copies, cores = self.config.copy_channels, self.config.cores
        if kind in (TaskType.MEMCPY, TaskType.MEMSET):
            return range(copies)
        if kind == TaskType.KERNEL:
            return range(copies, copies + cores)
        name = "value" if kind == TaskType.VALUE_WRITE else "control"
        return (self.config.engines.index(name),)

    def run(self, sqe, context):
        """The effect of a task; returns its cycles."""
        if sqe.type in (TaskType.MEMCPY, TaskType.MEMSET):
            return self._copy(CopyPayload.from_int(sqe.payload), context, sqe.type)
        if sqe.type == TaskType.KERNEL:
            return self._kernel(KernelPayload.from_int(sqe.payload), context)
        if sqe.type == TaskType.VALUE_WRITE:
            value = ValuePayload.from_int(sqe.payload)
            self.memory.store(context, value.address, value.value.to_bytes(8, "little"))
            return VALUE_CYCLES
        return 0

    def _copy(self, copy, context, kind):
        for row in range(copy.rows):
            if kind == TaskType.MEMSET:
                data = bytes([copy.source]) * copy.row_bytes
            else:
                place = copy.source + row * copy.source_pitch
                data = self.memory.load(context, place, copy.row_bytes)
            self.memory.store(context, copy.destination + row * copy.destination_pitch, data)
        return 20 + copy.rows * (1 + copy.row_bytes // self.config.data_bytes)

    def _kernel(self, payload, context):
        raw = self.memory.load(context, payload.args_address, Arguments.BYTES)
        arguments = Arguments.from_bytes(raw)
        place = payload.kernel_address
        raw = self.memory.load(context, place, KernelHeader.BYTES, "execute")
        header = KernelHeader.from_bytes(raw)
        legal = (
            (header.magic, header.isa_version, header.fingerprint)
            == (KERNEL_MAGIC, ISA_VERSION, self.config.fingerprint)
            and 16 <= header.code_bytes <= self.config.instructions * 16
            and header.code_bytes % 16 == 0
        )  # fmt: skip
        start = place + KernelHeader.BYTES
        code = self.memory.load(context, start, header.code_bytes, "execute") if legal else b""
        if not legal or header.crc != zlib.crc32(code):
            raise Fault(FaultCause.ILLEGAL_KERNEL, place, start_pc=start)
        return self.kernel(self.memory, context, code, arguments)
