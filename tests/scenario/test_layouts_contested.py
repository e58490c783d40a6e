"""Layouts that others contest: other layouts, people, machines, and the kill signal."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import pytest

from laneway.api import (
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
)
from laneway.controllers.layouts import stage_writer
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.resource import served
from support.examples import first
from support.gpu_modes import A2 as CARD
from support.gpu_modes import claim
from support.layouts import (
    A2,
    MANAGE,
    Q4,
    Q8,
    QUICK,
    VFS,
    VGPUS,
    carried,
    change,
    events,
    hold,
    make,
    of,
    settled,
    until,
)


@pytest.fixture(autouse=True)
def impatient(cluster: Any) -> None:
    cluster.timing = QUICK


# ----------------------------------------------------------------------------------- who has it


@pytest.mark.realapi
async def test_a_gpu_has_one_owner(cluster: Any, simulated: Any) -> None:
    """Two layouts and single VGPUDevices, as writes that no admission has seen."""
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "first", vgpus=of(A2_4Q=2))
    await make(cluster, "second", vgpus=of(A2_8Q=1))

    entry = await until(cluster, "second", "Refused")
    await settled(cluster, "first", "Done")
    assert (entry.reason, entry.final) == ("OwnedByLayout", True)
    assert "first" in entry.message
    assert carried(host) == {Q4: 2}
    await cluster.until(SRIOVGPUDevice, A2, lambda gpu: gpu.status.owner == "VGPULayout first")
    await cluster.until(VGPUDevice, VGPUS[9], lambda v: v.status.owner == "VGPULayout first")

    await cluster.client.delete(served(VGPULayout), "first")
    entry = await until(cluster, "second", "Refused", reason="OwnedByVgpuDevices")
    assert (entry.owner, carried(host)) == ("VGPUDevices", {Q4: 2})
    await cluster.until(SRIOVGPUDevice, A2, lambda gpu: gpu.status.owner == "VGPUDevices")

    await change(cluster, "second", takeOver=True)
    assert (await settled(cluster, "second", "Done")).status.gpus[0].owner == "VGPULayout second"
    assert carried(host) == {Q8: 1}


@pytest.mark.realapi
async def test_a_layout_that_is_refused_is_not_applied_later(cluster: Any, simulated: Any) -> None:
    # Only the end of the process that is in the way is a reason to look again.
    cluster.timing = QUICK._replace(retry=1000.0)
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=1))
    await settled(cluster, "all", "Done")
    holder = hold(host, VFS[0])
    await change(cluster, "all", vgpus=of(A2_8Q=1))
    entry = await until(cluster, "all", "Refused", reason="DeviceInUse")
    assert entry.final
    assert "spec.whenPossible" in entry.message

    holder.release()
    entry = await until(cluster, "all", "Refused", reason="ApprovalRequired")
    assert (entry.owner, entry.final) == ("VGPULayout all", True)
    await cluster.stop_agent(agent)
    agent = await cluster.start_agent("node1", host)
    await cluster.quiet(agent)
    assert (await until(cluster, "all", "Refused")).reason == "ApprovalRequired"
    assert carried(host) == {Q4: 1}

    await change(cluster, "all", whenPossible=True)
    await settled(cluster, "all", "Done")
    assert carried(host) == {Q8: 1}
    holder = hold(host, VFS[0])
    await change(cluster, "all", vgpus=of(A2_4Q=2))
    assert not (await until(cluster, "all", "Refused", reason="DeviceInUse")).final
    holder.release()
    await settled(cluster, "all", "Done")


@pytest.mark.slow
async def test_a_vgpu_that_is_in_use_is_looked_at_again_once_the_process_has_ended(
    cluster: Any, simulated: Any
) -> None:
    cluster.timing = QUICK._replace(retry=1000.0)
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await cluster.ask(VGPUS[0], Q4)
    await cluster.answer(VGPUS[0], "Configured")
    holder = hold(host, VFS[0])
    await cluster.disable(VGPUS[0])
    await cluster.answer(VGPUS[0], "DeviceInUse")

    holder.release()

    await cluster.answer(VGPUS[0], "NotConfigured")


@pytest.mark.slow
async def test_a_gpu_that_is_claimed_whole_is_not_shared_by_a_layout_either(
    cluster: Any, bare: Any
) -> None:
    host = bare("a2")
    await cluster.start_agent("node1", host)
    await cluster.answer(A2, "Disabled", SRIOVGPUDevice)
    await cluster.client.create(served(PCIDeviceClaim), claim(CARD))
    await cluster.answer(A2, "GpuClaimed", SRIOVGPUDevice)

    await make(cluster, "all", vgpus=of(A2_4Q=1))

    entry = await until(cluster, "all", "Refused", reason="GpuClaimed")
    assert f"kubectl delete pcideviceclaim {A2}" in entry.message
    assert entry.final
    await cluster.client.delete(served(PCIDeviceClaim), A2)
    await until(cluster, "all", "Refused", reason="ApprovalRequired")
    assert not any(one.vfs for one in scan(host).functions)


@pytest.mark.slow
@pytest.mark.realapi
async def test_deleting_a_layout_changes_nothing(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    await cluster.quiet(agent)
    before = {v.metadata.name: v.spec for v in await cluster.all(VGPUDevice)}

    await cluster.client.delete(served(VGPULayout), "all")
    await cluster.quiet(agent)

    assert carried(host) == {Q4: 2}
    assert {v.metadata.name: v.spec for v in await cluster.all(VGPUDevice)} == before
    await cluster.disable(VGPUS[0])
    await cluster.answer(VGPUS[0], "NotConfigured")


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_desired_state_that_is_changed_behind_a_layout_is_put_back(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")

    changed = await cluster.disable(VGPUS[1])
    await cluster.until(
        VGPUDevice,
        VGPUS[1],
        lambda v: v.spec.enabled and v.metadata.generation > changed.metadata.generation,
    )
    # Only what is changed while the layout is done is put back; before, it is part of the way.
    await cluster.answer(VGPUS[1], "Configured")
    await cluster.quiet(agent)
    await settled(cluster, "all", "Done")
    await cluster.ask(VGPUS[9], Q4)
    await cluster.answer(VGPUS[9], "NotConfigured")

    await settled(cluster, "all", "Done")
    assert carried(host) == {Q4: 2}
    await cluster.quiet(agent)
    for name in (VGPUS[1], VGPUS[9]):
        back = [words for reason, words in await events(cluster, name) if reason == "Reverted"]
        assert back
        assert "VGPULayout all" in back[0]


@pytest.mark.slow
@pytest.mark.realapi
async def test_changed_answers_are_put_right(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    done = await settled(cluster, "all", "Done")

    nothing = {"status": {"gpus": None, "conditions": None, "summary": "none of your business"}}
    await cluster.patch(VGPULayout, "all", nothing, "status")

    again = await settled(cluster, "all", "Done")
    assert again.status.summary == "1 of 1"
    assert list(again.status.gpus) == list(done.status.gpus)


@pytest.mark.slow
async def test_after_a_reboot_a_layout_waits_for_what_comes_back_by_itself(
    cluster: Any, simulated: Any
) -> None:
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await make(cluster, "all", mode="MixedSize", vgpus=of(A2_8Q=1, A2_4Q=1))
    await settled(cluster, "all", "Done")
    await cluster.quiet(agent)
    before = {v.metadata.name: v.metadata.generation for v in await cluster.all(VGPUDevice)}
    await cluster.stop_agent(agent)
    rebooted = simulated("a2", "node1")
    rebooted.call([MANAGE, "-d", "0000:08:00.0"])

    agent = await cluster.start_agent("node1", rebooted)

    await cluster.until(VGPUDevice, VGPUS[0], lambda v: v.status.configure_vgpu_type_name)
    await cluster.until(VGPUDevice, VGPUS[1], lambda v: v.status.configure_vgpu_type_name)
    await cluster.quiet(agent)
    await settled(cluster, "all", "Done")
    assert carried(rebooted) == {Q8: 1, Q4: 1}
    desired = {v.metadata.name: v.metadata.generation for v in await cluster.all(VGPUDevice)}
    assert [desired[name] for name in VGPUS[:2]] == [before[name] for name in VGPUS[:2]]


@pytest.mark.slow
async def test_any_series_of_layouts_ends_as_asked_or_refused(cluster: Any, simulated: Any) -> None:
    """Held vGPUs never change, and objects and hardware agree after each."""
    chance = random.Random(5)
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=1))
    holders: dict[str, Any] = {}
    seen: set[str] = set()
    for _ in range(20):
        sizes = chance.sample(("1Q", "2Q", "4Q", "8Q", "4C"), k=chance.choice((0, 1, 1, 2)))
        vgpus = [{"profile": f"NVIDIA A2-{size}", "count": chance.randint(1, 5)} for size in sizes]
        mode = chance.choice(("", "SameSize", "MixedSize", "Passthrough" if not vgpus else ""))
        layout = await change(cluster, "all", vgpus=vgpus, mode=mode)
        there = {str(v.address): v.configured for v in scan(host).vgpus if v.configured}
        held = {vf: there[vf] for vf in holders}

        generation = layout.metadata.generation
        layout = await cluster.until(
            VGPULayout,
            "all",
            lambda one, generation=generation: (
                cluster.reason(one) in ("Done", "Refused")
                and one.status.observed_generation == generation
            ),
        )

        await cluster.quiet(agent)
        seen.add(cluster.reason(layout))
        after = {str(v.address): v.configured for v in scan(host).vgpus if v.configured}
        assert {vf: after[vf] for vf in holders} == held
        asked = {one["profile"]: one["count"] for one in vgpus}
        if cluster.reason(layout) == "Done":
            assert carried(host) == asked
            enabled = [v for v in await cluster.all(VGPUDevice) if v.spec.enabled]
            assert {v.spec.address: v.spec.vgpu_type_name for v in enabled} == {
                vf: vgpu.type_name for vf, vgpu in after.items()
            }
        for vf in [vf for vf in holders if chance.random() < 0.5]:
            holders.pop(vf).release()
        for vf in [vf for vf in after if vf not in holders and chance.random() < 0.15]:
            holders[vf] = hold(host, vf)
    assert seen == {"Done", "Refused"}


# -------------------------------------------------------------------------------- what goes wrong


@pytest.mark.slow
async def test_a_vgpu_that_another_made_is_left_alone_and_named(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=1))
    await settled(cluster, "all", "Done")
    kind = next(k.id for v in scan(host).vgpus for k in v.creatable if k.name == Q4)
    uuid = "00000000-0000-4000-8000-000000000001"

    host.write(f"/sys/bus/pci/devices/{VFS[3]}/mdev_supported_types/{kind}/create", uuid)

    entry = await until(cluster, "all", "InProgress", reason="UnmanagedVgpu")
    assert VGPUS[3] in entry.message
    assert carried(host) == {Q4: 2}
    await change(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    assert (await cluster.get(VGPUDevice, VGPUS[3])).spec.enabled


@pytest.mark.slow
async def test_what_a_lower_object_is_refused_with_reaches_the_layout(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("a2", "node1")
    host.call([MANAGE, "-d", "0000:08:00.0"])
    await cluster.start_agent("node1", host)
    host.faults.fail_command(MANAGE, 3, "Unable to allocate MSI-X", times=3)

    await make(cluster, "all", vgpus=of(A2_4Q=2))

    entry = await until(cluster, "all", "InProgress", reason="WriteFailed")
    assert "Unable to allocate MSI-X" in entry.message
    assert f"SRIOVGPUDevice {A2}: " in entry.message
    host.faults.fail_command(MANAGE, 0, "", times=0)
    await settled(cluster, "all", "Done")


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A trap that kills an agent right after so many writes of its layout controller."""

    class Trap:
        """Set it with the agent and the number of the last write that it lives to make."""

        agent: Any = None
        left = 0

    trap, real = Trap(), Client.call
    desired_states = re.compile(r"/((vgpudevices|sriovgpudevices)/[^/]+|vgpulayouts/[^/]+/status)$")

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        watched = trap.agent is not None and method == "PATCH" and desired_states.search(path)
        if watched and trap.left == 0:
            await asyncio.Event().wait()  # Dead men write nothing.
        answer = await real(self, method, path, *args)
        if watched:
            trap.left -= 1
            if trap.left == 0:
                trap.agent.task.cancel()
        return answer

    monkeypatch.setattr(Client, "call", call)
    return trap


@pytest.mark.slow
async def test_an_agent_that_is_killed_after_any_write_goes_on_where_it_was(
    cluster: Any, simulated: Any, killing: Any
) -> None:
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    desired_states = [
        ({"mode": "MixedSize", "vgpus": of(A2_8Q=1, A2_4Q=1)}, {Q8: 1, Q4: 1}),
        ({"mode": "", "vgpus": of(A2_4Q=2)}, {Q4: 2}),
    ]

    for number in range(1, 9):
        spec, expected = desired_states[number % 2]
        killing.agent, killing.left = agent, number
        await change(cluster, "all", **spec)
        await cluster.died(agent)
        killing.agent = None
        agent = await cluster.start_agent("node1", host)

        await settled(cluster, "all", "Done")
        assert carried(host) == expected
        enabled = [v for v in await cluster.all(VGPUDevice) if v.spec.enabled]
        assert len(enabled) == 2


@pytest.mark.slow
@pytest.mark.realapi
async def test_at_rest_there_are_no_requests(
    cluster: Any, simulated: Any, requests: list[tuple[str, str]]
) -> None:
    hosts = {name: simulated("a2", name) for name in ("node1", "node2")}
    agents = [await cluster.start_agent(name, host) for name, host in hosts.items()]
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    hold(hosts["node2"], VFS[0])
    await change(cluster, "all", vgpus=of(A2_8Q=1))
    await until(cluster, "all", "Done")
    await until(cluster, "all", "Refused", "node2-000008000")
    await settled(cluster, "all", "Refused")
    for agent in agents:
        await cluster.quiet(agent)

    requests.clear()
    for agent in agents:
        await agent.observer.rescan()
        await cluster.quiet(agent)

    assert requests == []


@pytest.mark.slow
@pytest.mark.parametrize("spec", first({}, {"dryRun": True}, {"mode": "Passthrough"}))
async def test_nothing_is_read_as_long_as_nothing_changes(
    cluster: Any, simulated: Any, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any]
) -> None:
    cluster.timing = QUICK._replace(retry=1000.0)
    looks: list[str] = []
    observe = stage_writer.observe

    async def counted(hardware: Any, node: str, *args: Any) -> Any:
        looks.append(node)
        return await observe(hardware, node, *args)

    monkeypatch.setattr(stage_writer, "observe", counted)
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await make(cluster, "all", vgpus=of(A2_4Q=2), **spec)
    final = "DryRun" if "dryRun" in spec else "Refused" if "mode" in spec else "Done"
    await settled(cluster, "all", final)
    await cluster.quiet(agent)
    before = len(looks)

    await agent.observer.rescan()
    await cluster.quiet(agent)

    assert len(looks) == before
