"""Sets the devices and the number of machines of a pool, if all machines can then start.

A change is judged before it is written, and is tried on the server before any part of it is stored:
a server that would drop a field, because the machine driver does not know it, keeps the pool as it
is. Both objects are written only as they were read, and are read again afterwards: another change
may have come between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from laneway.changes.errors import ChangeError, OvertakenError, RefusedError, UnfinishedError
from laneway.controllers.machine_pools.judged import (
    ClusterState,
    PoolState,
    judged,
    with_cluster,
    with_config,
)
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.core.machine_pools.device_info import HOST_DEVICES, VGPUS, changed, write
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import closest, few, shown
from laneway.kube.client import Client, PatchType
from laneway.kube.errors import ConflictError, KubeError
from laneway.kube.rancher import (
    CONFIGS,
    GUEST_CLUSTERS,
    GuestCluster,
    MachineConfig,
    MachinePool,
)
from laneway.kube.resource import key_of
from laneway.views.machine_pools import against

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
    before: ClusterState
    takes_away: bool
    """Whether the pool gets no more of anything than it has."""
    mended: tuple[str, ...] = ()
    """Fields that could not be read, and become empty."""

    @property
    def changes(self) -> bool:
        return bool(self.fields) or self.quantity is not None

    @property
    def pool(self) -> PoolState:
        name = self.cluster.pools[self.position].name
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


def no_pool(cluster: str, name: str, pools: Sequence[MachinePool]) -> str:
    """What to say of a pool that a guest cluster does not have on Harvester."""
    known = [one.name for one in pools]
    if name in known:
        return _elsewhere(pools[known.index(name)])
    others = f"Its pools are {few(known)}" if known else "It has no pools"
    return f"guest cluster {cluster} has no pool {name[:80]}. {_meant(name, known) or others}"


def _elsewhere(spec: MachinePool) -> str:
    """What to say of a pool whose machines are not on Harvester."""
    kind = shown(spec.machine_config_ref.kind)
    return (
        f"the machines of pool {spec.name} are not on Harvester: the kind of its machine "
        f"configuration is {kind}, and neither HarvesterConfig nor LanewayConfig"
    )


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
    meta, rke, pools = cluster.metadata, cluster.spec.rke_config, cluster.pools
    position = next((n for n, one in enumerate(pools) if one.name == wanted.pool), -1)
    if rke is None or position < 0:
        raise ChangeError(no_pool(meta.name, wanted.pool, pools))
    spec = pools[position]
    ref = spec.machine_config_ref
    config = managed.configs.get((ref.kind, meta.namespace, ref.name))
    if config is None:
        if ref.kind not in CONFIGS:
            raise ChangeError(_elsewhere(spec))
        why = "you may not read" if ref.kind in managed.unread else "there is no"
        raise ChangeError(
            f"the machines of pool {spec.name} are unknown: {why} {ref.kind} {ref.name}"
        )
    before = _state(judged(managed, supply), cluster)
    asked = next(one for one in before.pools if one.spec.name == spec.name)
    unread = _unreadable(asked)
    empties = wanted.devices is not None and not any(wanted.devices.values())
    if wrong := [one for one in asked.problems if not (empties and one.field in unread)]:
        raise RefusedError(*map(str, wrong))
    fields = {**_fields(asked, wanted.devices), **dict.fromkeys(unread, "")}
    config = replace(config, **{_FIELDS[name]: value for name, value in fields.items()})
    quantity = None if wanted.quantity == spec.desired else wanted.quantity
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
    changed_managed = with_config(with_cluster(managed, after), ref.kind, config)
    replaced = {key_of(after): frozenset({spec.name})} if fields else {}
    state = _state(judged(changed_managed, supply, replaced), after)
    had = asked.asked.devices
    takes_away = all(
        count <= had.get(name, 0) for name, count in (wanted.devices or {}).items()
    ) and (quantity is None or quantity < asked.pool.quantity)
    return Edit(after, position, config, fields, quantity, state, before, takes_away, unread)


def _unreadable(asked: PoolState) -> tuple[str, ...]:
    """The fields of the devices that have mistakes."""
    return tuple(one.field for one in asked.problems if one.field in _FIELDS)


def _state(found: list[ClusterState], cluster: GuestCluster) -> ClusterState:
    for one in found:
        if key_of(one.cluster) == key_of(cluster):
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


def refusals(edit: Edit) -> list[str]:
    """Why the change is refused: not all machines of the cluster can start then.

    What was so before for another pool does not count, unless the change makes a difference to it.
    A change that only takes away is never refused, because it may be the way out.
    """
    if edit.takes_away:
        return []
    known = {
        (one.spec.name, text)
        for one in edit.before.pools
        for text in against(one, edit.before)
        if one.spec.name != edit.pool.spec.name
    }
    return [
        text if one is edit.pool else f"pool {one.spec.name}: {text}"
        for one in edit.state.pools
        for text in against(one, edit.state)
        if (one.spec.name, text) not in known
    ]


def refuse(edit: Edit) -> None:
    """Raise RefusedError for a change that is refused."""
    if said := refusals(edit):
        raise RefusedError(*said)


async def store(client: Client, edit: Edit, *, dry_run: bool = False) -> None:
    """Write a change, both parts or none. Raises KubeError, ChangeError."""
    name = edit.pool.spec.name
    asked = next(one for one in edit.before.pools if one.spec.name == name)
    if await _stored(client, edit) != _contents(asked.spec, asked.config):
        raise OvertakenError(f"pool {name} was changed meanwhile")
    try:
        await _write_config(client, edit, dry_run=True)
        await _write_quantity(client, edit, dry_run=True)
        if dry_run:
            return
        await _write_config(client, edit, dry_run=False)
        try:
            await _write_quantity(client, edit, dry_run=False)
        except KubeError as error:
            if not edit.fields:
                raise
            raise UnfinishedError(
                f"the devices of pool {name} are set, the number of its machines is not: {error}",
                "Set it again.",
            ) from error
    except ConflictError:
        raise OvertakenError(f"pool {name} was changed meanwhile") from None
    if await _stored(client, edit) != _contents(edit.pool.spec, edit.config):
        raise ChangeError(
            f"pool {name} was changed by someone else at the same time, and does not have the "
            "devices and machines that were requested; whether its machines can start was not "
            "checked. Look at the pool and set it again"
        )


def _contents(spec: MachinePool | None, config: MachineConfig | None) -> tuple[object, ...]:
    """What decides which devices and how many machines a pool has."""
    strings = (config.vgpu_info, config.host_device_info) if config is not None else ()
    return (spec and (spec.machine_config_ref, spec.quantity), *strings)


async def _stored(client: Client, edit: Edit) -> tuple[object, ...]:
    """The same as the server has it now."""
    meta, spec = edit.cluster.metadata, edit.pool.spec
    cluster = await client.get(GUEST_CLUSTERS, meta.name, meta.namespace)
    config = await client.get(
        CONFIGS[spec.machine_config_ref.kind], edit.config.metadata.name, meta.namespace
    )
    return _contents(next((one for one in cluster.pools if one.name == spec.name), None), config)


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
        # A conflict if the cluster has changed. A `test` that fails is told like any bad patch.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version},
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
