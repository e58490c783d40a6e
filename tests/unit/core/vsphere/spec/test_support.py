"""What of a machine's spec is carried out, and that nothing else is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from laneway.core.vsphere.spec.support import not_carried_out

CRD = Path(__file__).parents[4] / "data/crds/infrastructure.cluster.x-k8s.io_vspherevms.yaml"
NEVER = {
    "spec.cryptoKeyID",
    "spec.cryptoProfile",
    "spec.dataDisks",
    "spec.ftEncryptionMode",
    "spec.migrateEncryption",
    "spec.network.devices[0].addressesFromPools",
    "spec.network.routes",
    "spec.storagePolicyName",
    "spec.tagIDs",
}


def everything(schema: Any) -> Any:
    """An object that says something in every field."""
    if properties := schema.get("properties"):
        return {name: everything(one) for name, one in properties.items()}
    if items := schema.get("items"):
        return [everything(items)]
    return True


def test_of_all_fields_of_capv_these_are_not_carried_out() -> None:
    [schema] = [
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for version in yaml.safe_load(CRD.read_text())["spec"]["versions"]
        if version["name"] == "v1beta2"
    ]
    assert set(not_carried_out(everything(schema))) == NEVER


@pytest.mark.parametrize("empty", [None, "", [], {}, False, 0])
def test_what_says_nothing_is_not_missed(empty: Any) -> None:
    assert not_carried_out({"tagIDs": empty, "network": {"devices": [{"soon": empty}]}}) == ()


def test_what_is_unknown_yet_is_not_passed_over() -> None:
    spec = {"soon": 1, "network": {"soon": 1, "devices": [{}, {"soon": 1}]}}
    assert not_carried_out(spec) == (
        "spec.soon",
        "spec.network.soon",
        "spec.network.devices[1].soon",
    )


@pytest.mark.parametrize("odd", [None, [], {"network": []}, {"network": {"devices": [1]}}])
def test_odd_objects_are_left_to_the_api_server(odd: Any) -> None:
    assert all("devices[" not in one for one in not_carried_out(odd))
