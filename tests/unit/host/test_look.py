"""A look at what events concern says the same as a scan of the whole host, whatever happens."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.inventory import Inventory
from laneway.core.kernel.uevent import OVERFLOW, Uevent
from laneway.core.pci import PciAddress
from laneway.core.programs import SRIOV_MANAGE
from laneway.host.look import look
from laneway.host.scan import scan
from laneway.host.scope import concerned, matters
from laneway.host.vgpu import look_at_card, read_again
from laneway.sim.dump import Block
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.examples import many
from support.host_lives import Life, Turn, turns

MODELS = ("a2", "l40s", "a100", "workstation", "plain")


class Heard:
    """A host's events, and the inventory to which a look for each of them leads."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.events: list[Uevent] = []
        host._listeners.append(self)  # type: ignore[arg-type]
        self.known = scan(host)
        self.quick = 0

    def put(self, event: Uevent) -> None:
        self.events.append(event)

    def look(self) -> Inventory:
        """What an observer does with the events, and with the silent changes of vGPUs."""
        events, self.events = [one for one in self.events if matters(one)], []
        functions = {concerned(event) for event in events}
        if None in functions:
            self.known = scan(self.host)
        elif functions:
            self.quick += 1
            self.known = look(self.host, self.known, {one for one in functions if one})
        for gpu, vgpus in self.known.by_gpu().items():
            if read_again(self.host, vgpus) != vgpus:
                self.known = look_at_card(self.host, self.known, gpu) or scan(self.host)
        return self.known


class Hotplug:
    """Devices that are pulled out and put back, each by what a number chooses."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.out: list[list[Block]] = []

    def __call__(self, number: int) -> None:
        if number % 3 == 0 and self.out:
            self.host.plug(self.out.pop(number % len(self.out)))
            return
        inventory = scan(self.host)
        homes = [f"/sys/bus/pci/devices/{one.address}" for one in inventory.functions]
        homes += [f"/sys/bus/usb/devices/{one.port}" for one in inventory.usb]
        homes += [f"/sys/class/net/{one.name}" for one in inventory.interfaces]
        home = homes[number % len(homes)]
        self.out.append(self.host.unplug(home))


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=many(20))
@given(story=st.lists(st.one_of(turns, st.integers(0, 400)), min_size=1, max_size=8))
def test_whatever_happens(
    model: str, story: list[Turn | int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(_live(model, story, tmp_path_factory.mktemp("life")))


async def _live(model: str, story: list[Turn | int], folder: Path) -> None:
    life = Life(model, str(folder))
    heard, hotplug = Heard(life.host), Hotplug(life.host)
    for turn in story:
        if isinstance(turn, int):
            hotplug(turn)
        else:
            # No VM comes: what the driver tells of a vGPU that is opened has no event.
            await life.live(turn._replace(comes=-1, goes=-1, joins=0), fault=False)
        assert heard.look() == scan(life.host), turn


@pytest.mark.parametrize("model", ["a2", "l40s", "workstation"])
def test_each_device_goes_and_comes_back(model: str) -> None:
    host = build(parse_spec(model), "node1")
    heard, looks = Heard(host), 0
    for function in scan(host).functions:
        home = f"/sys/bus/pci/devices/{function.address}"
        if not host.exists(home) or function.physfn:
            continue  # It has gone with its bridge, or goes with its PF.
        blocks = host.unplug(home)
        assert heard.look() == scan(host), function.address
        host.plug(blocks)
        assert heard.look() == scan(host), function.address
        looks += 2
    assert heard.quick == looks


def test_a_function_that_came_without_an_event_is_found_with_any_other() -> None:
    host = build(parse_spec("l40s"), "node1")
    gpu, other = _gpu(host), scan(host).functions[0].address
    blocks = host.unplug(f"/sys/bus/pci/devices/{gpu}")
    known = scan(host)
    host.plug(blocks)

    assert look(host, known, {other}) == scan(host)
    assert look(host, scan(host), {other}) == scan(host)


def test_a_gpu_changes_with_its_virtual_functions() -> None:
    host = build(parse_spec("l40s"), "node1")
    gpu, known = _gpu(host), scan(host)
    first = known.vgpus[0].address
    host.call((SRIOV_MANAGE, "-d", str(gpu)))
    without = scan(host)

    assert look(host, known, {first}) == without
    host.call((SRIOV_MANAGE, "-e", str(gpu)))
    assert look(host, without, {first}) == scan(host)


@pytest.mark.parametrize("odd", [b"what?\n", errno.EIO])
def test_what_is_odd_about_a_function_is_told_as_a_scan_tells_it(odd: bytes | int) -> None:
    host = Odd(build(parse_spec("l40s"), "node1"))
    functions = scan(host).functions  # type: ignore[arg-type]
    one, left_out = functions[3].address, functions[5].address
    host.odd = {f"{one}/numa_node": odd, f"{left_out}/uevent": b"\n"}
    host.odd |= {f"{left_out}/{name}": odd for name in ("modalias", "vendor")}
    known = scan(host)  # type: ignore[arg-type]
    assert {error.device for error in known.errors} == {str(one), str(left_out)}

    for changed in ({one}, {functions[7].address}, set[PciAddress]()):
        assert look(host, known, changed) == known  # type: ignore[arg-type]
    host.odd.clear()
    assert look(host, known, {one}) == scan(host)  # type: ignore[arg-type]


def test_only_what_can_have_changed_is_read() -> None:
    host = Odd(build(parse_spec("l40s"), "node1"))
    known = scan(host)  # type: ignore[arg-type]
    gpu = known.vgpus[0].parent
    vfs = {str(vgpu.address) for vgpu in known.vgpus_of(gpu)}
    bridge = next(one.upstream for one in known.functions if one.address == gpu)

    def read_for(address: PciAddress) -> set[str]:
        host.read_of.clear()
        look(host, known, {address})  # type: ignore[arg-type]
        return host.read_of & {str(one.address) for one in known.functions}

    disk = next(one for one in known.functions if one.class_code.startswith("0108"))
    assert read_for(disk.address) == {str(disk.address), str(disk.upstream)}
    assert read_for(gpu) == {str(gpu), str(bridge), *vfs}
    # Each function with a vGPU tells of the profiles of the others; the bridge is above them too.
    assert read_for(known.vgpus[0].address) == {str(gpu), str(bridge), *vfs}


def test_the_members_of_a_group_are_read_together() -> None:
    host = Odd(build(parse_spec("workstation"), "node1"))
    known = scan(host)  # type: ignore[arg-type]
    groups: dict[int | None, list[PciAddress]] = {}
    for one in known.functions:
        groups.setdefault(one.iommu_group, []).append(one.address)
    members = max((found for group, found in groups.items() if group is not None), key=len)
    assert len(members) > 1
    host.read_of.clear()
    look(host, known, {members[0]})  # type: ignore[arg-type]

    assert {str(member) for member in members} <= host.read_of


PATH = "/devices/pci0000:00/0000:00:03.0/0000:08:00.0"
DISK = PciAddress.parse("0000:08:00.0")


@pytest.mark.parametrize(
    ("event", "function"),
    [
        (Uevent("bind", PATH, {"SUBSYSTEM": "pci"}), DISK),
        (Uevent("add", f"{PATH}/net/eth0", {"SUBSYSTEM": "net"}), DISK),
        (Uevent("remove", f"{PATH}/nvme/nvme0/nvme0n1", {"SUBSYSTEM": "block"}), DISK),
        (OVERFLOW, None),
        (Uevent("add", "/devices/platform/usb1/1-1", {"SUBSYSTEM": "usb"}), None),
        (Uevent("add", f"{PATH}/iommu/ivhd0", {"SUBSYSTEM": "iommu"}), None),
    ],
)
def test_an_event_that_names_no_function_takes_a_whole_scan(
    event: Uevent, function: PciAddress | None
) -> None:
    assert matters(event)
    assert concerned(event) == function


class Odd:
    """A host of which a test says what some attributes read."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.odd: dict[str, bytes | int] = {}
        self.read_of: set[str] = set()
        """Devices of which attributes were read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def read(self, path: str) -> bytes:
        device, _, attribute = path.rpartition("/")
        if path.startswith("/sys/"):
            self.read_of.add(device.rpartition("/")[2])
        found = self.odd.get(f"{device.rpartition('/')[2]}/{attribute}")
        if isinstance(found, int):
            raise OSError(found, "Input/output error")
        return self.host.read(path) if found is None else found


def _gpu(host: SimulatedHost) -> PciAddress:
    return scan(host).vgpus[0].parent
