"""GPU instances by MigConfiguration: made, changed and taken away."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice
from laneway.kube.resource import served
from support.divided import (
    FIRST,
    MANAGE,
    TWO,
    Gpu,
    call,
    divider,
    gpus_of,
    object_of,
    offering,
    written,
)
from support.examples import first


@pytest.fixture
def divided(cluster: Any, simulated: Any) -> Any:
    return divider(cluster, simulated)


# ---------------------------------------------------------------------------- the whole story


@pytest.mark.parametrize("model", first(*sorted(FIRST)))
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
        reported = {one.name[4:]: one for one in stored.status.profile_status}
        assert {name: len(one.vgpu_ids) for name, one in reported.items() if one.vgpu_ids} == counts
        assert all(one.available == 0 for one in reported.values() if one.name[4:] in counts)
        assert all(set(one.placements) <= set(one.starts) for one in reported.values())
        assert all(len(one.placements) == len(one.vgpu_ids) for one in reported.values())

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


@pytest.mark.slow
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
    desired = {"enabled": True, "mode": "MIGBacked"} if by_mode else {"enabled": True}
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": desired})
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
    await gpu.refused("DeviceInUse")
    for name in asked:
        await cluster.disable(name)
    stored = await gpu.answer("Disabled")
    assert stored.status.status == "disabled"
    assert await gpu.spots() == []
    off = {"enabled": False, "mode": "Passthrough"}
    await cluster.patch(SRIOVGPUDevice, gpu.name, {"spec": off})
    await cluster.answer(gpu.name, "Disabled", SRIOVGPUDevice)


# ------------------------------------------------------------------- what is there, and who made it


@pytest.mark.slow
async def test_what_was_made_by_hand_is_adopted_and_then_converted_with_the_least_loss(
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_what_is_lost_behind_our_back_comes_back_and_what_comes_is_reported(cluster, divided):
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
    text = await gpu.refused("ExtraInstances")
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


@pytest.mark.slow
async def test_foreign_instances_are_not_destroyed_for_a_disabled_object(cluster, divided):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.answer("Disabled")

    gpu.mig("-cgi", "9", "-C")
    await gpu.look(agent)
    assert "MIG 3g.20gb" in await gpu.refused("UnmanagedInstances")
    await gpu.ask({"7g.40gb": 1}, enabled=False)  # still nothing that is requested
    await gpu.refused("UnmanagedInstances")
    assert await gpu.counts() == {"3g.20gb": 1}

    await gpu.ask({"3g.20gb": 1})
    await gpu.answer("Synced")
    await gpu.enable(False)
    await gpu.answer("Disabled")
    assert await gpu.spots() == []


@pytest.mark.slow
async def test_a_desired_state_that_was_made_without_seeing_what_is_there_destroys_nothing(
    cluster, divided
):
    gpu = divided()
    agent = await cluster.start_agent("node1", gpu.host)
    await gpu.ask({"1g.5gb": 2})
    await gpu.answer("Synced")
    await cluster.stop_agent(agent)
    gpu.mig("-cgi", "9", "-C")
    await gpu.enable(False)

    await cluster.start_agent("node1", gpu.host)

    assert "MIG 3g.20gb" in await gpu.refused("UnmanagedInstances")
    assert await gpu.counts() == {"1g.5gb": 2, "3g.20gb": 1}


@pytest.mark.slow
@pytest.mark.realapi
async def test_objects_that_are_lost_are_made_again_and_nothing_is_destroyed(cluster, divided):
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
        desired = {p.name: p.requested for p in one.spec.profile_spec if p.requested}
        assert desired == {"MIG 1g.10gb": 2, "MIG 3g.20gb": 1}
    assert await gpu.spots() == before


@pytest.mark.slow
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
