"""Whether Laneway can take over from Harvester's controller, or give way to it again.

Both controllers keep the same objects, so that there is nothing to convert: what matters is that
only one of them runs, that the one that begins finds everything as it expects, and that neither
touches a device that a VM has. Everything that speaks against it, or that a person should know
beforehand, is a finding; a problem keeps the takeover from being begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from laneway.core.claims.pci import misplaced
from laneway.core.doctor.cluster_facts import AGENT, MANAGER, WEBHOOK, ClusterFacts, Unreadable
from laneway.core.doctor.finding import Finding, advice, ok, problem
from laneway.core.phrases import few

KNOWN = ((1, 7), (1, 8))
"""Releases of Harvester whose objects Laneway was made after."""
_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[-+].*)?")


class ClaimFact(msgspec.Struct, frozen=True, kw_only=True):
    """A PCIDeviceClaim, as its controller has left it."""

    name: str
    node: str
    address: str
    carried_out: bool = False
    leaving: bool = False
    owned: bool = False
    """Its PCIDevice is its first owner, by which Harvester's controller finds the device."""


class VmFact(msgspec.Struct, frozen=True, kw_only=True):
    """A VM that has devices, or names some."""

    name: str
    runs: bool
    devices: tuple[str, ...]


class TakeoverFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a takeover must know."""

    cluster: ClusterFacts
    claims: tuple[ClaimFact, ...] = ()
    waiting: tuple[str, ...] = ()
    """Specs, by object, that the agent has not applied yet; without those of claims."""
    vms: tuple[VmFact, ...] = ()
    permitted: int = 0
    """Entries among KubeVirt's permitted devices that an external plugin serves."""
    adopted: int = 0
    """Those of them that stand for what is claimed or configured, and are not Laneway's yet."""
    mediated: tuple[str, ...] = ()
    """VGPUDevices that carry a mediated device."""
    layouts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """What could not be seen, a sentence each."""
    adoptable: bool = True
    """Whether everything may be seen by which `adopted` is found."""
    unreadable: tuple[Unreadable, ...] = ()


def before(facts: TakeoverFacts) -> list[Finding]:
    """What is to be said before Laneway takes over."""
    return [
        *_version(facts),
        *_addon(facts),
        *_definitions(facts),
        *_in_use(facts),
        *_open_desired_states(facts),
        *_names(facts),
        *_permitted(facts),
        *_adoptable(facts),
        *(
            advice("Rights", words, why="The findings about it are missing here.")
            for words in facts.unknown
        ),
        *map(_unreadable, facts.unreadable),
    ]


def before_going_back(facts: TakeoverFacts) -> list[Finding]:
    """What is to be said before Harvester's controller takes over again."""
    return [
        *_unknown(facts),
        *(_decisive(one) if _decides(one) else _unreadable(one) for one in facts.unreadable),
        *_still_here(facts),
        *_ownerless(facts),
        *_lost(facts),
        *_in_use(facts),
    ]


# ------------------------------------------------------------------------------------------- there


def _version(facts: TakeoverFacts) -> Iterator[Finding]:
    daemon_set = facts.cluster.harvester.daemon_set
    if daemon_set is None and not facts.cluster.harvester.seen:
        yield problem(
            "HarvesterController",
            "Laneway cannot read whether Harvester's controller is installed",
            why="The takeover would leave it running.",
            remedy="Run the takeover as an administrator of the cluster.",
        )
        return
    if daemon_set is None:
        yield advice(
            "HarvesterController",
            "Harvester's controller has no DaemonSet, only its webhook configurations",
            remedy="If it runs under another name, stop it by hand.",
        )
        return
    said = f"{daemon_set.title}, {daemon_set.version or 'of an unknown version'}, runs on "
    said += _many(daemon_set.present, "node")
    found = _RELEASE.fullmatch(daemon_set.version)
    if found is not None and (int(found[1]), int(found[2])) in KNOWN:
        yield ok("HarvesterController", said)
        return
    known = " and ".join(f"v{major}.{minor}" for major, minor in KNOWN)
    yield advice(
        "HarvesterController",
        said,
        why=f"Laneway is tested with {known}, and not with this version.",
        remedy="Read the other findings, and try the takeover on a test cluster first.",
    )


def _addon(facts: TakeoverFacts) -> Iterator[Finding]:
    addon = facts.cluster.harvester.addon
    if addon is None or not addon.enabled:
        return
    taken = [one.name for one in facts.cluster.definitions if one.release]
    along = f" It would delete {few(taken)}, and with them every claim and vGPU." if taken else ""
    yield advice(
        "Addon",
        "the Addon pcidevices-controller is enabled",
        why=(
            "Harvester installs its chart again when the Addon's version or values change, as an "
            "upgrade of Harvester does. The node selector of a takeover should outlast that, "
            "because the chart does not set it; this was not tried."
        ),
        remedy=(
            "Leave it enabled: disabling it uninstalls the chart, after which laneway takeover "
            f"--back has nothing to go back to.{along} After an upgrade of Harvester: laneway "
            "doctor cluster, and laneway takeover again if it says so."
        ),
    )


def _definitions(facts: TakeoverFacts) -> Iterator[Finding]:
    gains = [one for one in facts.cluster.definitions if one.present and one.lacks]
    drops = [one for one in facts.cluster.definitions if one.adds]
    missing = [one.name for one in facts.cluster.definitions if not one.present]
    if gains or missing:
        added = sum(len(one.lacks) for one in gains)
        new = f", and {few(missing)} are new" if missing else ""
        yield ok(
            "Definitions",
            f"{_many(len(gains), 'definition')} will gain {_many(added, 'field')} from "
            f"Laneway{new}; no field that Harvester writes changes",
        )
    for one in drops:
        yield advice(
            "Definitions",
            f"{one.name} has {few(one.adds)}, which Laneway's lacks",
            why="An update of the definition by Laneway drops what is stored there.",
            remedy="Use a Laneway that is as new as Harvester, or keep a copy of these objects.",
        )


def _in_use(facts: TakeoverFacts) -> Iterator[Finding]:
    for one in facts.vms:
        state = "runs" if one.runs else "is stopped"
        yield ok("InUse", f"{one.name} {state} and has {few(one.devices)}: not touched")


def _open_desired_states(facts: TakeoverFacts) -> Iterator[Finding]:
    leaving = [one.name for one in facts.claims if one.leaving]
    if leaving:
        yield advice(
            "PendingChanges",
            f"claims that are being deleted: {few(leaving)}",
            why="Laneway's agents continue where Harvester's controller stops, and release them.",
            remedy="To have the old controller release them, wait until they are gone.",
        )
    waiting = [one.name for one in facts.claims if not (one.leaving or one.carried_out)]
    if found := [*(f"PCIDeviceClaim {name}" for name in waiting), *facts.waiting]:
        yield advice(
            "PendingChanges",
            f"requested, and not applied: {few(found)}",
            why="Laneway's agents apply it when they start, which changes hardware.",
            remedy="Delete or disable what is no longer needed before you install Laneway.",
        )


def _names(facts: TakeoverFacts) -> Iterator[Finding]:
    pairs = {(one.name, one.address) for one in facts.claims}
    for one in facts.claims:
        if misplaced(one.name, one.address, one.node, pairs) is not None:
            yield advice(
                "Claims",
                f"PCIDeviceClaim {one.name} does not have the name of the device {one.address} of "
                f"{one.node}",
                why="It has no effect in Laneway; its device stays as it is.",
                remedy="Delete it once the device is free, and claim the device again.",
            )
    standing = [one for one in facts.claims if one.carried_out and not one.leaving]
    if standing:
        count = _many(len(standing), "claim")
        yield ok("Claims", f"{count} applied; Laneway's agents adopt the devices")
        yield advice(
            "Claims",
            "Harvester's controller has added the ids of their devices to vfio-pci (new_id)",
            why=(
                "Until a node reboots, its kernel may bind any device of these models to "
                "vfio-pci, also a released one."
            ),
            remedy=(
                "Reboot each node once when it suits; or on the node, for each model: "
                "echo 'VENDOR DEVICE' > /sys/bus/pci/drivers/vfio-pci/remove_id"
            ),
        )


def _permitted(facts: TakeoverFacts) -> Iterator[Finding]:
    if "kubevirts" in facts.cluster.unseen:
        return
    count = _many(facts.permitted, "entry", "entries")
    yield ok(
        "PermittedDevices",
        f"{count} of external plugins among KubeVirt's permitted devices; {facts.adopted} of them "
        "select claimed devices and become Laneway's, which removes them with the last claim; "
        "no entry changes now",
    )


def _adoptable(facts: TakeoverFacts) -> Iterator[Finding]:
    if not facts.adoptable:
        yield problem(
            "Rights",
            "Laneway cannot read which of KubeVirt's entries select claimed devices",
            why="The takeover records them last, and would fail after every other step.",
            remedy="Run the takeover as an administrator of the cluster.",
        )


def _unreadable(one: Unreadable) -> Finding:
    return advice(
        "Unreadable",
        f"{one.title} cannot be read: {one.problem}",
        why="The findings about it are missing here.",
        remedy="Correct or delete it.",
    )


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or f'{one}s'}"


# -------------------------------------------------------------------------------------------- back


def _unknown(facts: TakeoverFacts) -> Iterator[Finding]:
    for words in facts.unknown:
        yield problem(
            "Rights",
            words,
            why="What cannot be read may cost a VM its device: Laneway that still runs, or a "
            "claim without an owner.",
            remedy="Run the command as an administrator of the cluster.",
        )


def _decides(one: Unreadable) -> bool:
    """Whether an object tells if a VM loses its device: a claim, or a part of Laneway."""
    claim = one.resource.startswith("pcideviceclaims.")
    return claim or one.name.rpartition("/")[2] in (AGENT, MANAGER, WEBHOOK)


def _decisive(one: Unreadable) -> Finding:
    return problem(
        "Unreadable",
        f"{one.title} cannot be read: {one.problem}",
        why="It may cost a VM its device: Laneway that still runs, or a claim without an owner.",
        remedy="Correct or delete it.",
    )


def _still_here(facts: TakeoverFacts) -> Iterator[Finding]:
    cluster = facts.cluster
    parts = [
        part.title
        for part in (cluster.agents, cluster.managers, cluster.webhooks)
        if part is not None
    ]
    if parts:
        yield problem(
            "Laneway",
            f"Laneway is still installed: {few(parts)}",
            why="Only one controller can manage the devices.",
            remedy=(
                "Uninstall it first; devices stay as they are: helm uninstall laneway --namespace "
                "harvester-system"
            ),
        )
    hooks = list(dict.fromkeys(hook.configuration for hook in cluster.hooks))
    if hooks:
        yield problem(
            "Laneway",
            f"Laneway's webhook configurations still exist: {few(hooks)}",
            why="Without a webhook the API server refuses every change of a device.",
            remedy=f"kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration "
            f"{' '.join(hooks)}",
        )


def _ownerless(facts: TakeoverFacts) -> Iterator[Finding]:
    found = [one.name for one in facts.claims if not one.owned]
    if found:
        yield problem(
            "Claims",
            f"claims without their PCIDevice as first owner: {few(found)}",
            why=(
                "When Harvester's controller starts, one such claim makes it unbind all devices "
                "of the node from vfio-pci, also those of running VMs."
            ),
            remedy=(
                "Delete them, or give each its owner: metadata.ownerReferences with the PCIDevice "
                "of the same name and its uid."
            ),
        )


def _lost(facts: TakeoverFacts) -> Iterator[Finding]:
    harvester = facts.cluster.harvester
    if harvester.daemon_set is None and harvester.seen:
        yield problem(
            "HarvesterController",
            "the DaemonSet of Harvester's controller no longer exists",
            why="Laneway cannot start it again.",
            remedy="Enable the Addon pcidevices-controller in Harvester, then run the command "
            "again.",
        )
    elif harvester.seen and not harvester.saved:
        yield advice(
            "HarvesterController",
            "the record of the takeover is missing",
            why="Its webhook configurations cannot be restored; its controller makes new ones.",
        )
    if facts.mediated:
        yield advice(
            "MediatedDevices",
            f"vGPUs that are mediated devices: {few(facts.mediated)}",
            why="Harvester's controller of v1.8 and newer knows none and leaves them alone.",
            remedy="To remove them, stop their VMs and disable them first.",
        )
    if facts.layouts:
        yield advice(
            "Layouts",
            f"VGPULayouts without a controller after that: {few(facts.layouts)}",
            remedy="If Laneway does not return, delete them: kubectl delete vgpulayouts --all",
        )


def steps(harvester_hooks: Iterable[str], *, parked: bool) -> list[str]:
    """What a takeover does, in words and in this order."""
    hooks = list(harvester_hooks)
    found = ["save the changed objects in the ConfigMap harvester-system/laneway-takeover"]
    found.append("mark the VMs with devices as entitled to them")
    if not parked:
        found.append("park the DaemonSet with a node selector that matches no node")
    found.append("wait until its pods are gone; devices stay as they are")
    if hooks:
        found.append(f"remove {few(hooks)}")
    found.append("record on the KubeVirt which of its entries are Laneway's")
    return found
