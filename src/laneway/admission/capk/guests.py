"""What the VMs of a template will have, and on which nodes they may be."""

from __future__ import annotations

from msgspec.structs import replace

from laneway.admission.vms.mutate import as_stored
from laneway.admission.world import World
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools import affinity
from laneway.kube.capk import GuestSpec, VmSpec


def as_made(vm: VmSpec, world: World) -> GuestSpec:
    """What each VM gets to have: it is mutated when CAPK makes it."""
    spec = vm.template.spec
    return replace(spec, domain=replace(spec.domain, devices=as_stored(vm, world)))


def nodes_of(guest: GuestSpec, ledger: Ledger) -> frozenset[str] | None:
    """Where the VMs may be; None: anywhere. More rules than are followed exclude no node."""
    allowed = ledger.with_labels(guest.node_selector) if guest.node_selector else None
    terms = affinity.required(guest.affinity)
    if terms is None or affinity.size(terms) > affinity.MOST:
        return allowed
    labels = {name: node.labels for name, node in ledger.nodes.items()}
    found = affinity.nodes(terms, labels)
    return found if allowed is None else found & allowed
