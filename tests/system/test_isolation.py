"""Sessions share the local memories of a core, but never what lies in them."""

import numpy as np
import pytest

from hw.regs.fault import FaultCause
from rt import DeviceFault
from rt.kernel.assembler import assemble
from rt.ops import matmul

LOOK = """
ADDRESS register=r0 source=ARGUMENT argument=output0
STORE memory=r0 accumulators=r1 rows=4 columns=4 pitch=16
END
"""
"""Stores the sums that it finds."""

KEEP = """
ADDRESS register=r0 source=ARGUMENT argument=input0
ADDRESS register=r1 offset=100
LOAD memory=r0 local=r1 rows=4 row_bytes=4 pitch=4 signal_next
MATMUL activations=r1 weights=r3 accumulators=r4 rows=4 depth=4 keep wait_previous
END
"""
"""Multiplies the unit matrix by the weights that are left in the array."""


def look(session):
    stream, out = session.stream(), session.buffer(np.full((4, 4), 99, np.int32))
    kernel = session.load(assemble(LOOK, session.device.config.fingerprint))
    stream.launch(kernel, outputs=[out])
    return stream.download(out).result()


def secret(session):
    assert matmul(session, np.full((4, 4), 3, np.int8), np.full((4, 4), 5, np.int8)).all()


def test_a_kernel_finds_zeros_where_that_of_another_session_worked(device):
    with device.session() as session, device.session() as other:
        secret(other)
        assert not look(session).any()
        secret(other)


def test_a_new_session_finds_nothing_of_the_one_that_had_its_context(device):
    with device.session() as session:
        secret(session)
        context = session.context
    with device.session() as session:
        assert session.context == context
        assert not look(session).any()


def test_weights_of_another_session_cannot_be_kept(device):
    with device.session() as session, device.session() as other:
        secret(other)
        stream, unit = session.stream(), session.buffer(np.eye(4, dtype=np.int8))
        stream.launch(session.load(assemble(KEEP, device.config.fingerprint)), inputs=[unit])
        with pytest.raises(DeviceFault) as caught:
            stream.synchronise()
        assert caught.value.record.cause == FaultCause.ILLEGAL_INSTRUCTION
        assert "compute" in str(caught.value)
        secret(other)
