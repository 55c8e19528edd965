"""Registers by name, interrupts and faults of one device. No policy: that is the runtime's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from hw.config import NpuConfig
from hw.regs.capability import SIZES, config_from
from hw.regs.fault import FaultUnit
from hw.regs.instruction import ISA_VERSION
from hw.regs.register import Access, Block, Register
from hw.regs.registers import (
    IDENT,
    REGISTER_MAP,
    VERSION_MAJOR,
    EventSelect,
    FaultAddress,
    FaultInstructionHigh,
    FaultInstructionLow,
    FaultPc,
    FaultStartPc,
    FaultState,
    FaultStatus,
    FaultTask,
    FaultTime,
    Fingerprint,
    Identity,
    InterruptContexts,
    InterruptEnable,
    InterruptStatus,
    NotifySelect,
    NotifySet,
    NotifyValue,
    PmuCommand,
    PmuSelect,
    StreamState,
    StreamStatus,
    StreamTask,
    StreamWait,
    Version,
    WindowBase,
    WindowLimit,
)

from .errors import FaultRecord, IncompatibleDevice
from .transport import Operation, Read, Transport, Write

__all__ = ["EVERY_CAUSE", "Driver"]

R = TypeVar("R", bound=Register)

BLOCKS: dict[type[Register], Block] = {
    register: block for block in REGISTER_MAP for register in block
}
EVERY_CAUSE = dict(completion=1, fault=1, full=1, stopped=1, callback=1)
"""All interrupt causes of a context."""
LOOKS = (EventSelect, NotifySelect, PmuCommand, PmuSelect)
"""Registers that only choose what is read."""
FAULT_REGISTERS: tuple[type[Register], ...] = (
    FaultStatus, FaultTask, FaultTime, FaultAddress, FaultStartPc, FaultPc,
    FaultInstructionLow, FaultInstructionHigh, FaultState,
)  # fmt: skip


class Driver:
    """The control space of the device behind `transport`.

    The sizes of the device are read from its capability registers. One that this driver does
    not understand raises `IncompatibleDevice`.

    Attributes
    ----------
    transport: the link.
    config: the sizes of the device.
    orders: how often something was written by which the device can do more than before.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.orders = 0
        self.config = self._identify()

    def _identify(self) -> NpuConfig:
        ident = self.read(Identity).ident
        if ident != IDENT:
            raise IncompatibleDevice(
                f"the device says 0x{ident:08x}, not 0x{IDENT:08x} (CELO): it is no Celosia NPU; "
                "check what the transport is connected to"
            )
        version = self.read(Version)
        if (version.major, version.isa) != (VERSION_MAJOR, ISA_VERSION):
            raise IncompatibleDevice(
                f"the device has register map {version.major}.{version.minor} and ISA "
                f"{version.isa}, this driver understands register map {VERSION_MAJOR}.x and ISA "
                f"{ISA_VERSION}; use a driver and a device of the same version"
            )
        config = config_from(dict(zip(SIZES, self.read_all(SIZES), strict=True)))
        reported = self.read(Fingerprint).fingerprint
        if reported != config.fingerprint:
            raise IncompatibleDevice(
                f"the device reports fingerprint 0x{reported:08x}, its sizes give "
                f"0x{config.fingerprint:08x}; use a driver and a device of the same version"
            )
        return config

    def read_all(self, registers: Sequence[type[Register]], index: int = 0) -> list[Register]:
        """Several registers of the index-th block, in one batch."""
        operations: list[Operation] = []
        for register in registers:
            address = BLOCKS[register].address(register, index)
            operations += [Read(address + 4 * word) for word in range(register.words())]
        words = iter(self.transport.control(operations))
        return [
            register.from_int(sum(next(words) << (32 * word) for word in range(register.words())))
            for register in registers
        ]

    def read(self, register: type[R], index: int = 0) -> R:
        """A register of the index-th block of its kind."""
        return cast(R, self.read_all((register,), index)[0])

    def write(self, *values: Register, index: int = 0) -> None:
        """Writes registers of the index-th block of their kind, in order, in one batch."""
        operations: list[Operation] = []
        for value in values:
            assert value.ACCESS in (Access.RW, Access.WO, Access.W1C), type(value).__name__
            address = BLOCKS[type(value)].address(type(value), index)
            raw = value.to_int()
            operations += [
                Write(address + 4 * word, raw >> (32 * word) & 0xFFFFFFFF)
                for word in range(value.words())
            ]
        self.orders += not all(isinstance(value, LOOKS) for value in values)
        self.transport.control(operations)

    def window(
        self, context: int, number: int, first: int, last: int, *, execute: bool = False
    ) -> None:
        """Lets a context read and write, or also execute, the bytes from `first` to `last`."""
        self.write(
            WindowLimit(),
            WindowBase(address=first),
            WindowLimit(address=last, read=1, write=1, execute=int(execute)),
            index=context * self.config.windows + number,
        )

    def close_window(self, context: int, number: int) -> None:
        """Takes all rights of a window away."""
        self.write(WindowLimit(), index=context * self.config.windows + number)

    def interrupts(self) -> dict[int, InterruptStatus]:
        """The causes pending in each context that interrupts; they are cleared."""
        pending = self.read(InterruptContexts).contexts
        causes = {}
        for context in range(self.config.contexts):
            if pending >> context & 1:
                causes[context] = status = self.read(InterruptStatus, context)
                self.write(status, index=context)
        return causes

    def mute(self, context: int) -> None:
        """No cause of the context raises the interrupt line any more."""
        self.write(InterruptEnable(), InterruptStatus(**EVERY_CAUSE), index=context)

    def engine_name(self, number: int) -> str:
        """Name of an engine by its number in fault records and completion entries."""
        if number < len(self.config.engines):
            return self.config.engines[number]
        units = {unit.value: unit.name.lower() for unit in FaultUnit}
        return units.get(number, f"engine {number}")

    def fault(self, context: int) -> FaultRecord | None:
        """The first fault of a context since the last clear."""
        status = self.read(FaultStatus, context)
        if not status.valid:
            return None
        values = {type(value): value for value in self.read_all(FAULT_REGISTERS, context)}

        def value(register: type[R]) -> R:
            return cast(R, values[register])

        where = value(FaultAddress)
        access = "write" if where.write else "execute" if where.execute else "read"
        return FaultRecord(
            cause=status.cause,
            engine=self.engine_name(status.engine),
            stream=status.stream,
            task_id=value(FaultTask).task_id,
            context=context,
            address=where.address,
            access=access,
            start_pc=value(FaultStartPc).address,
            pc=value(FaultPc).address,
            instruction=value(FaultInstructionHigh).word << 64 | value(FaultInstructionLow).word,
            state=value(FaultState).state,
            timestamp=value(FaultTime).cycle,
        )

    def stream_state(self, number: int) -> StreamState:
        """What a hardware stream is doing."""
        return {state.value: state for state in StreamState}[self.read(StreamStatus, number).state]

    def stream_wait(self, number: int) -> tuple[StreamStatus, int, StreamWait]:
        """Status, current task and awaited event of a hardware stream, in one batch."""
        status, task, wait = self.read_all((StreamStatus, StreamTask, StreamWait), number)
        return cast(StreamStatus, status), cast(StreamTask, task).task_id, cast(StreamWait, wait)

    def notify_value(self, number: int) -> int:
        """A counter of the notify unit."""
        self.write(NotifySelect(counter=number))
        return self.read(NotifyValue).value

    def set_notify(self, number: int, value: int) -> None:
        """Sets a counter of the notify unit."""
        self.write(NotifySelect(counter=number), NotifySet(value=value))
