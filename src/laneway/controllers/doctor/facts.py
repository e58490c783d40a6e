"""The facts about a cluster that its doctor judges, from one look at the API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from laneway.api import PCIDeviceClaim, SRIOVGPUDevice, find_condition, kind_of, timestamp
from laneway.api.registry import KINDS
from laneway.controllers.cluster.caches import VGPUS
from laneway.controllers.cluster.leftovers import FINALIZERS
from laneway.controllers.cluster.needs import of_claim, of_vgpu
from laneway.controllers.devices.driver import driver_failed, driver_of, not_in_service
from laneway.controllers.devices.outcome import IN_PROGRESS
from laneway.controllers.doctor import certificates, definitions, harvester
from laneway.controllers.doctor.objects import (
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    KUBEVIRTS,
    MUTATING,
    SECRETS,
    SERVICES,
    VALIDATING,
    Asking,
    Conditioned,
    Plain,
    WebhookConfiguration,
    WorkloadObject,
)
from laneway.core import keys, permitted
from laneway.core.doctor.cluster_facts import (
    AGENT,
    MANAGER,
    WEBHOOK,
    Certificate,
    ClusterFacts,
    ClusterNode,
    Hook,
    Installation,
    Stuck,
    Unseen,
    Workload,
)
from laneway.core.raw import at, items
from laneway.kube.client import Client
from laneway.kube.errors import UndecodableError
from laneway.kube.kubevirt import KUBEVIRTS as TYPED_KUBEVIRTS
from laneway.kube.kubevirt import lists_of
from laneway.kube.leader import LEASES
from laneway.kube.pods import PODS, Pod
from laneway.kube.pods import is_ready as pod_is_ready
from laneway.kube.resource import KubeObject, Resource, served

_CONFIGURATIONS = ((MUTATING, "laneway-mutator"), (VALIDATING, "laneway-validator"))
_TLS = "laneway-webhook-tls"
_NODES = Resource("", "v1", "nodes", False, Conditioned, "Node")
STUCK_SECONDS = 30
"""How long a deletion may take before it is reported."""
SILENT_SECONDS = 300
"""After how long without a sign a leader counts as gone; clocks may differ somewhat."""
_WATCHED = (
    "PCIDeviceClaim",
    "USBDeviceClaim",
    "SRIOVGPUDevice",
    "VGPUDevice",
    "SRIOVNetworkDevice",
    "MigConfiguration",
    "VGPULayout",
    "USBDevice",
    "Node",
)
"""Kinds of ours whose deletion may get stuck; nothing holds PCIDevices, of which there are many."""
_GPU_LABELS = (keys.LABEL_DRIVER_NEEDED, keys.LABEL_BAREMETAL_GPUS, "nvidia.com/gpu.present")
_FOUND_LABEL = "feature.node.kubernetes.io/pci-"
"""What node feature discovery writes, followed by class and vendor."""


def _conditioned(plural: str) -> Resource[Conditioned]:
    info = next(one for one in KINDS if one.plural == plural)
    return Resource(info.group, info.version, plural, info.namespaced, Conditioned, info.kind)


_DEVICE_NODES = _conditioned("nodes")
_PARTS: Mapping[Unseen, tuple[Resource[KubeObject], ...]] = {
    "definitions": (DEFINITIONS,),
    "parts": (DAEMON_SETS, DEPLOYMENTS),
    "hooks": (MUTATING, VALIDATING),
    "kubevirts": (KUBEVIRTS,),
    "nodes": (_NODES, _DEVICE_NODES, DAEMON_SETS, PODS, LEASES),
}
"""What each part of the facts is read from."""


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    """Of the API server."""

    git_version: str = ""


async def look(client: Client, now: datetime | None = None) -> ClusterFacts:
    """Request everything. Raises KubeError where not even the version can be had."""
    now = now or datetime.now(UTC)
    asking = Asking(client)
    version = await _version(client)
    (found, hidden), crds, (agents, managers, webhooks), stuck = await asyncio.gather(
        harvester.find(client),
        _definitions(asking),
        _components(asking),
        _stuck(asking, now),
    )
    hooks, certificate = await _hooks(asking, webhooks, now)
    kubevirts = await _kubevirts(asking)
    nodes = await _nodes(asking, agents, now)
    unseen = frozenset(part for part, of in _PARTS.items() if not asking.saw(*of))
    return ClusterFacts(
        version=version,
        definitions=tuple(
            one for one in definitions.compare(crds) if one.present or "definitions" not in unseen
        ),
        agents=None if agents is None else harvester.daemon_workload(agents),
        managers=None if managers is None else _deployment(managers),
        webhooks=None if webhooks is None else _deployment(webhooks),
        hooks=hooks,
        certificate=certificate,
        kubevirts=kubevirts,
        nodes=nodes,
        stuck=stuck,
        harvester=found,
        unseen=unseen,
        unknown=tuple(dict.fromkeys((*hidden, *asking.unknown))),
        unreadable=tuple({one.title: one for one in asking.unreadable}.values()),
    )


async def _version(client: Client) -> str:
    answer = await client.raw("/version")
    try:
        return msgspec.json.decode(answer, type=_Version).git_version
    except msgspec.DecodeError as error:
        raise UndecodableError(f"/version: the answer is not a version: {error}") from None


async def _definitions(asking: Asking) -> list[Plain]:
    """By their names: a cluster has hundreds of others, and some are huge."""
    return [
        one
        for name in definitions.NAMES
        if (one := await asking.one(DEFINITIONS, name)) is not None
    ]


# --------------------------------------------------------------------------------- Laneway's parts


async def _components(asking: Asking) -> tuple[WorkloadObject | None, ...]:
    daemons, deployments = await asyncio.gather(asking.all(DAEMON_SETS), asking.all(DEPLOYMENTS))
    return (
        _named(daemons, AGENT),
        _named(deployments, MANAGER),
        _named(deployments, WEBHOOK),
    )


def _named(workloads: Iterable[WorkloadObject], name: str) -> WorkloadObject | None:
    return next((one for one in workloads if one.metadata.name == name), None)


def _deployment(found: WorkloadObject) -> Workload:
    wanted = 1 if found.spec.replicas is None else found.spec.replicas
    return Workload(
        kind="Deployment",
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        wanted=wanted,
        ready=found.status.ready_replicas,
        present=found.status.replicas,
        images=harvester.images(found),
    )


async def _hooks(
    asking: Asking, webhooks: WorkloadObject | None, now: datetime
) -> tuple[tuple[Hook, ...], Certificate | None]:
    configurations = [
        (resource.kind, found)
        for resource, name in _CONFIGURATIONS
        if (found := await asking.one(resource, name)) is not None
    ]
    if webhooks is None:
        secret, services = None, []
    else:
        namespace = webhooks.metadata.namespace
        secret = await asking.one(SECRETS, _TLS, namespace)
        services = await asking.all(SERVICES, namespace)
    there = {f"{one.metadata.namespace}/{one.metadata.name}" for one in services}
    leaf = None if secret is None else certificates.leaf_of(secret)
    hooks = [
        hook
        for kind, configuration in configurations
        for hook in _of_configuration(kind, configuration, leaf, there)
    ]
    if secret is None or leaf is None:
        return tuple(hooks), None
    return tuple(hooks), certificates.judged(secret, leaf, now)


def _of_configuration(
    kind: str, configuration: WebhookConfiguration, leaf: Any, services: set[str]
) -> Iterable[Hook]:
    for one in configuration.webhooks:
        to = one.client_config.service
        service = "" if to is None else f"{to.namespace}/{to.name}"
        yield Hook(
            configuration=configuration.metadata.name,
            kind="Mutating" if kind.startswith("Mutating") else "Validating",
            name=one.name,
            failure_policy=one.failure_policy,
            trust=certificates.trust(one.client_config.ca_bundle, leaf),
            service=service,
            reachable=not (service and services) or service in services,
            resources=tuple(
                f"{resource}.{group}"
                for rule in one.rules
                for group in rule.api_groups
                for resource in rule.resources
            ),
        )


# ---------------------------------------------------------------------------------------- KubeVirt


async def _kubevirts(asking: Asking) -> tuple[Installation, ...]:
    found = await asking.all(KUBEVIRTS)
    if not found:
        return ()
    claims, vgpus = await asyncio.gather(
        asking.all(served(PCIDeviceClaim)),
        asking.all(VGPUS),
    )
    needed = {of_claim(one) for one in claims} | {of_vgpu(one) for one in vgpus}
    ours = {permitted.key_of(one) for one in needed if one is not None}
    return tuple(_installation(one, ours) for one in found)


def _installation(stored: Plain, ours: set[permitted.Key]) -> Installation:
    gates = at(stored.spec, ("configuration", "developerConfiguration", "featureGates"))
    typed = TYPED_KUBEVIRTS.decode(msgspec.json.encode(stored))
    internal = {
        key.resource
        for name, listed in lists_of(typed).items()
        for item in listed
        if (key := permitted.key_of_item(name, item)) in ours
        and key is not None
        and not permitted.is_external(item)
    }
    return Installation(
        title=f"{stored.metadata.namespace}/{stored.metadata.name}",
        version=str(stored.status.get("observedKubeVirtVersion", "")),
        phase=str(stored.status.get("phase", "")),
        gates=tuple(map(str, items(gates))),
        permits=typed.spec.configuration.permitted_host_devices is not None,
        internal=tuple(sorted(internal)),
    )


# ------------------------------------------------------------------------------------------- nodes


async def answering(client: Client) -> dict[str, bool]:
    """Every node of the cluster, and whether an agent manages it."""
    asking = Asking(client)
    agents, _, _ = await _components(asking)
    nodes = await _nodes(asking, agents, datetime.now(UTC))
    return {node.name: node.agent for node in nodes}


async def _nodes(
    asking: Asking, agents: WorkloadObject | None, now: datetime
) -> tuple[ClusterNode, ...]:
    nodes, answering, gpus = await asyncio.gather(
        asking.all(_NODES),
        asking.all(_DEVICE_NODES),
        asking.all(_conditioned(kind_of(SRIOVGPUDevice).plural)),
    )
    looked_after: set[str] = set()
    if agents is not None:
        pods = await asking.all(PODS, agents.metadata.namespace)
        looked_after = {one.spec.node_name for one in pods if is_agent(one)}
    elif await _is_led(asking, now):
        # Agents without pods, as in laneway up. Each has said how it is; Harvester's controller
        # makes such objects, too, and says nothing.
        looked_after = {one.metadata.name for one in answering if one.status.conditions}
    with_gpus = {one.spec.node_name for one in gpus}
    drivers = {one.metadata.name: driver_of(one.status.conditions) for one in answering}
    return tuple(
        ClusterNode(
            name=one.metadata.name,
            gpus=one.metadata.name in with_gpus or says_gpus(one.metadata.labels),
            agent=one.metadata.name in looked_after,
            driver=not_in_service(drivers.get(one.metadata.name)),
            driver_failed=driver_failed(drivers.get(one.metadata.name)),
        )
        for one in nodes
    )


async def _is_led(asking: Asking, now: datetime) -> bool:
    """Whether a manager of Laneway's has been heard of lately."""
    lease = await asking.one(LEASES, MANAGER, harvester.NAMESPACE)
    since = timestamp(now - timedelta(seconds=SILENT_SECONDS))
    return lease is not None and bool(lease.spec.holder_identity) and lease.spec.renew_time > since


def is_agent(pod: Pod) -> bool:
    """Whether a pod is an agent of Laneway's that answers."""
    owners = [(one.kind, one.name) for one in pod.metadata.owner_references]
    return ("DaemonSet", AGENT) in owners and pod_is_ready(pod)


def says_gpus(labels: Mapping[str, str]) -> bool:
    """Whether the labels of a node say that it has GPUs for VMs."""
    return any(
        value == "true"
        and (
            name in _GPU_LABELS
            or (name.startswith(f"{_FOUND_LABEL}03") and name.endswith("_10de.present"))
        )
        for name, value in labels.items()
    )


# ------------------------------------------------------------------------------------ stuck objects


async def _stuck(asking: Asking, now: datetime) -> tuple[Stuck, ...]:
    before = timestamp(now - timedelta(seconds=STUCK_SECONDS))
    wanted = [_conditioned(info.plural) for info in KINDS if info.kind in _WATCHED]
    lists = await asyncio.gather(*map(asking.all, wanted))
    return tuple(
        _held(resource, one)
        for resource, objects in zip(wanted, lists, strict=True)
        for one in objects
        # Times of Kubernetes sort as text.
        if one.metadata.deletion_timestamp and one.metadata.deletion_timestamp <= before
    )


def _held(resource: Resource[Conditioned], one: Conditioned) -> Stuck:
    meta = one.metadata
    ready = find_condition(one.status.conditions, "Ready")
    said = ready is not None and ready.status != "True" and ready.reason != IN_PROGRESS
    return Stuck(
        resource=str(resource),
        name=meta.name,
        since=str(meta.deletion_timestamp),
        node=one.spec.node_name or one.status.node_name or meta.labels.get(keys.LABEL_NODE, ""),
        finalizers=tuple(meta.finalizers),
        answer=ready.message if ready is not None and said else "",
        ours=bool(meta.finalizers) and set(meta.finalizers) <= FINALIZERS,
    )
