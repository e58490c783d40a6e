"""Choosing devices for a container, in the order in which a kubelet considers and refuses.

Without a topology policy: what the plugin prefers of the free and healthy ones, then any. A real
kubelet iterates over sets of Go, in another order each time, so no code may rely on any.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from random import Random

from laneway.api.kubelet.deviceplugin_pb2 import ContainerAllocateResponse
from laneway.sim.kubelet.checkpoint import AdmittedPod, Given
from laneway.sim.kubelet.pods import AdmissionError, DeviceNode, Grant

REASON = "UnexpectedAdmissionError"


class UnavailableError(Exception):
    """A container does not get what it requests; the text is the kubelet's reason."""


def failed(cause: object) -> AdmissionError:
    """What becomes of the pod, whatever the cause."""
    return AdmissionError(REASON, f"Allocate failed due to {cause}, which is unexpected")


def free(
    resource: str,
    count: int,
    had: Collection[str] | None,
    healthy: Mapping[str, AbstractSet[str]],
    taken: AbstractSet[str],
) -> AbstractSet[str]:
    """What a container may be given of a resource; empty when what it had before serves.

    Raises UnavailableError. A kubelet that never heard of a resource would start the container
    without it; here that is refused like a resource that is not offered any more.
    """
    if had is not None and len(had) != count:
        raise UnavailableError(
            f"the container changed its request for resource {resource} from {len(had)} to {count}"
        )
    if resource not in healthy:
        raise UnavailableError(f"cannot allocate unregistered device {resource}")
    if not healthy[resource]:
        raise UnavailableError(
            f"no healthy devices present; cannot allocate unhealthy devices {resource}"
        )
    if had is not None:
        if not healthy[resource] >= set(had):
            raise UnavailableError(
                "previously allocated devices are no longer healthy; "
                f"cannot allocate unhealthy devices {resource}"
            )
        return frozenset()
    available = healthy[resource] - taken
    if len(available) < count:
        raise UnavailableError(
            f"requested number of devices unavailable for {resource}. "
            f"Requested: {count}, Available: {len(available)}"
        )
    return available


def choose(
    available: AbstractSet[str], preferred: AbstractSet[str], count: int, luck: Random
) -> tuple[str, ...]:
    """The preferred ones first; what the plugin names beyond what is free does not count."""
    chosen: list[str] = []
    for among in (available & preferred, available - preferred):
        chosen += luck.sample(sorted(among), min(count - len(chosen), len(among)))
    return tuple(sorted(chosen))


def given(ids: tuple[str, ...], answer: ContainerAllocateResponse) -> Given:
    """What is kept of a plugin's answer."""
    nodes = (DeviceNode(d.container_path, d.host_path, d.permissions) for d in answer.devices)
    return Given(ids=ids, envs=dict(answer.envs), devices=tuple(nodes))


def grants(pod: AdmittedPod) -> dict[str, Grant]:
    """What the containers get of all their plugins; a device node only once."""
    return {container: _grant(parts) for container, parts in pod.containers.items()}


def _grant(parts: Mapping[str, Given]) -> Grant:
    envs: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    for part in parts.values():
        envs |= part.envs
        for node in part.devices:
            nodes.setdefault(node.container_path, node)
    ids = {resource: part.ids for resource, part in parts.items()}
    return Grant(envs=envs, devices=tuple(nodes.values()), ids=ids)
