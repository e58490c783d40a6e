"""One wish end to end: a patch on a VGPUDevice, and what hardware and objects do about it."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest

from laneway.api import VGPUDevice, find_condition
from laneway.host.scan import scan

VGPU = "node1-000008004"
SIBLING = "node1-000008005"
Q4 = "NVIDIA A2-4Q"


def asks(profile: str) -> dict:
    return {"spec": {"enabled": True, "vGPUTypeName": profile}}


DISABLED = {"spec": {"enabled": False}}


def reason(vgpu: VGPUDevice) -> str:
    condition = find_condition(vgpu.status.conditions, "Ready")
    if condition is None or condition.observed_generation != vgpu.metadata.generation:
        return "not answered yet"
    return condition.reason


def carried(host) -> dict[str, str]:
    return {
        str(vgpu.address): vgpu.configured.type_name
        for vgpu in scan(host).vgpus
        if vgpu.configured is not None
    }


@pytest.fixture
async def a2(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    return host


async def test_enabling_configures_the_vgpu_and_tells_the_siblings(cluster, a2):
    await cluster.patch(VGPUDevice, VGPU, asks(Q4))

    vgpu = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")
    sibling = await cluster.until(
        VGPUDevice, SIBLING, lambda v: "NVIDIA A2-8Q" not in v.status.available_types
    )

    assert carried(a2) == {"0000:08:00.4": Q4}
    assert vgpu.status.vgpu_status == "vGPUConfigured"
    assert vgpu.status.configure_vgpu_type_name == Q4
    assert a2.exists(f"/sys/bus/mdev/devices/{vgpu.status.uuid}")
    assert set(sibling.status.available_types) == {Q4, "NVIDIA A2-4A", "NVIDIA A2-4C"}


async def test_disabling_takes_it_back(cluster, a2):
    await cluster.patch(VGPUDevice, VGPU, asks(Q4))
    await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")

    await cluster.patch(VGPUDevice, VGPU, DISABLED)

    vgpu = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "NotConfigured")
    await cluster.until(VGPUDevice, SIBLING, lambda v: "NVIDIA A2-8Q" in v.status.available_types)
    assert carried(a2) == {}
    assert vgpu.status.uuid == ""
    assert vgpu.status.vgpu_status == ""
    assert vgpu.spec.vgpu_type_name == Q4


async def test_a_profile_can_be_changed_while_enabled(cluster, a2):
    await cluster.patch(VGPUDevice, VGPU, asks(Q4))
    await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")

    await cluster.patch(VGPUDevice, VGPU, asks("NVIDIA A2-8Q"))

    vgpu = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")
    assert vgpu.status.configure_vgpu_type_name == "NVIDIA A2-8Q"
    assert carried(a2) == {"0000:08:00.4": "NVIDIA A2-8Q"}


@pytest.mark.parametrize(
    ("profile", "expected", "words"),
    [
        ("NVIDIA A2-99Q", "ProfileUnknown", "NVIDIA A2-99Q"),
        ("", "ProfileMissing", "spec.vGPUTypeName is empty"),
    ],
)
async def test_an_impossible_profile_ends_in_a_condition(cluster, a2, profile, expected, words):
    await cluster.patch(VGPUDevice, VGPU, asks(profile))

    vgpu = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == expected)

    condition = find_condition(vgpu.status.conditions, "Ready")
    assert condition.status == "False"
    assert words in condition.message
    assert Q4 in condition.message
    assert carried(a2) == {}


async def test_a_size_that_no_longer_fits_is_refused_and_done_once_it_does(cluster, a2):
    await cluster.patch(VGPUDevice, VGPU, asks(Q4))
    await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")

    await cluster.patch(VGPUDevice, SIBLING, asks("NVIDIA A2-8Q"))
    refused = await cluster.until(VGPUDevice, SIBLING, lambda v: reason(v) == "ProfileExhausted")
    await cluster.patch(VGPUDevice, VGPU, DISABLED)
    await cluster.until(VGPUDevice, SIBLING, lambda v: reason(v) == "Configured")

    condition = find_condition(refused.status.conditions, "Ready")
    assert f"1 x {Q4}" in condition.message
    assert carried(a2) == {"0000:08:00.5": "NVIDIA A2-8Q"}


async def test_four_wishes_at_once_fill_the_card_and_the_fifth_is_told(cluster, a2):
    names = [f"node1-00000800{number}" for number in (4, 5, 6, 7)]
    await asyncio.gather(*(cluster.patch(VGPUDevice, name, asks(Q4)) for name in names))
    for name in names:
        await cluster.until(VGPUDevice, name, lambda v: reason(v) == "Configured")

    await cluster.patch(VGPUDevice, "node1-000008010", asks(Q4))

    full = await cluster.until(
        VGPUDevice, "node1-000008010", lambda v: reason(v) == "ProfileExhausted"
    )
    assert f"4 x {Q4}" in find_condition(full.status.conditions, "Ready").message
    assert full.status.available_types == {}
    assert len(carried(a2)) == 4


async def test_a_vgpu_made_behind_our_back_is_reported_and_left_alone(cluster, a2):
    kind = next(k for k in scan(a2).vgpus[0].creatable if k.name == Q4)
    uuid = "d3b5a1d8-9d8f-4f0c-8a52-111111111111"

    a2.write(f"/sys/bus/pci/devices/0000:08:00.4/mdev_supported_types/{kind.id}/create", uuid)

    vgpu = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "ConfiguredElsewhere")
    assert vgpu.status.uuid == uuid
    assert not vgpu.spec.enabled
    assert carried(a2) == {"0000:08:00.4": Q4}

    await cluster.patch(VGPUDevice, VGPU, asks(Q4))
    await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")
    await cluster.patch(VGPUDevice, VGPU, DISABLED)
    await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "NotConfigured")
    assert carried(a2) == {}


async def test_a_restarted_agent_adopts_what_runs_and_finishes_what_was_wished(cluster, simulated):
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.patch(VGPUDevice, VGPU, asks(Q4))
    before = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")
    await cluster.stop_agent(agent)
    await cluster.patch(VGPUDevice, SIBLING, asks(Q4))

    await cluster.start_agent("node1", host)

    await cluster.until(VGPUDevice, SIBLING, lambda v: reason(v) == "Configured")
    after = await cluster.get(VGPUDevice, VGPU)
    assert after.status.uuid == before.status.uuid
    assert carried(host) == {"0000:08:00.4": Q4, "0000:08:00.5": Q4}


async def test_after_a_reboot_every_vgpu_comes_back_with_its_uuid(cluster, simulated):
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await cluster.patch(VGPUDevice, VGPU, asks(Q4))
    before = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")
    await cluster.stop_agent(agent)

    rebooted = simulated("a2", "node1")
    await cluster.start_agent("node1", rebooted)

    after = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")
    assert after.status.uuid == before.status.uuid
    assert rebooted.exists(f"/sys/bus/mdev/devices/{before.status.uuid}")


async def test_vendor_vfio_works_alike(cluster, simulated):
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    vgpu, sibling, *_ = sorted(await cluster.all(VGPUDevice), key=lambda v: v.metadata.name)
    profile = next(name for name in vgpu.status.available_types if name.endswith("-8Q"))
    type_id = vgpu.status.available_types[profile]

    await cluster.patch(VGPUDevice, vgpu.metadata.name, asks(profile))
    done = await cluster.until(VGPUDevice, vgpu.metadata.name, lambda v: reason(v) == "Configured")

    assert done.status.framework == "vendor-vfio"
    assert done.status.uuid == type_id
    path = f"/sys/bus/pci/devices/{vgpu.spec.address}/nvidia/current_vgpu_type"
    assert host.read(path).strip() == type_id.encode()
    rest = await cluster.until(
        VGPUDevice,
        sibling.metadata.name,
        lambda v: len(v.status.available_types) < len(sibling.status.available_types),
    )
    assert all("-8" in name for name in rest.status.available_types)

    await cluster.patch(VGPUDevice, vgpu.metadata.name, DISABLED)
    await cluster.until(VGPUDevice, vgpu.metadata.name, lambda v: reason(v) == "NotConfigured")
    assert host.read(path).strip() == b"0"


class FailingHost:
    """A simulated host whose next writes the kernel refuses."""

    def __init__(self, host, error: int) -> None:
        self._host = host
        self._error = error
        self.failing = threading.Event()

    def __getattr__(self, name: str):
        return getattr(self._host, name)

    def write(self, path: str, data: str) -> None:
        """Refuse while `failing` is set."""
        if self.failing.is_set():
            raise OSError(self._error, "Device or resource busy", path)
        self._host.write(path, data)


async def test_a_refused_write_is_told_and_the_old_state_stays(cluster, simulated):
    host = FailingHost(simulated("a2", "node1"), errno.EBUSY)
    agent = await cluster.start_agent("node1", host)
    await cluster.patch(VGPUDevice, VGPU, asks(Q4))
    await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "Configured")

    host.failing.set()
    await cluster.patch(VGPUDevice, VGPU, DISABLED)
    held = await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "WriteFailed")

    assert "EBUSY" in find_condition(held.status.conditions, "Ready").message
    assert held.status.vgpu_status == "vGPUConfigured"
    assert carried(host) == {"0000:08:00.4": Q4}

    # The tear-down was begun, so a restarted agent goes on with it.
    await cluster.stop_agent(agent)
    host.failing.clear()
    await cluster.start_agent("node1", host)
    await cluster.until(VGPUDevice, VGPU, lambda v: reason(v) == "NotConfigured")
    assert carried(host) == {}
