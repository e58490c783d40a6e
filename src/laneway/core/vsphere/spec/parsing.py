"""What a machine requests, read from the spellings in which it can be written.

`pciDevices` is the released form. The proposal's `pcidevices` (`deviceId`, `vendorId`) and
`vgpudevices` (`profileName`) are read as well, as long as a machine is not written in both: whether
the same device stands in two lists then, or two devices, would be open. Each item says which
device it wants in exactly one way: by profile, by ids, by several pairs of ids, or by the name of a
vendor device group.

Reading never fails, whatever JSON it is given: what makes no sense is a problem with its path, and
is left out of what is wanted. Names are vCenter's, so they may hold any character that can be sent
to a vCenter; nothing here or elsewhere makes a path of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.core.raw import Json, JsonObject
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

ALIASES = ("pcidevices", "vgpudevices")
"""Lists of the proposal, which were never released."""
ITEMS_LIMIT = 128
NAME_LIMIT = 1024
"""Of CAPV's definitions: items of the list, characters of a profile or label."""
EITHER = "should have either deviceId + vendorId or vGPUProfile set"
"""CAPV's words; they begin what is said here, as users search for them."""

_OF_TEMPLATE = (
    "The vCenter template does not fill it in; to use the template's own devices, leave "
    "pciDevices out"
)
_HIGHEST_ID = 0xFFFF
_HIGHEST_REVISION = 0xFF
_HEX_ID = re.compile(r"\s*(0[xX])?([0-9a-fA-F]{1,4})\s*", re.ASCII)
_UNSENDABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot carry, and vCenter is spoken to in XML."""


class Problem(NamedTuple):
    """Something wrong with what is written."""

    path: str
    """`pciDevices[3].deviceId`."""
    value: object
    """What is written there."""
    message: str
    kind: str = "Invalid value"
    """As Kubernetes says it: `Invalid value`, `Required value`, `Forbidden`, `Too many`."""
    works: bool = False
    """Whether a vCenter makes something of it all the same, if not what is written."""


def read(
    items: object,
    *,
    pcidevices: object = (),
    vgpudevices: object = (),
    peer_to_peer: object = False,
) -> tuple[Requested, tuple[Problem, ...]]:
    """What is wanted, and what of it cannot be understood; takes any JSON."""
    problems: list[Problem] = []
    lists = [
        (name, _items(name, value, problems))
        for name, value in (
            ("pciDevices", items),
            ("pcidevices", pcidevices),
            ("vgpudevices", vgpudevices),
        )
    ]
    problems += _mixed(lists)
    written = [(f"{name}[{i}]", item) for name, found in lists for i, item in enumerate(found)]
    if len(written) > ITEMS_LIMIT:
        name = written[ITEMS_LIMIT][0].partition("[")[0]
        limit = f"must have at most {ITEMS_LIMIT} items"
        problems.append(Problem(name, len(written), limit, "Too many"))
    devices: list[DeviceRequest] = []
    for path, item in written[:ITEMS_LIMIT]:
        found, wrong = _item(path, item)
        problems += wrong
        if found is not None:
            devices.append(found)
    if not (peer_to_peer is None or isinstance(peer_to_peer, bool)):
        problems.append(Problem("peerToPeer", peer_to_peer, "should be true or false"))
    return Requested(tuple(devices), peer_to_peer is True), tuple(problems)


def read_spec(spec: object) -> tuple[Requested, tuple[Problem, ...]]:
    """The same from the JSON of a whole spec."""
    if not isinstance(spec, Mapping):
        return Requested(), ()
    return read(
        spec.get("pciDevices"),
        pcidevices=spec.get("pcidevices"),
        vgpudevices=spec.get("vgpudevices"),
        peer_to_peer=spec.get("peerToPeer", False),
    )


def released(spec: JsonObject) -> Sequence[Json] | None:
    """The items as `pciDevices` is to hold them; None where they are in that form already.

    None too where both forms are there: that is for a person to sort out.
    """
    lists: list[Sequence[Json]] = []
    for name in ("pciDevices", *ALIASES):
        value = spec.get(name) or []
        if not isinstance(value, list):
            return None
        lists.append(value)
    own, plain, shared = lists
    if own and (plain or shared):
        return None
    items = [_released_item(item) for item in (*own, *plain, *shared)]
    return None if items == own else items


def _released_item(item: Json) -> Json:
    if not isinstance(item, Mapping) or "profileName" not in item or "vGPUProfile" in item:
        return item
    rest = {key: value for key, value in item.items() if key != "profileName"}
    return {**rest, "vGPUProfile": item["profileName"]}


def _items(name: str, value: object, problems: list[Problem]) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    if value is not None:
        problems.append(Problem(name, value, "should be a list"))
    return ()


def _mixed(lists: Sequence[tuple[str, Sequence[object]]]) -> Iterator[Problem]:
    """Both forms at once."""
    if not lists[0][1]:
        return
    for name, found in lists[1:]:
        if found:
            words = "cannot be used together with pciDevices, which is its released form"
            yield Problem(name, None, words, "Forbidden")


def _item(path: str, item: object) -> tuple[DeviceRequest | None, list[Problem]]:
    """What one item requests; None where that is not clear."""
    if not isinstance(item, Mapping):
        return None, [Problem(path, item, "should be an object")]
    said = {key: value for key, value in item.items() if value is not None and value != ""}
    problems: list[Problem] = []
    ways = _ways(said)
    if not ways:
        words = f"{EITHER}; this item has neither. {_OF_TEMPLATE}"
        return None, [Problem(path, dict(item), words)]
    if len(ways) > 1:
        words = f"{EITHER}; this item has {' and '.join(ways)}"
        return None, [Problem(path, dict(item), words)]
    way = ways[0]
    label = _name(f"{path}.customLabel", said.get("customLabel", ""), problems)
    if "customLabel" in said and way not in (_IDS, "allowedDevices"):
        words = f"is for whole devices, requested by ids, not for {way}"
        where = f"{path}.customLabel"
        problems.append(Problem(where, said["customLabel"], words, "Forbidden", works=True))
    found: DeviceRequest | None
    if way == _IDS:
        ids = _ids(path, dict(item), said, problems)
        found = None if ids is None else PassthroughRequest((ids,), label)
    elif way == "allowedDevices":
        found = PassthroughRequest(_allowed(f"{path}.{way}", said[way], problems), label)
    else:
        name = _name(f"{path}.{way}", said[way], problems)
        found = GroupRequest(name) if way == "deviceGroupName" else VgpuRequest(name)
    return (found if all(one.works for one in problems) else None), problems


_IDS = "deviceId + vendorId"


def _ways(said: Mapping[str, object]) -> list[str]:
    """In which ways an item says what it wants."""
    ways = [_IDS] if "deviceId" in said or "vendorId" in said else []
    names = ("vGPUProfile", "profileName", "deviceGroupName", "allowedDevices")
    return ways + [name for name in names if said.get(name, []) != []]


def _name(path: str, value: object, problems: list[Problem]) -> str:
    if not isinstance(value, str):
        problems.append(Problem(path, value, "should be a string"))
        return ""
    if len(value) > NAME_LIMIT:
        words = f"may not be longer than {NAME_LIMIT} characters, and has {len(value)}"
        problems.append(Problem(path, value[:64] + "…", words))
    elif _UNSENDABLE.search(value):
        words = "has a control character, which cannot be sent to a vCenter"
        problems.append(Problem(path, value, words))
    return value


def _ids(
    path: str, item: object, said: Mapping[str, object], problems: list[Problem]
) -> PciIds | None:
    """A pair of ids; None where there is not all of it."""
    missing = [name for name in ("deviceId", "vendorId") if name not in said]
    problems += [
        Problem(path, item, f"{EITHER}; {name} is missing. {_OF_TEMPLATE}") for name in missing
    ]
    device, vendor = (
        _number(f"{path}.{name}", said[name], problems) if name in said else None
        for name in ("deviceId", "vendorId")
    )
    return None if device is None or vendor is None else PciIds(vendor, device)


def _number(path: str, value: object, problems: list[Problem]) -> int | None:
    """An id that a device can have: all ones is how a slot says that it is empty."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _HIGHEST_ID:
        return value
    words = f"should be a PCI id as a decimal number between 1 and {_HIGHEST_ID - 1}; "
    decimal = hexadecimal(value)
    if decimal is None:
        words += "0x10de, of NVIDIA, is written 4318"
    else:
        words += f"write {decimal}, without quotes"
    problems.append(Problem(path, value, words))
    return None


def hexadecimal(value: object) -> int | None:
    """The number of a PCI id that is written as everybody else writes it: `0x1eb8`, or `1eb8`.

    None for anything else, also for digits alone, which may be meant either way.
    """
    found = _HEX_ID.fullmatch(value) if isinstance(value, str) else None
    if found is None or (not found[1] and found[2].isdecimal()):
        return None
    number = int(found[2], 16)
    return number if 0 < number < _HIGHEST_ID else None


def _allowed(path: str, value: object, problems: list[Problem]) -> tuple[PciIds, ...]:
    if not isinstance(value, list | tuple):
        problems.append(Problem(path, value, "should be a list"))
        return ()
    if len(value) > ITEMS_LIMIT:
        limit = f"must have at most {ITEMS_LIMIT} items"
        problems.append(Problem(path, len(value), limit, "Too many"))
        return ()
    found = [_allowed_one(f"{path}[{i}]", one, problems) for i, one in enumerate(value)]
    return tuple(dict.fromkeys(ids for ids in found if ids is not None))


def _allowed_one(path: str, one: object, problems: list[Problem]) -> PciIds | None:
    if not isinstance(one, Mapping):
        problems.append(Problem(path, one, "should be an object"))
        return None
    said = {key: value for key, value in one.items() if value is not None}
    missing = [name for name in ("deviceId", "vendorId") if name not in said]
    if missing:
        words = f"should have deviceId and vendorId; {' and '.join(missing)} is missing"
        problems.append(Problem(path, dict(one), words))
        return None
    vendor = _number(f"{path}.vendorId", said["vendorId"], problems)
    device = _number(f"{path}.deviceId", said["deviceId"], problems)
    rest = [
        _within(f"{path}.{name}", said.get(name), highest, problems)
        for name, highest in (
            ("subVendorId", _HIGHEST_ID),
            ("subDeviceId", _HIGHEST_ID),
            ("revisionId", _HIGHEST_REVISION),
        )
    ]
    return None if vendor is None or device is None else PciIds(vendor, device, *rest)


def _within(path: str, value: object, highest: int, problems: list[Problem]) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= highest:
        return value
    problems.append(Problem(path, value, f"should be a number between 0 and {highest}"))
    return None
