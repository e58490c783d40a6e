"""What is read of a node for one plan, on simulated machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.situation import Situation
from laneway.host.leaving import read_locked, read_users
from laneway.host.real import RealHost
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build
from support.machines import SimulatedMachine, hardware

Files = Callable[[Mapping[str, str]], str]

WORKSTATION = {
    "gpu": PciAddress.parse("0000:08:00.0"),
    "audio": PciAddress.parse("0000:08:00.1"),
    "disk": PciAddress.parse("0000:0a:00.0"),
}


@pytest.fixture
def machine() -> SimulatedMachine:
    return SimulatedMachine(build(Spec("workstation"), "node"))


async def look(machine: SimulatedMachine, folder: Path, *addresses: PciAddress) -> Situation:
    return await observe(hardware(machine, folder), "node", addresses)


async def test_group_group_members_are_looked_at_too(
    machine: SimulatedMachine, tmp_path: Path
) -> None:
    host, audio = machine.host, WORKSTATION["audio"]
    host.write(f"/sys/bus/pci/devices/{audio}/driver_override", "vfio-pci")
    situation = await look(machine, tmp_path, WORKSTATION["gpu"])
    assert situation.overrides == {audio: "vfio-pci"}
    # Other devices are not: a look costs as much as it covers.
    assert (await look(machine, tmp_path, WORKSTATION["disk"])).overrides == {}


async def test_a_card_is_looked_at_with_its_vfs_and_a_vf_with_its_card(
    machine: SimulatedMachine, tmp_path: Path
) -> None:
    host, disk = machine.host, WORKSTATION["disk"]
    home = f"/sys/bus/pci/devices/{disk}"
    host.write(f"{home}/sriov_drivers_autoprobe", "0")
    host.write(f"{home}/sriov_numvfs", "2")
    vf = PciAddress.parse(host.readlink(f"{home}/virtfn1").rpartition("/")[2])
    host.write(f"/sys/bus/pci/devices/{vf}/driver_override", "vfio-pci")
    for asked in (disk, vf):
        situation = await look(machine, tmp_path, asked)
        assert situation.overrides == {vf: "vfio-pci"}
        assert situation.autoprobe[disk] is False


async def test_what_laneway_remembers_is_there(machine: SimulatedMachine, tmp_path: Path) -> None:
    gpu = WORKSTATION["gpu"]
    node = hardware(machine, tmp_path)
    with node.state.lock("test"):
        node.state.remember(gpu, "nouveau")
        node.state.quarantine(WORKSTATION["disk"], "EIO")
    situation = await observe(node, "node", [gpu])
    assert situation.originals == {gpu: "nouveau"}
    assert situation.quarantined == {WORKSTATION["disk"]: "EIO"}


async def test_only_gpus_that_the_driver_has_are_queried_for_their_modes(tmp_path: Path) -> None:
    machine = SimulatedMachine(build(Spec("a100"), "node"))
    gpu = next(f for f in (await look(machine, tmp_path)).inventory.functions if f.sriov_gpu)
    for asked in (gpu.address, gpu.vfs[0]):
        situation = await look(machine, tmp_path, asked)
        assert situation.gpus[gpu.address].mig is False
        assert situation.sriov_manage
    assert (await look(machine, tmp_path)).gpus == {}


@pytest.mark.parametrize("status", [0, 6])
async def test_a_gpu_that_tells_nothing_is_said_to_be_one(tmp_path: Path, status: int) -> None:
    machine = SimulatedMachine(build(Spec("a100"), "node"))
    gpu = next(f for f in (await look(machine, tmp_path)).inventory.functions if f.sriov_gpu)
    machine.host.faults.fail_command("nvidia-smi", status, "Unknown Error")
    situation = await look(machine, tmp_path, gpu.address)
    assert situation.gpus == {}
    assert "Unknown Error" in situation.unasked[gpu.address]


async def test_a_device_that_is_not_there_is_no_error(
    machine: SimulatedMachine, tmp_path: Path
) -> None:
    situation = await look(machine, tmp_path, PciAddress(0, 0xFE, 0, 0))
    assert situation.inventory.functions
    assert situation.holders == {}


# ---- functions that are being taken away --------------------------------------

PF = PciAddress.parse("0000:0a:00.0")
VF = PciAddress.parse("0000:0a:00.3")


def function(address: PciAddress, driver: str, **fields: object) -> PciFunction:
    return PciFunction(
        address=address,
        vendor="8086",
        device="1",
        class_code="020000",
        driver=driver,
        iommu_group=3,
        **fields,  # type: ignore[arg-type]
    )


def in_sysfs(*addresses: PciAddress, offset: str = "2", stride: str = "1") -> dict[str, str]:
    files = {}
    for address in addresses:
        home = f"/sys/devices/pci0000:00/{address}"
        files[f"/sys/bus/pci/devices/{address}"] = f"-> ../../../devices/pci0000:00/{address}"
        files[f"{home}/iommu_group"] = f"-> ../../../kernel/iommu_groups/{address.function}"
    home = f"/sys/devices/pci0000:00/{PF}"
    files |= {f"{home}/sriov_offset": f"{offset}\n", f"{home}/sriov_stride": f"{stride}\n"}
    return files


USER = {"/proc/7/comm": "vm\n", "/proc/7/fd/3": "-> /dev/vfio/3"}
USED = "process 7 (vm) has /dev/vfio/3 open"


def users(
    host: RealHost, *functions: PciFunction
) -> tuple[dict[PciAddress, list[str]], frozenset[PciAddress]]:
    found, locked = read_users(host, Inventory(functions=functions), [PF])
    return {one: [holder.text for holder in all_] for one, all_ in found.items()}, locked


def test_a_pf_that_loses_a_held_vf_is_in_use(files: Files) -> None:
    host = RealHost(files({**in_sysfs(PF, VF), **USER}))
    # No link between them is left, and the VF shows no driver.
    pf, vf = function(PF, "ice", total_vfs=8), function(VF, "")
    assert users(host, pf, vf) == ({PF: [f"it is losing {VF}, but {USED}"]}, {PF})


@pytest.mark.parametrize(
    ("vf", "total", "offset", "stride"),
    [
        (function(VF, "vfio-pci"), 8, "2", "1"),  # it has its driver still
        (function(VF, "", physfn=PF), 8, "2", "1"),  # it is the VF of a card, unbound
        (function(VF, ""), 1, "2", "1"),  # no VF of this card is there
        (function(VF, ""), 8, "2", "2"),
        (function(VF, ""), 8, "", "what"),
        (function(VF, ""), 8, "65536", "65535"),
    ],
)
def test_any_other_function_is_no_vf_that_is_being_lost(
    files: Files, vf: PciFunction, total: int, offset: str, stride: str
) -> None:
    host = RealHost(files({**in_sysfs(PF, VF, offset=offset, stride=stride), **USER}))
    assert users(host, function(PF, "ice", total_vfs=total), vf) == ({}, frozenset())


def test_a_vf_without_a_holder_is_not_being_lost(files: Files) -> None:
    host = RealHost(files(in_sysfs(PF, VF)))
    assert users(host, function(PF, "ice", total_vfs=8), function(VF, "")) == ({}, frozenset())


def on_a_node(address: PciAddress, **links: str) -> dict[str, str]:
    home = f"/sys/devices/pci0000:00/{address}"
    ids = {"vendor": "0x8086\n", "device": "0x1\n", "class": "0x020000\n"}
    attributes = {f"{home}/{name}": value for name, value in ids.items()}
    return attributes | {f"{home}/{name}": f"-> {target}" for name, target in links.items()}


@pytest.mark.parametrize(
    ("links", "locked"),
    [({}, True), ({"physfn": f"../{PF}"}, False), ({"driver": "/sys/bus/pci/drivers/ice"}, False)],
)
def test_a_pf_is_locked_while_it_loses_a_held_vf(
    files: Files, links: dict[str, str], locked: bool
) -> None:
    host = RealHost(
        files(
            {
                **in_sysfs(PF, VF),
                **on_a_node(PF, driver="/sys/bus/pci/drivers/ice"),
                **on_a_node(VF, **links),
                f"/sys/devices/pci0000:00/{PF}/sriov_totalvfs": "8\n",
                "/sys/bus/pci/drivers/ice/bind": "",
                **USER,
            }
        )
    )
    assert read_locked(host, [PF]) == (frozenset({PF}) if locked else frozenset())


def test_what_shows_no_driver_but_has_a_user_is_being_taken_away(files: Files) -> None:
    host = RealHost(files({**in_sysfs(PF), **USER, "/proc/7/fd/3": "-> /dev/vfio/0"}))
    found, locked = users(host, function(PF, ""))
    assert (found, locked) == ({PF: ["process 7 (vm) has /dev/vfio/0 open"]}, {PF})
    assert users(host, function(PF, "vfio-pci"))[1] == frozenset()


async def test_the_reservation_of_what_is_being_taken_away_is_not_read(
    machine: SimulatedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = WORKSTATION["gpu"]
    for address in (gpu, WORKSTATION["audio"]):
        home = f"/sys/bus/pci/devices/{address}"
        machine.host.write(f"{home}/driver_override", "vfio-pci")
        machine.host.write(f"{home}/driver/unbind", str(address))
        machine.host.write("/sys/bus/pci/drivers_probe", str(address))
    group = machine.host.readlink(f"/sys/bus/pci/devices/{gpu}/iommu_group").rpartition("/")[2]
    vm = machine.hold(f"/dev/vfio/{group}")
    removal = machine.write(f"/sys/bus/pci/devices/{gpu}/driver/unbind", str(gpu))
    assert removal.waits()
    read = machine.host.read

    def reading(path: str) -> bytes:
        assert not path.endswith(f"{gpu}/driver_override"), "this would wait, unkillable"
        return read(path)

    monkeypatch.setattr(machine.host, "read", reading)
    situation = await look(machine, tmp_path, gpu)
    assert situation.locked == {gpu}
    assert situation.overrides == {WORKSTATION["audio"]: "vfio-pci"}
    assert f"process {vm.pid} " in situation.holders[gpu][0].text
    vm.release()
    removal.finish()
