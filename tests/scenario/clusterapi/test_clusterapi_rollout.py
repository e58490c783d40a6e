"""Simulated Cluster API: machines are exchanged for others, as many at a time as may be."""

from __future__ import annotations

from typing import Any

import pytest

from support.clusterapi import (
    DEPLOYMENTS,
    NAMESPACE,
    TEMPLATES,
    VSPHERE_MACHINES,
    Plain,
    deployment,
    template,
)

T4 = {"vendorId": 4318, "deviceId": 7864}
FROM = "cluster.x-k8s.io/cloned-from-name"
FINALIZER = "vspheremachine.infrastructure.cluster.x-k8s.io"


def _of(found: list[Plain], name: str) -> list[Plain]:
    """Those of a template that is not deleted."""
    return [
        one
        for one in found
        if one.metadata.annotations[FROM] == name and not one.metadata.deletion_timestamp
    ]


def _rolling(surge: int, unavailable: int) -> dict[str, Any]:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}}}


async def _running(world: Any, name: str) -> None:
    """All machines of a template are on."""
    for one in _of(world.infra.all, name):
        await world.provider.powered_on(one, gpus=1)


async def _deployed(world: Any, replicas: int, **more: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("old", T4))
    await world.make(TEMPLATES, template("new", T4, T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "old", replicas, **more))
    await world.machines_of(replicas)
    await _running(world, "old")
    await world.deployments.first(lambda one: one.status.get("availableReplicas") == replicas)


async def _changed(world: Any) -> None:
    machine = {"spec": {"infrastructureRef": {"name": "new"}}}
    await world.client.patch(DEPLOYMENTS, "gpu", {"spec": {"template": machine}}, NAMESPACE)


async def test_another_template_is_rolled_out_one_more_at_a_time(world: Any) -> None:
    """The default: a new machine works before an old one goes."""
    await _deployed(world, 2)

    await _changed(world)

    for left in (1, 0):
        both = await world.infra.until(lambda all_: len(_of(all_, "new")) > 1 - left)  # noqa: B023 - waited for at once
        assert len(both) <= 3
        assert len(_of(both, "old")) == left + 1
        await _running(world, "new")
        await world.infra.until(lambda all_: len(_of(all_, "old")) == left)  # noqa: B023 - the same
    await world.machines_of(2)
    await _running(world, "new")
    done = await world.deployments.first(lambda one: one.status.get("upToDateReplicas") == 2)
    assert done.spec["replicas"] == 2
    await world.sets.until(lambda all_: len(all_) == 1)


@pytest.mark.slow
async def test_where_no_machine_can_be_added_an_old_one_goes_first(world: Any) -> None:
    """There are no spare GPUs: maxSurge 0."""
    await _deployed(world, 1, **_rolling(0, 1))
    [old] = world.infra.all
    theirs = {"metadata": {"finalizers": [FINALIZER]}}
    await world.client.patch(VSPHERE_MACHINES, old.metadata.name, theirs, NAMESPACE)

    await _changed(world)

    both = await world.infra.until(lambda all_: len(all_) == 2)
    assert [bool(one.metadata.deletion_timestamp) for one in _of(both, "new")] == [False]
    assert not _of(both, "old")
    done = {"metadata": {"finalizers": None}}
    await world.client.patch(VSPHERE_MACHINES, old.metadata.name, done, NAMESPACE)
    await world.machines_of(1)


@pytest.mark.slow
async def test_a_template_that_changes_back_keeps_what_there_is(world: Any) -> None:
    await _deployed(world, 1)
    [before] = world.infra.all
    await _changed(world)
    await world.machines_of(2)

    machine = {"spec": {"infrastructureRef": {"name": "old"}}}
    await world.client.patch(DEPLOYMENTS, "gpu", {"spec": {"template": machine}}, NAMESPACE)

    [after] = await world.machines_of(1)
    assert after.metadata.uid == before.metadata.uid
