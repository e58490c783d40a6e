"""Fetching one object, its events, and the GPU and the claim that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
from laneway.cli.errors import Failure
from laneway.core import names
from laneway.core.pci import PciAddress, pci_address
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError

Json = Mapping[str, Any]

_AT_AN_ADDRESS = (kind_of(SRIOVGPUDevice), kind_of(VGPUDevice), kind_of(PCIDevice))
"""What a device of a node is asked about as, the kind that tells most first."""


class _Many(msgspec.Struct):
    """The answer to a question about all namespaces."""

    items: list[dict[str, Any]]


class Found(NamedTuple):
    """An object, and what helps to understand it."""

    obj: Json
    events: list[Json]
    gpu: fleet.Gpu | None = None
    """The GPU that it is, belongs to or divides."""
    claim: Json | None = None
    """Of a PCIDevice or USBDevice: its claim, if there is one."""


def fetch(text: str, kubeconfig: str | None) -> Found:
    """What `KIND/NAME`, `NAME` or `NODE/ADDRESS` means. Raises Failure."""
    kind, slash, name = text.rpartition("/")
    address = pci_address(name) if slash else None
    kinds = [] if address else _kinds_named(kind) if slash else list(KINDS)
    if address is None:
        _check(name)

    async def work(client: Client) -> Found:
        if address is not None:
            info, obj = await _at(client, kind, address)
        else:
            found = [
                (one, body) for one in kinds if (body := await _get(client, one, name)) is not None
            ]
            info, obj = _only(found, kinds, name)
        asked = names.pci_object_name(kind, address) if address is not None else name
        events, gpu = await _events(client, info, asked), await _gpu(client, info, obj)
        return Found(obj, events, gpu, await _claim(client, info, asked))

    return connection.ask(work, kubeconfig)


def _kinds_named(text: str) -> list[KindInfo]:
    word = text.lower()
    named = [info for info in KINDS if word in (info.plural, info.singular)]
    if not named:
        known = ", ".join(info.singular for info in KINDS)
        raise Failure(
            f"there is no kind {text!r}; use one of {known}. A device of a node is NODE/ADDRESS, "
            "such as node1/08:00.0"
        )
    return named


def _check(name: str) -> None:
    """A name becomes a part of a path; nothing passes that could become more than one."""
    if not name or not all(char.isascii() and (char.isalnum() or char in "-.") for char in name):
        raise Failure(
            f"{name!r} is no name of an object, PCI address or USB port; 'laneway devices' lists"
            " this host's devices, 'kubectl get pcidevices' those of the cluster"
        )


async def _at(client: Client, node: str, address: PciAddress) -> tuple[KindInfo, Json]:
    """What stands for a device of a node."""
    name = names.pci_object_name(node, address)
    for info in _AT_AN_ADDRESS:
        if (obj := await _get(client, info, name)) is not None:
            return info, obj
    raise Failure(
        f"the cluster knows no device at {address} of node {node}; 'kubectl get pcidevices -l "
        f"nodename={node}' lists those of the node, 'laneway gpus' all GPUs"
    )


async def _get(client: Client, info: KindInfo, name: str) -> Json | None:
    """An object by its name; of a namespaced kind the only one of that name in all namespaces."""
    try:
        if info.namespaced:
            body = await client.raw(info.path, {"fieldSelector": f"metadata.name={name}"})
            return _alone(msgspec.json.decode(body, type=_Many).items, info, name)
        body = await client.raw(f"{info.path}/{name}")
        return msgspec.json.decode(body, type=dict[str, Any])
    except NotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise Failure(
            f"the server's answer about {info.singular}/{name} is damaged: {error}"
        ) from None


def _alone(found: list[dict[str, Any]], info: KindInfo, name: str) -> Json | None:
    if len(found) > 1:
        where = ", ".join(sorted(one["metadata"]["namespace"] for one in found))
        raise Failure(
            f"there is a {info.singular}/{name} in each of the namespaces {where}; "
            f"'kubectl describe {info.singular} {name} -n NAMESPACE' shows one"
        )
    return found[0] if found else None


def _only(
    found: list[tuple[KindInfo, Json]], kinds: list[KindInfo], name: str
) -> tuple[KindInfo, Json]:
    if not found:
        known = kinds[0] if len(kinds) == 1 else None
        asked = f"{known.singular}/{name}" if known else f"object {name}"
        plural = f"{known.plural}.{known.group}" if known else "pcidevices"
        raise Failure(f"no {asked} in the cluster; 'kubectl get {plural}' lists what there is")
    if len(found) > 1:
        choices = ", ".join(f"{info.singular}/{name}" for info, _ in found)
        raise Failure(f"{name} names several objects; say which: {choices}")
    return found[0]


async def _events(client: Client, info: KindInfo, name: str) -> list[Json]:
    """Events about the object. None where they may not be read: they are no more than context."""
    selector = {"fieldSelector": f"involvedObject.kind={info.kind},involvedObject.name={name}"}
    try:
        answer = msgspec.json.decode(await client.raw("/api/v1/events", selector))
        return [event for event in answer["items"] if isinstance(event, dict)]
    except (KubeError, msgspec.DecodeError, LookupError, TypeError):
        return []


_CLAIMS = {
    kind_of(PCIDevice).kind: kind_of(PCIDeviceClaim),
    kind_of(USBDevice).kind: kind_of(USBDeviceClaim),
}


async def _claim(client: Client, info: KindInfo, name: str) -> Json | None:
    """The claim of a device, which has its name. None where it may not be read."""
    try:
        return await _get(client, _CLAIMS[info.kind], name) if info.kind in _CLAIMS else None
    except (KubeError, Failure):
        return None


_ADDRESS_FIELDS = {
    kind_of(SRIOVGPUDevice).kind: "address",
    kind_of(VGPUDevice).kind: "parentGPUDeviceAddress",
    kind_of(MigConfiguration).kind: "gpuAddress",
}


async def _gpu(client: Client, info: KindInfo, obj: Json) -> fleet.Gpu | None:
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
