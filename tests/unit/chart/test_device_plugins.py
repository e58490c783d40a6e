"""The vendors' device plugins: whose nodes they run on, and what they see of a node."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.gpu.vendors import Vendor
from laneway.core.node_labels import CONTAINERS
from support.chart import Object, find, render


def plugin(vendor: Vendor, **values: Any) -> Object:
    objects = render({"devicePlugins": {vendor: {"enabled": True, **values}}})
    name = f"laneway-{vendor}-device-plugin"
    assert [
        one["metadata"]["name"] for one in objects if "device-plugin" in one["metadata"]["name"]
    ] == [name]
    spec: Object = find(objects, "DaemonSet", name)["spec"]["template"]["spec"]
    return spec


def test_none_is_there_unasked() -> None:
    names = [one["metadata"]["name"] for one in render({})]
    assert not [name for name in names if "device-plugin" in name]


@pytest.mark.parametrize("vendor", Vendor)
def test_it_runs_where_the_agent_found_gpus_for_containers(vendor: Vendor) -> None:
    spec = plugin(vendor, image="r.example/plugin", version="1.2", args=["-v=2"])
    assert spec["nodeSelector"] == {CONTAINERS[vendor]: "true"}
    [container] = spec["containers"]
    assert container["image"] == "r.example/plugin:1.2"
    assert container["args"] == ["-v=2"]
    assert container["resources"]["limits"]


@pytest.mark.parametrize("vendor", Vendor)
def test_it_has_no_right_that_it_does_not_need(vendor: Vendor) -> None:
    spec = plugin(vendor)
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()
    [container] = spec["containers"]
    assert "privileged" not in container["securityContext"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    seen = {one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    assert "/var/lib/kubelet/device-plugins" in seen
    assert not seen & {"/", "/dev", "/etc", "/var/lib/kubelet"}


def test_the_kubelet_may_be_elsewhere() -> None:
    values = {
        "agent": {"kubeletDir": "/data/kubelet"},
        "devicePlugins": {"nvidia": {"enabled": True, "runtimeClassName": "nvidia"}},
    }
    found = find(render(values), "DaemonSet", "laneway-nvidia-device-plugin")
    spec = found["spec"]["template"]["spec"]
    assert spec["runtimeClassName"] == "nvidia"
    paths = {one["name"]: one.get("hostPath", {}).get("path") for one in spec["volumes"]}
    assert paths["device-plugins"] == "/data/kubelet/device-plugins"
