"""Random programs of streams and events on the functional model and on the gateware."""

from hypothesis import given, settings

from rt import Device
from tests.models.device import ModelDevice
from tests.models.kernel import DeviceKernels
from hw.config import NpuConfig
from tests.system.semantics.player import check
from tests.system.semantics.programs import programs


@settings(max_examples=150)
@given(programs())
def test_programs_on_the_functional_model_mean_what_the_reference_says(program):
    config = NpuConfig.preset("tiny")
    model = ModelDevice(config, kernel=DeviceKernels(config))
    device = Device(model, patience=100_000)
    def look(first, size):
        return model.memory.device[first : first + size]

    check(program, device, look, exact=False)
