"""What is remembered next to KubeVirt's lists: which of their entries are Laneway's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from laneway.core.permitted.entries import Key, List

Record = Mapping[Key, bool]
"""Our entries in the lists, and whether each has taken the place of one that KubeVirt served."""

Selectors = dict[str, list[str]]
"""By resource."""


class _Own(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The selectors of our entries, under the names of KubeVirt's lists."""

    pci_host_devices: Selectors = {}
    mediated_devices: Selectors = {}
    usb: Selectors = {}
    replaced: _Own | None = None
    """Those of them that KubeVirt served before."""

    def by_list(self) -> dict[List, Selectors]:
        return {
            List.PCI: self.pci_host_devices,
            List.MDEV: self.mediated_devices,
            List.USB: self.usb,
        }


def record_text(record: Record) -> str:
    """What the annotation says; empty when nothing is ours."""
    if not record:
        return ""
    replaced = {key for key, was_internal in record.items() if was_internal}
    inner = _own(replaced) if replaced else None
    return msgspec.json.encode(msgspec.structs.replace(_own(record), replaced=inner)).decode()


def _own(keys: Iterable[Key]) -> _Own:
    own = _Own({}, {}, {})
    lists = own.by_list()
    for key in sorted(keys):
        lists[key.list].setdefault(key.resource, []).extend(key.selectors)
    return own


def read_record(text: str) -> dict[Key, bool]:
    """What the annotation says. Raises ValueError when a hand has spoilt it."""
    if not text:
        return {}
    try:
        own = msgspec.json.decode(text, type=_Own)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    replaced = set(_keys(own.replaced)) if own.replaced else set()
    return {key: key in replaced for key in _keys(own)}


def _keys(own: _Own) -> Iterable[Key]:
    for name, by_resource in own.by_list().items():
        for resource, selectors in by_resource.items():
            for selector in selectors:
                yield Key(name, resource, (selector,))
