"""The chart as Helm renders it, with many sets of values."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "charts" / "laneway"
NAMESPACE = "harvester-system"
RELEASE = "laneway"

Object = dict[str, Any]

_PLACED = {
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"gpus": "yes"},
    "affinity": {"podAntiAffinity": {}},
    "tolerations": [{"key": "gpus", "operator": "Exists", "effect": "NoSchedule"}],
    "resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi"}},
}

_PLUGIN: Object = {
    "enabled": True,
    "image": "r.example/plugin",
    "version": "1.2",
    "args": ["-v=2"],
    "resources": {"limits": {"memory": "64Mi"}},
}
TOOLKIT: Object = {
    "enabled": True,
    "location": "https://files.example/NVIDIA-Linux-x86_64-570.133.20-vgpu-kvm.run",
    "version": "570.133.20",
    "sha256": "0a" * 32,
}
"""The least that the driver toolkit needs."""

VALUES: dict[str, Object] = {
    "defaults": {},
    "a digest": {"image": {"repository": "r.example:5000/a/b", "digest": f"sha256:{'0a' * 32}"}},
    "another tag": {"image": {"tag": "2.0.0-rc.1", "pullSecrets": ["one", "two"]}},
    "the driver's pods elsewhere": {"agent": {"driverNamespace": "gpu-operator"}},
    "the driver on the node": {"agent": {"driver": "node"}},
    "hosts prepared": {"hosts": {"prepare": True}},
    "other folders": {"agent": {"kubeletDir": "/data/kubelet", "stateDir": "/data/laneway"}},
    "device resource slices": {"agent": {"dra": True}},
    "traces, and the audit record": {
        "traces": {"endpoint": "http://collector.monitoring:4318"},
        "agent": {"audit": "stdout"},
    },
    "agents of any node": {"agent": {"ownNodeOnly": False}},
    "placed otherwise": {"agent": _PLACED, "manager": _PLACED, "webhook": _PLACED},
    "alone": {"manager": {"replicas": 1}, "webhook": {"replicas": 1}},
    "certificates of cert-manager": {"webhook": {"certificates": "cert-manager"}},
    "certificates of somebody": {"webhook": {"certificates": "none"}},
    "known API servers alone": {"webhook": {"clientCA": "api-servers"}},
    "nodes without hints": {"webhook": {"placementHints": False}},
    "virtual machines must be checked": {"webhook": {"virtualMachines": {"failurePolicy": "Fail"}}},
    "machines on vSphere must be checked": {
        "webhook": {"vsphere": {"enabled": True, "failurePolicy": "Fail", "inventory": "refuse"}}
    },
    "alongside CAPV": {
        "manager": {"vsphere": {"mode": "alongside", "secretNamespaces": ["clusters"]}}
    },
    "machines on KubeVirt must be checked, and say what they have": {
        "manager": {"kubevirtMachines": {"capacity": True}},
        "webhook": {"kubevirtMachines": {"enabled": True, "failurePolicy": "Fail"}},
    },
    "in some namespaces, without the internet": {
        "manager": {
            "vsphere": {
                "mode": "standalone",
                "secretNamespaces": ["clusters", "123"],
                "checkNodes": True,
                "vectorAddImage": "r.example:5000/cuda-sample:vectoradd",
            }
        }
    },
    "the web interface": {"ui": {"enabled": True, **_PLACED}},
    "the web interface behind an Ingress": {
        "ui": {
            "enabled": True,
            "tlsSecret": "laneway-ui-tls",
            "trustedProxies": ["10.42.0.0/16"],
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "host": "laneway.example",
                "tlsSecret": "laneway-example-tls",
                "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"},
            },
            "oidc": {
                "issuer": "https://login.example",
                "clientId": "laneway",
                "redirectUrl": "https://laneway.example/sign-in/oidc/callback",
                "clientSecret": "laneway-oidc",
                "ca": "login-ca",
            },
            "management": {"kubeconfigSecret": "rancher", "context": "local"},
            "history": {
                "enabled": True,
                "days": 30,
                "sizeMiB": 64,
                "claimName": "laneway-history",
            },
        }
    },
    "device plugins of the vendors": {
        "devicePlugins": {
            "nvidia": {**_PLUGIN, "runtimeClassName": "nvidia"},
            "amd": _PLUGIN,
            "intel": _PLUGIN,
        }
    },
    "a driver from a server": {
        "driverToolkit": {
            **TOOLKIT,
            "image": {"repository": "r.example/toolkit", "tag": "2"},
            "proxy": "http://proxy:3128",
            "caConfigMap": "files-ca",
            "nodeSelector": {"gpus": "yes"},
            "tolerations": _PLACED["tolerations"],
            "resources": _PLACED["resources"],
        }
    },
    "a driver from a volume": {
        "driverToolkit": {
            **TOOLKIT,
            "image": {"digest": f"sha256:{'0b' * 32}"},
            "location": "driver.run",
            "pvc": "drivers",
        }
    },
    "a driver from a folder": {
        "driverToolkit": {**TOOLKIT, "location": "driver.run", "folder": "/srv/drivers"}
    },
    "no policies of the network": {"networkPolicy": {"enabled": False}},
    "metrics for nobody": {"networkPolicy": {"metricsFrom": []}},
    "all of monitoring": {
        "metrics": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "rules": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {
                "enabled": True,
                "namespace": "cattle-dashboards",
                "labels": {"grafana": "yes"},
            },
        }
    },
    "machine pools judged": {
        "machinePools": {
            "webhook": {
                "enabled": True,
                "mode": "refuse",
                "kubeconfigSecret": "clusters",
                "clientCA": "servers",
                **_PLACED,
            }
        }
    },
    "machine pools judged, with certificates of cert-manager": {
        "machinePools": {
            "webhook": {"enabled": True, "replicas": 1, "certificates": "cert-manager"}
        }
    },
    "machine pools judged from elsewhere": {"machinePools": {"reader": {"enabled": True}}},
    "devices released": {"uninstall": {"release": True}},
    "more in the log": {"logLevel": "debug"},
    "of a parent": {"global": {"cattle": {"systemDefaultRegistry": "r.example"}}},
}
"""Every value that there is, in some set, but for what leaves out most of the rest."""

MANAGEMENT: Object = {
    "devices": {"enabled": False},
    "machinePools": {"webhook": {"enabled": True, "priorityClassName": "laneway"}},
    "metrics": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}},
}
"""A management cluster of Rancher without GPUs."""


def helm() -> Any:
    """Helm as a library, or the reason why a test cannot run."""
    return pytest.importorskip(
        "helm_python", reason="Helm as a library is there for Linux on x86-64 only"
    )


def render(
    values: Mapping[str, Any] | None = None,
    *,
    name: str = RELEASE,
    namespace: str = NAMESPACE,
    chart: Path = FOLDER,
) -> list[Object]:
    """All objects, as parsed, in the order of their files."""
    return copy.deepcopy(_rendered(chart, json.dumps(values or {}), name, namespace))


@functools.cache
def _rendered(chart: Path, values: str, name: str, namespace: str) -> list[Object]:
    rendered = helm().Chart.load(chart).render(json.loads(values), name=name, namespace=namespace)
    return [
        found
        for template, text in sorted(rendered.items())
        if template.endswith(".yaml")
        for found in yaml.load_all(text, yaml.CSafeLoader)
        if found is not None
    ]


def find(objects: list[Object], kind: str, name: str) -> Object:
    """One object, which must be there."""
    (found,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def templates(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Whatever makes pods, with the template of these."""
    for found in objects:
        template = found.get("spec", {}).get("template") if isinstance(found, dict) else None
        if template is not None:
            yield found, template


def own_templates(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Those of Laneway's program: what vendors' need, `unit/chart/test_device_plugins.py` tells."""
    for owner, template in templates(objects):
        if not owner["metadata"]["name"].endswith("-device-plugin"):
            yield owner, template


def names_of(found: Any) -> Iterator[Any]:
    """Whatever stands for a namespace, and the values of labels: all that must be text."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "namespace":
                yield value
            elif key in ("labels", "matchLabels", "selector") and isinstance(value, dict):
                yield from (one for one in value.values() if not isinstance(one, dict))
            yield from names_of(value)
    elif isinstance(found, list):
        for one in found:
            yield from names_of(one)
