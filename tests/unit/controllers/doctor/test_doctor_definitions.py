"""How definitions differ: those of Harvester's as they are, and others by field."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import yaml

from laneway.api.crds import crds
from laneway.controllers.doctor.definitions import compare
from laneway.controllers.doctor.objects import Plain

HARVESTER = Path(__file__).parents[3] / "data" / "crds" / "devices.harvesterhci.io.yaml"
CLAIMS = "pcideviceclaims.devices.harvesterhci.io"
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


def stored(crd: dict[str, Any], **meta: Any) -> Plain:
    """A definition as a server has it."""
    found = {**crd, "metadata": {**crd["metadata"], **meta}, "status": ESTABLISHED}
    return msgspec.convert(found, Plain, strict=False)


def test_nothing_that_harvester_stores_is_lost_and_fields_are_gained() -> None:
    theirs = [one for one in yaml.safe_load_all(HARVESTER.read_text()) if one]
    found = {one.name: one for one in compare(map(stored, theirs))}
    assert [one.name for one in found.values() if one.adds] == []
    present = [one for one in found.values() if one.present]
    assert len(present) == 9
    assert all(one.established for one in present)
    assert ".status.conditions" in found[CLAIMS].lacks
    assert not found["vgpulayouts.devices.harvesterhci.io"].present


def test_our_own_definitions_differ_in_nothing() -> None:
    for one in compare(map(stored, crds())):
        assert (one.lacks, one.adds, one.present, one.established) == ((), (), True, True)


def test_fields_are_reported_by_the_topmost_that_differs() -> None:
    [crd] = [copy.deepcopy(one) for one in crds() if one["metadata"]["name"] == CLAIMS]
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["status"]["properties"]["conditions"]
    schema["spec"]["properties"]["new"] = {
        "type": "object",
        "properties": {"inside": {"type": "string"}},
    }
    annotations = {"meta.helm.sh/release-name": "pcidevices-controller"}
    found = {one.name: one for one in compare([stored(crd, annotations=annotations)])}[CLAIMS]
    assert found.lacks == (".status.conditions",)
    assert found.adds == (".spec.new",)
    assert found.release == "pcidevices-controller"


def test_odd_definitions_are_compared_all_the_same() -> None:
    meta = {"name": CLAIMS}
    for spec in ({}, {"versions": None}, {"versions": [1, {"name": "v1beta1", "schema": []}]}):
        odd = Plain(metadata=msgspec.convert(meta, type=type(Plain().metadata)), spec=spec)
        [found] = [one for one in compare([odd]) if one.name == CLAIMS]
        assert found.present
        assert not found.established
        assert found.lacks
