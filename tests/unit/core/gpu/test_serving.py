"""On which nodes the device plugins of the vendors run, and what keeps them away."""

from __future__ import annotations

import pytest

from laneway.core.gpu.serving import Serving, serving
from laneway.core.gpu.vendors import Vendor
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

FIRST, SECOND = "0000:17:00.0", "0000:98:00.0"


def decided(host: SimulatedHost, *containers: str) -> Serving:
    return serving(scan(host), lambda card: str(card) in containers)


def reasons(served: Serving) -> list[str]:
    return [one.reason for one in served.problems]


def to_vfio(host: SimulatedHost, address: str) -> None:
    device = f"/sys/bus/pci/devices/{address}"
    host.write(f"{device}/driver/unbind", address)
    host.write(f"{device}/driver_override", "vfio-pci")
    host.write("/sys/bus/pci/drivers_probe", address)


@pytest.mark.parametrize(("model", "vendor"), [("mi210", Vendor.AMD), ("flex-170", Vendor.INTEL)])
def test_a_plugin_runs_where_all_that_it_sees_serves_containers(model: str, vendor: Vendor) -> None:
    host = build(parse_spec(model), "node1")
    assert decided(host) == Serving(frozenset(), (), ())
    assert decided(host, FIRST, SECOND).vendors == {vendor}

    mixed = decided(host, FIRST)
    assert (mixed.vendors, reasons(mixed)) == (frozenset(), ["ContainerGpusMixed"])
    assert SECOND in mixed.problems[0].words

    to_vfio(host, SECOND)
    served = decided(host, FIRST)
    assert (served.vendors, [str(one.address) for one in served.served]) == ({vendor}, [FIRST])
    assert not served.problems


def test_functions_for_vms_on_the_vendors_driver_are_seen_too() -> None:
    host = build(parse_spec("flex-170"), "node1")
    host.write(f"/sys/bus/pci/devices/{SECOND}/sriov_numvfs", "2")
    to_vfio(host, SECOND)
    assert reasons(decided(host, FIRST)) == ["ContainerGpusMixed"]


def test_a_gpu_without_its_driver_is_not_served() -> None:
    host = build(parse_spec("mi210"), "node1")
    to_vfio(host, SECOND)
    host.write(f"/sys/bus/pci/devices/{FIRST}/driver/unbind", FIRST)
    served = decided(host, FIRST, SECOND)
    assert (served.vendors, reasons(served)) == (frozenset(), ["ContainerGpuUnserved"] * 2)
    first, second = (one.words for one in served.problems)
    assert "no driver is bound to it. It needs driver amdgpu." in first
    assert "vfio-pci" in second


def test_a_shared_gpu_is_not_served() -> None:
    served = decided(build(parse_spec("l40s"), "node1"), FIRST, SECOND)
    assert (served.vendors, reasons(served)) == (frozenset(), ["ContainerGpuUnserved"] * 2)
