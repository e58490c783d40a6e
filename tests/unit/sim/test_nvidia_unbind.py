"""What goes with a simulated GPU that is taken from its driver."""

from __future__ import annotations

import pytest

from laneway.sim.spec import Spec, build

GPUS = {"l40s": "0000:17:00.0", "a2": "0000:08:00.0"}


@pytest.mark.parametrize("model", GPUS)
def test_a_gpu_that_leaves_its_driver_takes_its_functions_along(model: str) -> None:
    host = build(Spec(model=model), "node")
    home = f"/sys/bus/pci/devices/{GPUS[model]}"
    before = [name for name in host.names(home) if name.startswith("virtfn")]

    host.write("/sys/bus/pci/drivers/nvidia/unbind", GPUS[model])

    assert before
    assert [name for name in host.names(home) if name.startswith("virtfn")] == []
    assert host.read(f"{home}/sriov_numvfs") == b"0\n"
    host.write("/sys/bus/pci/drivers_probe", GPUS[model])
    assert host.readlink(f"{home}/driver").endswith("/nvidia")
