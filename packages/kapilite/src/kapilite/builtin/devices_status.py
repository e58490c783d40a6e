"""What Kubernetes refuses in the status of a ResourceClaim: what it got, and for whom.

A scheduler writes it once. What a claim got stays until the claim has no more users.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.builtin import rules
from kapilite.builtin.devices_parts import configuration, tolerations
from kapilite.builtin.slices import node_selector, pool_name
from kapilite.builtin.slices_devices import binding, driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.builtin.devices_parts import Requests
    from kapilite.problems import Problem

Object = dict[str, Any]

_RESULTS, _CONFIGURATIONS, _USERS = 32, 64, 256
_SOURCES = ("FromClaim", "FromClass")
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEY = ("driver", "pool", "device", "shareID")


def changed(obj: Object, old: Object, requests: Requests) -> Iterator[Problem]:
    """What is wrong with a status that takes the place of another one."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    allocation, had = status.get("allocation"), before.get("allocation")
    yield from _users(obj, before, allocation)
    yield from _devices(status.get("devices") or [], allocation or {})
    if allocation is not None and had is not None:
        yield from rules.immutable("status.allocation", allocation, had)
    elif allocation is not None:
        yield from _allocation("status.allocation", allocation, requests)


def _users(obj: Object, before: Object, allocation: Object | None) -> Iterator[Problem]:
    """The pods that may use what the claim has."""
    field, users = "status.reservedFor", (obj.get("status") or {}).get("reservedFor") or []
    yield from rules.items(field, users, _USERS, "uid", _user)
    if users and allocation is None:
        yield problem.forbidden(field, "may not be specified when `allocated` is not set")
    elif obj["metadata"].get("deletionTimestamp") and any(
        one not in (before.get("reservedFor") or []) for one in users
    ):
        detail = "new entries may not be added while `deallocationRequested` or "
        yield problem.forbidden(field, detail + "`deletionTimestamp` are set")


def _user(path: str, user: Object) -> Iterator[Problem]:
    for part in ("resource", "name", "uid"):
        if not user.get(part):
            yield problem.required(f"{path}.{part}")


def _allocation(path: str, allocation: Object, requests: Requests) -> Iterator[Problem]:
    devices = allocation.get("devices") or {}
    results, configurations = devices.get("results") or [], devices.get("config") or []
    for name, found, most in (
        ("results", results, _RESULTS),
        ("config", configurations, _CONFIGURATIONS),
    ):
        if len(found) > most:
            yield problem.too_many(f"{path}.devices.{name}", len(found), most)
    for index, one in enumerate(results[:_RESULTS]):
        yield from _result(f"{path}.devices.results[{index}]", one, requests)
    for index, one in enumerate(configurations[:_CONFIGURATIONS]):
        where = f"{path}.devices.config[{index}]"
        source = one.get("source", "")
        if not source:
            yield problem.required(f"{where}.source")
        elif source not in _SOURCES:
            yield problem.not_supported(f"{where}.source", source, _SOURCES)
        yield from requests.chosen(f"{where}.requests", one.get("requests") or [])
        yield from configuration(where, one)
    if (selector := allocation.get("nodeSelector")) is not None:
        yield from node_selector(f"{path}.nodeSelector", selector)


def _result(path: str, result: Object, requests: Requests) -> Iterator[Problem]:
    yield from requests.reference(f"{path}.request", result.get("request", ""))
    yield from _device(path, result)
    yield from binding(path, result)
    yield from tolerations(f"{path}.tolerations", result.get("tolerations"))


def _device(path: str, found: Object) -> Iterator[Problem]:
    """Which device it is."""
    yield from driver(f"{path}.driver", found.get("driver", ""))
    yield from pool_name(f"{path}.pool", found.get("pool", ""))
    yield from rules.dns_label(f"{path}.device", found.get("device", ""))
    share = found.get("shareID")
    if share is not None and not _UUID.fullmatch(share):
        detail = "must be a lowercase UUID in 8-4-4-4-12 format"
        yield problem.invalid(f"{path}.shareID", share, detail)


def _devices(found: list[Object], allocation: Object) -> Iterator[Problem]:
    """What drivers say of the devices that the claim has."""
    results = (allocation.get("devices") or {}).get("results") or ()
    has = {tuple(one.get(part) for part in _KEY) for one in results}
    seen = set()
    for index, one in enumerate(found):
        path, key = f"status.devices[{index}]", tuple(one.get(part) for part in _KEY)
        yield from _device(path, one)
        shown = "/".join(part for part in key if part)
        if key not in has:
            yield problem.invalid(path, shown, "must be an allocated device in the claim")
        if key in seen:
            yield problem.duplicate(path, shown)
        seen.add(key)
