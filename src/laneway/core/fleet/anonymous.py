"""A fleet without the names and words of those whose it is, on which plans are the same."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.core.fleet.model import POD, Fleet


def anonymous(fleet: Fleet) -> Fleet:
    """The same with neutral names of nodes and VMs, without labels, and without words of others."""
    nodes = {node.name: f"node-{n}" for n, node in enumerate(fleet.nodes, 1)}
    holders = [vgpu.holder for gpu in fleet.gpus for vgpu in gpu.vgpus]
    holders += [device.holder for device in fleet.devices]
    named = dict.fromkeys((*(vm.name for vm in fleet.vms), *filter(None, holders)))
    # What is a pod stays one: it cannot be moved.
    vms = {
        name: f"{POD}pod/pod-{n}" if name.startswith(POD) else f"vm/vm-{n}"
        for n, name in enumerate(named, 1)
    }
    labels: dict[tuple[str, str], str] = {}
    said = [*(node.labels for node in fleet.nodes), *(vm.labels for vm in fleet.vms)]
    said += [vm.selector for vm in fleet.vms]
    for pair in (pair for one in said for pair in one.items()):
        labels.setdefault(pair, f"label-{len(labels) + 1}")
    resources = {
        device.resource: f"device/{n}"
        for n, device in enumerate(fleet.devices, 1)
        if device.name in device.resource
    }

    def plain(pairs: Mapping[str, str]) -> dict[str, str]:
        return {labels[pair]: "" for pair in pairs.items()}

    replace = msgspec.structs.replace
    return Fleet(
        nodes=tuple(
            replace(
                node,
                name=nodes[node.name],
                labels=plain(node.labels),
                closed="it is closed" if node.closed else "",
            )
            for node in fleet.nodes
        ),
        gpus=tuple(
            replace(
                gpu,
                name=f"gpu-{n}",
                node=nodes[gpu.node],
                claimed="it is in use as a whole" if gpu.claimed else "",
                vgpus=tuple(
                    replace(
                        vgpu,
                        name=f"vgpu-{n}-{m}",
                        holder=vms.get(vgpu.holder, ""),
                        unhealthy="it is unhealthy" if vgpu.unhealthy else "",
                    )
                    for m, vgpu in enumerate(gpu.vgpus, 1)
                ),
            )
            for n, gpu in enumerate(fleet.gpus, 1)
        ),
        devices=tuple(
            replace(
                device,
                name=f"device-{n}",
                node=nodes[device.node],
                resource=resources.get(device.resource, device.resource),
                holder=vms.get(device.holder, ""),
                unhealthy="it is unhealthy" if device.unhealthy else "",
            )
            for n, device in enumerate(fleet.devices, 1)
        ),
        vms=tuple(
            replace(
                vm,
                name=vms[vm.name],
                node=nodes.get(vm.node, ""),
                labels=plain(vm.labels),
                selector=plain(vm.selector),
                requests={resources.get(k, k): v for k, v in vm.requests.items()},
            )
            for vm in fleet.vms
        ),
        unreadable=("some resources could not be read",) if fleet.unreadable else (),
    )
