"""All that Laneway installs, judged by the validation of Kubernetes' libraries."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from laneway.api.crds import crds
from laneway.simcluster.definitions import shipped
from support.chart import VALUES, Object, render

COPIES = Path(__file__).parents[1] / "data" / "crds"
OURS = {crd["spec"]["names"]["kind"]: crd for crd in crds()}
POLICIES = (
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
)


def simulated() -> list[Object]:
    """The definitions of other systems' kinds that a simulated cluster serves."""
    base = "laneway.simcluster"
    packages = (f"{base}.kubevirt", f"{base}.clusterapi", f"{base}.clusterapi.kubevirt")
    return [crd for package in packages for crd in shipped(package)]


def copies() -> list[Object]:
    """What Harvester, KubeVirt and Cluster API ship."""
    texts = [path.read_text() for path in sorted(COPIES.glob("*.yaml"))]
    return [crd for text in texts for crd in yaml.load_all(text, yaml.CSafeLoader)]


@pytest.mark.parametrize(
    "crd", [*crds(), *simulated(), *copies()], ids=lambda crd: crd["metadata"]["name"]
)
def test_a_definition_is_accepted_as_it_is(checker: Any, crd: Object) -> None:
    answer = checker.ask("define", definition=crd)
    assert {key: answer.get(key) or [] for key in ("errors", "unknown", "warnings")} == {
        "errors": [],
        "unknown": [],
        "warnings": [],
    }


@pytest.fixture(scope="module")
def names(checker: Any) -> list[str]:
    """The kinds that policies are about, by the names under which the checker knows them."""
    known = {crd["metadata"]["name"]: crd for crd in (*crds(), *simulated())}
    for name, crd in known.items():
        checker.ask("define", definition=crd, name=name)
    return list(known)


@pytest.mark.parametrize("values", VALUES)
def test_a_policy_of_the_chart_is_accepted_and_its_types_fit(
    checker: Any, names: list[str], values: str
) -> None:
    found = [one for one in render(VALUES[values]) if one["kind"] in POLICIES]
    for policy in found:
        answer = checker.ask("policy", policy=policy, definitions=names)
        said = (answer["errors"], answer.get("warnings") or [])
        assert said == ([], []), policy["metadata"]["name"]


FIXED = {
    "PCIDeviceClaim": ("address", "nodeName", "userName"),
    "USBDeviceClaim": ("userName",),
    "VGPUDevice": ("address", "nodeName", "parentGPUDeviceAddress"),
    "SRIOVGPUDevice": ("address", "nodeName"),
    "SRIOVNetworkDevice": ("address", "nodeName"),
    "MigConfiguration": ("gpuAddress", "nodeName"),
    "VSphereHost": ("vCenter", "ref"),
}


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, fields in FIXED.items() for field in fields]
)
def test_a_fixed_field_cannot_be_changed_in_two_steps(checker: Any, kind: str, field: str) -> None:
    crd = OURS[kind]
    checker.ask("define", definition=crd, name=kind)
    version = crd["spec"]["versions"][0]["name"]
    value = "0000:01:00.0" if "ddress" in field else "one"
    there = {
        "apiVersion": f"{crd['spec']['group']}/{version}",
        "kind": kind,
        "metadata": {"name": "x", "uid": "u", "resourceVersion": "1"},
        "spec": {field: value},
    }

    def judged(spec: Any, old: Any) -> list[str]:
        new = {**copy.deepcopy(there), "spec": spec}
        answer = checker.ask("object", definition=kind, version=version, object=new, old=old)
        return [error["field"] for error in answer["errors"]]

    assert judged({field: value}, there) == []
    other = "0000:02:00.0" if "ddress" in field else "other"
    for spec in ({field: None}, {}, None, {field: other}):
        assert judged(spec, there) == [f"spec.{field}"], spec
    assert judged({field: value}, {**there, "spec": {}}) == [], "given once"
