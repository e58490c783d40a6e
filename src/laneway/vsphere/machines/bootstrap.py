"""What a guest reads when it starts: its user data and its name, as `extraConfig`.

cloud-init reads `guestinfo.userdata` and `guestinfo.metadata`, Ignition its own keys. User data
holds the secrets by which a node joins its cluster: it is in no message and no log.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.core.vsphere.inventory.vms import Fault
from laneway.kube.resource import Resource
from laneway.vsphere.port import FaultError

_IGNITION = "ignition"
_BASE64 = "base64"


class BootstrapSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret with bootstrap data. Never printed."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return "BootstrapSecret(…)"


SECRETS = Resource("", "v1", "secrets", True, BootstrapSecret)


class UnusableDataError(Exception):
    """There is a Secret, but not with what is needed; says what is missing."""


def user_data(secret: BootstrapSecret) -> dict[str, str]:
    """The keys that carry the bootstrap data. Raises UnusableDataError."""
    name = secret.metadata.name
    try:
        value = base64.b64decode(secret.data.get("value", ""), validate=True)
        form = base64.b64decode(secret.data.get("format", ""), validate=True).decode()
    except ValueError:
        raise UnusableDataError(f"Secret {name}: value and format must be base64") from None
    if not value:
        raise UnusableDataError(f"Secret {name} has no value; it must contain the bootstrap data")
    data = base64.b64encode(value).decode()
    if form == _IGNITION:
        return {
            "guestinfo.ignition.config.data": data,
            "guestinfo.ignition.config.data.encoding": _BASE64,
        }
    return {"guestinfo.userdata": data, "guestinfo.userdata.encoding": _BASE64}


def need_no_addresses(cards: Sequence[tuple[str, str]]) -> bool:
    """Whether the settings of the network cards can be written before these have addresses.

    Of each card, the address and the name that it is to have. The only one is found by being the
    only one, unless it is to have a name.
    """
    alone = len(cards) == 1 and not cards[0][1]
    return alone or all(address for address, _ in cards)


def metadata(
    name: str, devices: Sequence[Mapping[str, Any]], macs: Sequence[str] = ()
) -> dict[str, str]:
    """The keys that carry the name of a machine and the settings of its network cards.

    `macs` are the addresses that the cards have got. Without, and where they are needed, nothing is
    said of cards. Raises FaultError when a card has none.
    """
    metadata: dict[str, Any] = {"instance-id": name, "local-hostname": name}
    written = [(one.get("macAddr") or "", one.get("deviceName") or "") for one in devices]
    if devices and (macs or need_no_addresses(written)):
        cards = [
            _card(at, one, _mac(at, one, macs, len(devices))) for at, one in enumerate(devices)
        ]
        metadata["network"] = {
            "version": 2,
            "ethernets": {f"id{at}": card for at, card in enumerate(cards)},
        }
        metadata["wait-on-network"] = {
            "ipv4": any(one.get("dhcp4") or _has(one, ".") for one in devices),
            "ipv6": any(one.get("dhcp6") or _has(one, ":") for one in devices),
        }
    # JSON is YAML, and leaves no question of quoting.
    text = base64.b64encode(json.dumps(metadata).encode()).decode()
    return {"guestinfo.metadata": text, "guestinfo.metadata.encoding": _BASE64}


def _has(device: Mapping[str, Any], mark: str) -> bool:
    return any(mark in str(one) for one in device.get("ipAddrs") or ())


def _mac(at: int, device: Mapping[str, Any], macs: Sequence[str], count: int) -> str:
    got = device.get("macAddr") or (macs[at] if at < len(macs) else "")
    if not got and (macs or count > 1):
        words = f"the VM has no network card with an address for network.devices[{at}]"
        raise FaultError(Fault("NetworkCardMissing", words))
    return str(got)


def _card(at: int, device: Mapping[str, Any], mac: str) -> dict[str, Any]:
    """The settings of a card, as netplan has them; the names are those that CAPV gives."""
    settings: dict[str, Any] = {"match": {"macaddress": mac} if mac else {"name": "e*"}}
    if mac:
        settings |= {"set-name": device.get("deviceName") or f"eth{at}", "wakeonlan": True}
    settings |= {"dhcp4": bool(device.get("dhcp4")), "dhcp6": bool(device.get("dhcp6"))}
    for key in ("dhcp4", "dhcp6"):
        if overrides := _overrides(device.get(f"{key}Overrides") or {}):
            settings[f"{key}-overrides"] = overrides
    if addresses := device.get("ipAddrs"):
        settings["addresses"] = list(addresses)
    servers = {"addresses": device.get("nameservers"), "search": device.get("searchDomains")}
    if servers := {key: value for key, value in servers.items() if value}:
        settings["nameservers"] = servers
    for key in ("gateway4", "gateway6", "mtu"):
        if device.get(key):
            settings[key] = device[key]
    if routes := device.get("routes"):
        settings["routes"] = [dict(one) for one in routes]
    return settings


def _overrides(said: Mapping[str, Any]) -> dict[str, Any]:
    """`useDNS` is netplan's `use-dns`."""
    return {
        _CAPITALS.sub(lambda found: f"-{found[0].lower()}", name): value
        for name, value in said.items()
        if value is not None
    }


_CAPITALS = re.compile("[A-Z]+")
