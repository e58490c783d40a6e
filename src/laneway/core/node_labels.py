"""The labels of the cluster's node that Laneway keeps, and what of them is another's to keep.

By its own labels DaemonSets find the node (Harvester's driver, the vendors' device plugins), and
schedulers the nodes between which VMs with vGPUs can be moved. Labels
of `feature.node.kubernetes.io` are Node Feature Discovery's; charts of others select by them. Where
that does not run, Laneway sets those that are about PCI, SR-IOV and the IOMMU, spelt alike,
and notes in an annotation which. A label that it has not noted is never changed, and where Node
Feature Discovery comes to the node, what is noted goes, but for what that lists as its own by then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from laneway.core import keys
from laneway.core.gpu.vendors import Vendor
from laneway.core.inventory import Inventory
from laneway.core.sriov.vfs import NVIDIA_DRIVER

FEATURES = "feature.node.kubernetes.io/"
_DISCOVERY = "nfd.node.kubernetes.io/"
"""What each annotation of Node Feature Discovery begins with."""
_DISCOVERED = f"{_DISCOVERY}feature-labels"
"""The labels that it set, without what all of them begin with."""
_PCI_CLASSES = ("03", "0b40", "12")
"""Of which Node Feature Discovery tells where it is not told otherwise."""

CONTAINERS: Mapping[Vendor, str] = {
    Vendor.NVIDIA: keys.LABEL_NVIDIA_CONTAINERS,
    Vendor.AMD: keys.LABEL_AMD_CONTAINERS,
    Vendor.INTEL: keys.LABEL_INTEL_CONTAINERS,
}
"""By which the device plugin of a vendor finds its nodes."""

_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""Of a label."""

Labels = Mapping[str, str | None]
"""None: the label goes."""


def own(inventory: Inventory, vendors: Iterable[Vendor]) -> dict[str, str | None]:
    """Laneway's and Harvester's labels. `vendors`: whose device plugins are to run.

    An inventory with gaps proves that a GPU is there, and not that none is; whom all of them serve
    it does not tell.
    """
    sriov = any(function.sriov_gpu for function in inventory.functions)
    if inventory.errors:
        return {keys.LABEL_DRIVER_NEEDED: "true"} if sriov else {}
    asked = frozenset(vendors)
    return {
        keys.LABEL_DRIVER_NEEDED: "true" if sriov else None,
        **{label: "true" if one in asked else None for one, label in CONTAINERS.items()},
    }


def for_migration(
    inventory: Inventory, groups: Iterable[str], before: Iterable[str]
) -> dict[str, str | None]:
    """By what a scheduler finds nodes between which VMs with vGPUs can be moved.

    `groups`: the migration groups of the node's GPUs; a GPU whose group is not known has none.
    `before`: the labels that the node has.
    """
    if inventory.errors:
        return {}
    driven = any(one.sriov_gpu and one.driver == NVIDIA_DRIVER for one in inventory.functions)
    version = inventory.nvidia_driver if driven else ""
    gone = (label for label in before if label.startswith(keys.LABEL_MIGRATION_GROUP))
    return {
        keys.LABEL_NVIDIA_DRIVER: version if _VALUE.fullmatch(version) else None,
        **dict.fromkeys(gone),
        **{f"{keys.LABEL_MIGRATION_GROUP}{group}": "true" for group in groups if group},
    }


def features(inventory: Inventory) -> frozenset[str]:
    """The labels that Node Feature Discovery would set, all of them `true`."""
    found: set[str] = set()
    if any(one.iommu_group is not None for one in inventory.functions):
        found.add("iommu-enabled")
    # A server has hundreds of functions of a few kinds.
    kinds = {(one.class_code, one.vendor, one.total_vfs is None) for one in inventory.functions}
    for class_code, vendor, plain in kinds:
        if class_code.startswith(_PCI_CLASSES):
            device = f"pci-{class_code[:4]}_{vendor}"
            found.add(f"{device}.present")
            if not plain:
                found.add(f"{device}.sriov.capable")
    cards = {one.address for one in inventory.interfaces}
    for one in inventory.functions:
        if one.address in cards and one.total_vfs:
            found.add("network-sriov.capable")
            if one.num_vfs:
                found.add("network-sriov.configured")
    return frozenset(f"{FEATURES}{name}" for name in found)


def change(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    wanted: Labels,
    wanted_features: frozenset[str] | None,
) -> dict[str, dict[str, str | None]]:
    """What is to be written to a node's metadata, as a merge patch; empty where nothing is.

    `wanted_features`: None while they are not known.
    """
    changed = {name: value for name, value in wanted.items() if labels.get(name) != value}
    noted: dict[str, str | None] = {}
    if wanted_features is not None:
        before = annotations.get(keys.ANNOTATION_FEATURE_LABELS, "")
        was = frozenset(one for one in before.split(",") if one.startswith(FEATURES))
        kept = _kept(labels, annotations, was, wanted_features)
        theirs = _theirs(annotations)
        changed |= {one: "true" for one in kept if labels.get(one) != "true"}
        changed |= {one: None for one in was - kept - theirs if one in labels}
        after = ",".join(sorted(kept))
        if after != before:
            noted[keys.ANNOTATION_FEATURE_LABELS] = after or None
    patch = {"labels": changed, "annotations": noted}
    return {part: values for part, values in patch.items() if values}


def _kept(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    was: frozenset[str],
    wanted: frozenset[str],
) -> frozenset[str]:
    """Those that are Laneway's to set: none where Node Feature Discovery has been."""
    if any(name.startswith(_DISCOVERY) for name in annotations):
        return frozenset()
    return frozenset(one for one in wanted if one in was or one not in labels)


def _theirs(annotations: Mapping[str, str]) -> frozenset[str]:
    listed = annotations.get(_DISCOVERED, "").split(",")
    return frozenset(one if "/" in one else f"{FEATURES}{one}" for one in listed if one)
