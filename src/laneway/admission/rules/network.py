"""SRIOVNetworkDevices: how many virtual functions a card has.

Another number begins with none, so every change of a number that is not 0 takes virtual functions
away, and what is claimed of them stands in its way.
"""

from __future__ import annotations

from laneway.admission.rules.common import (
    Case,
    Findings,
    Parts,
    fixed,
    in_use,
    pci_name,
    rules,
    there,
)
from laneway.admission.world import World
from laneway.api import SRIOVNetworkDevice
from laneway.core.refusals import CardCriticalToNode, VfCountInvalid, VfsClaimed

KIND = "sriovnetworkdevice"


def _node_of(card: SRIOVNetworkDevice, _world: World) -> str:
    return card.spec.node_name


def _create(case: Case[SRIOVNetworkDevice], new: SRIOVNetworkDevice) -> Findings:
    yield from there(case.world, pci_name(new.spec.node_name, new.spec.address))
    yield from _range(case, new)
    yield from _used(case, new)


def _update(
    case: Case[SRIOVNetworkDevice], old: SRIOVNetworkDevice, new: SRIOVNetworkDevice
) -> Findings:
    before, after = old.spec, new.spec
    yield from fixed(
        KIND,
        case.name,
        (
            ("address", "spec.address", before.address, after.address),
            ("nodeName", "spec.nodeName", before.node_name, after.node_name),
        ),
    )
    if before.num_vfs == after.num_vfs:
        return
    yield from _range(case, new)
    yield from _used(case, new)
    if before.num_vfs:
        yield from _lost(case, old)


def _range(case: Case[SRIOVNetworkDevice], new: SRIOVNetworkDevice) -> Findings:
    count = new.spec.num_vfs
    device = case.world.pci_devices.get(pci_name(new.spec.node_name, new.spec.address))
    sriov = device.status.sriov if device is not None else None
    if sriov is not None and not 0 <= count <= sriov.total_vfs:
        yield VfCountInvalid(case.name, count, sriov.total_vfs)
    elif count < 0:
        yield VfCountInvalid(case.name, count, 0)


def _used(case: Case[SRIOVNetworkDevice], new: SRIOVNetworkDevice) -> Findings:
    """That the node uses the card itself: another number of functions resets it."""
    device = case.world.pci_devices.get(pci_name(new.spec.node_name, new.spec.address))
    if device is None or not device.status.critical:
        return
    now = device.status.sriov.num_vfs if device.status.sriov is not None else 0
    if new.spec.num_vfs != now:
        yield CardCriticalToNode(case.name, tuple(device.status.critical))


def _lost(case: Case[SRIOVNetworkDevice], old: SRIOVNetworkDevice) -> Findings:
    """The virtual functions that would go, and are claimed or in use."""
    known = case.world.cards.get(case.name) or old
    functions = dict.fromkeys((*known.status.vf_pci_devices, *old.status.vf_pci_devices))
    claimed = tuple(sorted(one for one in functions if case.world.claims.get(one) is not None))
    if claimed:
        yield VfsClaimed(case.name, claimed)
    yield from in_use(case.world, (one for one in functions if one not in claimed))


def _delete(case: Case[SRIOVNetworkDevice], old: SRIOVNetworkDevice) -> Findings:
    yield from _lost(case, old)
    if case.world.pci_devices.get(pci_name(old.spec.node_name, old.spec.address)) is not None:
        yield (
            f"As long as the card is in the node, the agent creates {KIND} {case.name} again, with "
            "the virtual functions that exist."
        )


RULES = rules(Parts(node_of=_node_of, create=_create, update=_update, delete=_delete))
