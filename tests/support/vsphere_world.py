"""What people see and do on a site with simulated vCenters; managers come, go and are killed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.api.vsphere import VCenter, VSphereHost, VSphereReservation
from laneway.kube import capv
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.errors import NotFoundError, UnreachableError
from laneway.kube.leader import LEASES, Timing
from laneway.kube.resource import Resource, served
from laneway.roles.manager import LEASE, Manager
from laneway.vsphere.fleet.connection import Timing as LinkTiming
from laneway.vsphere.machines.retry_state import Pace
from laneway.vsphere.machines.vms import Vms
from support.clusterapi import (
    CLUSTERS,
    DEPLOYMENTS,
    MACHINES,
    SECRETS,
    SETS,
    TEMPLATES,
    VSPHERE_CLUSTERS,
    VSPHERE_MACHINES,
    VSPHERE_VMS,
    Plain,
    Watched,
    plain,
)
from support.vcenter import Simulator

SECONDS = 60.0
NAMESPACE = "default"
QUICK = Timing(retry_seconds=0.2)

FLEET = LinkTiming(first=0.02, longest=0.1, secret=0.05, refused=600.0)
PACE = Pace(first=0.1, longest=1.0, look=0.1, task=5.0, await_clone=3.0)
"""How soon is tried again is no part of any story, so it is soon."""

VCENTERS = plain(served(VCenter))
HOSTS = plain(served(VSphereHost))
RESERVATIONS = plain(served(VSphereReservation))
ZONES = plain(capv.DEPLOYMENT_ZONES)
DOMAINS = plain(capv.FAILURE_DOMAINS)
NODES: Resource[Plain] = Resource("", "v1", "nodes", False, Plain, "Node")
ALL = (DEPLOYMENTS, SETS, MACHINES, CLUSTERS, VSPHERE_VMS, VSPHERE_MACHINES, TEMPLATES)
ALL += (VSPHERE_CLUSTERS, ZONES, DOMAINS, RESERVATIONS, HOSTS, VCENTERS)

Found = list[Plain]


class Line(Client):
    """A manager's line to the API server, which is cut when it is killed."""

    cut = False

    async def call(self, *args: Any, **kwargs: Any) -> bytes:
        if self.cut:
            raise UnreachableError("whoever asks is dead")
        return await super().call(*args, **kwargs)


class World:
    """What people see, and what they do."""

    def __init__(
        self,
        client: Client,
        config: ClusterConfig,
        kubeconfig: str,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.machines = Watched(client, MACHINES)
        self.infra = Watched(client, VSPHERE_MACHINES)
        self.vms = Watched(client, VSPHERE_VMS)
        self.reservations = Watched(client, RESERVATIONS)
        self.deployments = Watched(client, DEPLOYMENTS)
        self.vcenters = Watched(client, VCENTERS)
        self.hosts = Watched(client, HOSTS)
        self.nodes = Watched(client, NODES)
        self._config = config
        self._stack = stack
        self._lines: dict[asyncio.Task[None], tuple[Line, str]] = {}

    @property
    def watched(self) -> list[Watched]:
        return [one for one in vars(self).values() if isinstance(one, Watched)]

    # ---- managers ----

    async def lead(self, mode: str = "standalone") -> asyncio.Task[None]:
        """A manager, until the test ends or it is killed; it leads when it is its turn."""
        line = await self._stack.enter_async_context(Line(self._config))
        identity = f"manager-{len(self._lines)}"
        manager = Manager(
            line,
            CollectorRegistry(),
            identity=identity,
            namespace=NAMESPACE,
            timing=QUICK,
            vsphere=mode,  # type: ignore[arg-type] - one of its words
        )
        assert manager.vsphere is not None
        manager.vsphere.fleet._timing = FLEET
        for part in manager.vsphere.parts:
            if isinstance(part, Vms):
                part._context = part._context._replace(pace=PACE)
        task = asyncio.create_task(manager.run())
        self._lines[task] = line, identity
        self._stack.push_async_callback(self.kill, task)
        return task

    async def kill(self, manager: asyncio.Task[None]) -> None:
        """Without a word to anybody: it does not even give its Lease back.

        The Lease is taken from it, so that the next leader need not wait for its end.
        """
        line, identity = self._lines[manager]
        line.cut = True
        manager.cancel()
        await asyncio.wait([manager])
        if not manager.cancelled() and (error := manager.exception()):
            raise error
        with contextlib.suppress(NotFoundError):
            lease = await self.client.get(LEASES, LEASE, NAMESPACE)
            if lease.spec.holder_identity == identity:
                await self.client.delete(LEASES, LEASE, NAMESPACE)

    async def succeed(self, manager: asyncio.Task[None]) -> asyncio.Task[None]:
        """A manager dies, and another one leads."""
        await self.kill(manager)
        return await self.lead()

    # ---- what people apply ----

    async def make(self, resource: Resource[Any], name: str, spec: Any, **meta: Any) -> Any:
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = head | {"metadata": {"name": name, **meta}, "spec": spec}
        return await self.client.create(resource, body, NAMESPACE if resource.namespaced else "")

    async def patch(self, resource: Resource[Any], name: str, spec: Any) -> None:
        space = NAMESPACE if resource.namespaced else ""
        await self.client.patch(resource, name, {"spec": spec}, space)

    async def delete(self, resource: Resource[Any], name: str) -> None:
        await self.client.delete(resource, name, NAMESPACE if resource.namespaced else "")

    async def secret(self, name: str, **data: str) -> None:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
        with contextlib.suppress(NotFoundError):
            await self.client.delete(SECRETS, name, NAMESPACE)
        await self.client.create(SECRETS, body, NAMESPACE)

    async def vcenter(self, simulator: Simulator, name: str = "main", password: str = "") -> None:
        """A VCenter object with its Secret."""
        password = password or simulator.password
        await self.secret(f"vcenter-{name}", username=simulator.user, password=password)
        spec = {
            "server": simulator.server,
            "secretRef": {"namespace": NAMESPACE, "name": f"vcenter-{name}"},
            "thumbprint": simulator.thumbprint,
        }
        await self.make(VCENTERS, name, spec)

    async def cluster(self, simulator: Simulator, name: str = "c1", **spec: Any) -> None:
        ref = {"apiGroup": capv.GROUP, "kind": "VSphereCluster", "name": name}
        await self.make(CLUSTERS, name, {"infrastructureRef": ref})
        await self.make(VSPHERE_CLUSTERS, name, {"server": simulator.server} | spec)

    async def site(self, simulator: Simulator, mode: str = "standalone") -> asyncio.Task[None]:
        """A vCenter, a cluster there, and a manager that leads."""
        await self.vcenter(simulator)
        await self.cluster(simulator)
        return await self.lead(mode)

    async def template(self, name: str, *devices: Any, **spec: Any) -> None:
        body = {
            "template": "ubuntu",
            "datacenter": "DC0",
            "resourcePool": "DC0_C0/Resources",
            "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
        }
        body |= {"pciDevices": list(devices)} if devices else {}
        body = {key: value for key, value in (body | spec).items() if value is not None}
        await self.make(TEMPLATES, name, {"template": {"spec": body}})

    async def pool(
        self,
        name: str,
        *devices: Any,
        replicas: int = 1,
        surge: int = 1,
        zone: str = "",
        cluster: str = "c1",
        **spec: Any,
    ) -> None:
        """A MachineDeployment with a template of its own; what it is rolled out by, too."""
        await self.template(name, *devices, **spec)
        machine = {"clusterName": cluster, "bootstrap": {}, "infrastructureRef": _template(name)}
        machine |= {"version": "v1.34.2"} | ({"failureDomain": zone} if zone else {})
        rolling = {"maxSurge": surge, "maxUnavailable": 1 - surge}
        about = {
            "clusterName": cluster,
            "replicas": replicas,
            "selector": {"matchLabels": {"pool": name}},
            "template": {"metadata": {"labels": {"pool": name}}, "spec": machine},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
        }
        await self.make(DEPLOYMENTS, name, about)

    async def scale(self, pool: str, replicas: int) -> None:
        await self.patch(DEPLOYMENTS, pool, {"replicas": replicas})

    async def roll_out(self, pool: str, template: str) -> None:
        """Have the machines exchanged for those of another template."""
        to = {"template": {"spec": {"infrastructureRef": _template(template)}}}
        await self.patch(DEPLOYMENTS, pool, to)

    async def zone(self, simulator: Simulator, name: str, **topology: Any) -> None:
        part = {"name": name, "type": "ComputeCluster", "tagCategory": "laneway"}
        domain = {"region": part, "zone": part, "topology": {"datacenter": "DC0", **topology}}
        await self.make(DOMAINS, name, domain)
        await self.make(ZONES, name, {"server": simulator.server, "failureDomain": name})

    # ---- what people see ----

    async def ready(self, pool: str, count: int) -> Found:
        """The Machines of a pool that are ready, once there are so many and no others are."""
        found = await self.machines.until(
            lambda all_: sum(is_true(one, "Ready") for one in of_pool(all_, pool)) == count
        )
        return [one for one in of_pool(found, pool) if is_true(one, "Ready")]

    async def refused(self, pool: str, count: int, reason: str = "NoRoom") -> Found:
        """The VSphereMachines of a pool that say why they have no devices, once so many do."""

        def why(one: Plain) -> bool:
            return said(one, "PCIDevicesReady")[:2] == ("False", reason)

        found = await self.infra.until(
            lambda all_: sum(why(one) for one in of_pool(all_, pool)) == count
        )
        return [one for one in of_pool(found, pool) if why(one)]

    async def settled(self, pool: str, replicas: int) -> None:
        """The MachineDeployment is as desired, and no other machines of it are left."""
        await self.machines.until(lambda all_: len(of_pool(all_, pool)) == replicas)
        await self.ready(pool, replicas)

    async def nothing_left(self, simulator: Simulator) -> None:
        """No machine, no reservation, no VM and no device in use of any pool."""
        await self.machines.until(lambda all_: not all_)
        await self.vms.until(lambda all_: not all_)
        await self.reservations.until(lambda all_: not all_)
        assert made(simulator) == {}
        assert simulator.users() == {}

    def exact(self, simulator: Simulator) -> None:
        """Every VM made here belongs to a VSphereVM, and every reservation to a machine."""
        names = {one.metadata.name for one in self.vms.all}
        assert made(simulator).keys() <= names
        assert {one.metadata.name for one in self.reservations.all} <= names


def _template(name: str) -> dict[str, str]:
    return {"apiGroup": capv.GROUP, "kind": "VSphereMachineTemplate", "name": name}


def of_pool(all_: Found, pool: str) -> Found:
    return [one for one in all_ if one.metadata.labels.get("pool") == pool]


def said(obj: Plain, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    for one in obj.status.get("conditions") or ():
        if one["type"] == kind:
            return one["status"], one.get("reason", ""), one.get("message", "")
    return "", "", ""


def is_true(obj: Plain, kind: str) -> bool:
    return said(obj, kind)[0] == "True"


def made(simulator: Simulator) -> Mapping[str, Any]:
    """The VMs that were not there from the beginning, by name."""
    return {
        name: vm for name, vm in simulator.vms().items() if not name.startswith(("DC0_", "ubuntu"))
    }


class See:
    """The functions above, for tests."""

    said = staticmethod(said)
    is_true = staticmethod(is_true)
    made = staticmethod(made)
    of_pool = staticmethod(of_pool)
