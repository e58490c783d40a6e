"""The steps of a takeover and of the way back. Each may be repeated, and ends in the same state.

There: save, mark the VMs, park the DaemonSet, wait for its pods, remove its webhook
configurations, adopt KubeVirt's entries. The configurations come late, because its controller makes
them again whenever one of its pods starts. Back: disown the entries, let the DaemonSet run, make
the configurations again, remove the record. No device, claim or list of KubeVirt's is touched on
either way, and of VMs only an annotation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from laneway.controllers.doctor.harvester import (
    DAEMON_SET,
    HOOKS,
    NAMESPACE,
    PARKED,
    RECORD,
    is_gone,
    is_parked,
)
from laneway.controllers.doctor.objects import DAEMON_SETS, WorkloadObject
from laneway.controllers.takeover import admitting, adopting, record
from laneway.core.raw import at
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from laneway.kube.pods import PODS
from laneway.kube.resource import KubeObject, Resource

Tell = Callable[[str], None]

LOOK_SECONDS = 1.0
_ATTEMPTS = 5


class StillRunningError(KubeError):
    """Pods of Harvester's controller do not go."""


async def take(client: Client, tell: Tell, *, seconds: float) -> None:
    """Have Harvester's controller stop. Raises KubeError, StillRunningError."""
    daemon_set = await _daemon_set(client)
    for _ in range(_ATTEMPTS):
        try:
            await _save(client, daemon_set)
            break
        except (ConflictError, AlreadyExistsError):
            continue
    else:
        raise KubeError(f"ConfigMap {NAMESPACE}/{RECORD}: another client keeps changing it")
    tell(f"saved the changed objects in ConfigMap {NAMESPACE}/{RECORD}")
    # While Harvester's webhooks still answer, which judge writes of VMs.
    if admitted := await admitting.admit(client):
        noun = "virtual machine" if admitted == 1 else "virtual machines"
        tell(f"marked {admitted} {noun} as entitled to their devices")
    if daemon_set is not None:
        if not is_parked(daemon_set):
            await _select(client, {PARKED: "parked"})
            tell(f"keeping DaemonSet {DAEMON_SET} from every node")
        await _until_gone(client, tell, seconds)
    for resource, name in HOOKS:
        await _remove_hook(client, tell, resource, name)
    if adopted := await adopting.adopt(client):
        noun = "entry" if adopted == 1 else "entries"
        tell(f"adopted {adopted} {noun} of KubeVirt's permitted devices")


async def back(client: Client, tell: Tell) -> None:
    """Have Harvester's controller run again. Raises KubeError."""
    stored = await record.read(client)
    await adopting.disown(client)
    daemon_set = await _daemon_set(client)
    if daemon_set is not None and is_parked(daemon_set):
        await _select(client, {PARKED: None})
        tell(f"DaemonSet {DAEMON_SET} runs again")
    if stored is None:
        return
    for resource, body in record.hooks(stored):
        try:
            await client.create(resource, body)
        except AlreadyExistsError:
            continue  # Its controller was quicker.
        tell(f"restored {resource.kind} {at(body, ('metadata', 'name'))}")
    await client.delete(record.CONFIG_MAPS, RECORD, NAMESPACE, uid=stored.metadata.uid)
    tell(f"removed ConfigMap {NAMESPACE}/{RECORD}")


async def _daemon_set(client: Client) -> WorkloadObject | None:
    try:
        return await client.get(DAEMON_SETS, DAEMON_SET, NAMESPACE)
    except NotFoundError:
        return None


async def _save(client: Client, daemon_set: WorkloadObject | None) -> None:
    data: dict[str, str] = {}
    if daemon_set is not None:
        data |= record.of_daemon_set(daemon_set)
    for resource, name in HOOKS:
        if (found := await record.untouched(client, resource, name)) is not None:
            data |= record.of_hook(resource, found)
    await record.save(client, data)


async def _select(client: Client, change: dict[str, str | None]) -> None:
    body = {"spec": {"template": {"spec": {"nodeSelector": change}}}}
    await client.patch(DAEMON_SETS, DAEMON_SET, body, NAMESPACE)


async def _until_gone(client: Client, tell: Tell, seconds: float) -> None:
    reported = ""
    try:
        async with asyncio.timeout(seconds):
            while left := await _left(client):
                if left != reported:
                    tell(f"waiting for {left}")
                reported = left
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise StillRunningError(
            f"after {seconds:.0f} s there is still {reported}. Its webhook configurations are "
            "left. See why with: kubectl -n harvester-system get pods -o wide; then run laneway "
            "takeover again, or laneway takeover --back"
        ) from None


async def _left(client: Client) -> str:
    """What still runs, in words; empty once nothing does."""
    daemon_set = await _daemon_set(client)
    if daemon_set is None:
        return ""
    labels = daemon_set.spec.selector.match_labels
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    pods = [
        item
        async for page in client.list(PODS, NAMESPACE, label_selector=selector)
        for item in page.items
        if selector
    ]
    if pods:
        return f"{len(pods)} {'pod' if len(pods) == 1 else 'pods'} of {DAEMON_SET}"
    return "" if is_gone(daemon_set) else f"the cluster to stop {DAEMON_SET}"


async def _remove_hook(
    client: Client, tell: Tell, resource: Resource[KubeObject], name: str
) -> None:
    for _ in range(_ATTEMPTS):
        found = await record.untouched(client, resource, name)
        if found is None:
            return
        await record.save(client, record.of_hook(resource, found))
        meta = found.metadata
        try:
            await client.delete(
                resource, name, uid=meta.uid, resource_version=meta.resource_version
            )
        except ConflictError:
            continue  # Changed since it was saved.
        except NotFoundError:
            return
        tell(f"removed {resource.kind} {name}")
        return
    raise KubeError(f"{resource.kind} {name}: another client keeps changing it")
