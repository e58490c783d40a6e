"""A node whose HostPreparation cannot be read is not one of which nothing is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from laneway.api import HostPolicy, ObjectMeta
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.resource import Key
from laneway.web.caches import Caches, Node
from laneway.web.pages.hosts.rows import rows
from laneway.web.place import Place
from laneway.web.rendering import Rendering, Texts
from laneway.web.visit import Site, User, Visit


def test_a_preparation_that_cannot_be_read_says_so() -> None:
    caches = Caches.of(Client(ClusterConfig(Cluster("http://127.0.0.1:1"))))
    caches.policies.store.put(HostPolicy(metadata=ObjectMeta(name="all")))
    for name in ("n1", "n2"):
        caches.nodes.store.put(Node(metadata=ObjectMeta(name=name)))
    caches.preparations.undecodable[Key("", "n2")] = "spec.iommu: expected bool"
    unused = cast(Any, None)
    site = Site(caches, unused, Rendering(Texts()), unused)
    access = SimpleNamespace(may=lambda _asked: True)
    user = cast(User, SimpleNamespace(name="alice", access=access, client=None))
    said = {row.name: row.one.message for row in rows(Visit(site, user, Place(path="/hosts")))}
    assert "Nothing is asked of the node yet." in said["n1"]
    assert "It cannot be read: spec.iommu: expected bool." in said["n2"]
