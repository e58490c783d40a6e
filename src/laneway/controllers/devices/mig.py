"""MigConfiguration: the GPU instances of a card in MIG mode, or of one that is to be in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from laneway.api import (
    MIG_DISABLED,
    MIG_SYNCED,
    MigConfiguration,
    MigConfigurationSpec,
    MigConfigurationStatus,
    MigProfileRequest,
    MigProfileStatus,
    ObjectMeta,
    OwnerReference,
    SRIOVGPUDevice,
)
from laneway.controllers.devices.family import named_otherwise, ready, unreadable
from laneway.controllers.devices.outcome import Answers, explicit
from laneway.core import keys, names
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory
from laneway.core.mig.desired import DesiredMig
from laneway.core.mig.instances import how_many_more
from laneway.core.mig.profiles import bare_name, display_name
from laneway.core.pci import PciAddress
from laneway.core.refusals import NameMismatch

ANSWERS = Answers(
    settled={"Synced", "Disabled", "UnmanagedInstances", "ExtraInstances", "CardReplaced"},
    absent={"Disabled", "UnmanagedInstances"},
)


def shown(inventory: Inventory, node: str) -> Mapping[str, MigConfiguration]:
    """One object per GPU that can MIG, with what there is; a new one requests just that."""
    found = {}
    for address, modes in inventory.modes.items():
        if modes.mig is None:
            continue
        name = names.pci_object_name(node, address)
        found[name] = MigConfiguration(
            metadata=ObjectMeta(name=name, labels={keys.LABEL_NODE: node}),
            spec=_spec(address, node, modes),
            status=MigConfigurationStatus(profile_status=_profiles(modes)),
        )
    return found


def _spec(address: PciAddress, node: str, modes: GpuModes) -> MigConfigurationSpec:
    there = Counter(one.profile for one in modes.instances)
    return MigConfigurationSpec(
        enabled=bool(there),
        gpu_address=str(address),
        node_name=node,
        profile_spec=[
            MigProfileRequest(
                name=display_name(one.name), id=one.id, requested=there.get(one.name, 0)
            )
            for one in modes.profiles
        ],
    )


@lru_cache(maxsize=64)
def _profiles(modes: GpuModes) -> tuple[MigProfileStatus, ...]:
    """Remembered, because a node's GPUs are looked at far more often than they change."""
    return tuple(
        MigProfileStatus(
            name=display_name(one.name),
            id=one.id,
            available=how_many_more(one, modes.profiles, modes.instances) if modes.mig else 0,
            total=one.total,
            vgpu_ids=[str(there.id) for there in modes.instances if there.profile == one.name],
            placements=[there.start for there in modes.instances if there.profile == one.name],
            starts=list(one.starts),
            size=one.size,
        )
        for one in modes.profiles
    )


def owned(by: SRIOVGPUDevice) -> OwnerReference:
    """The reference to the GPU's own object, with which this one goes."""
    return OwnerReference(
        api_version=by.api_version, kind=by.kind, name=by.metadata.name, uid=by.metadata.uid
    )


def owners(stored: MigConfiguration, owner: OwnerReference) -> list[OwnerReference]:
    """Those of others, and the one to the GPU's object as it is now."""
    kept = [
        one
        for one in stored.metadata.owner_references
        if (one.kind, one.name) != (owner.kind, owner.name)
    ]
    return [*kept, owner]


def is_owned(stored: MigConfiguration, owner: OwnerReference) -> bool:
    return any(
        (one.kind, one.name, one.uid) == (owner.kind, owner.name, owner.uid)
        for one in stored.metadata.owner_references
    )


def wrong_device(stored: MigConfiguration, node: str) -> NameMismatch | None:
    """What is wrong when an object does not speak of the GPU that it is named for."""
    spec = stored.spec
    return named_otherwise(stored.metadata.name, spec.gpu_address, spec.node_name, node)


def asks(stored: MigConfiguration) -> bool:
    """Whether it requests any GPU instance to be there."""
    return stored.spec.enabled and any(one.requested > 0 for one in stored.spec.profile_spec)


def is_desired_state(stored: MigConfiguration) -> bool:
    """Whether anything in it would be lost with it."""
    return stored.spec.enabled or any(one.requested for one in stored.spec.profile_spec)


def desired(stored: MigConfiguration, there: MigConfiguration) -> DesiredMig:
    """What the object requests in view of what is. Raises ValueError when its address is none."""
    return DesiredMig(
        address=PciAddress.parse(stored.spec.gpu_address),
        gpu=stored.metadata.name,
        enabled=stored.spec.enabled,
        requested=tuple((one.name, one.requested) for one in stored.spec.profile_spec),
        explicit=explicit(
            stored,
            ANSWERS,
            asks=asks(stored),
            # Ids and placements may be others after an attempt that was taken back.
            seen=_counts(stored.status.profile_status) == _counts(there.status.profile_status),
        ),
    )


def _counts(profiles: Sequence[MigProfileStatus]) -> dict[str, int]:
    return {bare_name(one.name): len(one.vgpu_ids) for one in profiles if one.vgpu_ids}


def status(stored: MigConfiguration, there: MigConfiguration) -> MigConfigurationStatus:
    """What is, where that is what the spec requests."""
    if stored.spec.enabled:
        word, condition = MIG_SYNCED, ready("Synced", f"The GPU is divided into {_words(there)}.")
    else:
        text = "No GPU instances are requested, and the GPU has none."
        word, condition = MIG_DISABLED, ready("Disabled", text)
    return msgspec.structs.replace(there.status, status=word, message="", conditions=[condition])


def _words(there: MigConfiguration) -> str:
    counts = ((one.name, len(one.vgpu_ids)) for one in there.status.profile_status)
    return ", ".join(f"{count} x {name}" for name, count in counts if count) or "nothing"


def keep(stored: MigConfiguration, inventory: Inventory) -> bool:
    """A desired state stays, and whatever speaks of a GPU that could not be read or asked."""
    address = stored.spec.gpu_address
    unasked = any(str(one) == address for one in inventory.unasked)
    return is_desired_state(stored) or unasked or unreadable(inventory, [address])
