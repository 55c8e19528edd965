import numpy as np
import pytest

from hw.config import NpuConfig
from hw.regs.descriptor import Sqe, TaskType
from hw.regs.instruction import KernelHeader
from rt.errors import InvalidHandle, InvalidParameter
from rt.kernel.kernel import check_binary
from tests.rt.machine import ADD, SPIN, binary, machine

CONFIG = NpuConfig.preset("tiny")


@pytest.fixture
def session():
    with machine() as device:
        yield device.session()


def changed(**fields):
    good = binary(SPIN, CONFIG)
    size = KernelHeader.BYTES
    return KernelHeader.from_bytes(good).replace(**fields).to_bytes() + good[size:]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"", "has 0 bytes; a header and one instruction take 48"),
        (changed(magic=1), r"begins with 0x00000001, not 0x4b4c4543 .CELK."),
        (changed(isa_version=9), "is for ISA 9, the device has ISA 1"),
        (changed(fingerprint=1), "with fingerprint 0x00000001, this one has 0x"),
        (changed(code_bytes=32), "has 16 bytes of code and its header says 32"),
        (changed(crc=1), "its header says 0x00000001"),
        (binary(SPIN, CONFIG) + b"\0", "has 17 bytes of code"),
    ],
)
def test_a_wrong_binary_is_refused(session, wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        session.load(wrong)


def test_a_good_binary_passes():
    assert check_binary(binary(SPIN, CONFIG), CONFIG).code_bytes == 16


def test_the_same_binary_is_loaded_once(session):
    kernel = session.load(binary(SPIN, CONFIG))
    assert session.load(binary(SPIN, CONFIG)) is kernel
    assert session.load(binary(SPIN, CONFIG, salt=1)) is not kernel
    kernel.free()
    with pytest.raises(InvalidHandle, match="was freed; load it again"):
        session.stream().launch(kernel)
    assert session.load(binary(SPIN, CONFIG)) is not kernel


def test_code_in_the_place_of_other_code_is_fetched_anew(session):
    stream = session.stream()
    buffer = session.buffer(np.zeros(4, np.uint8))

    def launch(kernel):
        stream.launch(kernel, [buffer], [buffer], [1, 4])
        address = stream._ring.base + (stream._tail - 1) % stream._ring.entries * 64
        sqe = Sqe.from_bytes(session.device.driver.transport.read_host(address, 64))
        assert sqe.type == TaskType.KERNEL
        return sqe.option

    first = session.load(binary(ADD, CONFIG))
    assert launch(first) == 0
    stream.synchronise()
    first.free()
    second = session.load(binary(ADD, CONFIG, salt=1))
    assert second.address == first.address
    assert [launch(second), launch(second)] == [1, 1]
    stream.synchronise()
    assert launch(second) == 0
    assert (stream.download(buffer).result() == 4).all()
