"""Objects of a Rancher management cluster, as far as Laneway reads them.

A guest cluster has machine pools. Each names a machine configuration, an object whose fields are
the options of a machine driver: `HarvesterConfig` of Harvester's, `LanewayConfig` of Laneway's.
Rancher makes a MachineDeployment of Cluster API of each pool, and has the driver make the machines:
VMs that are named like their infrastructure objects, of which each has a copy of the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from laneway.api import ObjectMeta, decode
from laneway.kube.resource import Resource

GROUP = "provisioning.cattle.io"
CONFIG_GROUP = "rke-machine-config.cattle.io"
MACHINE_GROUP = "rke-machine.cattle.io"
VERSION = "v1"
WORKSPACE = "fleet-default"
"""The namespace in which Rancher makes guest clusters."""
CREDENTIALS = "cattle-global-data"
"""The namespace of cloud credentials."""
LABEL_GUEST_CLUSTER = "guestcluster.harvesterhci.io/name"
"""On a VM that a driver made: its cluster."""
LABEL_POOL = "nodepool.harvesterhci.io/name"
"""On the same: its pool."""
LABEL_MACHINE_SET = "harvesterhci.io/machineSetName"
"""On the same, of any release: namespace, cluster and pool, with `-` between them."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object of Rancher's."""


class RollingUpdate(_Part, frozen=True, kw_only=True):
    """How many machines more, or fewer, there may be while they are replaced."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class ConfigReference(_Part, frozen=True, kw_only=True):
    """A machine configuration of the cluster's namespace."""

    kind: str = ""
    name: str = ""


class MachinePool(_Part, frozen=True, kw_only=True):
    """Machines that are alike."""

    name: str = ""
    quantity: int | None = None
    """None: one."""
    machine_config_ref: ConfigReference = ConfigReference()
    rolling_update: RollingUpdate | None = None
    cloud_credential_secret_name: str = ""
    """Of the cluster, unless given."""
    paused: bool = False

    @property
    def desired(self) -> int:
        """How many machines it is to have."""
        return 1 if self.quantity is None else self.quantity


class RkeConfig(_Part, frozen=True, kw_only=True):
    """How Rancher makes the cluster."""

    machine_pools: Sequence[MachinePool] = ()


class GuestClusterSpec(_Part, frozen=True, kw_only=True):
    """The desired state of a guest cluster."""

    cloud_credential_secret_name: str = ""
    """`cattle-global-data:cc-abcde`, which is namespace and name."""
    rke_config: RkeConfig | None = None
    """None: Rancher did not make it."""


class GuestCluster(_Part, frozen=True, kw_only=True):
    """A guest cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GuestClusterSpec = GuestClusterSpec()
    changed: str = ""
    """When its desired state was last changed, as Kubernetes writes it; empty: not known."""

    @property
    def pools(self) -> Sequence[MachinePool]:
        """Of all machine drivers; none where Rancher did not make it."""
        return () if self.spec.rke_config is None else self.spec.rke_config.machine_pools


class MachineConfig(_Part, frozen=True, kw_only=True):
    """What the machines of a pool are like. It has no `spec`; numbers are texts."""

    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    vgpu_info: str = ""
    host_device_info: str = ""
    cpu_count: str | int = ""
    """Processors; empty: 2."""
    cpu_pinning: bool = False
    memory_size: str | int = ""
    """GiB; empty: 4."""
    reserved_memory_size: str | int = ""
    """MiB that the guest does not get; empty or -1: Harvester's default."""
    vm_namespace: str = ""
    """Where its VMs are; empty: default."""
    vm_affinity: str = ""
    """An Affinity as JSON, which may be in base64."""
    options: Mapping[str, Any] | None = None
    """All options of the driver that are set; None: not known."""
    changed: str = ""
    """As of a guest cluster."""


class InfraMachine(_Part, frozen=True, kw_only=True):
    """What a machine was made of: a copy of its configuration."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Mapping[str, Any] = {}

    @property
    def options(self) -> Mapping[str, Any]:
        """All options of the driver that were set."""
        return options(self.spec)


class MachineSpec(_Part, frozen=True, kw_only=True):
    """The desired state of a machine."""

    cluster_name: str = ""
    infrastructure_ref: ConfigReference = ConfigReference()


class PoolMachine(_Part, frozen=True, kw_only=True):
    """A machine of Cluster API that Rancher made."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSpec = MachineSpec()


_NO_OPTIONS = frozenset({"apiVersion", "kind", "metadata", "status", "common", "providerID"})


def options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What Rancher hands to a driver: a change of these replaces the machines, no other does."""
    return {name: value for name, value in fields.items() if value and name not in _NO_OPTIONS}


def _config(_: type[MachineConfig], raw: bytes | msgspec.Raw) -> MachineConfig:
    fields = msgspec.json.decode(raw, type=dict[str, Any])
    found = decode(MachineConfig, raw)
    return replace(found, options=options(fields), changed=_changed(raw))


def _cluster(_: type[GuestCluster], raw: bytes | msgspec.Raw) -> GuestCluster:
    return replace(decode(GuestCluster, raw), changed=_changed(raw))


class _Managed(msgspec.Struct, frozen=True, rename="camel"):
    """Which fields one client wrote last, and when."""

    time: str | None = None
    fields_v1: Mapping[str, msgspec.Raw] | None = msgspec.field(default=None, name="fieldsV1")


class _ManagedMeta(msgspec.Struct, frozen=True, rename="camel"):
    managed_fields: Sequence[_Managed] | None = None


class _ManagedObject(msgspec.Struct, frozen=True):
    metadata: _ManagedMeta = _ManagedMeta()


_NOT_DESIRED = frozenset({"f:metadata", "f:status"})


def _changed(raw: bytes | msgspec.Raw) -> str:
    """When a client last wrote a field that is neither metadata nor status; empty: not known."""
    entries = msgspec.json.decode(raw, type=_ManagedObject).metadata.managed_fields or ()
    times = (one.time or "" for one in entries if {*(one.fields_v1 or ())} - _NOT_DESIRED)
    return max(times, default="")


LABEL_CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
LABEL_MACHINE_POOL = "rke.cattle.io/rke-machine-pool-name"
"""On a Machine: its pool."""

GUEST_CLUSTERS = Resource(
    GROUP, VERSION, "clusters", True, GuestCluster, "Cluster", decoder=_cluster
)
HARVESTER_CONFIGS, LANEWAY_CONFIGS = (
    Resource(
        CONFIG_GROUP,
        VERSION,
        f"{driver.lower()}configs",
        True,
        MachineConfig,
        f"{driver}Config",
        decoder=_config,
        optional=True,
    )
    for driver in ("Harvester", "Laneway")
)
CONFIGS = {one.kind: one for one in (HARVESTER_CONFIGS, LANEWAY_CONFIGS)}
"""By kind; the machines of other kinds are not on Harvester."""
INFRA_MACHINES = {
    f"{driver}Config": Resource(
        MACHINE_GROUP,
        VERSION,
        f"{driver.lower()}machines",
        True,
        InfraMachine,
        f"{driver}Machine",
        optional=True,
    )
    for driver in ("Harvester", "Laneway")
}
"""By the kind of the configuration."""
POOL_MACHINES = tuple(
    Resource("cluster.x-k8s.io", version, "machines", True, PoolMachine, "Machine")
    for version in ("v1beta2", "v1beta1")
)
"""By version, the newest first: a server has one or both."""
