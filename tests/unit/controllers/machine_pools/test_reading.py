"""What Rancher's objects say of machine pools, and mistakes in them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.api import decode
from laneway.controllers.machine_pools.reading import (
    Existing,
    machines_of,
    pool_of,
    read_config,
)
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, Facts, NodeFact, Phase
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools.compute import GIB, MIB, Size
from laneway.kube.rancher import GuestCluster, MachineConfig, MachinePool

A2 = "nvidia.com/NVIDIA_A2-4Q"
VGPUS = f'{{"vGPURequests":[{{"name":"provisioned","deviceName":"{A2}"}}]}}'


def config(**fields: Any) -> MachineConfig:
    return decode(MachineConfig, msgspec.json.encode({"metadata": {"name": "nc"}, **fields}))


def pool(**fields: Any) -> MachinePool:
    return msgspec.convert({"name": "gpu", **fields}, MachinePool)


def vm(name: str, namespace: str = "default") -> Consumer:
    return Consumer(ConsumerKind.VM, namespace, name)


def ledger(*demands: Demand, **nodes: dict[str, str]) -> Ledger:
    facts = tuple(NodeFact(name, labels) for name, labels in nodes.items())
    return build(Facts((), demands, facts))


def test_a_configuration_of_harvesters_form() -> None:
    asked, problems = read_config(
        config(
            vgpuInfo=VGPUS,
            cpuCount="4",
            memorySize="8",
            reservedMemorySize="256",
            vmNamespace="guests",
            imageName="default/image-1",
        )
    )
    assert not problems
    assert (asked.devices, asked.namespace) == ({A2: 1}, "guests")
    assert asked.size == Size(4, 8 * GIB, reserved=256 * MIB, devices=True)


def test_what_is_not_said_is_harvesters_default() -> None:
    asked, problems = read_config(config(reservedMemorySize="-1", vgpuInfo=""))
    assert not problems
    assert (asked.size, asked.namespace) == (Size(2, 4 * GIB), "default")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"vgpuInfo": "{"}, "vgpuInfo is not JSON"),
        ({"hostDeviceInfo": "[]"}, "hostDeviceInfo is not a JSON object"),
        ({"cpuCount": "two"}, "cpuCount: 'two' is not a number"),
        ({"memorySize": "4Gi"}, "memorySize: '4Gi' is not a number"),
        ({"vmAffinity": "{"}, "vmAffinity is not an affinity"),
    ],
)
def test_a_mistake_in_a_configuration_is_named(fields: dict[str, str], words: str) -> None:
    _, [problem] = read_config(config(**fields))
    assert words in str(problem)


def test_how_many_more_and_fewer_machines_there_may_be() -> None:
    asked, _ = read_config(config())
    found = [
        pool_of(pool(quantity=5, rollingUpdate=rolling), asked, ledger())[0]
        for rolling in (None, {"maxSurge": "25%", "maxUnavailable": "50%"}, {"maxSurge": 0})
    ]
    assert [(one.surge, one.unavailable) for one in found] == [(1, 0), (2, 2), (0, 0)]
    assert pool_of(pool(), asked, ledger())[0].quantity == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"quantity": -1}, "quantity: -1 is not a number of 0 to"),
        ({"quantity": 10**7}, "is not a number of 0 to"),
        ({"rollingUpdate": {"maxSurge": "many"}}, "maxSurge: 'many' is neither a number nor"),
        ({"rollingUpdate": {"maxUnavailable": -2}}, "maxUnavailable: '-2' is neither"),
    ],
)
def test_a_mistake_in_a_pool_is_named(fields: dict[str, Any], words: str) -> None:
    asked, _ = read_config(config())
    _, [problem] = pool_of(pool(**fields), asked, ledger())
    assert words in str(problem)


def test_machines_may_be_on_the_nodes_of_the_affinity() -> None:
    rule = {"key": "gpu", "operator": "In", "values": ["a2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    asked, _ = read_config(config(vmAffinity=msgspec.json.encode(required).decode()))
    found, _ = pool_of(pool(), asked, ledger(n1={"gpu": "a2"}, n2={}))
    assert found.nodes == {"n1"}


def test_machines_of_every_release_of_the_driver_are_recognised() -> None:
    newer = {"guestcluster.harvesterhci.io/name": "guest", "nodepool.harvesterhci.io/name": "gpu"}
    older = {"harvesterhci.io/machineSetName": "default-guest-gpu"}
    other = {**newer, "nodepool.harvesterhci.io/name": "cp"}
    demands = [
        Demand(vm("m1"), Phase.RUNNING, {}, labels=newer),
        Demand(vm("m2"), Phase.RUNNING, {}, labels=older),
        Demand(vm("m3"), Phase.RUNNING, {}, labels=other),
        Demand(vm("m4", "other"), Phase.RUNNING, {}, labels=newer),
        Demand(vm("m5"), Phase.RUNNING, {}),
    ]
    cluster = decode(GuestCluster, b'{"metadata":{"name":"guest"}}')
    known = ledger(*demands)
    assert {one.name for one in machines_of(known, cluster, "gpu", "default")} == {"m1", "m2"}
    named = machines_of(known, cluster, "gpu", "default", ["m5"])
    assert {one.name for one in named} == {"m1", "m2", "m5"}


def test_a_machine_with_other_devices_is_replaced() -> None:
    asked, _ = read_config(config(vgpuInfo=VGPUS))
    same, other = vm("same"), vm("other")
    known = ledger(Demand(same, Phase.RUNNING, {A2: 1}), Demand(other, Phase.RUNNING, {}))
    found, _ = pool_of(pool(), asked, known, Existing(machines=(same, other)))
    assert {one.vm: one.stays for one in found.machines} == {same: True, other: False}
    everything, _ = pool_of(
        pool(), asked, known, Existing(machines=(same,), replaced=frozenset({same}))
    )
    assert not everything.machines[0].stays
