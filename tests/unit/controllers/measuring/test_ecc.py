"""The ECC mode of a GPU is told when it changes, and a driver that is silent changes nothing."""

from __future__ import annotations

from laneway.controllers.measuring.ecc import EccModes
from laneway.controllers.measuring.metrics import Measurements
from laneway.core.gpu.readings import GpuReading
from laneway.core.pci import PciAddress

GPU = PciAddress.parse("0000:08:00.0")


def measured(ecc: str) -> Measurements:
    reading = GpuReading(address=GPU, model="A2", driver="580.65.06", ecc=ecc, numbers={})
    return Measurements(gpus=(reading,))


def test_only_a_change_is_told_and_silence_is_none() -> None:
    modes, told = EccModes(), []
    modes.subscribe(lambda gpu: told.append((gpu, modes.of(gpu))))
    for one in (measured("Enabled"), measured("Enabled"), Measurements(), measured("Disabled")):
        modes.measured(one)
    assert told == [(GPU, "Enabled"), (GPU, "Disabled")]


def test_a_gpu_that_tells_no_mode_is_unknown() -> None:
    modes = EccModes()
    modes.measured(measured("Enabled"))
    modes.measured(Measurements())
    assert modes.of(GPU) == "Enabled"
    modes.measured(measured(""))
    assert modes.of(GPU) == ""
