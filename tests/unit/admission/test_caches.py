"""What rules may look at is what watches keep."""

from __future__ import annotations

from dataclasses import fields

from laneway.admission.caches import AdmissionCaches
from laneway.admission.indexes import INDEXERS
from laneway.api import decode
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import VirtualMachine
from laneway.kube.store import Store

PERHAPS = ("vms", "instances", "installations", "vcenters", "vsphere_", "kubevirt_", "cluster_")


async def test_every_store_of_the_world_is_kept_and_indexed() -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        caches = AdmissionCaches.of(client, {"somebody"})
        for field in fields(caches.world):
            store = getattr(caches.world, field.name)
            if isinstance(store, Store):
                assert store is caches.informers.all[field.name].store
                for index in INDEXERS.get(field.name, ()):
                    assert store.by(index, "nothing") == []
        assert caches.world.trusted == {"somebody"}
        assert not caches.world.vsphere_refuses
        assert AdmissionCaches.of(client, vsphere_refuses=True).world.vsphere_refuses


async def test_nothing_waits_for_kinds_that_a_cluster_need_not_have() -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        caches = AdmissionCaches.of(client)
        assert "claims" in caches.waiting_for()
        for name, informer in caches.informers.all.items():
            informer.answered.set()
            if not name.startswith(PERHAPS):
                assert name in caches.waiting_for()
                informer.synced.set()
        assert caches.waiting_for() == ["ledger"]
        caches.source.known.set()
        assert caches.waiting_for() == []


async def test_answers_do_not_wait_for_a_ledger_that_takes_long() -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        caches = AdmissionCaches.of(client)
        source, vms = caches.source, caches.informers.vms
        source.known.set()
        assert caches.world.ledger() is not None
        for took, is_fresh in ((1.0, False), (0.0, True)):
            before = caches.world.ledger()
            vms._notify(None, put(vms, f"asked when it took {took}"))
            source.build_seconds = took
            assert (caches.world.ledger() is not before) is is_fresh


def put(vms: Informer[VirtualMachine], name: str) -> VirtualMachine:
    devices = {"gpus": [{"name": "gpu", "deviceName": "nvidia.com/A2"}]}
    spec = {"template": {"spec": {"domain": {"devices": devices}}}}
    vm = decode(VirtualMachine, {"metadata": {"name": name}, "spec": spec})
    vms.store.put(vm)
    return vm
