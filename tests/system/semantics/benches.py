"""Devices that the semantics tests run on: the functional model and the gateware."""

from hw.config import NpuConfig
from rt import Device
from tests.models.device import ModelDevice
from tests.models.kernel import DeviceKernels

__all__ = ["Gateware", "Model"]


class Model:
    """The functional model, fresh."""

    exact = False

    def __init__(self):
        config = NpuConfig.preset("tiny")
        self._model = ModelDevice(config, kernel=DeviceKernels(config))
        self.device = Device(self._model, patience=100_000)

    def memory(self, address, size):
        return bytes(self._model.memory.device[address : address + size])

    def set_index(self, stream, index):
        stream = self._model.tasks.streams[stream]
        stream.head = stream.tail = index


class Gateware:
    """A simulated machine after a reset."""

    exact = True

    def __init__(self, transport):
        transport.reset()
        transport.actions.clear()
        self._transport = transport
        self.device = Device(transport, patience=20_000, watchdog=5_000)

    def memory(self, address, size):
        return bytes(self._transport.device_memory()[address : address + size])

    def set_index(self, stream, index):
        for name in ("tail", "ring.head", "ring.fetched", "ring.taken"):
            self._transport.engine.poke(f"npu.queues.stream{stream}.{name}", index)
