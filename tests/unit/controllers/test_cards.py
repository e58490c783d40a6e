"""What comes up on a card between the scan that a spec was judged by and the plan for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from laneway.api import (
    Condition,
    ObjectMeta,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
)
from laneway.controllers.acting import Context
from laneway.controllers.cards import NetworkController
from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.gpu_workloads import GpuWorkloads
from laneway.controllers.layouts.owners import Owners
from laneway.controllers.measuring.ecc import EccModes
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.observing.observer import Observer
from laneway.controllers.sharing.gpus import GpuController
from laneway.controllers.sharing.identity import CardIdentity
from laneway.core.plan import Plan
from laneway.core.refusals import GpuClaimed, UnmanagedVfCount, UnmanagedVfs
from laneway.host.scan import scan
from laneway.kube.events import EventRecorder
from laneway.roles.node_caches import NodeCaches
from laneway.sim.spec import build, parse_spec
from support.gpu_modes import A2, named
from support.plans import hardware_of

NIC = "node1-ens4f1"
NOBODY: Any = None
"""No API server is asked: what is judged is the caches and the host."""


def caches_and_context(host: Any, folder: Path) -> tuple[NodeCaches, Context]:
    caches = NodeCaches(NOBODY, "node1", has_kubelet=False)
    metrics = AgentMetrics(MetricFamilies(), "node1")
    hardware, locks = hardware_of(host, folder), GpuLocks()
    identity = CardIdentity("node1", gpus=caches.gpus, vgpus=caches.vgpus, migs=caches.migs)
    recorder = EventRecorder(NOBODY, "test", "node1")
    observer = Observer(hardware, locks, metrics)
    return caches, Context(hardware, observer, recorder, metrics, locks, identity)


def network(host: Any, folder: Path) -> NetworkController:
    caches, context = caches_and_context(host, folder)
    controller = NetworkController("node1", NOBODY, caches.cards, context)
    controller.observed(scan(host))
    return controller


def asked(shown: SRIOVNetworkDevice, count: int, *, reason: str = "") -> SRIOVNetworkDevice:
    """The object with another spec; with a reason, the spec before was answered so."""
    said = Condition(type="Ready", status="True", reason=reason, observed_generation=1)
    status = replace(shown.status, observed_generation=1, conditions=[said]) if reason else None
    return replace(
        shown,
        metadata=ObjectMeta(name=shown.metadata.name, generation=2),
        spec=replace(shown.spec, num_vfs=count),
        status=status or shown.status,
    )


async def test_a_start_waits_for_nothing_that_is_deleted_or_speaks_of_another_device(
    tmp_path: Path,
) -> None:
    cards = network(build(parse_spec("plain"), "node1"), tmp_path)
    wanted = asked(cards.wanted[NIC], 4)

    def unmet(stored: SRIOVNetworkDevice) -> bool:
        cards.informer.store.put(stored)
        return cards.unmet()

    assert unmet(wanted)
    going = replace(wanted.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert not unmet(replace(wanted, metadata=going))
    assert not unmet(replace(wanted, spec=replace(wanted.spec, address="0000:99:00.0")))


@pytest.mark.parametrize("answered", ["", "Disabled"])
async def test_functions_that_another_has_just_made_stay(tmp_path: Path, answered: str) -> None:
    host = build(parse_spec("plain"), "node1")
    cards = network(host, tmp_path)
    shown = cards.wanted[NIC]
    desired = cards.desired(asked(shown, 4, reason=answered), shown)
    assert desired.explicit is bool(answered)
    assert cards.settled(desired) is None
    assert isinstance(await cards.plan(desired), Plan)

    host.write(f"/sys/bus/pci/devices/{shown.spec.address}/sriov_numvfs", "3")

    assert await cards.plan(desired) == (UnmanagedVfCount(shown.spec.address, 4, 3),)


async def test_functions_that_have_just_become_others_stay(tmp_path: Path) -> None:
    host = build(parse_spec("plain"), "node1")
    path = f"/sys/bus/pci/devices/{network(host, tmp_path).wanted[NIC].spec.address}/sriov_numvfs"
    host.write(path, "2")
    cards = network(host, tmp_path)
    shown = cards.wanted[NIC]
    desired = cards.desired(asked(shown, 0, reason="Enabled"), shown)
    assert isinstance(await cards.plan(desired), Plan)

    host.write(path, "0")
    host.write(path, "5")

    assert await cards.plan(desired) == (UnmanagedVfs(shown.spec.address, 5),)


async def test_a_gpu_that_has_just_been_claimed_is_not_switched(tmp_path: Path) -> None:
    host = build(parse_spec("a2"), "node1")
    await host.run(["/usr/lib/nvidia/sriov-manage", "-d", A2], 60)
    caches, context = caches_and_context(host, tmp_path)
    gpus = GpuController(
        "node1",
        NOBODY,
        caches.gpus,
        context,
        vgpus=caches.vgpus,
        migs=caches.migs,
        claims=caches.claims,
        pcis=caches.pcis,
        owners=Owners("node1", caches.layouts),
        workloads=GpuWorkloads(
            "node1", nodes=caches.nodes, gpus=caches.gpus, pcis=caches.pcis, pods=caches.pods
        ),
        ecc=EccModes(),
    )
    gpus.observed(scan(host))
    shown = gpus.wanted[named(A2)]
    stored: SRIOVGPUDevice = replace(shown, spec=replace(shown.spec, enabled=True))
    desired = gpus.desired(stored, shown)
    assert gpus.settled(desired) is None
    assert isinstance(await gpus.plan(desired), Plan)

    claim = PCIDeviceClaimSpec(address=A2, node_name="node1", user_name="alice")
    caches.claims.store.put(PCIDeviceClaim(metadata=ObjectMeta(name=named(A2)), spec=claim))

    assert await gpus.plan(desired) == (GpuClaimed(A2, named(A2), "alice"),)
