"""What was counted of claims and kept in step says the same as counting all of them again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.admission.indexes import INDEXERS
from laneway.admission.vms.claimed import EVERYBODY, Pool, keep_up, pool_of
from laneway.admission.world import World
from laneway.api import PCIDeviceClaim, USBDeviceClaim, VGPUDevice, decode
from laneway.kube.resource import Key
from laneway.kube.store import Store
from support.examples import many

RESOURCES = ("a.com/one", "b.com/two", "")
NAMES = ("d0", "d1", "d2")
STORES = ("claims", "usb_claims", "vgpus")
TYPES: dict[str, type[Any]] = dict(
    zip(STORES, (PCIDeviceClaim, USBDeviceClaim, VGPUDevice), strict=True)
)


def stored() -> dict[str, Store[Any]]:
    return {name: Store(INDEXERS[name]) for name in STORES}


def change(world: World, what: tuple[Any, ...]) -> None:
    store, name, there, resource, user, node, owned = what
    if not there:
        getattr(world, store).drop(Key("", name))
        return
    owners = [{"kind": "VGPUDevice", "name": name, "apiVersion": "", "uid": ""}] if owned else []
    raw = {
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"userName": user, "nodeName": node},
        "status": {"resourceName": resource, "nodeName": node},
    }
    getattr(world, store).put(decode(TYPES[store], raw))


def counted_again(resource: str, world: World) -> Pool:
    """As a world knows it without counts."""
    stores = stored()
    for name, store in stores.items():
        for obj in getattr(world, name):
            store.put(obj)
    return pool_of(resource, replace(world, **stores))


changes = st.tuples(
    st.sampled_from(STORES),
    st.sampled_from(NAMES),
    st.sampled_from((True, True, False)),
    st.sampled_from(RESOURCES),
    st.sampled_from(("anna", "ben", "")),
    st.sampled_from(("n1", "n2")),
    st.booleans(),
)


@given(st.lists(st.lists(changes, max_size=4), max_size=12), st.booleans())
@settings(max_examples=many(150), deadline=None)  # the VM may be busy
def test_in_step(rounds: list[list[tuple[Any, ...]]], told: bool) -> None:
    world = replace(World(), **stored())
    for batch in rounds:
        for one in batch:
            change(world, one)
            if told:  # as the webhook's informers do
                keep_up(world, "" if one[0] == "vgpus" else one[3])
        for resource in RESOURCES[:2]:
            assert pool_of(resource, world) == counted_again(resource, world)


def test_a_claim_is_for_everybody_as_long_as_there_is_its_vgpu() -> None:
    world = replace(World(), **stored())
    change(world, ("claims", "d0", True, RESOURCES[0], "anna", "n1", True))
    for there, user in ((False, "anna"), (True, EVERYBODY), (False, "anna")):
        change(world, ("vgpus", "d0", there, "", "", "n1", False))
        assert pool_of(RESOURCES[0], world).users == {user: {"n1": 1}}


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("changes", [1, 5000])
def test_more_changes_than_a_store_remembers(changes: int, told: bool) -> None:
    world = replace(World(), **stored())
    for user in ("anna", "ben"):
        change(world, ("claims", "d0", True, RESOURCES[0], user, "n1", False))
        for _ in range(changes):
            change(world, ("claims", "other", True, "", "", "n1", False))
            if told:
                keep_up(world)
        assert pool_of(RESOURCES[0], world).users == {user: {"n1": 1}}
