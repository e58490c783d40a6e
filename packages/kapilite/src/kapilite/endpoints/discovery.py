"""What the server serves, in the two forms in which clients ask: group by group, and all at once.

Everything is computed from the kinds given, so discovery cannot disagree with what is served.
Groups keep the order in which their kinds are given, because clients resolve an ambiguous short
name by it: built-in kinds come first. Versions of a group follow Kubernetes' priority, where v2
comes before v1 and both before v1beta1; the first is the preferred one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kapilite.errors import ApiError
from kapilite.kinds import Kind

_CHANGE = ("get", "patch", "update")
_CREATE = ("create",)
_PARTS: dict[str, tuple[tuple[str, str, str] | None, tuple[str, ...]]] = {
    "binding": (("", "v1", "Binding"), _CREATE),
    "eviction": (("policy", "v1", "Eviction"), _CREATE),
    "finalize": (None, ("update",)),
    "scale": (("autoscaling", "v1", "Scale"), _CHANGE),
    "status": (None, _CHANGE),
    "token": (("authentication.k8s.io", "v1", "TokenRequest"), _CREATE),
}
"""Subresources: the kind of their objects, where that is not the resource's, and their verbs."""

_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?", re.ASCII)
_STAGES = {None: 2, "beta": 1, "alpha": 0}
_AGGREGATED = ("v2", "v2beta1")


def version_priority(version: str) -> tuple[Any, ...]:
    """Sort key: the preferred version first, names that are no Kubernetes version last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, version)
    major, stage, minor = match.groups()
    return (0, -_STAGES[stage], -int(major), -int(minor or 0))


def group_versions(kinds: Iterable[Kind]) -> dict[str, list[str]]:
    """Every group with its versions, the preferred one first."""
    found: dict[str, set[str]] = {}
    for kind in kinds:
        found.setdefault(kind.group, set()).add(kind.version)
    return {group: sorted(versions, key=version_priority) for group, versions in found.items()}


def versions() -> dict[str, Any]:
    """The document of `/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups(kinds: Iterable[Kind]) -> dict[str, Any]:
    """The document of `/apis`."""
    groups = [_group(name, found) for name, found in group_versions(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Iterable[Kind], name: str) -> dict[str, Any]:
    """The document of `/apis/GROUP`."""
    found = group_versions(kinds).get(name)
    if not name or found is None:
        raise _not_found()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, found)}


def resources(kinds: Iterable[Kind], group: str, version: str) -> dict[str, Any]:
    """The document of `/api/v1` and `/apis/GROUP/VERSION`."""
    chosen = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not chosen:
        raise _not_found()
    found = []
    for kind in chosen:
        common = {"namespaced": kind.namespaced, "kind": kind.kind}
        entry = {"name": kind.plural, "singularName": kind.singular, **common}
        found.append(entry | {"verbs": list(kind.verbs)} | _names(kind))
        for part, other, verbs in _parts(kind):
            entry = {"name": f"{kind.plural}/{part}", "singularName": "", **common}
            if other is not None:
                entry |= {key: value for key, value in _gvk(*other).items() if value}
            found.append(entry | {"verbs": list(verbs)})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": chosen[0].api_version,
        "resources": found,
    }


def aggregated(kinds: Iterable[Kind], core: bool, *, version: str = "v2") -> dict[str, Any]:
    """All groups with all their resources: the core group for `/api`, the others for `/apis`."""
    chosen = [kind for kind in kinds if (kind.group == "") == core]
    items = []
    for name, found in group_versions(chosen).items():
        entries = [
            {
                "version": v,
                "freshness": "Current",
                "resources": [_aggregated(k) for k in chosen if (k.group, k.version) == (name, v)],
            }
            for v in found
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def negotiate(accept: str) -> str | None:
    """The version of the aggregated form that the client prefers, or None for the classic form."""
    for entry in accept.split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        wanted = dict(p.partition("=")[::2] for p in parameters)
        if media not in {"application/json", "application/*", "*/*"}:
            continue
        if "as" not in wanted:
            return None
        if (wanted["as"], wanted.get("g")) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io"):
            version = wanted.get("v", "")
            if version in _AGGREGATED:
                return version
    return None


def content_type(version: str) -> str:
    """The media type by which clients recognise an aggregated answer."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def _aggregated(kind: Kind) -> dict[str, Any]:
    response = _gvk(kind.group, kind.version, kind.kind)
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    parts = [
        {
            "subresource": part,
            "responseKind": response if other is None else _gvk(*other),
            "verbs": list(verbs),
        }
        for part, other, verbs in _parts(kind)
    ]
    if parts:
        entry["subresources"] = parts
    return entry | _names(kind)


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def _parts(kind: Kind) -> list[tuple[str, tuple[str, str, str] | None, tuple[str, ...]]]:
    names = {*kind.subresources}
    if kind.has_status:
        names.add("status")
    if kind.scale is not None:
        names.add("scale")
    return [(name, *_PARTS[name]) for name in sorted(names)]


def _names(kind: Kind) -> dict[str, list[str]]:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}


def _group(name: str, found: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in found]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _not_found() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")
