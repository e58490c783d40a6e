"""GPU instances as containers request them: `nvidia.com/mig-1g.5gb`, on GPUs in the mode MIG.

The plan gives out the instances that there are and makes none: into what a GPU is divided is chosen
for all containers at once. Which instance a pod has is not known, so they are counted by node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from laneway.core.fleet.model import Fleet
from laneway.core.gpu.modes import Mode
from laneway.core.ledger.facts import Phase
from laneway.core.names import instance_resource_name, is_instance_resource


def there(fleet: Fleet) -> Mapping[str, Counter[str]]:
    """The GPU instances that there are, by node and resource."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for gpu in fleet.gpus:
        if gpu.instances and gpu.mode == Mode.MIG and not gpu.claimed:
            found[gpu.node].update(instance_resource_name(one.profile) for one in gpu.instances)
    return found


def free(fleet: Fleet) -> Mapping[str, Counter[str]]:
    """Those that no pod has, by node and resource."""
    found = there(fleet)
    used = in_use(fleet) if found else {}
    return {node: instances - used.get(node, Counter()) for node, instances in found.items()}


def in_use(fleet: Fleet) -> Mapping[str, Counter[str]]:
    """Those that pods have, by node and resource."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for vm in fleet.vms:
        if vm.node and vm.phase is not Phase.STOPPED:
            for name, count in vm.requests.items():
                if is_instance_resource(name):
                    found[vm.node][name] += count
    return found
