"""What virt-launcher makes of its environment."""

from __future__ import annotations

import pytest

from laneway.kube.kubevirt import DeviceRequest, Devices, Display, RamFB, VirtualGpuOptions
from laneway.simcluster.kubevirt.launcher import LauncherError, device_paths, variable

A, B = "0000:08:00.4", "0000:08:00.5"
UUID = "c1b3f5e2-0f3c-4a55-8f6e-2f8b6c1f3a77"
PCI = "/sys/bus/pci/devices"


def asked(*names: str) -> tuple[DeviceRequest, ...]:
    return tuple(DeviceRequest(name=f"d{n}", device_name=name) for n, name in enumerate(names))


def paths(environment: dict[str, str], *host: str, gpus: tuple[str, ...] = ()) -> tuple[str, ...]:
    return device_paths(environment, Devices(host_devices=asked(*host), gpus=asked(*gpus)))


def test_variables_bear_the_names_that_the_contract_has() -> None:
    name = variable("PCI_RESOURCE", "nvidia.com/NVIDIA_A2-2Q")
    assert name == "PCI_RESOURCE_NVIDIA_COM_NVIDIA_A2-2Q"


def test_one_address_is_taken_for_every_device() -> None:
    environment = {
        "PCI_RESOURCE_A_COM_X": f"{A},{B}",
        "MDEV_PCI_RESOURCE_A_COM_Y": UUID,
        "USB_RESOURCE_KUBEVIRT_IO_Z": "3:11",
    }
    assert paths(environment, "a.com/x", "kubevirt.io/z", "a.com/x", gpus=("a.com/y",)) == (
        f"{PCI}/{A}",
        f"{PCI}/{B}",
        "/dev/bus/usb/003/011",
        f"/sys/bus/mdev/devices/{UUID}",
    )


def test_group_members_that_were_not_requested_stay_where_they_are() -> None:
    assert paths({"PCI_RESOURCE_A_COM_X": f"{A},{B},"}, "a.com/x") == (f"{PCI}/{A}",)


def test_an_address_that_two_resources_name_is_taken_once() -> None:
    environment = {"PCI_RESOURCE_A_COM_X": A, "PCI_RESOURCE_A_COM_Y": f"{A},{B}"}
    assert paths(environment, "a.com/x", "a.com/y") == (f"{PCI}/{A}", f"{PCI}/{B}")


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, "the number of generic HostDevice/s do not match"),
        ({"PCI_RESOURCE_A_COM_X": A}, "the number of generic HostDevice/s do not match"),
        ({"PCI_RESOURCE_A_COM_X": ""}, "the number of generic HostDevice/s do not match"),
        ({"PCI_RESOURCE_A_COM_X": "../../etc,b"}, "failed to parse the address '../../etc'"),
        ({"MDEV_PCI_RESOURCE_A_COM_X": "/,b"}, "failed to parse the address '/'"),
        ({"USB_RESOURCE_A_COM_X": "1:../2,b"}, "failed to parse the USB address '1:../2'"),
    ],
)
def test_too_few_addresses_and_bad_ones_fail_the_vm(environment: dict[str, str], text: str) -> None:
    with pytest.raises(LauncherError, match=text.replace(".", r"\.")):
        paths(environment, "a.com/x", "a.com/x")


def test_gpus_have_words_of_their_own_and_no_device_is_used_twice() -> None:
    with pytest.raises(LauncherError, match="the number of GPU/s do not match"):
        paths({}, gpus=("a.com/x",))
    with pytest.raises(LauncherError, match="already in use by this domain"):
        paths({"PCI_RESOURCE_A_COM_X": A}, "a.com/x", gpus=("a.com/x",))


def test_a_device_of_each_kind_for_one_resource_is_a_name_twice() -> None:
    """Each kind is drawn for all entries of a list, from the first one on."""
    environment = {"PCI_RESOURCE_A_COM_X": A, "MDEV_PCI_RESOURCE_A_COM_X": UUID}
    with pytest.raises(LauncherError, match="non unique alias detected: ua-gpu-d0"):
        paths(environment, gpus=("a.com/x", "a.com/x"))
    with pytest.raises(LauncherError, match="non unique alias detected: ua-hostdevice-d0"):
        paths(environment, "a.com/x", "a.com/x")


def shown(*displays: Display | None) -> Devices:
    return Devices(
        gpus=[
            DeviceRequest(
                name=f"d{n}",
                device_name="a.com/x",
                virtual_gpu_options=display and VirtualGpuOptions(display=display),
            )
            for n, display in enumerate(displays)
        ]
    )


ON, OFF = Display(enabled=True), Display(enabled=False)
BARE = Display(ram_fb=RamFB(enabled=False))


@pytest.mark.parametrize(
    ("variable", "displays", "starts"),
    [
        ("MDEV_PCI_RESOURCE", (None, None), True),
        ("MDEV_PCI_RESOURCE", (Display(), None), True),
        ("MDEV_PCI_RESOURCE", (Display(), BARE), True),
        ("MDEV_PCI_RESOURCE", (Display(), Display()), False),
        ("MDEV_PCI_RESOURCE", (ON, OFF), True),
        ("PCI_RESOURCE", (Display(), Display()), True),
        ("PCI_RESOURCE", (ON, ON), False),
    ],
)
def test_one_device_can_have_ramfb(
    variable: str, displays: tuple[Display | None, ...], starts: bool
) -> None:
    values = f"{A},{B}" if variable == "PCI_RESOURCE" else f"{UUID},{UUID[:-1]}8"
    environment = {f"{variable}_A_COM_X": values}
    if starts:
        assert len(device_paths(environment, shown(*displays))) == 2
    else:
        with pytest.raises(LauncherError, match="Only one vgpu device can have 'ramfb' enabled"):
            device_paths(environment, shown(*displays))


def test_devices_of_resource_claims_are_not_looked_for() -> None:
    devices = Devices(host_devices=(DeviceRequest(name="dra"),))
    assert device_paths({}, devices) == ()
