"""The VSphereVM that is made for a VSphereMachine.

It is a copy of the desired state, with what the machine's failure domain says in the place of what
the machine says: server, datacenter, folder, resource pool, datastore and networks. Fields that
are not known here are handed on as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laneway.core.phrases import quoted
from laneway.core.vsphere.spec import vm_names
from laneway.kube.capv import CloneSpec, VSphereCluster, VSphereDeploymentZone, VSphereFailureDomain
from laneway.kube.clusterapi import LABEL_CLUSTER

_OF_MACHINE_ONLY = frozenset({"providerID", "failureDomain", "naming", "namingStrategy"})
_WINDOWS_LIMIT = 15


def vm_name(machine: str, spec: Mapping[str, Any]) -> str:
    """As CAPV names it: by the template of the machine, else like the Machine.

    Windows takes at most 15 characters. Raises NamingError.
    """
    template = (spec.get("naming") or {}).get("template")
    if template:
        name = vm_names.vm_name(template, machine)
        if not vm_names.is_object_name(name):
            raise vm_names.NamingError(f"{quoted(name)} is not a valid object name")
        return name
    os = spec.get("os")
    if os != "Windows" or len(machine) <= _WINDOWS_LIMIT:
        return machine
    return f"{machine[:9].rstrip('-')}-{machine[-5:]}"


def vm_spec(
    spec: Mapping[str, Any],
    cluster: VSphereCluster,
    zone: VSphereDeploymentZone | None,
    domain: VSphereFailureDomain | None,
    bootstrap: str,
) -> dict[str, Any]:
    """The spec of the VSphereVM, from that of the VSphereMachine."""
    copy = {name: value for name, value in spec.items() if name not in _OF_MACHINE_ONLY}
    copy.setdefault("network", {"devices": []})
    if not copy.get("server"):
        copy["server"] = cluster.spec.server
    if not copy.get("thumbprint") and cluster.spec.thumbprint:
        copy["thumbprint"] = cluster.spec.thumbprint
    if bootstrap:
        copy["bootstrapRef"] = {"name": bootstrap}
    if zone is not None and domain is not None:
        copy |= _of_zone(zone, domain)
        networks = domain.spec.topology.networks
        copy["network"] = _with_networks(copy["network"], networks)
    return copy


def _of_zone(zone: VSphereDeploymentZone, domain: VSphereFailureDomain) -> dict[str, str]:
    placement, topology = zone.spec.placement_constraint, domain.spec.topology
    overrides = {
        "server": zone.spec.server,
        "datacenter": topology.datacenter,
        "folder": placement.folder,
        "resourcePool": placement.resource_pool,
        "datastore": topology.datastore,
    }
    return {name: value for name, value in overrides.items() if value}


def _with_networks(network: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    devices = [dict(one) for one in network.get("devices") or []]
    for at, name in enumerate(names):
        if at < len(devices):
            devices[at]["networkName"] = name
        else:
            devices.append({"networkName": name, "dhcp4": True})
    return {**network, "devices": devices}


def changes(desired: CloneSpec, there: CloneSpec) -> dict[str, Any]:
    """What of a VSphereVM's spec may change after it was made, and has; None removes."""
    named = {
        "powerOffMode": (desired.power_off_mode, there.power_off_mode),
        "guestSoftPowerOffTimeoutSeconds": (
            desired.guest_soft_power_off_timeout_seconds,
            there.guest_soft_power_off_timeout_seconds,
        ),
    }
    return {name: new or None for name, (new, old) in named.items() if new != old}


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Those by which Cluster API finds what belongs to a cluster."""
    return {name: value for name, value in labels.items() if name.startswith(_CLUSTER_API)}


_CLUSTER_API = LABEL_CLUSTER.partition("/")[0]
