"""A model device with small kernels, for tests of the runtime."""

import zlib

from hw.config import NpuConfig
from hw.regs.fault import FaultCause
from hw.regs.instruction import KernelHeader
from rt import Device
from tests.models.device import ModelDevice
from tests.models.memory import Fault

ADD, SPIN, TRAP = 1, 2, 3


def binary(operation, config, salt=0):
    """A kernel that the model's `run` understands, with a correct header."""
    code = bytes([operation, salt]).ljust(16, b"\0")
    header = KernelHeader(
        fingerprint=config.fingerprint, code_bytes=len(code), crc=zlib.crc32(code)
    )
    return header.to_bytes() + code


def run(memory, context, code, arguments):
    """ADD: outputs[0] = inputs[0] + scalars[0], scalars[1] bytes of it. SPIN: scalars[0] cycles."""
    first, count, *_ = arguments.scalars
    if code[0] == SPIN:
        return first
    if code[0] == TRAP:
        raise Fault(FaultCause.ILLEGAL_INSTRUCTION, start_pc=0x1020, pc=0x1040,
                    instruction=0xAB << 120 | 7, state=5)  # fmt: skip
    data = memory.load(context, arguments.inputs[0], count)
    memory.store(context, arguments.outputs[0], bytes((byte + first) % 256 for byte in data))
    return 50 + count


def machine(preset="tiny", *, host_bytes=1 << 20, device_bytes=1 << 20, patience=100_000, **sizes):
    """A device of that preset on the model."""
    config = NpuConfig.preset(preset, **sizes)
    model = ModelDevice(config, kernel=run, host_bytes=host_bytes, device_bytes=device_bytes)
    return Device(model, patience=patience)
