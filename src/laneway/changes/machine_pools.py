"""Sets the devices and the number of machines of a pool, if all machines can then start.

A change is judged before it is written, and is tried on the server before any part of it is stored:
a server that would drop a field, because the machine driver does not know it, keeps the pool as it
is. Both objects are written only as they were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from laneway.changes.errors import ChangeError, OvertakenError, RefusedError, UnfinishedError
from laneway.controllers.machine_pools.judged import ClusterState, PoolState, judged
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.core.machine_pools.device_info import HOST_DEVICES, VGPUS, changed, write
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import closest, few
from laneway.kube.client import Client, PatchType
from laneway.kube.errors import ConflictError, InvalidError, KubeError
from laneway.kube.rancher import CONFIGS, GUEST_CLUSTERS, GuestCluster, MachineConfig
from laneway.views.machine_pools import words

_FIELDS = {"vgpuInfo": "vgpu_info", "hostDeviceInfo": "host_device_info"}


class Wanted(NamedTuple):
    """What a pool is to have; None: what it has."""

    cluster: str
    """NAME or NAMESPACE/NAME"""
    pool: str
    devices: Mapping[str, int] | None = None
    quantity: int | None = None


class Edit(NamedTuple):
    """A change, before it is written."""

    cluster: GuestCluster
    position: int
    """Of the pool in its cluster."""
    config: MachineConfig
    fields: Mapping[str, str]
    """Fields of the configuration that change."""
    quantity: int | None
    state: ClusterState
    """The cluster as it is then."""

    @property
    def changes(self) -> bool:
        return bool(self.fields) or self.quantity is not None

    @property
    def pool(self) -> PoolState:
        name = self.cluster.spec.rke_config.machine_pools[self.position].name  # type: ignore[union-attr]
        return next(one for one in self.state.pools if one.spec.name == name)


def find(managed: Managed, name: str) -> GuestCluster:
    """The guest cluster of a name. Raises ChangeError."""
    namespace, _, title = name.rpartition("/")
    found = [
        one
        for one in managed.clusters
        if one.metadata.name == title and namespace in ("", one.metadata.namespace)
    ]
    if len(found) > 1:
        raise ChangeError(
            f"{len(found)} guest clusters are called {title}; write NAMESPACE/NAME, or name one "
            "with --namespace"
        )
    if not found:
        known = sorted(
            f"{one.metadata.namespace}/{one.metadata.name}" if namespace else one.metadata.name
            for one in managed.clusters
        )
        others = f"The guest clusters are {few(known)}" if known else "No guest cluster was found"
        raise ChangeError(f"there is no guest cluster {name[:80]}. {_meant(name, known) or others}")
    return found[0]


def no_pool(cluster: str, name: str, known: Sequence[str]) -> str:
    """What to say of a pool that a guest cluster does not have."""
    others = f"Its pools are {few(known)}" if known else "It has no pools"
    return f"guest cluster {cluster} has no pool {name[:80]}. {_meant(name, known) or others}"


def _meant(name: str, known: Sequence[str]) -> str:
    meant = closest(name, known)
    return f"Is it {few(meant)}?" if meant else ""


def unkept(field: str, kind: str) -> ChangeError:
    """A machine configuration loses what its machine driver does not know."""
    return ChangeError(
        f"a {kind} does not keep the field {field}: its machine driver cannot give machines such "
        "devices. Use Laneway's machine driver: docs/how-to/machine-driver.md"
    )


def planned(managed: Managed, supply: Supply, wanted: Wanted) -> Edit:
    """What a change writes, with the judgement of all that follows. Raises ChangeError."""
    cluster = find(managed, wanted.cluster)
    meta, rke = cluster.metadata, cluster.spec.rke_config
    pools = rke.machine_pools if rke is not None else ()
    position = next((n for n, one in enumerate(pools) if one.name == wanted.pool), -1)
    if rke is None or position < 0:
        raise ChangeError(no_pool(meta.name, wanted.pool, [one.name for one in pools]))
    spec = pools[position]
    ref = spec.machine_config_ref
    config = managed.configs.get((ref.kind, meta.namespace, ref.name))
    if config is None:
        why = f"there is no {ref.kind} {ref.name}" if ref.kind in CONFIGS else "it is not Harvester"
        raise ChangeError(f"the machines of pool {spec.name} are unknown: {why}")
    before = _state(judged(managed, supply), cluster)
    asked = next(one for one in before.pools if one.spec.name == spec.name)
    if asked.problems:
        raise RefusedError(*map(str, asked.problems))
    fields = _fields(asked, wanted.devices)
    config = replace(config, **{_FIELDS[name]: value for name, value in fields.items()})
    same = wanted.quantity is None or wanted.quantity == (
        1 if spec.quantity is None else spec.quantity
    )
    quantity = None if same else wanted.quantity
    after = replace(
        cluster,
        spec=replace(
            cluster.spec,
            rke_config=replace(
                rke,
                machine_pools=[
                    replace(one, quantity=quantity)
                    if quantity is not None and number == position
                    else one
                    for number, one in enumerate(pools)
                ],
            ),
        ),
    )
    changed_managed = replace(
        managed,
        clusters=tuple(after if one is cluster else one for one in managed.clusters),
        configs={**managed.configs, (ref.kind, meta.namespace, ref.name): config},
    )
    replaced = {meta.name: frozenset({spec.name})} if fields else {}
    state = _state(judged(changed_managed, supply, replaced), after)
    return Edit(after, position, config, fields, quantity, state)


def _state(found: list[ClusterState], cluster: GuestCluster) -> ClusterState:
    key = cluster.metadata.namespace, cluster.metadata.name
    for one in found:
        if (one.cluster.metadata.namespace, one.cluster.metadata.name) == key:
            return one
    raise ChangeError(f"guest cluster {cluster.metadata.name} has no pool on Harvester")


def _fields(asked: PoolState, devices: Mapping[str, int] | None) -> dict[str, str]:
    """What changes of the two strings. A resource stays where it is; a new one has its place."""
    if devices is None or dict(devices) == asked.asked.devices:
        return {}
    vgpus, others = asked.asked.vgpus, asked.asked.host_devices
    there = vgpus.counts
    of_vgpus = {n: c for n, c in devices.items() if n in there or is_vgpu_resource(n)}
    rest = {name: count for name, count in devices.items() if name not in of_vgpus}
    found = {}
    for form, info, counts in ((VGPUS, vgpus, of_vgpus), (HOST_DEVICES, others, rest)):
        if info.counts != counts:
            found[form.field] = write(form, changed(info, counts))
    return found


def refuse(edit: Edit) -> None:
    """Raise RefusedError where not all machines of the cluster can start then."""
    said = [
        f"pool {one.spec.name}: {text}" if one is not edit.pool else text
        for one in edit.state.pools
        for text in words(one, edit.state)
        if not text.startswith("Warning: ")
    ]
    if said:
        raise RefusedError(*said)


async def store(client: Client, edit: Edit, *, dry_run: bool = False) -> None:
    """Write a change, both parts or none. Raises KubeError, ChangeError."""
    try:
        await _write_config(client, edit, dry_run=True)
        await _write_quantity(client, edit, dry_run=True)
        if dry_run:
            return
        await _write_config(client, edit, dry_run=False)
    except (ConflictError, InvalidError) as error:
        if isinstance(error, ConflictError) or "test" in str(error).lower():
            raise OvertakenError(f"pool {edit.pool.spec.name} was changed meanwhile") from None
        raise
    try:
        await _write_quantity(client, edit, dry_run=False)
    except KubeError as error:
        if not edit.fields:
            raise
        raise UnfinishedError(
            f"the devices of pool {edit.pool.spec.name} are set, the number of its machines is "
            f"not: {error}",
            "Run the command again.",
        ) from error


async def _write_config(client: Client, edit: Edit, *, dry_run: bool) -> None:
    if not edit.fields:
        return
    meta, kind = edit.config.metadata, edit.pool.spec.machine_config_ref.kind
    body = {"metadata": {"resourceVersion": meta.resource_version}, **edit.fields}
    stored = await client.patch(CONFIGS[kind], meta.name, body, meta.namespace, dry_run=dry_run)
    for name, value in edit.fields.items():
        if getattr(stored, _FIELDS[name]) != value:
            raise unkept(name, kind)


async def _write_quantity(client: Client, edit: Edit, *, dry_run: bool) -> None:
    if edit.quantity is None:
        return
    meta, path = edit.cluster.metadata, f"/spec/rkeConfig/machinePools/{edit.position}"
    body: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "test", "path": f"{path}/name", "value": edit.pool.spec.name},
        {"op": "add", "path": f"{path}/quantity", "value": edit.quantity},
    ]
    await client.patch(
        GUEST_CLUSTERS,
        meta.name,
        body,
        meta.namespace,
        patch_type=PatchType.JSON,
        dry_run=dry_run,
    )
