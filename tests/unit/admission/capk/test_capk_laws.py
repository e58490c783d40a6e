"""What is said of a changed MachineDeployment, against the scheduler and Cluster API's rollouts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laneway.admission.capk import many
from laneway.admission.clusterapi.known import LABEL_DEPLOYMENT
from laneway.admission.clusterapi.many import Name, read
from laneway.kube.clusterapi import MACHINE_DEPLOYMENTS
from laneway.simcluster.clusterapi.rollout import SetSize, resized
from laneway.simcluster.objects import Node, PlacedPod
from laneway.simcluster.scheduler import choose

RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
NANO = 10**9


class Vm(NamedTuple):
    """A VM that runs."""

    node: str
    gpus: int
    of: str = ""
    """Its template; empty: it is no machine."""


class Wanted(NamedTuple):
    """What a machine is to be."""

    of: str
    gpus: int


class Nodes:
    """The hosts, as the scheduler sees them."""

    def __init__(self, has: Mapping[str, int], luck: random.Random) -> None:
        self.vms: list[Vm] = []
        self.luck = luck
        self._nodes = [_node(name, count) for name, count in has.items()]

    def start(self, gpus: int, of: str = "") -> str:
        """The node that a VM got; empty: it waits."""
        taken: dict[str, dict[str, int]] = {}
        for vm in self.vms:
            on = taken.setdefault(vm.node, {"pods": self.luck.randrange(9) * NANO})
            on[RESOURCE] = on.get(RESOURCE, 0) + vm.gpus * NANO
        chosen, _ = choose(_pod(gpus), self._nodes, taken)
        if chosen:
            self.vms.append(Vm(chosen, gpus, of))
        return chosen

    def settled(self, desired: int, new: Wanted, waiting: int, limits: Any) -> bool:
        """Roll out step by step; whether all machines run and are of the new template.

        `waiting`: so many machines that there were have no node yet.
        """
        fresh, stale = (0, waiting) if new.of == "new" else (waiting, 0)
        changed = True
        while changed:
            ready = sum(vm.of == new.of for vm in self.vms)
            old = [vm for vm in self.vms if vm.of not in ("", new.of)]
            size = SetSize("new", ready + fresh, ready)
            left = len(old) + stale
            changes = resized(
                desired,
                size,
                [SetSize("old", left, len(old))] if left else [],
                surge=limits["maxSurge"],
                unavailable=limits["maxUnavailable"],
            )
            cut = left - changes.get("old", left)
            idle = min(cut, stale)
            stale -= idle
            for vm in old[: cut - idle]:
                self.vms.remove(vm)
            fresh += changes.get("new", size.replicas) - size.replicas
            changed = bool(changes)
            if fresh and self.start(new.gpus, new.of):
                fresh -= 1
                changed = True
        found = [vm.of for vm in self.vms if vm.of]
        return found == [new.of] * desired and not (fresh or stale)


def _node(name: str, count: int) -> Node:
    status = {
        "allocatable": {RESOURCE: str(count), "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def _pod(gpus: int) -> PlacedPod:
    container = {"name": "compute", "resources": {"limits": {RESOURCE: str(gpus)}}}
    return msgspec.convert({"spec": {"containers": [container]}}, PlacedPod)


worlds = st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 4), min_size=1)
limited = st.sampled_from(
    [
        {"maxSurge": surge, "maxUnavailable": missing}
        for surge in range(3)
        for missing in range(3)
        if surge or missing
    ]
)


class Story(NamedTuple):
    """A cluster, and a change of its MachineDeployment."""

    has: Mapping[str, int]
    others: int
    """So many VMs with one device that are no machines."""
    sizes: tuple[int, int]
    """Devices of the old and of the new template."""
    before: int
    after: int
    exchanged: bool
    limits: Mapping[str, int]


stories = st.builds(
    Story,
    has=worlds,
    others=st.integers(0, 3),
    sizes=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    before=st.integers(0, 4),
    after=st.integers(1, 4),
    exchanged=st.booleans(),
    limits=limited,
).filter(lambda one: one.exchanged or one.after > one.before)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories, st.randoms(use_true_random=False))
def test_what_is_judged_to_fit_starts_and_nothing_else(
    make_scene: Any, story: Story, luck: random.Random
) -> None:
    has, others, sizes, before, after, exchanged, limits = story
    new = "new" if exchanged else "old"
    scene, nodes = make_scene(), Nodes(has, luck)
    for name, count in has.items():
        scene.node(name, count)
    scene.cluster()
    for name, gpus in zip(("old", "new"), sizes, strict=True):
        scene.template(name, gpus)
    owner = {"apiVersion": "a", "kind": "MachineDeployment", "name": "workers", "uid": "1"}
    owners = [owner | {"controller": True}]
    made_by = scene.many(before, "old", "MachineSet", "workers-old", ownerReferences=owners)
    scene.knows("cluster_sets", made_by)
    for number in range(others):
        if node := nodes.start(1):
            scene.vm(f"other-{number}", node)
    waiting = 0
    for number in range(before):
        node = nodes.start(sizes[0], "old")
        waiting += not node
        scene.machine(f"w-{number}", node, made_by="workers-old", gpus=sizes[0])
    desired, was = (
        read(MACHINE_DEPLOYMENTS.decode(msgspec.json.encode(one)))
        for one in (
            scene.many(after, new, limits=limits),
            scene.many(before, "old", limits=limits),
        )
    )

    which = Name("default", "workers", LABEL_DEPLOYMENT, "spec")
    verdict = many.judge(was, desired, which, scene.world)
    settled = nodes.settled(after, Wanted(new, sizes[exchanged]), waiting, limits)

    stops = [one.startswith("The rolling update of its machines") for one in verdict.warnings]
    assert (not verdict.refusals and not any(stops)) is settled
