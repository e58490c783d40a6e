"""The VM that Harvester's machine driver makes of a machine configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from laneway.core.machine_pools.device_info import HOST_DEVICES, VGPUS, Form, read
from laneway.core.raw import Json, JsonObject
from laneway.kube.rancher import LABEL_GUEST_CLUSTER, LABEL_MACHINE_SET, LABEL_POOL, options

CREATOR = "docker-machine-driver-harvester"
LABEL_CREATOR = "harvesterhci.io/creator"
ANNOTATION_TEMPLATE = "laneway-simulation/machine-template"
"""On a VM: of which configuration it was made. Rancher keeps this in a name of its own."""


def template_of(config: Mapping[str, Any]) -> str:
    """What tells one configuration from another: all options of the driver."""
    return hashlib.sha256(msgspec.json.encode(options(config), order="sorted")).hexdigest()[:8]


def vm(cluster: str, pool: str, name: str, config: Mapping[str, Any]) -> JsonObject:
    """The VM of a machine. Raises DeviceInfoError, as the driver fails on such a text."""
    namespace = str(config.get("vmNamespace") or "default")
    cpus, memory = str(config.get("cpuCount") or 2), f"{config.get('memorySize') or 4}Gi"
    labels = {
        LABEL_CREATOR: CREATOR,
        LABEL_MACHINE_SET: f"{namespace}-{cluster}-{pool}",
        LABEL_GUEST_CLUSTER: cluster,
        LABEL_POOL: pool,
    }
    devices = {
        field: _devices(form, str(config.get(form.field) or ""))
        for field, form in (("gpus", VGPUS), ("hostDevices", HOST_DEVICES))
    }
    domain: JsonObject = {
        "cpu": {"cores": int(cpus), "sockets": 1, "threads": 1},
        "devices": {"disks": [], **{key: value for key, value in devices.items() if value}},
        "memory": {"guest": memory},
        "resources": {"limits": {"cpu": cpus, "memory": memory}},
    }
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {ANNOTATION_TEMPLATE: template_of(config)},
        },
        "spec": {
            "runStrategy": "RerunOnFailure",
            "template": {
                "metadata": {"labels": labels},
                "spec": {"domain": domain, "evictionStrategy": "LiveMigrateIfPossible"},
            },
        },
    }


def _devices(form: Form, text: str) -> list[Json]:
    """By the names in the string, whatever they are: a client that gives two one name has two."""
    entries = read(form, text).entries
    listed = msgspec.json.decode(text).get(form.list) or () if entries else ()
    names = [one.get("name") or "" for one in listed for _ in range(one.get("count", 1))]
    return [
        {"name": name, "deviceName": entry.resource}
        for name, entry in zip(names, entries, strict=True)
    ]
