"""GPU instances by MigConfiguration: made, changed and taken away, and what is never done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from itertools import count
from typing import Any

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.core.pci import PciAddress
from laneway.host.nvidia.modes import read_modes
from laneway.host.scan import scan
from laneway.kube.resource import served

SMI = "nvidia-smi"
MANAGE = "/usr/lib/nvidia/sriov-manage"


def gpus_of(host: Any) -> list[str]:
    return [str(f.address) for f in scan(host).functions if f.sriov_gpu]


def call(host: Any, *words: str) -> Any:
    done = host.call(list(words))
    assert done.status == 0, done
    return done


def object_of(address: str) -> str:
    return "node1-" + address.replace(":", "").replace(".", "")


class Gpu:
    """The first GPU of a host, as nvidia-smi and its object show it."""

    def __init__(self, cluster: Any, host: Any) -> None:
        self.cluster = cluster
        self.host = host
        self.address = gpus_of(host)[0]
        self.name = object_of(self.address)

    def mig(self, *words: str) -> None:
        """Somebody changes instances by hand."""
        call(self.host, SMI, "mig", "-i", self.address, *words)

    async def spots(self) -> list[tuple[str, int, int]]:
        """What there is: profile, placement, compute instances."""
        modes = await read_modes(self.host, PciAddress.parse(self.address))
        return [(one.profile, one.start, one.compute_instances) for one in modes.instances]

    async def ids(self) -> list[int]:
        modes = await read_modes(self.host, PciAddress.parse(self.address))
        return [one.id for one in modes.instances]

    async def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, _, computes in await self.spots():
            assert computes == 1
            found[name] = found.get(name, 0) + 1
        return found

    async def look(self, agent: Any) -> None:
        """Have the agent see what was changed by hand."""
        await agent._observer.rescan(PciAddress.parse(self.address))

    async def get(self) -> Any:
        return await self.cluster.get(MigConfiguration, self.name)

    async def there(self) -> Any:
        return await self.cluster.until(MigConfiguration, self.name, lambda one: one is not None)

    async def ask(self, counts: dict[str, int], *, enabled: bool = True) -> None:
        """Wish for these instances and for no others."""
        stored = await self.there()
        profiles = [
            {
                "name": one.name,
                "id": one.id,
                "requested": counts.get(one.name.removeprefix("MIG "), 0),
            }
            for one in stored.spec.profile_spec
        ]
        assert {name for name, count in counts.items() if count} <= {
            one["name"].removeprefix("MIG ") for one in profiles
        }
        spec = {"enabled": enabled, "profileSpec": profiles}
        await self.cluster.patch(MigConfiguration, self.name, {"spec": spec})

    async def enable(self, enabled: bool) -> None:
        await self.cluster.patch(MigConfiguration, self.name, {"spec": {"enabled": enabled}})

    async def answer(self, reason: str) -> Any:
        return await self.cluster.answer(self.name, reason, MigConfiguration)

    async def refused(self, reason: str) -> str:
        found = await self.answer(reason)
        assert found.status.status == "out-of-sync"
        assert found.status.message == self.cluster.message(found)
        return found.status.message


TWO = [{"name": "MIG 1g.5gb", "id": 19, "requested": 2}]


def written(name: str, **spec: Any) -> dict[str, Any]:
    """An object as other clients write it."""
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "MigConfiguration",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
def divided(cluster: Any, simulated: Any) -> Any:
    """A host whose first GPU is in MIG mode, with its virtual functions or without."""

    def make(model: str = "a100", *, functions: bool = True, made_by: Any = simulated) -> Gpu:
        host = made_by(model, "node1")
        gpu = Gpu(cluster, host)
        call(host, MANAGE, "-d", gpu.address)
        call(host, SMI, "-i", gpu.address, "-mig", "1")
        if functions:
            call(host, MANAGE, "-e", gpu.address)
        return gpu

    return make


async def offering(cluster: Any, gpu: Gpu, profile: str) -> str:
    """The first function of the GPU that offers a profile."""
    async with asyncio.timeout(20):
        while True:
            for vgpu in sorted(await cluster.all(VGPUDevice), key=lambda v: v.metadata.name):
                parent = vgpu.spec.parent_gpu_device_address
                if parent == gpu.address and profile in vgpu.status.available_types:
                    return vgpu.metadata.name
            await asyncio.sleep(0.05)


async def dies_before(agent: Any, event: Coroutine[Any, Any, Any]) -> bool:
    """Whether a fault of its host kills an agent before something happens."""
    task = asyncio.create_task(event)
    await asyncio.wait({task, agent.task}, return_when=asyncio.FIRST_COMPLETED)
    died = not task.done()
    task.cancel()
    return died


FIRST = {
    "a100": ({"3g.20gb": 1, "1g.5gb": 4}, {"7g.40gb": 1}, {"1g.10gb": 4}),
    "hgx-h100": ({"3g.40gb": 1, "1g.10gb": 4}, {"2g.20gb": 3, "1g.10gb": 1}, {"7g.80gb": 1}),
    "rtx-pro-6000": ({"1g.24gb+gfx": 4}, {"2g.48gb+gfx": 1, "1g.24gb": 2}, {"4g.96gb+gfx": 1}),
}

# ---------------------------------------------------------------------------- the whole story


@pytest.mark.parametrize("model", sorted(FIRST))
async def test_from_nothing_to_one_set_after_the_other_and_back(cluster, divided, model):
    gpu = divided(model)
    await cluster.start_agent("node1", gpu.host)

    stored = await gpu.there()
    assert not stored.spec.enabled
    assert stored.spec.gpu_address == gpu.address
    assert stored.spec.node_name == "node1"
    assert stored.metadata.labels["nodename"] == "node1"
    (owner,) = stored.metadata.owner_references
    assert (owner.kind, owner.name) == ("SRIOVGPUDevice", gpu.name)
    assert owner.uid == (await cluster.get(SRIOVGPUDevice, gpu.name)).metadata.uid
    assert all(one.name.startswith("MIG ") for one in stored.spec.profile_spec)
    assert not any(one.requested for one in stored.spec.profile_spec)
    stored = await gpu.answer("Disabled")
    assert stored.status.status == "disabled"

    for counts in FIRST[model]:
        await gpu.ask(counts)
        stored = await gpu.answer("Synced")
        assert stored.status.status == "synced"
        assert not stored.status.message
        assert await gpu.counts() == counts
        told = {one.name[4:]: one for one in stored.status.profile_status}
        assert {name: len(one.vgpu_ids) for name, one in told.items() if one.vgpu_ids} == counts
        assert all(one.available == 0 for one in told.values() if one.name[4:] in counts)

    await gpu.enable(False)
    stored = await gpu.answer("Disabled")
    assert stored.status.status == "disabled"
    assert await gpu.spots() == []
    assert all(one.available == one.total for one in stored.status.profile_status)


BACKED = {
    "a100": ({"3g.20gb": 1, "1g.5gb": 4}, ["GRID A100-3-20C", "GRID A100-1-5C"]),
    "hgx-h100": ({"3g.40gb": 1, "1g.10gb": 4}, ["NVIDIA H100XM-3-40C", "NVIDIA H100XM-1-10C"]),
    "rtx-pro-6000": (
        {"2g.48gb+gfx": 1, "1g.24gb+gfx": 2},
        [f"NVIDIA RTX Pro 6000 Blackwell DC-{size}" for size in ("2-48Q", "1-8Q", "1-8Q")],
    ),
}


@pytest.mark.parametrize(
    ("model", "by_mode"),
    [
        pytest.param("a100", False, marks=pytest.mark.realapi),
        ("hgx-h100", True),
        ("rtx-pro-6000", False),
    ],
)
async def test_from_a_card_out_of_the_box_to_vgpus_in_gpu_instances_and_back(
    cluster, simulated, model, by_mode
):
    host = simulated(model, "node1")
    gpu = Gpu(cluster, host)
    call(host, MANAGE, "-d", gpu.address)
    await cluster.start_agent("node1", host)
    counts, profiles = BACKED[model]
    wish = {"enabled": True, "mode": "MIGBacked"} if by_mode else {"enabled": True}
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": wish})
    if by_mode:
        await gpu.there()
        await gpu.ask(counts)
    else:
        requests = [{"name": f"MIG {name}", "requested": many} for name, many in counts.items()]
        spec = {"gpuAddress": gpu.address, "nodeName": "node1", "profileSpec": requests}
        body = written(gpu.name, enabled=True, **spec)
        await cluster.client.create(served(MigConfiguration), body)

    stored = await gpu.answer("Synced")
    assert stored.status.status == "synced"
    assert await gpu.counts() == counts
    asked = []
    for profile in profiles:
        asked.append(await offering(cluster, gpu, profile))
        await cluster.ask(asked[-1], profile)
        await cluster.answer(asked[-1], "Configured")
    assert sorted(cluster.carried(host).values()) == sorted(profiles)

    await gpu.enable(False)
    await gpu.refused("DeviceHeld")
    for name in asked:
        await cluster.disable(name)
    stored = await gpu.answer("Disabled")
    assert stored.status.status == "disabled"
    assert await gpu.spots() == []
    off = {"enabled": False, "mode": "Passthrough"}
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": off})
    await cluster.answer(gpu.name, "Disabled", SRIOVGPUDevice)


# ------------------------------------------------------------------- what is there, and who made it


async def test_what_somebody_made_is_adopted_and_then_converted_with_the_least_loss(
    cluster, divided
):
    gpu = divided()
    gpu.mig("-cgi", "19:1,19:2,14:4", "-C")
    before = await gpu.spots()
    await cluster.start_agent("node1", gpu.host)

    stored = await gpu.answer("Synced")
    assert stored.spec.enabled
    assert {one.name: one.requested for one in stored.spec.profile_spec if one.requested} == {
        "MIG 1g.5gb": 2,
        "MIG 2g.10gb": 1,
    }
    assert await gpu.spots() == before

    await gpu.ask({"1g.5gb": 1, "2g.10gb": 1, "3g.20gb": 1})
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 1, "2g.10gb": 1, "3g.20gb": 1}
    assert len(set(before) & set(await gpu.spots())) == 1  # more than one cannot stay


async def test_instances_made_by_half_are_completed(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 3, "3g.20gb": 1})
    await gpu.answer("Synced")
    await cluster.stop_agent(agent)
    one, other, *_ = await gpu.ids()
    gpu.mig("-dci", "-gi", f"{one},{other}")
    gpu.mig("-dgi", "-gi", f"{other}")

    await cluster.start_agent("node1", gpu.host)

    await cluster.until(
        MigConfiguration,
        gpu.name,
        lambda one: sum(len(p.vgpu_ids) for p in one.status.profile_status) == 4,
    )
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 3, "3g.20gb": 1}


async def test_what_is_lost_behind_our_back_comes_back_and_what_comes_is_told(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2})
    await gpu.answer("Synced")

    gpu.mig("-dci")
    gpu.mig("-dgi")
    await gpu.look(agent)
    await cluster.quiet(agent)
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 2}

    gpu.mig("-cgi", "9:4", "-C")
    await gpu.look(agent)
    text = await gpu.refused("OtherInstances")
    assert "MIG 3g.20gb at 4" in text
    assert await gpu.counts() == {"1g.5gb": 2, "3g.20gb": 1}
    vgpu = await offering(cluster, gpu, "GRID A100-1-5C")
    await cluster.ask(vgpu, "GRID A100-1-5C")  # what it needs is there all the same
    await cluster.answer(vgpu, "Configured")

    await gpu.ask({"1g.5gb": 2, "3g.20gb": 1})
    await gpu.answer("Synced")
    await gpu.ask({"1g.5gb": 2})
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 2}


async def test_foreign_instances_are_not_destroyed_for_a_disabled_object(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.answer("Disabled")

    gpu.mig("-cgi", "9", "-C")
    await gpu.look(agent)
    assert "MIG 3g.20gb" in await gpu.refused("InstancesElsewhere")
    await gpu.ask({"7g.40gb": 1}, enabled=False)  # still nothing that is asked for
    await gpu.refused("InstancesElsewhere")
    assert await gpu.counts() == {"3g.20gb": 1}

    await gpu.ask({"3g.20gb": 1})
    await gpu.answer("Synced")
    await gpu.enable(False)
    await gpu.answer("Disabled")
    assert await gpu.spots() == []


async def test_a_wish_that_was_made_without_seeing_what_is_there_destroys_nothing(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2})
    await gpu.answer("Synced")
    await cluster.stop_agent(agent)
    gpu.mig("-cgi", "9", "-C")
    await gpu.enable(False)

    await cluster.start_agent("node1", gpu.host)

    assert "MIG 3g.20gb" in await gpu.refused("InstancesElsewhere")
    assert await gpu.counts() == {"1g.5gb": 2, "3g.20gb": 1}


@pytest.mark.realapi
async def test_objects_that_are_lost_are_made_anew_and_nothing_is_destroyed(cluster, divided):
    gpu = divided()
    await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.10gb": 2, "3g.20gb": 1})
    first = await gpu.answer("Synced")
    before = await gpu.spots()

    await cluster.client.delete(served(MigConfiguration), gpu.name)
    second = await cluster.until(
        MigConfiguration,
        gpu.name,
        lambda one: one is not None and one.metadata.uid != first.metadata.uid,
    )
    await gpu.answer("Synced")
    old = (await cluster.get(SRIOVGPUDevice, gpu.name)).metadata.uid
    await cluster.client.delete(served(SRIOVGPUDevice), gpu.name)
    owner = await cluster.until(
        SRIOVGPUDevice,
        gpu.name,
        lambda one: one is not None and one.metadata.uid != old,
    )
    third = await cluster.until(
        MigConfiguration,
        gpu.name,
        lambda one: (
            one is not None
            and [o.uid for o in one.metadata.owner_references] == [owner.metadata.uid]
        ),
    )
    await gpu.answer("Synced")

    for one in (second, third):
        assert one.spec.enabled
        wished = {p.name: p.requested for p in one.spec.profile_spec if p.requested}
        assert wished == {"MIG 1g.10gb": 2, "MIG 3g.20gb": 1}
    assert await gpu.spots() == before


@pytest.mark.realapi
async def test_an_object_that_another_client_writes_is_taken_up(cluster, divided):
    gpu = divided(functions=False)
    await cluster.start_agent("node1", gpu.host)
    other = gpus_of(gpu.host)[1]  # not in MIG mode, so that there is no object of it
    spec = {"enabled": False, "gpuAddress": other, "profileSpec": TWO}
    body = written(object_of(other), nodeName="node1", **spec)
    stranger = written("node2-000017000", nodeName="node2", **spec)
    for one in (body, stranger):
        await cluster.client.create(served(MigConfiguration), one)

    stored = await cluster.answer(object_of(other), "Disabled", MigConfiguration)
    assert stored.metadata.labels["nodename"] == "node1"
    assert [one.name for one in stored.metadata.owner_references] == [object_of(other)]
    left = await cluster.get(MigConfiguration, "node2-000017000")
    assert (left.status.status, dict(left.metadata.labels)) == ("", {})


# ------------------------------------------------------------------------------------ refusals


async def test_a_set_that_cannot_be_is_refused_and_nothing_goes_for_it(cluster, divided):
    gpu = divided("hgx-h100")
    await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"3g.40gb": 1})
    await gpu.answer("Synced")
    before = await gpu.spots()

    await gpu.ask({"3g.40gb": 2, "1g.10gb": 1, "7g.80gb": 1})
    assert "do not fit" in await gpu.refused("InstancesDoNotFit")
    await gpu.ask({"1g.10gb": 8})
    assert "room for 7 x 1g.10gb, not 8" in await gpu.refused("InstancesDoNotFit")
    await gpu.ask({"1g.10gb": -8})
    await gpu.refused("InstanceCountNegative")
    assert await gpu.spots() == before

    await gpu.ask({"3g.40gb": 2})
    await gpu.answer("Synced")
    assert await gpu.counts() == {"3g.40gb": 2}


async def test_without_mig_mode_it_is_told_where_to_ask_for_it(cluster, divided):
    gpu = divided(functions=False)
    gpu.address = gpus_of(gpu.host)[1]
    gpu.name = object_of(gpu.address)
    await cluster.start_agent("node1", gpu.host)
    # A choice for later: nothing is done for it until the GPU is enabled.
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": {"enabled": False, "mode": "MIGBacked"}})

    await gpu.ask({"1g.5gb": 2})

    text = await gpu.refused("MigModeOff")
    assert f"spec.mode of SRIOVGPUDevice {gpu.name} to MIG" in text
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": {"mode": "Passthrough"}})
    await gpu.refused("MigModeOff")
    assert await gpu.spots() == []
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": {"mode": "MIG"}})
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 2}


async def test_an_instance_with_a_vgpu_stays_until_that_is_gone(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2, "3g.20gb": 1})
    await gpu.answer("Synced")
    vgpu = await offering(cluster, gpu, "GRID A100-3-20C")
    await cluster.ask(vgpu, "GRID A100-3-20C")
    carried = await cluster.answer(vgpu, "Configured")

    for counts, enabled in (({"1g.5gb": 7}, True), ({"1g.5gb": 2, "3g.20gb": 1}, False)):
        await gpu.ask(counts, enabled=enabled)
        text = await gpu.refused("DeviceHeld")
        assert f"GRID A100-3-20C on {carried.spec.address}" in text
    assert await gpu.counts() == {"1g.5gb": 2, "3g.20gb": 1}
    await gpu.ask({"1g.5gb": 1, "3g.20gb": 1, "2g.10gb": 1})  # what is beside it may change
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 1, "2g.10gb": 1, "3g.20gb": 1}
    await gpu.ask({"7g.40gb": 1})
    await gpu.refused("DeviceHeld")
    late = await offering(cluster, gpu, "GRID A100-1-5C")
    await cluster.ask(late, "GRID A100-1-5C")  # would keep an instance that is to go
    waiting = await cluster.answer(late, "GpuPreparing")
    assert carried.spec.address in cluster.message(waiting)

    await cluster.disable(vgpu)

    await gpu.answer("Synced")
    await cluster.quiet(agent)
    assert await gpu.counts() == {"7g.40gb": 1}


@pytest.mark.usefixtures("impatient")
async def test_nothing_is_destroyed_while_somebody_computes(cluster, divided):
    gpu = divided(functions=False)
    await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2})
    await gpu.answer("Synced")
    holder = gpu.host.hold("/dev/nvidia0", "python")

    await gpu.ask({"1g.5gb": 3})
    await gpu.answer("Synced")
    await gpu.enable(False)
    assert "python" in await gpu.refused("DeviceHeld")
    assert await gpu.counts() == {"1g.5gb": 3}

    holder.release()
    await gpu.answer("Disabled")
    assert await gpu.spots() == []


async def test_a_gpu_that_does_not_answer_keeps_what_it_told_and_is_left_alone(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2})
    told = (await gpu.answer("Synced")).status.profile_status
    before = await gpu.spots()

    gpu.host.faults.fail_command(SMI, 18, "Driver/library version mismatch", times=1000)
    await gpu.look(agent)
    assert "version mismatch" in await gpu.refused("GpuUnreadable")
    await gpu.enable(False)
    stored = await gpu.answer("GpuUnreadable")
    await cluster.quiet(agent)
    gpu.host.faults.clear()

    assert list(stored.status.profile_status) == list(told)
    assert await gpu.spots() == before
    await gpu.look(agent)
    await gpu.answer("Disabled")
    assert await gpu.spots() == []


async def test_an_object_that_speaks_of_another_card_moves_nothing(cluster, divided):
    gpu = divided()
    gpu.mig("-cgi", "19", "-C")
    spec = {"enabled": False, "gpuAddress": gpus_of(gpu.host)[1], "nodeName": "node1"}
    await cluster.client.create(served(MigConfiguration), written(gpu.name, **spec))

    await cluster.start_agent("node1", gpu.host)

    await gpu.refused("WrongDevice")
    assert await gpu.counts() == {"1g.5gb": 1}


# ------------------------------------------------------------------------------ crashes, reboots


async def test_after_a_reboot_instances_come_before_their_vgpus(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2, "3g.20gb": 1})
    await gpu.answer("Synced")
    wished = {}
    for profile in ("GRID A100-1-5C", "GRID A100-3-20C", "GRID A100-1-5C"):
        vgpu = await offering(cluster, gpu, profile)
        await cluster.ask(vgpu, profile)
        await cluster.answer(vgpu, "Configured")
        wished[vgpu] = profile
    before = cluster.carried(gpu.host)
    await cluster.stop_agent(agent)

    rebooted = divided(functions=False)  # MIG mode survives, and nothing else
    await cluster.start_agent("node1", rebooted.host)

    for vgpu, profile in wished.items():
        await cluster.until(
            VGPUDevice, vgpu, lambda v, p=profile: v.status.configure_vgpu_type_name == p
        )
    await rebooted.answer("Synced")
    assert await rebooted.counts() == {"1g.5gb": 2, "3g.20gb": 1}
    assert cluster.carried(rebooted.host) == before


async def test_instances_wait_for_the_functions_that_would_destroy_them(cluster, divided, gate):
    gpu = divided(functions=False, made_by=gate)
    await cluster.start_agent("node1", gpu.host)
    await gpu.answer("Disabled")
    gpu.host.held = "sriov-manage"
    spec = {"enabled": True, "mode": "MIGBacked"}
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": spec})
    await gpu.host.written(1)

    await gpu.ask({"1g.5gb": 2})

    assert "MIGBacked" in await gpu.refused("GpuPreparing")
    assert await gpu.spots() == []
    gpu.host.held = ""
    gpu.host.open.set()
    await gpu.answer("Synced")
    assert await gpu.counts() == {"1g.5gb": 2}


@pytest.mark.parametrize("when", ["before", "during", "after"])
async def test_an_agent_killed_at_any_write_ends_as_one_that_was_not(cluster, divided, when):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    sets = ({"1g.5gb": 1, "3g.20gb": 1}, {"1g.5gb": 2, "2g.10gb": 2})
    await gpu.ask(sets[0])
    await gpu.answer("Synced")
    await cluster.quiet(agent)
    for number in count(1):
        # Each round begins where the last one has ended.
        counts = sets[number % 2]
        gpu.host.faults.kill_at(number, when)
        await gpu.ask(counts)
        if not await dies_before(agent, gpu.answer("Synced")):
            break
        gpu.host.restart()
        agent = await cluster.start_agent("node1", gpu.host)
        await gpu.answer("Synced")
        assert await gpu.counts() == counts
        await cluster.quiet(agent)
    assert number > 6
    assert await gpu.counts() == counts


# -------------------------------------------------------------------------------- what it tells


@pytest.mark.realapi
async def test_events_and_metrics_tell_who_did_what_and_how_long_it_took(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 1})
    await gpu.answer("Synced")
    await cluster.quiet(agent)

    raw = json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))
    ((reason, message),) = [
        (item["reason"], item["message"])
        for item in raw["items"]
        if item["involvedObject"]["kind"] == "MigConfiguration"
    ]
    assert reason == "Configured"
    assert "by laneway agent in " in message
    assert "create GPU instance 1g.5gb at 0" in message
    labels = {"node": "node1", "operation": "configure-mig", "result": "done"}
    metrics = cluster.families.registry.get_sample_value
    assert metrics("laneway_operation_seconds_count", labels) == 1


@pytest.mark.realapi
async def test_at_rest_nothing_is_asked_or_written(cluster, divided, requests):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 8})
    await gpu.refused("InstancesDoNotFit")
    await cluster.quiet(agent)
    requests.clear()
    before = gpu.host.faults.count

    for _ in range(3):
        await gpu.look(agent)
        await cluster.quiet(agent)

    assert requests == []
    assert gpu.host.faults.count == before
