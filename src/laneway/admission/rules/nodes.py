"""Nodes of the cluster, of which labels are read that say whom the GPUs serve.

The cluster's nodes are everybody's; anything else about them is allowed unread, and so is a Node
that comes with such a label: nothing here may keep a node from joining its cluster. GPUs whose
objects say whom they serve are not concerned.
"""

from __future__ import annotations

from laneway.admission.rules import workloads
from laneway.admission.rules.common import Case, Findings, Parts, rules
from laneway.admission.world import GPU_NODE, NODE, World
from laneway.api import CoreNode
from laneway.core.gpu.workload import GpuWorkload, label_of, of_node
from laneway.core.phrases import few
from laneway.core.refusals import GpuPodsRunning, GpuSharedOnNode
from laneway.kube.resource import key_of


def _node_of(node: CoreNode, _world: World) -> str:
    return node.metadata.name


def _update(case: Case[CoreNode], old: CoreNode, new: CoreNode) -> Findings:
    labels = old.metadata.labels, new.metadata.labels
    before, after = (of_node(case.name, one).for_containers for one in labels)
    if after and not before:
        yield from _to_containers(case, label_of(new.metadata.labels))
    elif before and not after:
        pods = sorted(str(key_of(one)) for one in case.world.pods.by(GPU_NODE, case.name))
        if pods:
            change = f"change the label {label_of(old.metadata.labels)}"
            yield GpuPodsRunning(case.name, tuple(pods), change)


def _to_containers(case: Case[CoreNode], label: str) -> Findings:
    world = case.world
    shared = [
        one.metadata.name
        for one in world.gpus.by(NODE, case.name)
        if one.spec.enabled and _follows(world, one.metadata.name)
    ]
    if shared:
        yield GpuSharedOnNode(case.name, tuple(sorted(shared)), label)
    claimed = [
        one.metadata.name
        for one in world.claims.by(NODE, case.name)
        if (device := world.pci_devices.get(one.metadata.name)) is not None
        and workloads.vendor(device) is not None
        and _follows(world, one.metadata.name)
    ]
    if claimed:
        gpus = few(sorted(claimed))
        yield f"These GPUs stay claimed for VMs, so containers cannot use them: {gpus}."


def _follows(world: World, name: str) -> bool:
    """Whether no object says of a GPU whom it serves."""
    objects = (world.gpus.get(name), world.pci_devices.get(name))
    return all(one is None or one.spec.workload not in tuple(GpuWorkload) for one in objects)


RULES = rules(Parts(node_of=_node_of, update=_update))
