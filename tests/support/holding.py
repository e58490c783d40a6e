"""A VM with a vGPU of a simulated node, as an administrator runs and stops it."""

from __future__ import annotations

from typing import Any

from support.processes import DEVICES
from support.web_site import WebSite

_VMS = "/apis/kubevirt.io/v1/namespaces/{}/virtualmachines"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"


def configure(site: WebSite, vgpu: str) -> None:
    """Have a vGPU that VMs can request, once they can."""
    spec = {"spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"}}
    site.api.call(f"{DEVICES}/vgpudevices/{vgpu}", "PATCH", spec)
    site.api.until("vgpudevices", vgpu, _advertised)


def _advertised(vgpu: Any) -> bool:
    conditions = vgpu.get("status", {}).get("conditions", [])
    return any(one["type"] == "Advertised" and one["status"] == "True" for one in conditions)


def run_vm(site: WebSite, namespace: str, name: str) -> None:
    """Run a VM with one, whether it exists or not."""
    site.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace"}, namespace)
    devices = {"gpus": [{"name": "gpu", "deviceName": RESOURCE}]}
    domain = {"devices": devices, "memory": {"guest": "1Gi"}}
    spec = {"runStrategy": "Halted", "template": {"spec": {"domain": domain}}}
    head = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}
    site.make(_VMS.format(namespace), {**head, "spec": spec}, name)
    _put(site, namespace, name, runStrategy="Always")


def stop_vm(site: WebSite, namespace: str, name: str) -> None:
    _put(site, namespace, name, runStrategy="Halted")


def take_back(site: WebSite, vgpu: str, namespace: str, name: str) -> None:
    """Delete a stopped VM and its vGPU, so that others find the node as it was."""
    site.api.call(f"{_VMS.format(namespace)}/{name}", "DELETE")
    site.api.until("vgpudevices", vgpu, lambda one: not one["status"].get("allocation"))
    site.api.call(f"{DEVICES}/vgpudevices/{vgpu}", "PATCH", {"spec": {"enabled": False}})
    site.api.until("vgpudevices", vgpu, lambda one: not one["status"].get("vGPUStatus"))


def _put(site: WebSite, namespace: str, name: str, **spec: Any) -> None:
    site.api.call(f"{_VMS.format(namespace)}/{name}", "PATCH", {"spec": spec})
