"""Machines: their infrastructure and user data, their node, and the order in which all of it goes.

The infrastructure is cloned from its template after the Machine is there, and not before it as
Cluster API does: so nothing is left over when we are killed in between.
"""

from __future__ import annotations

import base64
import contextlib

from laneway.api import Condition, find_condition
from laneway.core.raw import Json, JsonObject, members
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER, Cluster, Machine
from laneway.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key
from laneway.simcluster.clusterapi.caches import Caches, by_cluster_of, by_key
from laneway.simcluster.clusterapi.objects import (
    ANNOTATION_FROM,
    ANNOTATION_FROM_KIND,
    ANNOTATION_NODE_IN,
    ANNOTATION_NODE_OF,
    MACHINES,
    SECRET_TYPE,
    SECRETS,
    Infra,
    condition,
    owner,
)
from laneway.simcluster.clusterapi.writing import create, hold, let_go, remove, write_status
from laneway.simcluster.objects import NODES, Node, is_ready

FINALIZER = "machine.cluster.x-k8s.io"
_USER_DATA = """\
#cloud-config
hostname: {name}
"""


class MachineController:
    """Reconciles Machines."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._caches = caches
        caches.machines.follow(by_key(self.queue.add))
        caches.infra_machines.follow(self._infrastructure_changed)
        caches.nodes.follow(self._node_changed)
        caches.clusters.follow(by_cluster_of(caches.machines, self.queue.add))

    def _infrastructure_changed(self, infra: Infra) -> None:
        for ref in infra.metadata.owner_references:
            if ref.kind == "Machine":
                self.queue.add(Key(infra.metadata.namespace, ref.name))

    def _node_changed(self, node: Node) -> None:
        annotations = node.metadata.annotations
        if name := annotations.get(ANNOTATION_NODE_OF):
            self.queue.add(Key(annotations.get(ANNOTATION_NODE_IN, ""), name))

    async def reconcile(self, key: Key) -> None:
        """Do what is next for one Machine."""
        machine = self._caches.machines.store.get(key.name, key.namespace)
        if machine is None:
            return
        name = machine.spec.infrastructure_ref.name
        infra = self._caches.infra_machines.store.get(name, key.namespace) if name else None
        if machine.metadata.deletion_timestamp:
            await self._delete(machine, infra)
            return
        cluster = self._caches.cluster(machine)
        if cluster is None or cluster.spec.paused or cluster.metadata.deletion_timestamp:
            return
        await hold(self._client, MACHINES, machine.metadata, FINALIZER)
        problem = ""
        if infra is None:
            problem = await self._clone(machine)
        elif not any(ref.uid == machine.metadata.uid for ref in infra.metadata.owner_references):
            await self._own(machine, infra)
        booted = await self._user_data(machine, cluster)
        await self._tell(machine, infra, problem, booted=booted)

    async def _clone(self, machine: Machine) -> str:
        """Make the infrastructure of its template. What is wrong, where it cannot be made."""
        meta = machine.metadata
        source = meta.annotations.get(ANNOTATION_FROM)
        kind = meta.annotations.get(ANNOTATION_FROM_KIND, "").partition(".")[0]
        name = machine.spec.infrastructure_ref.name
        provider = self._caches.provider
        if machine.status.initialization.infrastructure_provisioned:
            return f"the {provider.machines.kind} {name} is gone"
        if not source or kind != provider.templates.kind:
            return f"there is no {machine.spec.infrastructure_ref.kind} {name}"
        try:
            template = await self._client.get(provider.templates, source, meta.namespace)
            body = _cloned(machine, template)
            await create(self._client, provider.machines, body, meta.namespace)
        except AlreadyExistsError:
            return ""
        except NotFoundError:
            self.queue.add_after(Key(meta.namespace, meta.name), 2.0)
            return f"there is no {provider.templates.kind} {source}"
        except ApiError as error:  # refused, perhaps only for now
            self.queue.add_after(Key(meta.namespace, meta.name), 5.0)
            return f"a {provider.machines.kind} of the template {source} is refused: {error}"
        return ""

    async def _own(self, machine: Machine, infra: Infra) -> None:
        """Take infrastructure that another client made for this Machine."""
        meta, kind = infra.metadata, self._caches.provider.machines
        body = {
            "labels": {LABEL_CLUSTER: machine.spec.cluster_name},
            "ownerReferences": [owner(MACHINES, machine.metadata)],
            "resourceVersion": meta.resource_version,
        }
        await self._client.patch(kind, meta.name, {"metadata": body}, meta.namespace)

    async def _user_data(self, machine: Machine, cluster: Cluster) -> bool:
        """Whether there are user data; made once the cluster could be joined."""
        if machine.spec.bootstrap.data_secret_name:
            return True
        if not cluster.status.initialization.control_plane_initialized:
            return False
        meta = machine.metadata
        secret = f"{meta.name}-bootstrap"
        text = _USER_DATA.format(name=meta.name)
        body: JsonObject = {
            "metadata": {
                "name": secret,
                "labels": {LABEL_CLUSTER: machine.spec.cluster_name},
                "ownerReferences": [owner(MACHINES, meta)],
            },
            "type": SECRET_TYPE,
            "data": {
                "value": base64.b64encode(text.encode()).decode(),
                "format": base64.b64encode(b"cloud-config").decode(),
            },
        }
        with contextlib.suppress(AlreadyExistsError):
            await create(self._client, SECRETS, body, meta.namespace)
        named = {"spec": {"bootstrap": {"dataSecretName": secret}}}
        await self._client.patch(MACHINES, meta.name, named, meta.namespace)
        return True

    async def _tell(
        self, machine: Machine, infra: Infra | None, problem: str, *, booted: bool
    ) -> None:
        meta = machine.metadata
        there = machine.status.initialization.infrastructure_provisioned or (
            infra is not None and infra.provisioned
        )
        provider_id = str(infra.spec.get("providerID") or "") if infra and infra.provisioned else ""
        if provider_id and provider_id != machine.spec.provider_id:
            body = {"spec": {"providerID": provider_id}}
            await self._client.patch(MACHINES, meta.name, body, meta.namespace)
        node = self._node(provider_id or machine.spec.provider_id)
        works = _infrastructure(infra, problem, provisioned=there)
        joins = self._caches.provider.joins
        healthy = is_ready(node) if node is not None else there and not joins
        ready = works.status == "True" and healthy
        text = works.message or ("" if healthy else "its node is not ready")
        fields: dict[str, Json] = {
            "phase": _phase(booted=booted, there=there, joined=node is not None or not joins),
            "addresses": [
                {"type": one.type, "address": one.address}
                for one in (infra.status.addresses if infra else ())
            ],
        }
        initialization = {"infrastructureProvisioned": there, "bootstrapDataSecretCreated": booted}
        if done := {name: True for name, value in initialization.items() if value}:
            fields["initialization"] = done
        if infra is not None and infra.status.failure_domain:
            fields["failureDomain"] = infra.status.failure_domain
        if node is not None:
            fields["nodeRef"] = {"name": node.metadata.name}
        await write_status(
            self._client,
            MACHINES,
            machine,
            works,
            condition("BootstrapConfigReady", booted, "Ready" if booted else "NotReady"),
            condition("NodeHealthy", healthy, "NodeHealthy" if healthy else "NodeNotHealthy"),
            condition("Ready", ready, "Ready" if ready else "NotReady", text),
            condition("Available", ready, "Available" if ready else "NotAvailable"),
            condition("UpToDate", True, "UpToDate"),
            **fields,
        )

    def _node(self, provider_id: str) -> Node | None:
        found = self._caches.nodes.store.by("provider", provider_id) if provider_id else ()
        return next(iter(found), None)

    async def _delete(self, machine: Machine, infra: Infra | None) -> None:
        """First the infrastructure, whose node goes with it, then the Machine itself."""
        await write_status(self._client, MACHINES, machine, phase="Deleting")
        if infra is not None:
            await remove(self._client, self._caches.provider.machines, infra.metadata)
            return
        if (node := self._node(machine.spec.provider_id)) is not None:
            await remove(self._client, NODES, node.metadata)
        await let_go(self._client, MACHINES, machine.metadata, FINALIZER)


def _infrastructure(infra: Infra | None, problem: str, *, provisioned: bool) -> Condition:
    """Whether the infrastructure works, in the words of its own condition."""
    kind = "InfrastructureReady"
    if infra is None:
        reason = "InternalError" if problem else "InfrastructureDoesNotExist"
        return condition(kind, False, reason, problem)
    known = find_condition(infra.status.conditions, "Ready")
    if provisioned and (known is None or known.status == "True"):
        return condition(kind, True, "Ready")
    if known is None:
        return condition(kind, False, "NotReady", "it is being provisioned")
    return condition(kind, False, known.reason or "NotReady", known.message)


def _phase(*, booted: bool, there: bool, joined: bool) -> str:
    if joined and there:
        return "Running"
    if there:
        return "Provisioned"
    return "Provisioning" if booted else "Pending"


def _cloned(machine: Machine, template: Infra) -> JsonObject:
    """A machine as its template says; Cluster API copies no status and no name."""
    inner = members(template.spec.get("template"))
    about = members(inner.get("metadata"))
    meta = machine.metadata
    kept = {
        name: value
        for name, value in meta.annotations.items()
        if name in (ANNOTATION_FROM, ANNOTATION_FROM_KIND)
    }
    return {
        "metadata": {
            "name": machine.spec.infrastructure_ref.name,
            "labels": {**members(about.get("labels")), **meta.labels},
            "annotations": {**members(about.get("annotations")), **kept},
            "ownerReferences": [owner(MACHINES, meta)],
        },
        "spec": inner.get("spec") or {},
    }
