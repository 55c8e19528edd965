"""A kernel with what it works on: what a launch, or a task of a graph, is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hw.regs.descriptor import Arguments, KernelPayload, Sqe, TaskType

from .errors import InvalidParameter
from .kernel.kernel import Kernel
from .memory import Allocation, Buffer
from .signals import check_word

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Launch"]


@dataclass(frozen=True)
class Launch:
    """A kernel with up to 8 inputs, 4 outputs and 4 scalars."""

    kernel: Kernel
    inputs: Sequence[Buffer]
    outputs: Sequence[Buffer]
    scalars: Sequence[int]

    def check(self, session: Session) -> None:
        """Raises unless that session can launch it."""
        if not isinstance(self.kernel, Kernel):
            raise InvalidParameter(
                f"a kernel is needed, not {type(self.kernel).__name__}; load one with session.load"
            )
        self.kernel.check(session)
        for name, given, limit in (
            ("inputs", self.inputs, Arguments.inputs.count),
            ("outputs", self.outputs, Arguments.outputs.count),
            ("scalars", self.scalars, Arguments.scalars.count),
        ):
            if len(given) > limit:
                raise InvalidParameter(f"{len(given)} {name} were given; a kernel takes {limit}")
        for scalar in self.scalars:
            check_word(scalar)
        for buffer in (*self.inputs, *self.outputs):
            session.check_buffer(buffer)

    @property
    def uses(self) -> tuple[Allocation, ...]:
        """The memory that it uses."""
        buffers = (*self.inputs, *self.outputs)
        return (self.kernel.allocation, *(buffer.allocation for buffer in buffers))

    @property
    def arguments(self) -> Arguments:
        """Its argument block."""
        return Arguments(
            inputs=[buffer.address for buffer in self.inputs],
            outputs=[buffer.address for buffer in self.outputs],
            scalars=[check_word(scalar) for scalar in self.scalars],
        )

    def sqe(self, args_address: int, timeout: int, profile: bool) -> Sqe:
        """Its entry, with the argument block at that address, and a timeout in its units."""
        payload = KernelPayload(kernel_address=self.kernel.address, args_address=args_address)
        return Sqe(
            type=TaskType.KERNEL, timeout=timeout, payload=payload.to_int(),
            option=int(self.kernel.stale), completion=int(profile), counters=int(profile),
        )  # fmt: skip
