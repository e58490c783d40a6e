"""Nodes of the cluster, of which one label is Laneway's: whether the GPUs are for containers.

The cluster's nodes are everybody's; anything else about them is allowed unread, and so is a Node
that comes with the label: nothing here may keep a VM from joining its cluster.
"""

from __future__ import annotations

from laneway.admission.rules.claimable import is_gpu
from laneway.admission.rules.common import Case, Findings, Parts, rules
from laneway.admission.world import GPU_NODE, NODE, World
from laneway.api import CoreNode
from laneway.core import keys
from laneway.core.phrases import few
from laneway.core.refusals import GpuPodsRunning, GpuSharedOnNode
from laneway.kube.resource import key_of


def _node_of(node: CoreNode, _world: World) -> str:
    return node.metadata.name


def _update(case: Case[CoreNode], old: CoreNode, new: CoreNode) -> Findings:
    before, after = _for_containers(old), _for_containers(new)
    if after and not before:
        yield from _to_containers(case)
    elif before and not after:
        pods = sorted(str(key_of(one)) for one in case.world.pods.by(GPU_NODE, case.name))
        if pods:
            yield GpuPodsRunning(case.name, tuple(pods))


def _to_containers(case: Case[CoreNode]) -> Findings:
    world = case.world
    shared = [one.metadata.name for one in world.gpus.by(NODE, case.name) if one.spec.enabled]
    if shared:
        yield GpuSharedOnNode(case.name, tuple(sorted(shared)))
    claimed = [
        one.metadata.name
        for one in world.claims.by(NODE, case.name)
        if (device := world.pci_devices.get(one.metadata.name)) is not None and is_gpu(device)
    ]
    if claimed:
        gpus = few(sorted(claimed))
        yield f"These GPUs stay claimed for VMs, so containers cannot use them: {gpus}."


def _for_containers(node: CoreNode) -> bool:
    return node.metadata.labels.get(keys.LABEL_BAREMETAL_GPUS) == "true"


RULES = rules(Parts(node_of=_node_of, update=_update))
