"""A cluster on which Laneway's webhook reviews what people write with kubectl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.kubectl import KUBECTL, Kubectl

PEOPLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: people}
rules:
- apiGroups: [devices.harvesterhci.io, kubevirt.io, ""]
  resources: ["*"]
  verbs: [get, list, watch, create, update, patch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: people}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: people}
subjects:
- {kind: User, name: alice}
- {kind: User, name: bob}
"""


@pytest.fixture
def reviewed() -> bool:
    if not KUBECTL:
        pytest.skip("kubectl is not installed")
    return True


@pytest.fixture
def beginning(kubevirt_installed: Path) -> Path:
    """Every test finds KubeVirt's kinds."""
    return kubevirt_installed


@pytest.fixture
async def admin(cluster: Any, tmp_path: Path) -> Kubectl:
    """The administrator; `as_` alice or bob, who may write everything of the kinds."""
    kubectl = Kubectl(str(tmp_path / "kubeconfig"))
    await kubectl.ok("create", "-f", "-", stdin=PEOPLE)
    return kubectl


@pytest.fixture
def alice(admin: Kubectl) -> Kubectl:
    return admin.as_("alice")


@pytest.fixture
def bob(admin: Kubectl) -> Kubectl:
    return admin.as_("bob")


def claim(name: str, address: str, **spec: Any) -> dict[str, Any]:
    """As a person writes it who knows the device."""
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": name},
        "spec": {"address": address, "nodeName": name.partition("-")[0], **spec},
    }


@pytest.fixture
def make_claim() -> Any:
    return claim


def vm(name: str, strategy: str, **devices: list[dict[str, str]]) -> dict[str, Any]:
    spec = {
        "domain": {
            "devices": devices,
            "memory": {"guest": "2Gi"},
            "resources": {"requests": {"memory": "2Gi"}},
        }
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runStrategy": strategy, "template": {"spec": spec}},
    }


@pytest.fixture
def make_vm() -> Any:
    """Makes one; `hosts` and `gpus` are pairs of what it calls a device and the resource."""

    def make(name: str, strategy: str = "Halted", hosts: Any = (), gpus: Any = ()) -> Any:
        return vm(name, strategy, hostDevices=entries(hosts), gpus=entries(gpus))

    def entries(pairs: Any) -> Any:
        return [{"name": called, "deviceName": resource} for called, resource in pairs]

    return make
