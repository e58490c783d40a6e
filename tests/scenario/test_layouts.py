"""Layouts from the object to the hardware: real agents, simulated nodes, one API server."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import (
    CoreNode,
    MigConfiguration,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
)
from laneway.host.scan import scan
from laneway.kube.resource import served
from support.layouts import (
    A2,
    MANAGE,
    Q1,
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


# ---------------------------------------------------------------------------------- the whole way


@pytest.mark.realapi
async def test_sixteen_vgpus_are_one_desired_state(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    host.call([MANAGE, "-d", "0000:08:00.0"])
    agent = await cluster.start_agent("node1", host)

    await make(cluster, "all", vgpus=of(A2_1Q=16))

    layout = await settled(cluster, "all", "Done")
    assert carried(host) == {Q1: 16}
    assert layout.status.summary == "1 of 1"
    assert layout.status.gpus[0].fits[Q1] == 0
    await cluster.quiet(agent)
    reported = await events(cluster, "all")
    assert [reason for reason, _ in reported] == ["Done"]
    assert "by laneway agent in" in reported[0][1]
    assert A2 in reported[0][1]
    assert "Reverted" not in [reason for reason, _ in await events(cluster, VGPUS[0])]
    gpu = await cluster.get(SRIOVGPUDevice, A2)
    assert (gpu.spec.enabled, gpu.spec.mode) == (True, "")


@pytest.mark.slow
async def test_another_profile_replaces_the_first(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=4))
    await settled(cluster, "all", "Done")

    await change(cluster, "all", vgpus=[{"profile": "a2-8q", "count": 2}])  # its short name

    await settled(cluster, "all", "Done")
    assert carried(host) == {Q8: 2}
    await change(cluster, "all", vgpus=[])
    await settled(cluster, "all", "Done")
    assert carried(host) == {}


@pytest.mark.slow
async def test_what_is_desired_and_there_keeps_its_place(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await cluster.ask(VGPUS[5], Q4)
    await cluster.answer(VGPUS[5], "Configured")
    before = {str(v.address): v.configured for v in scan(host).vgpus if v.configured}

    await make(cluster, "all", vgpus=of(A2_4Q=2), takeOver=True)

    await settled(cluster, "all", "Done")
    after = {str(v.address): v.configured for v in scan(host).vgpus if v.configured}
    assert after[VFS[5]] == before[VFS[5]]
    assert set(after) == {VFS[0], VFS[5]}


@pytest.mark.slow
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


@pytest.mark.slow
async def test_sizes_mix_where_that_is_the_mode(cluster: Any, simulated: Any) -> None:
    host = simulated("l40s", "node1")
    await cluster.start_agent("node1", host)
    first, second = sorted(await cluster.names(SRIOVGPUDevice))
    desired = of(L40S_2Q=1, L40S_24Q=1, L40S_8Q=1)
    only = {"names": [first]}

    await make(cluster, "mixed", gpuSelector=only, vgpus=desired)
    refused = await until(cluster, "mixed", "Refused", first)
    await change(cluster, "mixed", mode="MixedSize")

    await settled(cluster, "mixed", "Done")
    assert refused.reason == "SizesMixed"
    assert carried(host) == {f"NVIDIA L40S-{size}Q": 1 for size in (2, 8, 24)}
    assert (await cluster.get(SRIOVGPUDevice, first)).spec.mode == "MixedSize"
    other = await cluster.get(SRIOVGPUDevice, second)
    assert other.spec.mode == ""


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert entry.reason == "DeviceInUse"
    assert "qemu-system-x86" in entry.message
    layout = await settled(cluster, "a2", "Refused")
    assert layout.status.summary == "1 of 2"
    assert A2 in cluster.message(layout)
    assert carried(hosts["node1"]) == {Q4: 1}
    assert (await cluster.get(VGPUDevice, VGPUS[0])).spec.vgpu_type_name == Q4
    assert "DeviceInUse" in [reason for reason, _ in await events(cluster, "a2")]
    holder.release()
    await change(cluster, "a2", whenPossible=True)
    await settled(cluster, "a2", "Done")
    assert carried(hosts["node1"]) == {Q8: 2}


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_named_gpu_without_an_agent_is_missed(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))

    await make(cluster, "a2", gpuSelector={"names": [A2, "node9-000008000"]}, vgpus=of(A2_4Q=1))

    await until(cluster, "a2", "Done")
    layout = await settled(cluster, "a2", "AgentNotReporting")
    assert layout.status.summary == "1 of 2"
    assert "node9-000008000" in cluster.message(layout)


async def test_a_selection_of_nothing_says_so(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await make(cluster, "none", gpuSelector={"deviceIDs": ["ffff"]}, vgpus=of(A2_4Q=1))
    layout = await settled(cluster, "none", "NoGpuSelected")
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
    assert (await until(cluster, "what-if", "Refused")).reason == "OwnedByVgpuDevices"
    await change(cluster, "what-if", takeOver=True)

    entry = await until(cluster, "what-if", "Planned")
    assert [step.split(" with ")[0] for step in entry.steps] == [
        "remove A2-8Q",
        f"create A2-4Q on {VFS[0]}",
        f"create A2-4Q on {VFS[1]}",
    ]
    assert (entry.fits_afterwards[Q4], entry.fits_afterwards[Q8]) == (2, 0)
    await settled(cluster, "what-if", "DryRun")
    after = {v.metadata.name: v.metadata.resource_version for v in await cluster.all(VGPUDevice)}
    assert (after, len(host.writes)) == (before, writes)
    await change(cluster, "what-if", vgpus=of(A2_4Q=9))
    assert (await until(cluster, "what-if", "Refused")).reason == "LayoutDoesNotFit"
    assert await events(cluster, "what-if") == [], "nothing has happened"


@pytest.mark.slow
async def test_a_dry_run_of_what_was_done_changes_nothing(cluster: Any, simulated: Any) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")

    await change(cluster, "all", vgpus=of(A2_8Q=1), dryRun=True, takeOver=True)

    entry = await until(cluster, "all", "Planned")
    assert len(entry.steps) == 3
    assert carried(host) == {Q4: 2}


@pytest.mark.slow
async def test_a_layout_that_only_requested_a_while_undoes_no_change_of_others(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await make(cluster, "all", vgpus=of(A2_4Q=2))
    await settled(cluster, "all", "Done")
    await change(cluster, "all", dryRun=True)
    await until(cluster, "all", "Planned")
    await cluster.ask(VGPUS[2], Q4)
    await cluster.answer(VGPUS[2], "Configured")

    await change(cluster, "all", dryRun=False)

    assert (await until(cluster, "all", "Refused")).reason == "OwnedByVgpuDevices"
    assert carried(host) == {Q4: 3}
