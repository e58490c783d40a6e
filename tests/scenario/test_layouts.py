"""Layouts from the object to the hardware: real agents, simulated nodes, one API server."""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import Any

import pytest

from laneway.api import (
    CoreNode,
    MigConfiguration,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
)
from laneway.controllers import acting
from laneway.controllers.layouts import controller
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.resource import served

A2 = "node1-000008000"
VFS = [str(PciAddress(0, 8, n // 8, n % 8)) for n in range(4, 20)]
VGPUS = [f"node1-000008{vf[8:10]}{vf[11]}" for vf in VFS]
Q1, Q4, Q8 = (f"NVIDIA A2-{size}Q" for size in (1, 4, 8))
MANAGE = "/usr/lib/nvidia/sriov-manage"


async def make(cluster: Any, name: str, **spec: Any) -> Any:
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPULayout",
        "metadata": {"name": name},
        "spec": spec,
    }
    return await cluster.client.create(served(VGPULayout), body)


def of(**counts: int) -> list[dict[str, Any]]:
    """`A2_4Q=2` are two vGPUs of NVIDIA A2-4Q."""
    return [
        {"profile": f"NVIDIA {name.replace('_', '-')}", "count": count}
        for name, count in counts.items()
    ]


async def change(cluster: Any, name: str, **spec: Any) -> Any:
    return await cluster.patch(VGPULayout, name, {"spec": spec})


async def until(cluster: Any, name: str, state: str, gpu: str = A2, reason: str = "") -> Any:
    """Wait until the present wish of a layout has this answer for a GPU; its entry."""

    def entry(layout: Any) -> Any:
        return next(
            (
                one
                for one in (layout.status.gpus if layout else ())
                if (one.name, one.state) == (gpu, state)
                and reason in ("", one.reason)
                and one.observed_generation == layout.metadata.generation
            ),
            None,
        )

    return entry(await cluster.until(VGPULayout, name, lambda layout: entry(layout) is not None))


async def settled(cluster: Any, name: str, reason: str) -> Any:
    return await cluster.answer(name, reason, VGPULayout)


def carried(host: Any, gpu: str = "") -> dict[str, int]:
    """The vGPUs of a host, or of one GPU, by profile."""
    found: dict[str, int] = {}
    for vgpu in scan(host).vgpus:
        if vgpu.configured and str(vgpu.parent).startswith(gpu):
            found[vgpu.configured.type_name] = found.get(vgpu.configured.type_name, 0) + 1
    return found


async def events(cluster: Any, name: str) -> list[tuple[str, str]]:
    raw = json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))
    return [
        (item["reason"], item["message"])
        for item in raw["items"]
        if item["involvedObject"]["name"] == name
    ]


def hold(host: Any, vf: str) -> Any:
    """A virtual machine that has the vGPU of a function open."""
    home = f"/sys/bus/pci/devices/{vf}"
    uuid = next(str(v.configured.uuid) for v in scan(host).vgpus if str(v.address) == vf)
    group = host.resolve(f"{home}/{uuid}/iommu_group").rpartition("/")[2]
    return host.hold(f"/dev/vfio/{group}", "qemu-system-x86")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that look again at once for what tells nobody that it changed."""
    monkeypatch.setattr(acting, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(controller, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(controller, "SUM_SECONDS", 0.01)
    monkeypatch.setattr(controller, "PUT_BACK_SECONDS", 0.01)


# ---------------------------------------------------------------------------------- the whole way


@pytest.mark.realapi
async def test_sixteen_vgpus_are_one_wish(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    host.call([MANAGE, "-d", "0000:08:00.0"])
    agent = await cluster.start_agent("node1", host)

    await make(cluster, "all", vgpus=of(A2_1Q=16))

    layout = await settled(cluster, "all", "Done")
    assert carried(host) == {Q1: 16}
    assert layout.status.summary == "1 of 1"
    assert layout.status.gpus[0].fits[Q1] == 0
    await cluster.quiet(agent)
    told = await events(cluster, "all")
    assert [reason for reason, _ in told] == ["Done"]
    assert "by laneway agent in" in told[0][1]
    assert A2 in told[0][1]
    assert "PutBack" not in [reason for reason, _ in await events(cluster, VGPUS[0])]
    gpu = await cluster.get(SRIOVGPUDevice, A2)
    assert (gpu.spec.enabled, gpu.spec.mode) == (True, "")


async def test_another_profile_replaces_the_first(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=4))
    await settled(cluster, "all", "Done")

    await change(cluster, "all", vgpus=of(A2_8Q=2))

    await settled(cluster, "all", "Done")
    assert carried(host) == {Q8: 2}
    await change(cluster, "all", vgpus=[])
    await settled(cluster, "all", "Done")
    assert carried(host) == {}


async def test_what_is_wished_and_there_keeps_its_place(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await cluster.ask(VGPUS[5], Q4)
    await cluster.answer(VGPUS[5], "Configured")
    before = {str(v.address): v.configured for v in scan(host).vgpus if v.configured}

    await make(cluster, "all", vgpus=of(A2_4Q=2))

    await settled(cluster, "all", "Done")
    after = {str(v.address): v.configured for v in scan(host).vgpus if v.configured}
    assert after[VFS[5]] == before[VFS[5]]
    assert set(after) == {VFS[0], VFS[5]}


async def test_passthrough_leaves_no_functions(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=4))
    await settled(cluster, "all", "Done")

    await change(cluster, "all", vgpus=[], mode="Passthrough")

    await settled(cluster, "all", "Done")
    assert not scan(host).vgpus
    gpu = await cluster.get(SRIOVGPUDevice, A2)
    assert (gpu.spec.enabled, gpu.spec.mode) == (False, "Passthrough")


async def test_sizes_mix_where_that_is_the_mode(cluster: Any, simulated: Any) -> None:
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    first, second = sorted(await cluster.names(SRIOVGPUDevice))
    wished = of(L40S_2Q=1, L40S_24Q=1, L40S_8Q=1)
    only = {"names": [first]}

    await make(cluster, "mixed", gpuSelector=only, vgpus=wished)
    refused = await until(cluster, "mixed", "Refused", first)
    await change(cluster, "mixed", mode="MixedSize")

    await settled(cluster, "mixed", "Done")
    assert refused.reason == "SizesMixed"
    assert carried(host) == {f"NVIDIA L40S-{size}Q": 1 for size in (2, 8, 24)}
    assert (await cluster.get(SRIOVGPUDevice, first)).spec.mode == "MixedSize"
    other = await cluster.get(SRIOVGPUDevice, second)
    assert other.spec.mode == ""


@pytest.mark.parametrize(
    ("model", "profile", "instances"),
    [
        ("a100", "GRID A100-1-5C", {"MIG 1g.5gb": 3}),
        ("rtx-pro-6000", "NVIDIA RTX Pro 6000 Blackwell DC-1-4Q", {"MIG 1g.24gb+gfx": 1}),
    ],
)
async def test_vgpus_in_gpu_instances_and_back(
    cluster: Any, simulated: Any, model: str, profile: str, instances: dict[str, int]
) -> None:
    host = simulated(model, "node1")
    await cluster.start_agent("node1", host)
    first = min(await cluster.names(SRIOVGPUDevice))
    only = {"names": [first]}

    await make(cluster, "mig", gpuSelector=only, vgpus=[{"profile": profile, "count": 3}])

    await settled(cluster, "mig", "Done")
    assert carried(host) == {profile: 3}
    division = await cluster.get(MigConfiguration, first)
    asked = {one.name: one.requested for one in division.spec.profile_spec if one.requested}
    assert (division.spec.enabled, asked) == (True, instances)
    sliced = profile.rpartition(" ")[2].replace("-1-", "-")
    back = f"{profile.rpartition(' ')[0]} {sliced}"
    await change(cluster, "mig", vgpus=[{"profile": back, "count": 1}])
    await settled(cluster, "mig", "Done")
    assert carried(host) == {back: 1}
    assert not (await cluster.get(MigConfiguration, first)).spec.enabled


# -------------------------------------------------------------------------------- several nodes


@pytest.mark.realapi
async def test_every_agent_answers_for_its_own_gpus(cluster: Any, simulated: Any) -> None:
    hosts = {name: simulated(model, name) for name, model in NODES.items()}
    for name, host in hosts.items():
        await cluster.start_agent(name, host)

    await make(cluster, "a2", gpuSelector={"deviceIDs": ["25b6"]}, vgpus=of(A2_4Q=4))

    layout = await settled(cluster, "a2", "Done")
    assert layout.status.summary == "2 of 2"
    assert {one.node_name for one in layout.status.gpus} == {"node1", "node2"}
    assert [carried(hosts[name]) for name in NODES] == [{Q4: 4}, {Q4: 4}, {}]


NODES = {"node1": "a2", "node2": "a2", "node3": "l40s"}


async def test_a_gpu_that_is_refused_holds_up_no_other(cluster: Any, simulated: Any) -> None:
    hosts = {name: simulated("a2", name) for name in ("node1", "node2")}
    for name, host in hosts.items():
        await cluster.start_agent(name, host)
    await make(cluster, "a2", vgpus=of(A2_4Q=1))
    await settled(cluster, "a2", "Done")
    holder = hold(hosts["node1"], VFS[0])

    await change(cluster, "a2", vgpus=of(A2_8Q=2))

    entry = await until(cluster, "a2", "Refused")
    await until(cluster, "a2", "Done", "node2-000008000")
    assert entry.reason == "DeviceHeld"
    assert "qemu-system-x86" in entry.message
    layout = await settled(cluster, "a2", "Refused")
    assert layout.status.summary == "1 of 2"
    assert A2 in cluster.message(layout)
    assert carried(hosts["node1"]) == {Q4: 1}
    assert (await cluster.get(VGPUDevice, VGPUS[0])).spec.vgpu_type_name == Q4
    assert "DeviceHeld" in [reason for reason, _ in await events(cluster, "a2")]
    holder.release()
    await settled(cluster, "a2", "Done")
    assert carried(hosts["node1"]) == {Q8: 2}


@pytest.mark.realapi
async def test_a_node_that_leaves_the_selection_keeps_what_it_has(
    cluster: Any, simulated: Any
) -> None:
    hosts = {name: simulated("a2", name) for name in ("node1", "node2")}
    for name, host in hosts.items():
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"pool": "a"}},
        }
        await cluster.client.create(served(CoreNode), body)
        await cluster.start_agent(name, host)
    await make(cluster, "a2", nodeSelector={"matchLabels": {"pool": "a"}}, vgpus=of(A2_4Q=2))
    assert (await settled(cluster, "a2", "Done")).status.summary == "2 of 2"

    await cluster.patch(CoreNode, "node2", {"metadata": {"labels": {"pool": "b"}}})
    layout = await cluster.until(VGPULayout, "a2", lambda one: one.status.summary == "1 of 1")
    await change(cluster, "a2", vgpus=of(A2_8Q=1))

    await settled(cluster, "a2", "Done")
    assert [one.name for one in layout.status.gpus] == [A2]
    assert carried(hosts["node1"]) == {Q8: 1}
    assert carried(hosts["node2"]) == {Q4: 2}
    assert len([v for v in await cluster.all(VGPUDevice) if v.spec.enabled]) == 3


async def test_a_named_gpu_without_an_agent_is_missed(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))

    await make(cluster, "a2", gpuSelector={"names": [A2, "node9-000008000"]}, vgpus=of(A2_4Q=1))

    await until(cluster, "a2", "Done")
    layout = await settled(cluster, "a2", "NotAnswered")
    assert layout.status.summary == "1 of 2"
    assert "node9-000008000" in cluster.message(layout)


async def test_a_selection_of_nothing_says_so(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await make(cluster, "none", gpuSelector={"deviceIDs": ["ffff"]}, vgpus=of(A2_4Q=1))
    layout = await settled(cluster, "none", "NothingSelected")
    assert list(layout.status.gpus) == []


# ------------------------------------------------------------------------------------- dry run


@pytest.mark.realapi
async def test_a_dry_run_tells_the_steps_and_changes_nothing(cluster: Any, gate: Any) -> None:
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPUS[0], Q8)
    await cluster.answer(VGPUS[0], "Configured")
    await cluster.quiet(agent)
    before = {v.metadata.name: v.metadata.resource_version for v in await cluster.all(VGPUDevice)}
    writes = len(host.writes)

    await make(cluster, "what-if", vgpus=of(A2_4Q=2), dryRun=True)

    entry = await until(cluster, "what-if", "Planned")
    assert [step.split(" with ")[0] for step in entry.steps] == [
        f"remove {Q8}",
        f"create {Q4} on {VFS[0]}",
        f"create {Q4} on {VFS[1]}",
    ]
    assert (entry.fits_afterwards[Q4], entry.fits_afterwards[Q8]) == (2, 0)
    await settled(cluster, "what-if", "DryRun")
    after = {v.metadata.name: v.metadata.resource_version for v in await cluster.all(VGPUDevice)}
    assert (after, len(host.writes)) == (before, writes)
    await change(cluster, "what-if", vgpus=of(A2_4Q=9))
    assert (await until(cluster, "what-if", "Refused")).reason == "LayoutDoesNotFit"


async def test_a_dry_run_of_what_was_done_changes_nothing(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")

    await change(cluster, "all", vgpus=of(A2_8Q=1), dryRun=True)

    entry = await until(cluster, "all", "Planned")
    assert len(entry.steps) == 3
    assert carried(host) == {Q4: 2}


# ----------------------------------------------------------------------------------- who has it


@pytest.mark.realapi
async def test_of_two_layouts_the_older_has_the_gpu(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "first", vgpus=of(A2_4Q=2))
    await make(cluster, "second", vgpus=of(A2_8Q=1))

    entry = await until(cluster, "second", "Refused")
    await settled(cluster, "first", "Done")
    assert entry.reason == "OtherLayout"
    assert "first" in entry.message
    assert carried(host) == {Q4: 2}

    await change(cluster, "first", dryRun=True)
    await settled(cluster, "second", "Done")
    assert carried(host) == {Q8: 1}
    assert "second" in (await until(cluster, "first", "Planned")).message
    await change(cluster, "first", dryRun=False)
    await settled(cluster, "first", "Done")
    assert (await until(cluster, "second", "Refused")).reason == "OtherLayout"
    await cluster.client.delete(served(VGPULayout), "first")
    await settled(cluster, "second", "Done")
    assert carried(host) == {Q8: 1}


@pytest.mark.realapi
async def test_deleting_a_layout_changes_nothing(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    await cluster.quiet(agent)
    before = {v.metadata.name: v.metadata.resource_version for v in await cluster.all(VGPUDevice)}

    await cluster.client.delete(served(VGPULayout), "all")
    await cluster.quiet(agent)

    assert carried(host) == {Q4: 2}
    after = {v.metadata.name: v.metadata.resource_version for v in await cluster.all(VGPUDevice)}
    assert after == before
    await cluster.disable(VGPUS[0])
    await cluster.answer(VGPUS[0], "NotConfigured")


@pytest.mark.realapi
async def test_a_wish_that_is_changed_behind_a_layout_is_put_back(
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
        back = [words for reason, words in await events(cluster, name) if reason == "PutBack"]
        assert back
        assert "VGPULayout all" in back[0]


@pytest.mark.realapi
async def test_what_somebody_does_to_the_answers_is_put_right(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    done = await settled(cluster, "all", "Done")

    nothing = {"status": {"gpus": None, "conditions": None, "summary": "none of your business"}}
    await cluster.patch(VGPULayout, "all", nothing, "status")

    again = await settled(cluster, "all", "Done")
    assert again.status.summary == "1 of 1"
    assert list(again.status.gpus) == list(done.status.gpus)


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
    wished = {v.metadata.name: v.metadata.generation for v in await cluster.all(VGPUDevice)}
    assert [wished[name] for name in VGPUS[:2]] == [before[name] for name in VGPUS[:2]]


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


async def test_a_vgpu_that_somebody_else_made_is_left_alone_and_named(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=1))
    await settled(cluster, "all", "Done")
    kind = next(k.id for v in scan(host).vgpus for k in v.creatable if k.name == Q4)
    uuid = "00000000-0000-4000-8000-000000000001"

    host.write(f"/sys/bus/pci/devices/{VFS[3]}/mdev_supported_types/{kind}/create", uuid)

    entry = await until(cluster, "all", "InProgress", reason="ConfiguredElsewhere")
    assert VGPUS[3] in entry.message
    assert carried(host) == {Q4: 2}
    await change(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    assert (await cluster.get(VGPUDevice, VGPUS[3])).spec.enabled


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

    trap, real = Trap(), Client._call
    wishes = re.compile(r"/((vgpudevices|sriovgpudevices)/[^/]+|vgpulayouts/[^/]+/status)$")

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        watched = trap.agent is not None and method == "PATCH" and wishes.search(path)
        if watched and trap.left == 0:
            await asyncio.Event().wait()  # Dead men write nothing.
        answer = await real(self, method, path, *args)
        if watched:
            trap.left -= 1
            if trap.left == 0:
                trap.agent.task.cancel()
        return answer

    monkeypatch.setattr(Client, "_call", call)
    return trap


async def test_an_agent_that_is_killed_after_any_write_goes_on_where_it_was(
    cluster: Any, simulated: Any, killing: Any
) -> None:
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    wishes = [
        ({"mode": "MixedSize", "vgpus": of(A2_8Q=1, A2_4Q=1)}, {Q8: 1, Q4: 1}),
        ({"mode": "", "vgpus": of(A2_4Q=2)}, {Q4: 2}),
    ]

    for number in range(1, 9):
        spec, expected = wishes[number % 2]
        killing.agent, killing.left = agent, number
        await change(cluster, "all", **spec)
        await cluster.died(agent)
        killing.agent = None
        agent = await cluster.start_agent("node1", host)

        await settled(cluster, "all", "Done")
        assert carried(host) == expected
        enabled = [v for v in await cluster.all(VGPUDevice) if v.spec.enabled]
        assert len(enabled) == 2


@pytest.mark.realapi
async def test_at_rest_nobody_asks_for_anything(
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
        await agent._observer.rescan()
        await cluster.quiet(agent)

    assert requests == []


@pytest.mark.parametrize("spec", [{}, {"dryRun": True}, {"mode": "Passthrough"}])
async def test_nobody_looks_closer_as_long_as_nothing_changes(
    cluster: Any, simulated: Any, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any]
) -> None:
    monkeypatch.setattr(controller, "RETRY_SECONDS", 1000.0)
    looks: list[str] = []
    observe = controller.observe

    async def counted(hardware: Any, node: str, *args: Any) -> Any:
        looks.append(node)
        return await observe(hardware, node, *args)

    monkeypatch.setattr(controller, "observe", counted)
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await make(cluster, "all", vgpus=of(A2_4Q=2), **spec)
    final = "DryRun" if "dryRun" in spec else "Refused" if "mode" in spec else "Done"
    await settled(cluster, "all", final)
    await cluster.quiet(agent)
    before = len(looks)

    await agent._observer.rescan()
    await cluster.quiet(agent)

    assert len(looks) == before
