"""Stand-ins for what names one particular machine: MAC addresses, serial numbers, its host name.

The same original has the same stand-in wherever it occurs. Stand-ins are numbered in the order of
device paths, so two captures of one host can be compared, and an original cannot be computed from
one. MAC addresses also hide in interface names (`enx525400123456`), so they are replaced in the
finished text; of the rest it is known which attributes hold it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from laneway.sim.dump import Block, render

_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5,31}")
_FREE_TEXT = ("manufacturer", "product")
"""Attributes whose words people may have chosen."""


def disguise(blocks: Iterable[Block], host_name: str) -> str:
    """The dump's text with every original replaced."""
    serials: dict[bytes, bytes] = {}
    macs: dict[str, str] = {}
    changed = []
    for block in blocks:
        attributes = dict(block.attributes)
        if serial := attributes.get("serial", b"").strip():
            attributes["serial"] = serials.setdefault(serial, b"SERIAL%04d\n" % len(serials))
        for name in _FREE_TEXT:
            if name in attributes:
                attributes[name] = _without_host_name(attributes[name], host_name)
        mac = attributes.get("address", b"").decode("ascii", "replace").strip()
        if _MAC.fullmatch(mac) and mac.strip("0:"):
            macs.setdefault(mac, _stand_in(mac, len(macs) + 1))
        changed.append(msgspec.structs.replace(block, attributes=attributes))
    return _replace_macs(render(changed), macs)


def _stand_in(mac: str, number: int) -> str:
    """A locally administered address of the same length."""
    octets = mac.count(":") + 1
    digits = f"02{number:0{2 * octets - 2}x}"
    return ":".join(digits[at : at + 2] for at in range(0, 2 * octets, 2))


def _replace_macs(text: str, macs: dict[str, str]) -> str:
    forms = {mac.replace(":", ""): new.replace(":", "") for mac, new in macs.items()} | macs
    if not forms:
        return text
    # Between other hexadecimal digits stands an address range or an id, no MAC address.
    known = "|".join(map(re.escape, forms))
    pattern = re.compile(f"(?<![0-9a-f])(?:{known})(?![0-9a-f])", re.IGNORECASE)
    return pattern.sub(lambda match: forms[match[0].lower()], text)


def _without_host_name(value: bytes, host_name: str) -> bytes:
    names = {name for name in (host_name, host_name.partition(".")[0]) if name}
    for name in sorted(names, key=len, reverse=True):
        word = rb"(?i)(?<![0-9a-z])" + re.escape(name.encode()) + rb"(?![0-9a-z])"
        value = re.sub(word, b"host", value)
    return value
