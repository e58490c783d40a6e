"""What of a machine's spec Laneway carries out where it makes the machines, and what it does not.

What is named here is carried out. Whatever else a spec says is refused before a VM is made, fields
of CAPV releases to come included: a machine without the disk, the tag or the encryption that was
requested would look like the one that was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_SPEC = frozenset(
    {
        "additionalDisksGiB",
        "biosUUID",
        "bootstrapRef",
        "cloneMode",
        "customVMXKeys",
        "datacenter",
        "datastore",
        "diskGiB",
        "folder",
        "guestSoftPowerOffTimeoutSeconds",
        "hardwareVersion",
        "memoryMiB",
        "nestedHV",
        "network",
        "numCPUs",
        "numCoresPerSocket",
        "os",
        "pciDevices",
        "pcidevices",
        "peerToPeer",
        "powerOffMode",
        "resourcePool",
        "resources",
        "server",
        "snapshot",
        "template",
        "thumbprint",
        "vgpudevices",
    }
)
_NETWORK = frozenset({"devices"})
_CARD = frozenset(
    {
        "deviceName",
        "dhcp4",
        "dhcp4Overrides",
        "dhcp6",
        "dhcp6Overrides",
        "gateway4",
        "gateway6",
        "ipAddrs",
        "macAddr",
        "mtu",
        "nameservers",
        "networkName",
        "routes",
        "searchDomains",
        "skipIPAllocation",
    }
)


def not_carried_out(spec: object) -> tuple[str, ...]:
    """The fields of a VSphereVM's spec that say something and are not carried out, by path."""
    return tuple(_not_carried_out(spec)) if isinstance(spec, Mapping) else ()


def _not_carried_out(spec: Mapping[str, object]) -> Iterator[str]:
    yield from _beyond("spec", spec, _SPEC)
    network = spec.get("network")
    if not isinstance(network, Mapping):
        return
    yield from _beyond("spec.network", network, _NETWORK)
    cards = network.get("devices")
    for at, card in enumerate(cards if isinstance(cards, list | tuple) else ()):
        if isinstance(card, Mapping):
            yield from _beyond(f"spec.network.devices[{at}]", card, _CARD)


def _beyond(path: str, said: Mapping[str, object], known: frozenset[str]) -> Iterator[str]:
    """What is empty or false requests nothing."""
    return (f"{path}.{name}" for name, value in said.items() if value and name not in known)
