"""`laneway pools` on a management cluster: set, checked, refused, rolled, shown, emptied."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from laneway.changes.errors import ChangeError, OvertakenError
from laneway.changes.machine_pools import Edit, Wanted, planned, store
from laneway.controllers.machine_pools import look
from laneway.controllers.machine_pools.judged import judged
from laneway.kube.client import PatchType
from laneway.kube.errors import InvalidError
from laneway.kube.rancher import GUEST_CLUSTERS, HARVESTER_CONFIGS
from laneway.views import machine_pools as views
from support.commands import Laneway
from support.worlds import World

Make = Callable[..., Awaitable[Any]]
NAMESPACE = "fleet-default"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
Q4, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"
pytestmark = pytest.mark.timeout(120)


async def two_gpu_nodes(world: World, vgpus: int = 2) -> None:
    for node in ("node1", "node2"):
        await world.add(node, "a2")
        for number in range(vgpus):
            await world.vgpu(f"{node}-00000800{4 + number}", Q4)
    for node in ("node1", "node2"):
        await world.allocatable(node, RESOURCE, vgpus)


async def pool_of(laneway: Laneway, name: str = "gpu") -> Any:
    found = json.loads((await laneway("pools", "list", "-o", "json")).out)
    return next(one for one in found["clusters"][0]["pools"] if one["pool"] == name)


async def test_a_pool_from_its_first_gpu_to_the_last(
    world: World, laneway: Laneway, guest: Make, machines: Make
) -> None:
    await two_gpu_nodes(world)
    await guest(gpu={"quantity": 2, "cpuCount": "2", "memorySize": "2"})
    plain = await machines(2)
    assert (await pool_of(laneway))["devices"] == {}

    would = await laneway("pools", "set", "guest", "gpu", "A2-4Q", "--machines", "3", "--dry-run")
    assert "Pool gpu of guest would have 3 machines with 1 x nvidia.com/NVIDIA_A2-4Q" in would.out
    assert (await pool_of(laneway))["devices"] == {}

    done = await laneway("pools", "set", "guest", "gpu", "A2-4Q", "--machines", "3")
    assert "Rancher replaces its machines, the oldest first" in done.out
    rolled = await machines(3)
    assert not {one.metadata.name for one in plain} & {one.metadata.name for one in rolled}
    shown = json.loads((await laneway("pools", "show", "guest", "-o", "json")).out)
    [pool] = shown["pools"]
    assert [len(one["devices"]) for one in pool["machines"]] == [1, 1, 1]
    assert (pool["fits"], pool["toCreate"], pool["warnings"]) == (True, 0, [])

    fifth = await laneway("pools", "set", "guest", "gpu", "--machines", "5", status=1)
    assert "1 requested by each of 2 VMs, and there is enough for 1" in fifth.err
    assert (await pool_of(laneway))["quantity"] == 3
    fourth = await laneway("pools", "set", "guest", "gpu", "--machines", "4")
    assert "the nodes lack 1 x nvidia.com/NVIDIA_A2-4Q" in " ".join(fourth.out.split())
    await machines(4)

    await laneway("pools", "set", "guest", "gpu", "--no-devices", "--machines", "1")
    [last] = await machines(1)
    assert last.spec.template.spec.domain.devices.all == ()
    await laneway("pools", "set", "guest", "gpu", "--machines", "0")
    await machines(0)


async def test_a_pool_that_uses_the_last_device_is_shown_and_kept(
    world: World, laneway: Laneway, guest: Make, machines: Make
) -> None:
    """R4: what a pool had was missing from the choice once nothing was free."""
    await two_gpu_nodes(world, vgpus=1)
    info = json.dumps({"vGPURequests": [{"name": "provisioned", "deviceName": RESOURCE}]})
    await guest(gpu={"quantity": 2, "memorySize": "2", "vgpuInfo": info})
    await machines(2)
    assert (await pool_of(laneway))["fits"]
    same = await laneway("pools", "set", "guest", "gpu", "A2-4Q=1")
    assert "has 2 machines with 1 x nvidia.com/NVIDIA_A2-4Q each already" in " ".join(
        same.out.split()
    )
    check = await laneway("pools", "check", "guest")
    assert "yes" in check.out


async def test_what_is_missing_for_one_pool_stands_in_the_way_of_no_other(
    world: World, laneway: Laneway, guest: Make, machines: Make
) -> None:
    await two_gpu_nodes(world, vgpus=1)
    info = json.dumps({"vGPURequests": [{"deviceName": RESOURCE}]})
    await guest(
        gpu={"quantity": 5, "memorySize": "2", "vgpuInfo": info},
        plain={"quantity": 1, "memorySize": "2"},
    )
    await machines(1, "plain")
    await laneway("pools", "set", "guest", "plain", "--machines", "2")
    refused = await laneway("pools", "set", "guest", "plain", RESOURCE, status=1)
    assert "pool plain" not in refused.err
    assert f"{RESOURCE}: 1 requested by each of 2 VMs" in refused.err
    more = await laneway("pools", "set", "guest", "gpu", "--machines", "6", status=1)
    assert "1 requested by each of" in more.err
    fewer = await laneway("pools", "set", "guest", "gpu", "--machines", "3")
    assert "Pool gpu of guest has 3 machines" in fewer.out
    await laneway("pools", "set", "guest", "gpu", "--no-devices")


async def test_a_configuration_that_may_not_be_read_is_not_told_as_absent(
    world: World, guest: Make, cluster: Any
) -> None:
    await world.add("node1", "a2")
    await guest(gpu={"quantity": 0})
    managed = await look.management(cluster.client, "")
    unread = msgspec.structs.replace(managed, configs={}, unread=frozenset({"HarvesterConfig"}))
    [found] = judged(unread, await look.harvester(cluster.client))
    assert views.fit(found.pools[0], found) == "unknown"
    [line] = views.words(found.pools[0], found)
    assert line.endswith("HarvesterConfig nc-guest-gpu may not be read by you")
    with pytest.raises(ChangeError, match="you may not read HarvesterConfig nc-guest-gpu"):
        planned(unread, await look.harvester(cluster.client), Wanted("guest", "gpu", {}))


async def test_a_change_in_between_is_told_apart_from_a_mistake(
    world: World, guest: Make, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, wrong = cluster.client, cast(int, "two")
    await world.add("node1", "a2")
    await guest("test", test={"quantity": 0})
    # Rancher writes the cluster once more.
    await world.until(GUEST_CLUSTERS, "test", lambda one: one.metadata.finalizers, NAMESPACE)

    async def edit() -> Edit:
        managed, supply = await look.management(client, ""), await look.harvester(client)
        return planned(managed, supply, Wanted("test", "test", quantity=1))

    with pytest.raises(InvalidError):
        await store(client, (await edit())._replace(quantity=wrong))
    patch, overtaken = client.patch, await edit()

    async def interrupted(*args: Any, **given: Any) -> Any:
        monkeypatch.setattr(client, "patch", patch)
        await patch(GUEST_CLUSTERS, "test", {"metadata": {"labels": {"a": "b"}}}, NAMESPACE)
        return await patch(*args, **given)

    monkeypatch.setattr(client, "patch", interrupted)
    with pytest.raises(OvertakenError):
        await store(client, overtaken)


async def test_two_changes_of_a_pool_at_once_do_not_pass_as_one(
    world: World, guest: Make, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices and number are in two objects: each change alone would be stored."""
    await two_gpu_nodes(world)
    await guest(gpu={"quantity": 0})
    client = cluster.client
    number: list[dict[str, Any]] = [
        {"op": "replace", "path": "/spec/rkeConfig/machinePools/0/quantity", "value": 1}
    ]

    async def devices() -> Edit:
        managed, supply = await look.management(client, ""), await look.harvester(client)
        return planned(managed, supply, Wanted("guest", "gpu", {RESOURCE: 2}))

    patch, edit = client.patch, await devices()
    await patch(GUEST_CLUSTERS, "guest", number, NAMESPACE, patch_type=PatchType.JSON)
    with pytest.raises(OvertakenError):
        await store(client, edit)
    config = await client.get(HARVESTER_CONFIGS, "nc-guest-gpu", NAMESPACE)
    assert config.vgpu_info == "", "only the other object had been changed"

    number[0]["value"] = 0

    async def interrupted(resource: Any, *args: Any, dry_run: bool = False, **given: Any) -> Any:
        if not dry_run and resource is HARVESTER_CONFIGS:
            await patch(GUEST_CLUSTERS, "guest", number, NAMESPACE, patch_type=PatchType.JSON)
        return await patch(resource, *args, dry_run=dry_run, **given)

    monkeypatch.setattr(client, "patch", interrupted)
    with pytest.raises(ChangeError, match="changed by someone else at the same time"):
        await store(client, await devices())


async def test_a_rolling_update_for_other_reasons_than_devices(
    world: World, laneway: Laneway, guest: Make, machines: Make, cluster: Any
) -> None:
    await two_gpu_nodes(world, vgpus=1)
    info = json.dumps({"vGPURequests": [{"deviceName": RESOURCE}]})
    await guest(gpu={"quantity": 2, "cpuCount": "2", "memorySize": "2", "vgpuInfo": info})
    old = await machines(2)
    body = {"cpuCount": "1"}
    await cluster.client.patch(HARVESTER_CONFIGS, "nc-guest-gpu", body, NAMESPACE)
    pool = await pool_of(laneway)
    assert {one["name"] for one in pool["machines"] if one["leaves"]} == {
        one.metadata.name for one in old
    }
    assert [one["reason"] for one in pool["warnings"]] == ["SurgeBlocked"]
    assert "update waits" in (await laneway("pools", "check")).out


async def test_two_clusters_do_not_get_the_same_devices(
    world: World, laneway: Laneway, guest: Make, machines: Make
) -> None:
    """R9: between a change of a pool and its VMs nothing is reserved."""
    await two_gpu_nodes(world, vgpus=1)
    info = json.dumps({"vGPURequests": [{"deviceName": RESOURCE}]})
    pool = {"quantity": 2, "memorySize": "2", "vgpuInfo": info}
    await guest("first", gpu=pool)
    await machines(2)
    await guest("second", gpu={**pool, "quantity": 1})
    found = json.loads((await laneway("pools", "check", "-o", "json", status=3)).out)
    assert {one["cluster"]: one["fits"] for one in found["clusters"]} == {
        "first": True,
        "second": False,
    }


async def test_harvesters_driver_knows_no_pci_devices(
    world: World, laneway: Laneway, guest: Make, cluster: Any
) -> None:
    await world.add("node1", "a2")
    await world.claim("node1-000004001")
    await guest(gpu={"quantity": 0, "cpuCount": "2"})
    refused = await laneway("pools", "set", "guest", "gpu", NIC, status=1)
    assert "a HarvesterConfig does not keep the field hostDeviceInfo" in refused.err
    config = await cluster.client.get(HARVESTER_CONFIGS, "nc-guest-gpu", NAMESPACE)
    assert (config.metadata.generation, config.host_device_info) == (1, "")


async def test_mistakes_are_named_and_nothing_is_written(
    world: World, laneway: Laneway, guest: Make, cluster: Any
) -> None:
    await two_gpu_nodes(world, vgpus=1)
    await guest(gpu={"quantity": 1, "vgpuInfo": "{"}, cp={"quantity": 1, "memorySize": "2"})
    check = await laneway("pools", "check", "guest", status=3)
    assert "Invalid: vgpuInfo is not JSON" in check.out
    shown = await laneway("pools", "show", "guest")
    assert "Pool gpu: Invalid: vgpuInfo is not JSON" in shown.out
    before = await cluster.client.get(GUEST_CLUSTERS, "guest", NAMESPACE)
    for arguments, words in (
        (("guest", "gpu", "A2-4Q"), "vgpuInfo is not JSON"),
        (("guest", "cp", "A2-3Q"), "no node has a resource A2-3Q"),
        (("guest", "cp", "A2-4Q=33", f"{RESOURCE}=32"), "64 x nvidia.com/NVIDIA_A2-4Q at most"),
        (("gues", "cp", "A2-4Q"), "no guest cluster gues. Is it guest?"),
        (("guest", "gpus", "A2-4Q"), "no pool gpus. Is it gpu?"),
        (("other/guest", "gpu", "A2-4Q"), "other/guest. Is it fleet-default/guest?"),
        (("guest", "cp", "A2-4Q", "--machines", "9"), "there is enough for 2"),
    ):
        failed = await laneway("pools", "set", *arguments, status=1)
        assert words in " ".join(failed.err.split())
    after = await cluster.client.get(GUEST_CLUSTERS, "guest", NAMESPACE)
    assert before.metadata.generation == after.metadata.generation


async def test_a_harvester_cluster_that_is_away(
    world: World, laneway: Laneway, guest: Make, tmp_path: Path
) -> None:
    """R6: an error while availability was read was swallowed."""
    await guest(gpu={"quantity": 1})
    text = (tmp_path / "kubeconfig").read_text()
    away = tmp_path / "away"
    away.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", text))
    failed = await laneway("pools", "list", "--harvester-kubeconfig", str(away), status=1)
    words = " ".join(failed.err.split())
    assert "laneway: the Harvester cluster: no answer from 127.0.0.1:9" in words
    assert "--harvester-kubeconfig or --harvester-context names the right one" in words


async def test_files_that_have_no_pools_pass_no_pipeline(
    world: World, laneway: Laneway, tmp_path: Path
) -> None:
    file, twice = tmp_path / "empty.yaml", tmp_path / "twice.yaml"
    file.write_text("# nothing yet\n")
    failed = await laneway("pools", "check", "-f", str(file), status=1)
    assert "no machine pools on Harvester were found" in " ".join(failed.err.split())
    file.write_text("{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: a}}\n")
    twice.write_text(file.read_text())
    failed = await laneway("pools", "check", "-f", str(file), "-f", str(twice), status=1)
    assert f"twice.yaml: Cluster a is in {file} already" in " ".join(failed.err.split())
    file.write_text("a: [")
    failed = await laneway("pools", "check", "-f", str(file), status=1)
    assert "empty.yaml: line 1: not valid YAML" in " ".join(failed.err.split())
    wrong = {
        "apiVersion": "provisioning.cattle.io/v1",
        "kind": "Cluster",
        "metadata": {"name": "a"},
    }
    file.write_text(json.dumps(wrong | {"spec": {"rkeConfig": {"machinePools": 5}}}))
    failed = await laneway("pools", "check", "-f", str(file), status=1)
    assert "Cluster a: spec.rkeConfig.machinePools is a whole number" in " ".join(
        failed.err.split()
    )


async def test_set_says_that_only_a_file_changed(
    world: World, laneway: Laneway, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        """\
apiVersion: rke-machine-config.cattle.io/v1
kind: HarvesterConfig
metadata: {name: nc}
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: guest}
spec: {rkeConfig: {machinePools: [{name: p, machineConfigRef: {kind: HarvesterConfig, name: nc}}]}}
"""
    )
    zero = "pools", "set", "guest", "p", "--machines", "0", "-f", str(file)
    done = await laneway(*zero)
    assert done.lines[:2] == [
        f"Changed {file}: pool p of guest has 0 machines without devices there.",
        "The cluster is unchanged until you apply it.",
    ]
    again = await laneway(*zero)
    assert again.lines == [f"{file}: Pool p of guest has 0 machines without devices already."]
    nothing = await laneway("pools", "list", "-n", "nosuch")
    assert nothing.lines == ["No guest cluster in namespace nosuch has machine pools on Harvester."]
