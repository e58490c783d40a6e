"""What is in use and what is reserved in a simulated vCenter, counted from its own state.

Nothing here asks Laneway: what fits is decided by rules of its own, plain enough for few devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
H100 = {"vendorId": 0x10DE, "deviceId": 0x2330}
NIC = {"vendorId": 0x15B3, "deviceId": 0x1021}
NAMES = {(0x10DE, 0x1EB8): "Tesla T4", (0x10DE, 0x2330): "H100", (0x15B3, 0x1021): "ConnectX-7"}
MEMORY = {"grid_t4-16q": 16, "grid_t4-8q": 8, "grid_t4-4c": 4}
GROUP = {
    "name": "Nvidia:1@h100%ConnectX-7",
    "description": "an H100 and the port next to it",
    "parts": [
        {"kind": "pciPassthru", "name": "H100"} | H100,
        {"kind": "pciPassthru", "name": "ConnectX-7"} | NIC,
    ],
}
_THERE = ("DC0_", "ubuntu")
"""How VMs are called that were there from the beginning."""

Item = Mapping[str, Any]
"""What a machine requests, as its spec says it."""


def card(slot: int, label: str = "", **more: Any) -> dict[str, Any]:
    """A T4 that whole machines may have."""
    about = {"name": "Tesla T4", "fbGiB": 16, "mode": "passthrough", "label": label}
    return {"id": f"0000:{slot:02x}:00.0"} | about | T4 | more


def shared(slot: int) -> dict[str, Any]:
    """A T4 that vGPUs share."""
    profiles = [
        {"name": name, "fbGiB": size, "class": "quadro", "sharing": "timeSliced"}
        for name, size in MEMORY.items()
    ]
    return card(slot, mode="sharedDirect", profiles=profiles)


def pair(slot: int) -> list[dict[str, Any]]:
    """The devices of the group."""
    port = {"id": f"0000:{slot + 1:02x}:00.0", "classId": 0x200, "mode": "passthrough", "label": ""}
    return [card(slot, name="H100", fbGiB=80, **H100), port | {"name": "ConnectX-7"} | NIC]


class Truth:
    """What vCenter has, and what is reserved of it."""

    def __init__(
        self,
        state: Mapping[str, Any],
        reservations: Iterable[Any],
        offered: Mapping[str, list[Mapping[str, Any]]],
    ) -> None:
        """`offered`: vendor device groups by host."""
        made = [one for one in state["vms"] if not one["name"].startswith(_THERE)]
        self.vms = {one["instanceUuid"]: one for one in made}
        self.made = [one["name"] for one in made]
        self.gpus = [one for one in state["gpus"] if one["mode"] != "direct"]
        self.open = {
            one["name"] for one in state["hosts"] if one["connected"] and not one["maintenance"]
        }
        self._offered = offered
        self.taken: dict[tuple[str, str], Counter[str]] = {
            (gpu["host"], gpu["id"]): Counter(
                profile for profiles in gpu["users"].values() for profile in profiles
            )
            for gpu in self.gpus
        }
        """What is in use or reserved, "" being the whole device."""
        on = {one["name"]: len(one["devices"]) for one in made if one["on"]}
        for one in reservations:
            seats = one.spec.get("seats") or ()
            has = on.get(one.metadata.name)
            for seat in seats[has or 0 :]:
                profile = seat["asked"] if seat["type"] == "vGPU" else ""
                for device in seat.get("devices") or ():
                    self._keep((one.spec["hostName"], device), profile, lost=has is not None)

    def _keep(self, at: tuple[str, str], profile: str, *, lost: bool) -> None:
        """Of what a machine has lost one like it is kept, if there is one, for when it starts."""
        places = [at, *sorted(one for one in self.taken if one[0] == at[0])] if lost else [at]
        for place in places:
            given = self.taken.setdefault(place, Counter())
            if not lost or _ok(given + Counter([profile])):
                given[profile] += 1
                return

    def wrong(self) -> list[str]:
        """What has been given away more than once."""
        return [f"{at} is given away as {dict(of)}" for at, of in self.taken.items() if not _ok(of)]

    def room(self, wanted: Iterable[Item], within: str = "") -> str:
        """A host that could still have such a machine; `within`: how those of its cluster begin."""
        for host in sorted(self.open):
            if host.startswith(within) and self._fits(host, wanted):
                return host
        return ""

    def _fits(self, host: str, wanted: Iterable[Item]) -> bool:
        gpus = [one for one in self.gpus if one["host"] == host]
        free = [
            (one["name"], one["label"])
            for one in gpus
            if one["mode"] == "passthrough" and not self.taken[host, one["id"]]
        ]
        for item in sorted(wanted, key=lambda one: not one.get("customLabel")):
            if (profile := item.get("vGPUProfile")) is not None:
                boards = [one["id"] for one in gpus if one["mode"] == "sharedDirect"]
                if not any(_ok(self.taken[host, one] + Counter([profile])) for one in boards):
                    return False
                continue
            for name, label in self._parts(host, item):
                some = [one for one in free if one[0] == name and label in ("", one[1])]
                if not some:
                    return False
                free.remove(min(some))
        return True

    def _parts(self, host: str, item: Item) -> list[tuple[str, str]]:
        """The devices that an item is, by name and label; some that are free: not offered."""
        if (group := item.get("deviceGroupName")) is not None:
            parts = [one["parts"] for one in self._offered.get(host, ()) if one["name"] == group]
            return [(part["name"], "") for part in parts[0]] if parts else [(group, "")]
        return [(NAMES[item["vendorId"], item["deviceId"]], item.get("customLabel", ""))]


def _ok(given: Counter[str]) -> bool:
    """Whether a GPU can be all that at once."""
    if "" in given:
        return given.total() <= 1
    return len(given) < 2 and sum(MEMORY[one] * count for one, count in given.items()) <= 16


def asked(wanted: Iterable[Item]) -> list[tuple[str, str, str]]:
    """The devices of a VM that has what was requested: profile, label, group."""
    return sorted(
        found
        for item in wanted
        for found in [
            (
                item.get("vGPUProfile", ""),
                item.get("customLabel", ""),
                item.get("deviceGroupName", ""),
            )
        ]
        * (len(GROUP["parts"]) if "deviceGroupName" in item else 1)
    )


def given(devices: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """The devices that a VM has, in the same words."""
    return sorted(
        (one.get("profile", ""), one.get("label", ""), one.get("group", "")) for one in devices
    )
