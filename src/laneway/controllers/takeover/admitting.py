"""VMs that were given devices before Laneway came keep them.

Laneway's admission starts a VM with claimed devices only if it knows who gave them to it. Of
VMs that Harvester's webhook judged that is not recorded. So a takeover, which takes an
administrator, puts the mark on them by which admission knows devices that were judged before.
"""

from __future__ import annotations

import contextlib

from laneway.controllers.doctor.objects import Asking
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.kubevirt import ANNOTATION_ADMITTED, VIRTUAL_MACHINES, VirtualMachine, mark_of


async def admit(client: Client) -> int:
    """Mark all VMs with the devices that they have; how many. Raises KubeError."""
    vms = await Asking(client, insisting=True).all(VIRTUAL_MACHINES)
    return sum([await _marked(client, one) for one in vms])


async def _marked(client: Client, vm: VirtualMachine) -> bool:
    meta, mark = vm.metadata, mark_of(vm.spec.template.spec.domain.devices)
    if not mark or ANNOTATION_ADMITTED in meta.annotations:
        return False
    change = {"uid": meta.uid, "annotations": {ANNOTATION_ADMITTED: mark}}
    with contextlib.suppress(ConflictError, NotFoundError):  # Deleted meanwhile.
        body = {"metadata": change}
        stored = await client.patch(VIRTUAL_MACHINES, meta.name, body, meta.namespace)
        return stored.metadata.annotations.get(ANNOTATION_ADMITTED) == mark
    return False
