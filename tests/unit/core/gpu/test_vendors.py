"""GPUs of three vendors, told apart by PCI alone."""

from __future__ import annotations

import pytest

from laneway.core.gpu.vendors import Vendor, gpus_of, resource_of, vendor_of, vendor_of_resource
from laneway.core.names import pci_object_name, pinned_resource_name, resource_name_of
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec


@pytest.mark.parametrize(
    ("vendor", "class_code", "whose"),
    [
        ("10de", "030200", Vendor.NVIDIA),
        ("10de", "0300", Vendor.NVIDIA),
        ("1002", "038000", Vendor.AMD),
        ("1002", "120000", Vendor.AMD),
        ("8086", "030000", Vendor.INTEL),
        ("8086", "120000", None),  # a neural processor
        ("10de", "040300", None),
        ("1a03", "030000", None),
        ("", "", None),
    ],
)
def test_whose_a_gpu_is(vendor: str, class_code: str, whose: Vendor | None) -> None:
    assert vendor_of(vendor, class_code) is whose


@pytest.mark.parametrize(
    ("model", "vendor", "driver"),
    [
        ("l40s", Vendor.NVIDIA, "nvidia"),
        ("mi210", Vendor.AMD, "amdgpu"),
        ("flex-170", Vendor.INTEL, "i915"),
    ],
)
def test_what_answers_for_it(model: str, vendor: Vendor, driver: str) -> None:
    host = build(parse_spec(model), "node1")
    gpus = [one for one in gpus_of(scan(host)) if not one.is_vf]
    assert [(str(one.address), one.vendor, one.driver) for one in gpus] == [
        ("0000:17:00.0", vendor, driver),
        ("0000:98:00.0", vendor, driver),
    ]
    host.write("/sys/bus/pci/devices/0000:17:00.0/driver/unbind", "0000:17:00.0")
    unbound, other = [one for one in gpus_of(scan(host)) if not one.is_vf]
    assert (unbound.driver, unbound.for_containers) == ("", False)
    assert other.for_containers


def test_a_virtual_function_belongs_to_its_gpu() -> None:
    host = build(parse_spec("flex-170"), "node1")
    host.write("/sys/bus/pci/devices/0000:17:00.0/sriov_numvfs", "2")
    gpu = PciAddress.parse("0000:17:00.0")
    functions = [one for one in gpus_of(scan(host)) if one.card == gpu]
    assert [one.is_vf for one in functions] == [False, True, True]
    assert [one.has_vfs for one in functions] == [True, False, False]


def test_what_pods_request() -> None:
    assert resource_of(Vendor.INTEL, ("i915",)) == "gpu.intel.com/i915"
    assert resource_of(Vendor.INTEL, ("xe",)) == "gpu.intel.com/xe"
    for vendor in Vendor:
        assert vendor_of_resource(resource_of(vendor)) is vendor
    assert vendor_of_resource("nvidia.com/mig-1g.5gb") is Vendor.NVIDIA
    assert vendor_of_resource("nvidia.com/gpu.shared") is Vendor.NVIDIA
    assert vendor_of_resource("amd.com/cpx_nps4") is Vendor.AMD


def test_what_vms_request_of_the_same_vendors_is_not_for_containers() -> None:
    gpu = PciAddress.parse("0000:17:00.0")
    assert vendor_of_resource("nvidia.com/NVIDIA_A2-4Q") is None
    for model in ("l40s", "mi210", "flex-170"):
        function = scan(build(parse_spec(model), "gpu-1")).function(gpu)
        assert function is not None
        resource = resource_name_of(function)
        pinned = pinned_resource_name(resource, pci_object_name("gpu-1", gpu))
        assert [vendor_of_resource(one) for one in (resource, pinned)] == [None, None]
