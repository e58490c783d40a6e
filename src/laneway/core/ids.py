"""Names of PCI and USB vendors, devices and classes, from databases that ship with Laneway.

They ship because resource names are made from them and stored in VM specs: every node must give a
device the same name, whatever its distribution holds.

Both databases are text of one shape: an entry is a line `key  name`, indented by one tab per
level, and what belongs to it follows it. A look-up searches the bytes of a short-lived memory map
between the bounds of the parent entry, so nothing of a database stays in memory but the few
answers. Every function answers with an empty string for what is unknown or malformed.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from laneway.core import shipped

_KEY = re.compile(r"(C )?[0-9a-f]{2,4}( [0-9a-f]{4})?")
_NEXT = tuple(re.compile(rb"\n\t{0,%d}[^\t\n#]" % level) for level in range(3))


class _Entry(NamedTuple):
    """The name of an entry, and where what belongs to it begins and ends."""

    name: str
    start: int
    end: int


def pci_vendor(vendor: str) -> str:
    """Vendor by four lower-case hex digits: `10de` is `NVIDIA Corporation`."""
    return _name("pci.ids", vendor)


def pci_device(vendor: str, device: str) -> str:
    """Device of a vendor: `10de`, `27b8` is `AD104GL [L4]`."""
    return _name("pci.ids", vendor, device)


def pci_subsystem(vendor: str, device: str, subsystem_vendor: str, subsystem_device: str) -> str:
    """The board that carries a device."""
    return _name("pci.ids", vendor, device, f"{subsystem_vendor} {subsystem_device}")


def pci_class(class_code: str) -> str:
    """Class by the first two of its hex digits: `03…` is `Display controller`."""
    return _name("pci.ids", f"C {class_code[:2]}")


def pci_subclass(class_code: str) -> str:
    """Subclass by the first four: `0302…` is `3D controller`."""
    return _name("pci.ids", f"C {class_code[:2]}", class_code[2:4])


def usb_vendor(vendor: str) -> str:
    """USB vendor by four lower-case hex digits."""
    return _name("usb.ids", vendor)


def usb_product(vendor: str, product: str) -> str:
    """USB product of a vendor."""
    return _name("usb.ids", vendor, product)


def usb_class(class_code: str) -> str:
    """USB class by two hex digits: `03` is `Human Interface Device`."""
    return _name("usb.ids", f"C {class_code}")


def _name(database: str, *keys: str) -> str:
    if not all(_KEY.fullmatch(key) for key in keys):
        return ""
    entry = _entry(database, keys)
    return entry.name if entry else ""


@lru_cache(maxsize=2048)
def _entry(database: str, keys: tuple[str, ...]) -> _Entry | None:
    *above, key = keys
    parent = _entry(database, tuple(above)) if above else None
    if above and parent is None:
        return None
    with _map(database) as data:
        start, end = (parent.start, parent.end) if parent else (0, len(data))
        return find_entry(data, key, len(above), start, end)


def find_entry(
    data: bytes | mmap.mmap, key: str, level: int, start: int, end: int
) -> _Entry | None:
    """Find an entry at a level (its number of tabs) between two positions."""
    head = b"\n" + b"\t" * level + key.encode() + b"  "
    if (found := data.find(head, start, end)) < 0:
        return None
    text = found + len(head)
    if (stop := data.find(b"\n", text, end)) < 0:
        stop = end
    after = _NEXT[level].search(data, stop, end)
    name = data[text:stop].decode("utf-8", "replace").strip()
    return _Entry(name, stop, after.start() if after else end)


@contextmanager
def _map(database: str) -> Iterator[mmap.mmap]:
    with (
        open(shipped.path(database), "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        yield data
