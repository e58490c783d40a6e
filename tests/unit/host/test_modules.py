"""Whether a driver is there, or could be loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from laneway.host.modules import driver_availability, kernel_release
from laneway.host.real import RealHost

Files = Callable[[Mapping[str, str]], str]

RELEASE = "6.12.48+deb13-amd64"
KERNEL = {"/proc/sys/kernel/osrelease": f"{RELEASE}\n"}
INDEX = f"/lib/modules/{RELEASE}/modules.dep"
MODULES = (
    "kernel/drivers/vfio/pci/vfio-pci-core.ko.xz: kernel/drivers/vfio/vfio.ko.xz\n"
    "kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/pci/vfio-pci-core.ko.xz\n"
    "kernel/sound/pci/hda/snd-hda-intel.ko: \n"
)


def test_a_driver_on_the_bus_is_ready_though_no_module_is_known(files: Files) -> None:
    host = RealHost(files({"/sys/bus/pci/drivers/vfio-pci/bind": "", **KERNEL}))
    assert driver_availability(host, "vfio-pci") == "ready"


@pytest.mark.parametrize("driver", ["vfio-pci", "vfio_pci", "snd_hda_intel"])
def test_a_driver_in_the_index_of_modules_is_loadable(files: Files, driver: str) -> None:
    host = RealHost(files({INDEX: MODULES, **KERNEL}))
    assert driver_availability(host, driver) == "loadable"


@pytest.mark.parametrize("driver", ["vfio", "pci", "nvme", "", "..", "../pcie", "a/b"])
def test_anything_else_is_missing(files: Files, driver: str) -> None:
    host = RealHost(files({INDEX: MODULES, "/sys/bus/pci/drivers/x/y": "", **KERNEL}))
    assert driver_availability(host, driver) == "missing"


def test_modules_of_another_kernel_do_not_count(files: Files) -> None:
    host = RealHost(files({INDEX: MODULES, "/proc/sys/kernel/osrelease": "6.1.0-40-amd64\n"}))
    assert driver_availability(host, "vfio-pci") == "missing"


@pytest.mark.parametrize("release", ["../../etc", "..", "", "6.1 x"])
def test_an_absurd_release_leads_nowhere(files: Files, release: str) -> None:
    host = RealHost(files({"/proc/sys/kernel/osrelease": release, "/etc/modules.dep": MODULES}))
    assert kernel_release(host) == ""
    assert driver_availability(host, "vfio-pci") == "missing"
