"""What is said of a write of a guest cluster or a machine configuration, and what of none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.api import decode, to_builtins
from laneway.controllers.machine_pools.look import Managed, Supply, patience
from laneway.controllers.machine_pools.writes.case import NOTHING, Harvester, Outcome, pools_of
from laneway.controllers.machine_pools.writes.clusters import of_cluster
from laneway.controllers.machine_pools.writes.configs import of_config
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import (
    Consumer,
    ConsumerKind,
    Demand,
    DeviceFact,
    Facts,
    NodeFact,
    Phase,
)
from laneway.kube import rancher
from laneway.kube.rancher import GuestCluster, MachineConfig

KIND = rancher.HARVESTER_CONFIGS.kind
A2, T4 = "nvidia.com/NVIDIA_A2-4Q", "nvidia.com/GRID_T4-4Q"


class Two:
    """Harvester clusters by the name of a cloud credential; `default` for all others."""

    def __init__(self, **known: Supply | str) -> None:
        self._known = known

    def of(self, credential: str) -> Harvester:
        own = credential.rpartition(":")[2]
        name = own if own in self._known else "default"
        return self._harvester(name)

    def all(self) -> Sequence[Harvester]:
        return [self._harvester(name) for name in self._known]

    def _harvester(self, name: str) -> Harvester:
        found = self._known[name]
        if isinstance(found, str):
            return Harvester(name, None, found)
        return Harvester(name, found)


def supply(count: int, *demands: Demand, resource: str = A2) -> Supply:
    """A node with so many devices, and VMs that run on it or wait."""
    owners = [one.consumer for one in demands if one.phase is Phase.RUNNING]
    devices = tuple(
        DeviceFact("n1", resource, f"d{n}", owner=owners[n] if n < len(owners) else None)
        for n in range(count)
    )
    return Supply(ledger=build(Facts(devices, demands, (NodeFact("n1"),))))


def vm(cluster: str, name: str, pool: str = "gpu", *, waits: bool = False) -> Demand:
    """A machine with one device."""
    labels = {rancher.LABEL_GUEST_CLUSTER: cluster, rancher.LABEL_POOL: pool}
    return Demand(
        Consumer(ConsumerKind.VM, "default", name),
        Phase.PENDING if waits else Phase.RUNNING,
        {A2: 1},
        node="" if waits else "n1",
        labels=labels,
    )


def config(name: str, resource: str = A2, count: int = 1, **fields: Any) -> MachineConfig:
    entries = [{"name": "", "deviceName": resource}] * count
    given = {"vgpuInfo": json.dumps({"vGPURequests": entries}), **fields}
    meta = {"name": name, "namespace": "fleet"}
    return decode(MachineConfig, msgspec.json.encode({"metadata": meta, **given}))


def cluster(name: str, credential: str = "cc", **pools: Any) -> GuestCluster:
    """Pools by name: a quantity, or fields; the configuration is called like the pool."""
    listed = [
        {
            "name": pool,
            "machineConfigRef": {"kind": KIND, "name": pool},
            **(fields if isinstance(fields, dict) else {"quantity": fields}),
        }
        for pool, fields in pools.items()
    ]
    spec = {"cloudCredentialSecretName": f"ns:{credential}", "rkeConfig": {"machinePools": listed}}
    meta = {"name": name, "namespace": "fleet"}
    return decode(GuestCluster, msgspec.json.encode({"metadata": meta, "spec": spec}))


def managed(*clusters: GuestCluster, configs: Mapping[str, MachineConfig] | None = None) -> Managed:
    found = configs or {name: config(name) for name in ("gpu", "other")}
    return Managed(
        clusters=clusters,
        configs={(KIND, "fleet", name): one for name, one in found.items()},
    )


def said(outcome: Outcome) -> list[str]:
    return [one.words for one in outcome.refusals]


def test_what_others_are_still_to_get_counts_at_any_age() -> None:
    """R9: a cluster that was admitted a moment ago has no VM yet."""
    there = managed(cluster("young", gpu=2), cluster("old", gpu=1))
    has = Two(default=supply(4, vm("old", "old-1")))
    grown = cluster("old", gpu=3)
    [refusal] = said(of_cluster(cluster("old", gpu=1), grown, there, has))
    assert "gpu (2), other pool 1 (2) do not fit together" in refusal
    assert of_cluster(cluster("old", gpu=1), cluster("old", gpu=2), there, has).refusals == ()


NOW = datetime(2026, 11, 26, 12, 30, tzinfo=UTC)
LATELY, LONG_AGO = "2026-11-26T12:00:00Z", "2026-11-26T10:00:00Z"


def asked_for(found: GuestCluster, made: str, spec_changed: str = "", **meta: Any) -> GuestCluster:
    """A guest cluster with its times, as the management cluster tells them."""
    raw = to_builtins(found)
    wrote = [
        {"time": LATELY, "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"time": LATELY, "fieldsV1": {"f:metadata": {"f:annotations": {}}}},
    ]
    if spec_changed:
        wrote.append({"time": spec_changed, "fieldsV1": {"f:metadata": {}, "f:spec": {}}})
    raw["metadata"] |= {"creationTimestamp": made, "managedFields": wrote, **meta}
    raw["spec"] = {
        "rkeConfig": {
            "machinePools": [
                {"name": pool.name, "quantity": pool.quantity, "paused": pool.paused}
                | {"machineConfigRef": {"kind": KIND, "name": pool.name}}
                for pool in pools_of(found)
            ]
        }
    }
    return rancher.GUEST_CLUSTERS.decode(msgspec.json.encode(raw))


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (asked_for(cluster("other", gpu=2), LATELY), True),
        (asked_for(cluster("other", gpu=2), LONG_AGO), False),
        (asked_for(cluster("other", gpu=2), LONG_AGO, LATELY), True),
        (asked_for(cluster("other", gpu=2), LONG_AGO, LONG_AGO), False),
        (asked_for(cluster("other", gpu=2), LATELY, deletionTimestamp=LATELY), False),
        (asked_for(cluster("other", gpu={"quantity": 2, "paused": True}), LATELY), False),
    ],
)
def test_a_pool_that_makes_no_vms_takes_nothing_from_others(
    other: GuestCluster, *, counts: bool
) -> None:
    """Neither what writes of statuses and annotations tell is a change of what is desired."""
    there = replace(managed(other), since=patience(NOW))
    outcome = of_cluster(None, cluster("guest", gpu=1), there, Two(default=supply(2)))
    assert bool(outcome.refusals) is counts


def test_a_pool_goes_on_while_its_configuration_changes_or_vms_are_made() -> None:
    other = asked_for(cluster("other", gpu=2), LONG_AGO)
    stored = rancher.HARVESTER_CONFIGS.decode(
        msgspec.json.encode(
            {
                "metadata": {
                    "name": "gpu",
                    "namespace": "fleet",
                    "creationTimestamp": LONG_AGO,
                    "managedFields": [{"time": LATELY, "fieldsV1": {"f:vgpuInfo": {}}}],
                },
                "vgpuInfo": config("gpu").vgpu_info,
            }
        )
    )
    changed = replace(managed(other, configs={"gpu": stored}), since=patience(NOW))
    new, has = cluster("guest", gpu=1), Two(default=supply(2))
    assert of_cluster(None, new, changed, has).refusals
    there = replace(managed(other), since=patience(NOW))
    for made, is_room in ((LATELY, False), (LONG_AGO, True)):
        machine = replace(vm("other", "other-1"), created=made)
        found = of_cluster(None, new, there, Two(default=supply(2, machine)))
        assert (found.refusals == ()) is is_room


def test_a_machine_of_another_cluster_that_waits_counts_once() -> None:
    """The ledger keeps a device for it; there is another one for a new machine."""
    there = managed(cluster("first", gpu=1))
    has = Two(default=supply(2, vm("first", "first-1", waits=True)))
    assert of_cluster(None, cluster("second", gpu=1), there, has).refusals == ()
    assert said(of_cluster(None, cluster("second", gpu=2), there, has))


def test_who_writes_a_cluster_is_not_told_the_names_of_others() -> None:
    old, tenant = cluster("guest", gpu=1), Consumer(ConsumerKind.VM, "secret", "project-x")
    runs = Demand(tenant, Phase.RUNNING, {A2: 1}, node="n1")
    has = Two(default=supply(2, vm("guest", "m1"), runs))
    [refusal] = said(of_cluster(old, cluster("guest", gpu=2), managed(old), has))
    assert "(2 held by VM default/m1 (1), VMs of others (1))" in refusal
    assert "project-x" not in refusal


def test_machines_of_a_pool_that_goes_leave_their_devices_to_another() -> None:
    old = cluster("guest", gpu=2)
    has = Two(default=supply(2, vm("guest", "m1"), vm("guest", "m2")))
    assert of_cluster(old, cluster("guest", other=2), managed(old), has).refusals == ()
    [refusal] = said(of_cluster(old, cluster("guest", gpu=2, other=1), managed(old), has))
    assert "Pool other" in refusal


def test_another_configuration_replaces_the_machines_of_a_pool() -> None:
    old = cluster("guest", gpu=2)
    has = Two(default=supply(2, vm("guest", "m1"), vm("guest", "m2")))
    new = cluster("guest", gpu={"quantity": 2, "machineConfigRef": {"kind": KIND, "name": "other"}})
    outcome = of_cluster(old, new, managed(old), has)
    assert outcome.refusals == ()
    [warning] = outcome.warnings
    assert warning.words.startswith("Pool gpu: The rolling update of its machines")


def test_a_rolling_update_that_could_not_begin_is_told_when_it_is_set() -> None:
    old = cluster("guest", gpu={"quantity": 1, "rollingUpdate": {"maxUnavailable": 1}})
    new = cluster("guest", gpu={"quantity": 1, "rollingUpdate": {"maxUnavailable": 0}})
    has = Two(default=supply(1, vm("guest", "m1")))
    [warning] = of_cluster(old, new, managed(old), has).warnings
    assert "the nodes lack 1 x" in warning.words
    assert of_cluster(new, old, managed(new), has) == NOTHING


def test_each_pool_is_judged_by_the_harvester_of_its_credential() -> None:
    has = Two(cc=supply(2), other="it does not answer", default=supply(0))
    there = managed()
    assert of_cluster(None, cluster("a", "cc", gpu=1), there, has) == NOTHING
    assert said(of_cluster(None, cluster("a", "unlisted", gpu=1), there, has))
    away = of_cluster(None, cluster("a", "other", gpu=1), there, has)
    [words] = away.unchecked
    assert words.startswith("Laneway did not check pool gpu: the Harvester cluster other is not")
    assert words.endswith("it does not answer.")
    mixed = cluster("a", "cc", gpu=1, other={"cloudCredentialSecretName": "ns:other"})
    both = of_cluster(None, mixed, there, has)
    assert (both.refusals, len(both.unchecked)) == ((), 1)
    # What is wanted of one Harvester cluster is not taken from the other.
    elsewhere = managed(cluster("b", "unlisted", gpu=1))
    assert of_cluster(None, cluster("a", "cc", gpu=1), elsewhere, has) == NOTHING


def test_a_cluster_that_comes_before_its_configuration_is_judged_with_that() -> None:
    has, new = Two(default=supply(1)), cluster("guest", gpu=2)
    early = of_cluster(None, new, managed(configs={"x": config("x")}), has)
    assert early.refusals == ()
    assert early.unchecked == (f"Laneway did not check pool gpu: there is no {KIND} gpu.",)
    there = managed(new, configs={"x": config("x")})
    [refusal] = said(of_config(KIND, None, config("gpu"), there, has))
    assert refusal.startswith(f"Pool gpu of guest: {A2}: 1 requested by each of 2 VMs")


def test_a_configuration_is_judged_for_every_cluster_that_uses_it() -> None:
    first, second = cluster("first", gpu=1), cluster("second", gpu=1)
    has = Two(default=supply(3, vm("first", "m1"), vm("second", "m2")))
    there = managed(first, second)
    found = said(of_config(KIND, config("gpu"), config("gpu", count=3), there, has))
    assert [words.partition(":")[0] for words in found] == [
        "Pool gpu of first",
        "Pool gpu of second",
    ]


def test_devices_of_which_nothing_is_known_are_not_called_missing() -> None:
    away = Two(default=supply(1), other="it does not answer")
    found = of_config(KIND, None, config("gpu", T4), managed(), away)
    assert (found.refusals, len(found.unchecked)) == ((), 1)
    assert of_config(KIND, None, config("gpu", A2), managed(), away) == NOTHING
    known = Two(default=supply(1), other=supply(1, resource=T4))
    assert of_config(KIND, None, config("gpu", T4), managed(), known) == NOTHING
    [words] = said(of_config(KIND, None, config("gpu", T4), managed(), Two(default=supply(1))))
    assert words.startswith(f"{T4}: no node has such a device. To configure")


SIZES = st.integers(0, 4)
CLUSTERS = st.builds(
    lambda gpu, other: {name: n for name, n in (("gpu", gpu), ("other", other)) if n is not None},
    st.none() | SIZES,
    st.none() | SIZES,
)


@given(CLUSTERS, CLUSTERS, st.integers(0, 5), st.integers(0, 3))
def test_what_asks_for_no_more_passes_and_what_is_refused_does_not_fit(
    before: dict[str, int], after: dict[str, int], devices: int, running: int
) -> None:
    running = min(running, devices, before.get("gpu", 0))
    old, new = cluster("guest", **before), cluster("guest", **after)
    has = Two(default=supply(devices, *(vm("guest", f"m{n}") for n in range(running))))
    outcome = of_cluster(old, new, managed(old), has)
    if all(count <= before.get(name, -1) for name, count in after.items()):
        assert outcome == NOTHING
    elif sum(after.values()) <= devices:
        assert outcome.refusals == ()
    elif sum(before.values()) <= devices:
        assert outcome.refusals


@given(st.text(max_size=40), st.text(max_size=40), st.integers(-(2**31), 2**31 - 1))
def test_any_text_and_number_gets_an_answer(text: str, other: str, quantity: int) -> None:
    has = Two(default=supply(1))
    one = config("gpu", vgpuInfo=text, vmAffinity=other, cpuCount=other, memorySize=text)
    of_config(KIND, None, one, managed(), has)
    there = managed(configs={"gpu": one})
    rolling = {"maxSurge": text, "maxUnavailable": quantity}
    new = cluster("guest", gpu={"quantity": quantity, "rollingUpdate": rolling})
    of_cluster(None, new, there, has)
