"""Fetching one object, its events, and the GPU and the claim that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from laneway.api import (
    KINDS,
    KindInfo,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    kind_of,
)
from laneway.cli import connection, fleet
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.suggest import did_you_mean
from laneway.core import names
from laneway.core.hardware_change import REASON
from laneway.core.pci import PciAddress, pci_address
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError
from laneway.views.explain.object import Found, Json
from laneway.views.gpus import Gpu
from laneway.views.order import natural

_AT_AN_ADDRESS = (kind_of(SRIOVGPUDevice), kind_of(VGPUDevice), kind_of(PCIDevice))
"""What a device of a node is asked about as, the kind that tells most first."""


class _Many(msgspec.Struct):
    """The answer to a question about all namespaces."""

    items: list[dict[str, Any]]


def fetch(text: str, where: ClusterChoice) -> Found:
    """What `KIND/NAME`, `NAME` or `NODE/ADDRESS` means. Raises Failure."""
    kind, slash, name = text.rpartition("/")
    address = pci_address(name) if slash else None
    kinds = [] if address else _kinds_named(kind) if slash else list(KINDS)
    if address is None:
        check_name(name)

    async def work(client: Client) -> Found:
        if address is not None:
            info, obj = await _at(client, kind, address)
        else:
            found = [
                (one, body)
                for one in kinds
                if (body := await _get(client, one, name, where.namespace)) is not None
            ]
            meant = "" if found else did_you_mean(name, await _known(client, kinds))
            info, obj = _only(found, kinds, name, meant)
        asked = names.pci_object_name(kind, address) if address is not None else name
        unreadable: list[str] = []
        events = await events_of(client, info.kind, asked, unreadable=unreadable)
        gpu = await _gpu(client, info, obj)
        if gpu is not None:
            unreadable += gpu.unreadable
        claim = await _claim(client, info, asked, unreadable)
        return Found(obj, events, gpu, claim, tuple(unreadable))

    return connection.ask(work, where)


def _kinds_named(text: str) -> list[KindInfo]:
    word = text.lower()
    named = [info for info in KINDS if word in (info.plural, info.singular, *info.short_names)]
    if not named:
        known = [info.singular for info in KINDS]
        meant = did_you_mean(word, [*known, "vm"]) or f"The kinds are {', '.join(known)} and vm."
        raise Failure(
            f"unknown kind {text[:60]!r}. {meant} A device of a node is NODE/ADDRESS, for example "
            "node1/08:00.0"
        )
    return named


def check_name(name: str) -> None:
    """A name becomes a part of a path; nothing passes that could become more than one."""
    if not name or not all(char.isascii() and (char.isalnum() or char in "-.") for char in name):
        raise Failure(
            f"{name[:60]!r} is no name of an object, PCI address or USB port. 'laneway devices' "
            "lists the devices of this host, 'kubectl get pcidevices' those of the cluster"
        )


async def _at(client: Client, node: str, address: PciAddress) -> tuple[KindInfo, Json]:
    """What stands for a device of a node."""
    name = names.pci_object_name(node, address)
    for info in _AT_AN_ADDRESS:
        if (obj := await _get(client, info, name)) is not None:
            return info, obj
    titles = await _titles(client)
    nodes = sorted({title.partition("/")[0] for title in titles}, key=natural)
    if nodes and node not in nodes:
        raise Failure(f"node {node[:60]} has no devices. Nodes with devices: {', '.join(nodes)}")
    raise Failure(
        f"the cluster has no device at {address} of node {node}. "
        f"{did_you_mean(f'{node}/{address}', titles)} 'kubectl get pcidevices -l "
        f"nodename={node}' lists the devices of the node"
    )


async def _titles(client: Client) -> list[str]:
    """All PCI devices as `NODE/ADDRESS`; none where they may not be listed."""
    try:
        body = await client.raw(kind_of(PCIDevice).path)
        found = msgspec.json.decode(body, type=_Many).items
        return [f"{one['status']['nodeName']}/{one['status']['address']}" for one in found]
    except (KubeError, msgspec.DecodeError, LookupError):
        return []


async def raw_object(client: Client, path: str, title: str) -> dict[str, Any]:
    """An object as it is stored. Raises NotFoundError, and Failure where it cannot be read."""
    try:
        return msgspec.json.decode(await client.raw(path), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Failure(f"the answer of the API server about {title} is damaged: {error}") from None


async def names_in(client: Client, path: str) -> list[str]:
    """The names in a collection; none where it may not be listed."""
    try:
        found = msgspec.json.decode(await client.raw(path), type=_Many).items
        return [str(one["metadata"]["name"]) for one in found]
    except (KubeError, msgspec.DecodeError, LookupError):
        return []


async def _get(
    client: Client, info: KindInfo, name: str, namespace: str | None = None
) -> Json | None:
    """An object by its name; of a namespaced kind the only one of that name in all namespaces."""
    try:
        if info.namespaced:
            body = await client.raw(info.path, {"fieldSelector": f"metadata.name={name}"})
            found = msgspec.json.decode(body, type=_Many).items
            return _alone([one for one in found if _is_in(one, namespace)], info, name)
        return await raw_object(client, f"{info.path}/{name}", f"{info.singular}/{name}")
    except NotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise Failure(
            f"the answer of the API server about {info.singular}/{name} is damaged: {error}"
        ) from None


async def _known(client: Client, kinds: list[KindInfo]) -> list[str]:
    """The names of all objects of these kinds."""
    return [name for info in kinds for name in await names_in(client, info.path)]


def _is_in(obj: Json, namespace: str | None) -> bool:
    return namespace is None or obj["metadata"]["namespace"] == namespace


def _alone(found: list[dict[str, Any]], info: KindInfo, name: str) -> Json | None:
    if len(found) > 1:
        where = ", ".join(sorted(one["metadata"]["namespace"] for one in found))
        raise Failure(
            f"each of the namespaces {where} has a {info.singular}/{name}; choose one with "
            "--namespace"
        )
    return found[0] if found else None


def _only(
    found: list[tuple[KindInfo, Json]], kinds: list[KindInfo], name: str, meant: str
) -> tuple[KindInfo, Json]:
    if not found:
        known = kinds[0] if len(kinds) == 1 else None
        asked = f"{known.singular}/{name}" if known else f"object {name}"
        plural = f"{known.plural}.{known.group}" if known else "pcidevices"
        lists = f"'kubectl get {plural}' lists {'all' if known else 'the devices'}"
        raise Failure(f"the cluster has no {asked}. {meant} {lists}")
    if len(found) > 1:
        choices = ", ".join(f"{info.singular}/{name}" for info, _ in found)
        raise Failure(f"{name} names several objects; choose one: {choices}")
    return found[0]


async def events_of(
    client: Client, kind: str, name: str, namespace: str = "", *, unreadable: list[str]
) -> list[Json]:
    """Events about the object. None where they may not be read: they are no more than context.

    The single steps on hardware are left out: other events say in short what came of them.
    """
    selector = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={name}"}
    path = f"/api/v1/namespaces/{namespace}/events" if namespace else "/api/v1/events"
    try:
        answer = msgspec.json.decode(await client.raw(path, selector))
        found = [event for event in answer["items"] if isinstance(event, dict)]
        return [event for event in found if event.get("reason") != REASON]
    except (KubeError, msgspec.DecodeError, LookupError, TypeError):
        unreadable.append("events")
        return []


_CLAIMS = {
    kind_of(PCIDevice).kind: kind_of(PCIDeviceClaim),
    kind_of(USBDevice).kind: kind_of(USBDeviceClaim),
}


async def _claim(client: Client, info: KindInfo, name: str, unreadable: list[str]) -> Json | None:
    """The claim of a device, which has its name. None where it may not be read."""
    if (claims := _CLAIMS.get(info.kind)) is None:
        return None
    try:
        return await _get(client, claims, name)
    except (KubeError, Failure):
        unreadable.append(claims.plural)
        return None


_ADDRESS_FIELDS = {
    kind_of(SRIOVGPUDevice).kind: "address",
    kind_of(VGPUDevice).kind: "parentGPUDeviceAddress",
    kind_of(MigConfiguration).kind: "gpuAddress",
}


async def _gpu(client: Client, info: KindInfo, obj: Json) -> Gpu | None:
    """The GPU of an object; None where it has none, or where the rest may not be read."""
    spec = obj.get("spec")
    if info.kind not in _ADDRESS_FIELDS or not isinstance(spec, Mapping):
        return None
    node, address = spec.get("nodeName"), spec.get(_ADDRESS_FIELDS[info.kind])
    if not isinstance(node, str) or not isinstance(address, str):
        return None
    try:
        seen = await fleet.look(client, node)
    except (KubeError, Failure):
        return None
    return next((gpu for gpu in seen.gpus if (gpu.node, gpu.address) == (node, address)), None)
