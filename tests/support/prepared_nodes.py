"""HostPolicies and HostPreparations with what the manager and the agents write, on made nodes.

Of the nodes of `troubled_cluster`, `n1` waits for a command to reboot, `n3` has failed, and `n2` is
selected by a policy that cannot be carried out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from laneway.api import HostPreparationSpec
from laneway.controllers.preparation.settings import digest
from support.troubled_cluster import Object, condition
from support.web_site import DEVICES, WebSite

API = f"/apis/{DEVICES}/v1beta1"
BOOT = "4be6b2f1-6d3c-4f2e-9f0e-3a1c55d2a001"
WAITS = "HostPolicy gpu-nodes waits for a command: laneway hosts reboot n1"
SINCE = "2026-01-01T00:07:00Z"
_ASKED: Object = {"iommu": True, "vfioAtBoot": True}


def make(site: WebSite) -> None:
    """Make all of it."""
    ask = {"rollout": {"reboot": {"when": "OnCommand"}}}
    policy(site, "gpu-nodes", {**_ASKED, **ask, "nodeSelector": {"names": ["n1", "n3"]}})
    say(site, "gpu-nodes", "NodeFailed", "Node n3: intel_iommu=off stands in /etc/default/grub.")
    policy(site, "broken", {"kernelArguments": ["root=/dev/sda"], **_names("n2")})
    say(site, "broken", "InvalidPolicy", "Nothing is changed: kernel argument 'root=/dev/sda'.")
    rollout = {"stage": "RebootPending", "message": WAITS, "since": SINCE}
    requirements = [
        {"name": "Iommu", "state": "RebootNeeded", "message": "intel_iommu=on is written."},
        {"name": "VfioModules", "state": "Met", "message": "vfio-pci is loaded."},
    ]
    preparation(
        site,
        "n1",
        {**_ASKED, "policies": ["gpu-nodes"], "rollout": rollout},
        {"stage": "Staged", "message": "Everything is written.", "requirements": requirements},
    )
    preparation(
        site,
        "n3",
        {**_ASKED, "policies": ["gpu-nodes"]},
        {
            "stage": "Failed",
            "message": "intel_iommu=off stands in /etc/default/grub.",
            "requirements": [{"name": "Iommu", "state": "Impossible", "message": "Remove it."}],
            "steps": ["write /etc/default/grub.d/90-laneway.cfg"],
        },
    )


def _names(*names: str) -> Object:
    return {"nodeSelector": {"names": list(names)}}


def policy(site: WebSite, name: str, spec: Object) -> None:
    """Make a policy."""
    _make(site, "HostPolicy", "hostpolicies", name, spec)


def say(site: WebSite, name: str, reason: str, message: str) -> None:
    """What the manager says of a policy."""
    status = {"conditions": [condition("Ready", "False", reason, message)]}
    site.api.call(f"{API}/hostpolicies/{name}/status", "PATCH", {"status": status})


def preparation(site: WebSite, name: str, spec: Object, status: Object) -> None:
    """Make the preparation of a node; its status is about the spec that it has."""
    _make(site, "HostPreparation", "hostpreparations", name, spec)
    about = digest(msgspec.convert(spec, HostPreparationSpec))
    known = {"settings": about, "bootID": BOOT, "bootLoader": "grub"}
    path = f"{API}/hostpreparations/{name}/status"
    site.api.call(path, "PATCH", {"status": {**known, **status}})


def _make(site: WebSite, kind: str, plural: str, name: str, spec: Object) -> None:
    head: dict[str, Any] = {"apiVersion": f"{DEVICES}/v1beta1", "kind": kind}
    site.make(f"{API}/{plural}", {**head, "spec": spec}, name)
