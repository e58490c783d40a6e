"""Labels of the cluster's node: Laneway's own, and those of Node Feature Discovery in its place."""

from __future__ import annotations

import msgspec

from laneway.core import keys
from laneway.core.gpu.vendors import Vendor
from laneway.core.inventory import DeviceError
from laneway.core.node_labels import change, features, for_migration, own
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec

FEATURE = "feature.node.kubernetes.io/"
GPU, CAPABLE = f"{FEATURE}pci-0302_10de.present", f"{FEATURE}pci-0302_10de.sriov.capable"
WANTED = frozenset({GPU, CAPABLE})
NOTED = {keys.ANNOTATION_FEATURE_LABELS: ",".join(sorted(WANTED))}


def test_features_are_spelt_as_their_discovery_spells_them() -> None:
    found = features(scan(build(parse_spec("l40s"), "node1")))
    assert {
        GPU,
        CAPABLE,
        f"{FEATURE}pci-0300_1a03.present",
        f"{FEATURE}network-sriov.capable",
        f"{FEATURE}iommu-enabled",
    } == found
    amd = features(scan(build(parse_spec("mi210"), "node1")))
    assert f"{FEATURE}pci-0380_1002.sriov.capable" in amd


def test_a_scan_with_gaps_takes_nothing_away() -> None:
    whole = scan(build(parse_spec("mi210"), "node1"))
    assert own(whole, {Vendor.AMD}) == {
        "sriovgpu.harvesterhci.io/driver-needed": None,
        "laneway.io/nvidia-gpu-containers": None,
        "laneway.io/amd-gpu-containers": "true",
        "laneway.io/intel-gpu-containers": None,
    }
    gaps = msgspec.structs.replace(whole, errors=(DeviceError("/sys/bus/pci", "lost"),))
    assert own(gaps, ()) == {}
    assert change({GPU: "true"}, NOTED, own(gaps, ()), None) == {}


def test_a_group_that_no_gpu_has_any_more_goes() -> None:
    inventory = scan(build(parse_spec("l40s"), "node1"))
    label = "migration-group.laneway.io/26b9-1851-{}-580"
    found = for_migration(inventory, ("26b9-1851-ecc-580", ""), (label.format("noecc"), "zone"))
    assert found == {
        "laneway.io/nvidia-driver": inventory.nvidia_driver,
        label.format("noecc"): None,
        label.format("ecc"): "true",
    }
    unloaded = msgspec.structs.replace(inventory, nvidia_driver="")
    assert for_migration(unloaded, (), ()) == {"laneway.io/nvidia-driver": None}
    gaps = msgspec.structs.replace(inventory, errors=(DeviceError("/sys/bus/pci", "lost"),))
    assert for_migration(gaps, (), (label.format("ecc"),)) == {}


def test_features_are_set_and_noted_and_then_left_alone() -> None:
    first = change({"zone": "a"}, {}, {}, WANTED)
    assert first == {"labels": {GPU: "true", CAPABLE: "true"}, "annotations": NOTED}
    labels = {GPU: "true", CAPABLE: "true"}
    assert change(labels, NOTED, {}, WANTED) == {}
    assert change({GPU: "true"}, NOTED, {}, WANTED) == {"labels": {CAPABLE: "true"}}
    gone = change(labels, NOTED, {}, frozenset({GPU}))
    assert gone == {
        "labels": {CAPABLE: None},
        "annotations": {keys.ANNOTATION_FEATURE_LABELS: GPU},
    }


def test_labels_of_others_are_not_changed() -> None:
    labels = {GPU: "false", f"{FEATURE}cpu-model.id": "1"}
    assert change(labels, {}, {}, WANTED) == {
        "labels": {CAPABLE: "true"},
        "annotations": {keys.ANNOTATION_FEATURE_LABELS: CAPABLE},
    }


def test_a_note_that_was_spoilt_by_hand_takes_no_label_of_others() -> None:
    noted = {keys.ANNOTATION_FEATURE_LABELS: "zone"}
    assert "labels" not in change({"zone": "a"}, noted, {}, frozenset())


def test_node_feature_discovery_takes_over() -> None:
    labels = {GPU: "true", CAPABLE: "true"}
    theirs = {"nfd.node.kubernetes.io/feature-labels": "pci-0302_10de.present"}
    assert change(labels, NOTED | theirs, {}, WANTED) == {
        "labels": {CAPABLE: None},
        "annotations": {keys.ANNOTATION_FEATURE_LABELS: None},
    }
    assert change({GPU: "true"}, theirs, {}, WANTED) == {}
