"""KubeVirt's list of permitted devices: which entries are needed, and how to keep them there."""

from laneway.core.permitted.collisions import Collision, collisions
from laneway.core.permitted.entries import (
    EXTERNAL,
    RESOURCE,
    Entry,
    Key,
    List,
    is_external,
    item_of,
    key_of,
    key_of_item,
    mdev,
    pci,
    usb,
)
from laneway.core.permitted.merging import Lists, Merged, Way, merge, needed
from laneway.core.permitted.record import Record, read_record, record_text

__all__ = [
    "EXTERNAL",
    "RESOURCE",
    "Collision",
    "Entry",
    "Key",
    "List",
    "Lists",
    "Merged",
    "Record",
    "Way",
    "collisions",
    "is_external",
    "item_of",
    "key_of",
    "key_of_item",
    "mdev",
    "merge",
    "needed",
    "pci",
    "read_record",
    "record_text",
    "usb",
]
