"""Helm itself installs, upgrades and removes the chart; what it leaves is meant to stay.

No kubelet runs the pods here, so nothing waits for them.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapilite.credentials.pki import ensure
from laneway.api.registry import KINDS
from support.administrator import Administrator
from support.chart import FOLDER, VALUES, Object, helm, render
from support.helm import Helm

NAMESPACE = f"chart-{uuid.uuid4().hex[:8]}"
"""A real server takes longer to empty one than the tests run."""
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEVICES = "/apis/devices.harvesterhci.io/v1beta1"
AGENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/laneway-agent"
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
    for kind, name in (("mutating", "laneway-mutator"), ("validating", "laneway-validator"))
]
OLDEST = 28
"""The Kubernetes that the chart is for, as the 28 of 1.28."""
CONDITIONS = re.compile(
    r"^ *matchConditions:\n.*?(?=^ *rules:|^\{\{- end -\}\})", re.MULTILINE | re.DOTALL
)
"""Of a webhook, in the template."""
FOREIGN = {"Certificate", "Ingress", "Issuer", "PrometheusRule", "ServiceMonitor"}
"""Kinds of others, which a cluster need not have; our server has no Ingress either."""


@pytest.fixture
def api(kubeconfig: str) -> Iterator[Administrator]:
    """The server, with nothing of the chart's when the test is over."""
    found = Administrator(kubeconfig)
    found.call("/api/v1/namespaces", "POST", _object("v1", "Namespace", NAMESPACE))
    yield found
    found.call(f"{DEVICES}/pcidevices/kept", "DELETE")


@pytest.fixture
def chart(api: Administrator, tmp_path: Path) -> Path:
    """The chart without what the server is too old for, or, being ours, has no kinds for."""
    folder = tmp_path / "chart"
    shutil.copytree(FOLDER, folder)
    if "PodDisruptionBudget" not in _kinds(api, "/apis/policy/v1"):
        (folder / "templates" / "disruption.yaml").unlink()
    if int(api.call("/version")["minor"].rstrip("+")) < OLDEST:
        about = yaml.safe_load((folder / "Chart.yaml").read_text())
        del about["kubeVersion"]
        (folder / "Chart.yaml").write_text(yaml.safe_dump(about))
        for name in ("webhooks.yaml", "pools-webhooks.yaml"):
            webhooks = folder / "templates" / name
            webhooks.write_text(CONDITIONS.sub("", webhooks.read_text()))
        for path in (folder / "crds").iterdir():
            text = yaml.safe_dump_all(map(_without_news, yaml.safe_load_all(path.read_text())))
            path.write_text(text)
    return folder


def _kinds(api: Administrator, version: str) -> set[str]:
    return {one["kind"] for one in (api.call(version) or {"resources": []})["resources"]}


def _without_news(schema: Any) -> Any:
    """A definition without what apply patches of old servers stumble over."""
    if isinstance(schema, dict):
        return {
            key: _without_news(value)
            for key, value in schema.items()
            if key not in ("x-kubernetes-validations", "selectableFields")
        }
    return [_without_news(one) for one in schema] if isinstance(schema, list) else schema


@pytest.fixture
def release(api: Administrator, kubeconfig: str) -> Iterator[Helm]:
    """Of which nothing is there after the test."""
    helm()
    found = Helm(kubeconfig, NAMESPACE)
    yield found
    found.uninstall()


def _object(version: str, kind: str, name: str, **more: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


@pytest.mark.slow
@pytest.mark.realapi
def test_it_is_installed_upgraded_and_removed(
    release: Helm, api: Administrator, chart: Path
) -> None:
    first = release.install(chart, {})
    for kind in KINDS:
        if kind.group:
            api.until(f"{DEVICES}/{kind.plural}")
    device = _object("devices.harvesterhci.io/v1beta1", "PCIDevice", "kept")
    before = api.call(AGENT)

    # No webhook answers here, and ours is asked about all that is written.
    for path in CONFIGURATIONS:
        assert api.call(path, "DELETE")
    assert api.call(f"{DEVICES}/pcidevices", "POST", device)

    changed = {"agent": {"dra": True}, "networkPolicy": {"enabled": False}}
    second = release.upgrade(chart, changed)
    after = api.call(AGENT)

    assert (first["status"], second["status"], second["revision"]) == ("deployed", "deployed", 2)
    assert "laneway-agent" in first["notes"]
    assert "--dra" not in _arguments(before)
    assert "--dra" in _arguments(after)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    policies = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
    assert api.call(policies)["items"] == []

    release.uninstall()

    assert api.call(AGENT) is None
    assert api.call("/apis/rbac.authorization.k8s.io/v1/clusterroles/laneway-agent") is None
    assert api.call(f"{CRD}/pcidevices.devices.harvesterhci.io")
    assert api.call(f"{DEVICES}/pcidevices/kept")


@pytest.mark.slow
@pytest.mark.realapi
@pytest.mark.parametrize("method", ["ssa", "csa"], ids=["Helm 4", "Helm 3"])
def test_a_rollback_leaves_the_authority_that_the_manager_wrote_last(
    release: Helm, api: Administrator, chart: Path, tmp_path: Path, method: str
) -> None:
    """The manager changes it every two months; a revision may be older."""
    before, now = (authority(tmp_path / name) for name in ("before", "now"))
    release.install(chart, {})
    applied_by(api, method)
    trust(api, before)
    release.upgrade(chart, {"agent": {"dra": True}})
    assert trusted(api) == {before}
    trust(api, now)
    release.upgrade(chart, {})
    assert trusted(api) == {now}

    release.rollback()

    assert "--dra" in _arguments(api.call(AGENT))
    assert trusted(api) == {now}


def applied_by(api: Administrator, method: str) -> None:
    """Mark a release as one that the API server has applied, or else Helm itself, as Helm 3 does.

    Helm goes on with each as it began.
    """
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/sh.helm.release.v1.laneway.v1"
    stored = base64.b64decode(api.call(path)["data"]["release"])
    revision = json.loads(gzip.decompress(base64.b64decode(stored)))
    revision["apply_method"] = method
    stored = base64.b64encode(gzip.compress(json.dumps(revision).encode()))
    body = {"data": {"release": base64.b64encode(stored).decode()}}
    assert api.call(path, "PATCH", body, "application/merge-patch+json")


def authority(folder: Path) -> str:
    """One of its own, as a webhook's entry has it."""
    return base64.b64encode(ensure(str(folder)).ca_pem).decode()


def trust(api: Administrator, wanted: str) -> None:
    """What the manager writes."""
    for path in CONFIGURATIONS:
        body = [
            {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": wanted}
            for number, _ in enumerate(api.call(path)["webhooks"])
        ]
        assert api.call(path, "PATCH", body, "application/json-patch+json")


def trusted(api: Administrator) -> set[str | None]:
    hooks = [hook for path in CONFIGURATIONS for hook in api.call(path)["webhooks"]]
    return {hook["clientConfig"].get("caBundle") for hook in hooks}


@pytest.mark.slow
@pytest.mark.realapi
def test_it_can_be_installed_again(release: Helm, api: Administrator, chart: Path) -> None:
    release.install(chart, {})
    release.uninstall()

    again = release.install(chart, {})

    assert again["status"] == "deployed"
    assert api.call(AGENT)


@pytest.mark.slow
@pytest.mark.realapi
def test_a_management_cluster_keeps_the_certificate_of_its_first_installation(
    release: Helm, api: Administrator, chart: Path
) -> None:
    values: Object = {"devices": {"enabled": False}, "machinePools": {"webhook": {"enabled": True}}}
    release.install(chart, values)
    assert api.call(AGENT) is None
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/laneway-pools-webhook-tls"
    first = api.call(secret)["data"]

    values["machinePools"]["webhook"]["mode"] = "refuse"
    release.upgrade(chart, values)

    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/laneway-pools-webhook"
    assert "--mode=refuse" in _arguments(api.call(deployment))
    assert api.call(secret)["data"] == first
    group = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    webhooks = api.call(f"{group}/laneway-pools-webhook")["webhooks"]
    assert {one["clientConfig"]["caBundle"] for one in webhooks} == {first["ca.crt"]}


def _arguments(workload: Object) -> list[str]:
    return list(workload["spec"]["template"]["spec"]["containers"][0]["args"])


@pytest.mark.slow
def test_the_server_takes_every_object_as_it_is(api: Administrator, kubeconfig: str) -> None:
    """A dry run on the server, which decodes, checks and admits all of it, and stores nothing."""
    for name in ("cattle-dashboards", "gpu-operator", "clusters", "123"):
        api.call("/api/v1/namespaces", "POST", _object("v1", "Namespace", name))
    tried: dict[str, str] = {}
    for values in VALUES.values():
        for found in render(values, namespace=NAMESPACE):
            if found["kind"] in FOREIGN or found["kind"].startswith("ValidatingAdmissionPolicy"):
                continue
            if (text := json.dumps(found)) in tried:
                continue
            tried[text] = found["kind"]
            taken = api.apply(found)
            assert taken, found["metadata"]["name"]
            assert not _lost(found, taken), found["metadata"]["name"]
    assert {"NetworkPolicy", "PodDisruptionBudget", "PriorityClass", "Job", "DaemonSet"} <= set(
        tried.values()
    )


def _lost(wanted: Any, taken: Any, path: str = "") -> list[str]:
    """What the server does not know and has dropped; empty values are not kept by anybody."""
    if isinstance(wanted, dict):
        return [
            lost
            for key, value in wanted.items()
            if value not in ({}, [], None, "", False, 0)
            for lost in (
                _lost(value, taken[key], f"{path}.{key}") if key in taken else [f"{path}.{key}"]
            )
        ]
    if isinstance(wanted, list):
        pairs = enumerate(zip(wanted, taken, strict=True))
        return [lost for index, (a, b) in pairs for lost in _lost(a, b, f"{path}[{index}]")]
    return []
