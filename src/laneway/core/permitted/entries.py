"""Entries of KubeVirt's lists of permitted devices: ours, and what KubeVirt sees in stored ones.

Two entries are the same when KubeVirt takes them for the same: ids of PCI functions without regard
to case, names of mediated devices with spaces as underscores, ids of USB devices as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, assert_never

from laneway.core.raw import Json

EXTERNAL = "externalResourceProvider"
RESOURCE = "resourceName"


class List(StrEnum):
    """The lists of `permittedHostDevices`."""

    PCI = "pciHostDevices"
    MDEV = "mediatedDevices"
    USB = "usb"


class Entry(NamedTuple):
    """One entry of ours: a VM that requests the resource may get devices that its selector fits."""

    list: List
    resource: str
    """`nvidia.com/AD104GL_L4`"""
    selector: str
    """PCI and USB: `10de:27b8`, in lower case. Mediated devices: the profile as it is printed."""


class Key(NamedTuple):
    """An entry as KubeVirt sees it."""

    list: List
    resource: str
    selectors: tuple[str, ...]


_ID = re.compile(r"[0-9a-fA-F]{4}")


def pci(vendor: str, device: str, resource: str) -> Entry | None:
    """The entry of a PCI function; none while its ids or its name are not known."""
    return _by_ids(List.PCI, vendor, device, resource)


def mdev(profile: str, resource: str) -> Entry | None:
    """The entry of a mediated device."""
    return Entry(List.MDEV, resource, profile) if profile.strip() and resource else None


def usb(vendor: str, product: str, resource: str) -> Entry | None:
    """The entry of a USB device."""
    return _by_ids(List.USB, vendor, product, resource)


def _by_ids(kind: List, vendor: str, device: str, resource: str) -> Entry | None:
    if not (_ID.fullmatch(vendor) and _ID.fullmatch(device) and resource):
        return None
    return Entry(kind, resource, f"{vendor}:{device}".lower())


def item_of(entry: Entry) -> dict[str, Json]:
    """An entry as KubeVirt stores it."""
    rest: dict[str, Json] = {RESOURCE: entry.resource, EXTERNAL: True}
    match entry.list:
        case List.PCI:
            return {"pciVendorSelector": entry.selector} | rest
        case List.MDEV:
            return {"mdevNameSelector": entry.selector} | rest
        case List.USB:
            vendor, _, product = entry.selector.partition(":")
            return {"selectors": [{"vendor": vendor, "product": product}]} | rest
        case _:
            assert_never(entry.list)


def key_of(entry: Entry) -> Key:
    """What KubeVirt sees in an entry of ours."""
    canonical = _profile if entry.list is List.MDEV else str.lower
    return Key(entry.list, entry.resource, (canonical(entry.selector),))


def key_of_item(name: List, item: object) -> Key | None:
    """What KubeVirt sees in a stored item; None when it can make nothing of it."""
    if not isinstance(item, Mapping) or not isinstance(resource := item.get(RESOURCE), str):
        return None
    selectors: tuple[str, ...]
    match name:
        case List.PCI:
            selectors = (_text(item.get("pciVendorSelector"), str.lower),)
        case List.MDEV:
            selectors = (_text(item.get("mdevNameSelector"), _profile),)
        case List.USB:
            found = item.get("selectors")
            parts = found if isinstance(found, Sequence) and not isinstance(found, str) else ()
            selectors = tuple(sorted(map(_usb_selector, parts), key=lambda one: one or ""))
    if not selectors or not all(selectors):
        return None
    return Key(name, resource, tuple(one for one in selectors if one))


def _text(value: object, canonical: Callable[[str], str]) -> str:
    return canonical(value) if isinstance(value, str) else ""


def _profile(name: str) -> str:
    """KubeVirt compares the names of mediated devices so."""
    return name.replace(" ", "_")


def _usb_selector(item: object) -> str:
    if not isinstance(item, Mapping):
        return ""
    numbers = [_hexadecimal(item.get("vendor")), _hexadecimal(item.get("product"))]
    return "" if None in numbers else ":".join(f"{number:04x}" for number in numbers)


_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,8}")


def _hexadecimal(value: object) -> int | None:
    return int(value, 16) if isinstance(value, str) and _HEXADECIMAL.fullmatch(value) else None


def is_external(item: object) -> bool:
    """Whether devices of an item come from another plugin than KubeVirt's own."""
    return isinstance(item, Mapping) and item.get(EXTERNAL) is True
