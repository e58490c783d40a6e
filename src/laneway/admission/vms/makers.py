"""VMs that KubeVirt makes by itself, from a pool or a replica set that was judged before.

KubeVirt's controller writes them in its own name, which no claim is for and which has no right to
any. Whose devices they may have was checked for the user who wrote the pool, and the controller
copies. That an object names an owner proves nothing, because every user may write that; that the
controller asks does. Its account is known by where KubeVirt is installed: with no installation, or
more than one, no account is taken for it.
"""

from __future__ import annotations

from laneway.admission.request import Request, Requester
from laneway.admission.world import World
from laneway.api import ObjectMeta
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance

ACCOUNT = "kubevirt-controller"
"""The ServiceAccount that KubeVirt's operator makes, in KubeVirt's own namespace."""
_MAKERS = {
    ("pool.kubevirt.io", "VirtualMachinePool"),
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"),
}


def copies(
    request: Request[VirtualMachine] | Request[VirtualMachineInstance], world: World
) -> bool:
    """Whether KubeVirt makes it as one of many, whose devices were granted to all of them."""
    return is_copy(request.requester, request.object.metadata, world)


def is_copy(requester: Requester, metadata: ObjectMeta, world: World) -> bool:
    """The same of any object."""
    return is_kubevirt(requester, world) and any(
        owner.controller and (owner.api_version.partition("/")[0], owner.kind) in _MAKERS
        for owner in metadata.owner_references
    )


def is_kubevirt(requester: Requester, world: World) -> bool:
    """Whether KubeVirt's controller asks."""
    installed = [one.metadata.namespace for one in world.installations]
    account = f"system:serviceaccount:{installed[0]}:{ACCOUNT}" if len(installed) == 1 else None
    return requester.username == account
