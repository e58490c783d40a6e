"""PCIDeviceClaims: who may have which device, and when a claim may go.

A claim has the name of its PCIDevice, and nothing that says which device it is about, or whose it
is, ever changes. It goes only when no VM or pod has or names the device: the agent would wait for
them anyhow, but the user should know. The claims of vGPUs are Laneway's own business.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.admission.json_patch import PatchOperation
from laneway.admission.request import Access, Request
from laneway.admission.rules import ownership
from laneway.admission.rules.claimable import against, remarks
from laneway.admission.rules.common import Case, Findings, Parts, fixed, rules
from laneway.admission.rules.keeping import kept_for
from laneway.admission.users import users_of
from laneway.admission.world import World
from laneway.api import PCIDeviceClaim, PCIDeviceClaimSpec
from laneway.core import keys, names
from laneway.core.pci import pci_address
from laneway.core.refusals import (
    ClaimInUse,
    ClaimManaged,
    ClaimMismatch,
    FieldImmutable,
    PciDeviceNotFound,
    ResourceNameInvalid,
)
from laneway.core.use import in_words

KIND = "pcideviceclaim"
RESOURCE = f"{KIND}s"


def mutate(request: Request[PCIDeviceClaim]) -> tuple[PatchOperation, ...]:
    """A claim that names no user is the requester's, and an address gets the form of sysfs."""
    operations = ownership.in_the_name_of(request, PCIDeviceClaimSpec())
    written = request.new.spec.address if request.new is not None else ""
    address = pci_address(written)
    if address is None or str(address) == written:
        return operations
    return (*operations, {"op": "replace", "path": "/spec/address", "value": str(address)})


def _node_of(claim: PCIDeviceClaim, _world: World) -> str:
    return claim.spec.node_name


def _asks(request: Request[PCIDeviceClaim], world: World) -> Iterable[Access]:
    return ownership.asked(RESOURCE, request, world)


# ------------------------------------------------------------------------------------- creation


def _create(case: Case[PCIDeviceClaim], new: PCIDeviceClaim) -> Findings:
    if vgpu := ownership.vgpu_of(new):
        yield ClaimManaged(case.name, vgpu, made=True)
        return
    spec = new.spec
    yield from ownership.made_for_other(case, KIND, spec.user_name)
    device = case.world.pci_devices.get(case.name)
    if device is None:
        yield PciDeviceNotFound(case.name)
        return
    status = device.status
    if (spec.address, spec.node_name) != (status.address, status.node_name):
        yield ClaimMismatch(
            case.name, spec.address, spec.node_name, status.address, status.node_name
        )
        return
    binds = keys.ANNOTATION_SKIP_BINDING not in new.metadata.annotations
    yield from against(case.world, device, binds=binds)
    yield from remarks(case.world, device, spec.user_name, binds=binds)
    yield from _override(case, "", _called(new))


# --------------------------------------------------------------------------------------- change


def _update(case: Case[PCIDeviceClaim], old: PCIDeviceClaim, new: PCIDeviceClaim) -> Findings:
    before, after = old.spec, new.spec
    yield from fixed(
        KIND,
        case.name,
        (
            ("address", "spec.address", before.address, after.address),
            ("nodeName", "spec.nodeName", before.node_name, after.node_name),
            ("username", "spec.userName", before.user_name, after.user_name),
        ),
    )
    if case.trusted or not ownership.is_changed(old, new):
        return
    yield from ownership.of_other(case, KIND, before.user_name, "changed")
    was, vgpu = ownership.vgpu_of(old), ownership.vgpu_of(new)
    if was != vgpu:
        yield FieldImmutable(
            KIND, case.name, "owner", "metadata.ownerReferences", was or "none of Laneway's"
        )
    if after.disable_resource_pooling != before.disable_resource_pooling:
        yield from _renamed(case, old)
    yield from _override(case, _called(old), _called(new))


def _renamed(case: Case[PCIDeviceClaim], old: PCIDeviceClaim) -> Findings:
    """That the device gets another resource name while a VM names it by this one."""
    resource = old.status.resource_name
    users = users_of(case.world, case.name)
    if resource and users:
        yield (
            f"The resource name of {case.name} changes, and {resource} is no longer right in "
            f"{in_words(users)}. Correct it there."
        )
    elif resource:
        yield (
            f"The resource name of {case.name} changes: VMs that request {resource} no longer get "
            "it."
        )


def _called(claim: PCIDeviceClaim) -> str:
    return claim.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, "")


def _override(case: Case[PCIDeviceClaim], before: str, after: str) -> Findings:
    if after not in ("", before) and not names.is_resource_name(after):
        yield ResourceNameInvalid(after, f"PCIDeviceClaim {case.name}").words


# ------------------------------------------------------------------------------------- deletion


def _delete(case: Case[PCIDeviceClaim], old: PCIDeviceClaim) -> Findings:
    if vgpu := ownership.vgpu_of(old):
        yield ClaimManaged(case.name, vgpu)
        return
    yield from ownership.of_other(case, KIND, old.spec.user_name, "deleted")
    if users := users_of(case.world, case.name):
        yield ClaimInUse(case.name, users)
    else:
        yield from kept_for(case.world, case.name, old.spec.node_name, old.status)


def _collect(case: Case[PCIDeviceClaim], _old: PCIDeviceClaim) -> Findings:
    """A device that has gone itself cannot be used."""
    users = users_of(case.world, case.name)
    if users and case.world.pci_devices.get(case.name) is not None:
        yield ClaimInUse(case.name, users)


RULES = rules(
    Parts(
        node_of=_node_of,
        create=_create,
        update=_update,
        delete=_delete,
        collect=_collect,
        asks=_asks,
    )
)
