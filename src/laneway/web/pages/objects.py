"""Any object: what is said about it, its YAML, and lines to copy that do the same by hand.

It is read with the user's own token, so it shows exactly what `kubectl get` would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import yaml

from laneway.api import KINDS
from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.resource import Resource
from laneway.views.commands import Line, lines
from laneway.views.explain.object import Found, explain_object
from laneway.web.object_links import object_url
from laneway.web.page import Action, Context, NotFound, Page
from laneway.web.visit import Visit


class _Anything(msgspec.Struct, frozen=True):
    """Objects are shown as they are stored."""


_RESOURCES: Mapping[str, Resource[Any]] = {
    **{
        info.plural: Resource(
            info.group, info.version, info.plural, info.namespaced, _Anything, info.kind
        )
        for info in KINDS
    },
    VIRTUAL_MACHINES.plural: VIRTUAL_MACHINES,
    INSTANCES.plural: INSTANCES,
}
"""By the plural in the address; nothing else of the cluster can be asked for."""


class _Seen(NamedTuple):
    """What the API server gave."""

    obj: dict[str, Any]
    resource: Resource[Any]


async def _fetch(visit: Visit) -> None:
    resource = _RESOURCES.get(visit.name("plural"))
    namespace = visit.place.names.get("namespace", "")
    if resource is None or resource.namespaced != bool(namespace):
        raise NotFound(visit.place.path)
    try:
        body = await visit.client.raw(resource.path(namespace, visit.name("name")))
    except NotFoundError:
        raise NotFound(visit.place.path) from None
    visit.data["seen"] = _Seen(msgspec.json.decode(body), resource)


def _context(visit: Visit) -> Context:
    seen: _Seen | None = visit.data.get("seen")
    if seen is None:  # The stream draws nothing of this page.
        return {"title": visit.name("name"), "sections": (), "yaml": "", "lines": (), "url": ""}
    obj = seen.obj
    kind, meta = seen.resource.kind or obj["kind"], obj["metadata"]
    return {
        "title": f"{kind} {meta['name']}",
        "sections": _sections(obj, seen.resource),
        "yaml": _yaml(obj),
        "lines": _lines(seen.resource, obj),
        "url": object_url(kind, meta["name"], meta.get("namespace", "")),
    }


def _sections(obj: dict[str, Any], resource: Resource[Any]) -> Sequence[Any]:
    if resource.plural in (VIRTUAL_MACHINES.plural, INSTANCES.plural):
        return ()
    page = explain_object(Found(obj, []))
    return [section for section in page.sections if section.shown]


def _yaml(obj: dict[str, Any]) -> str:
    """As kubectl prints it: without who wrote which field."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    shown = {**obj, "metadata": meta}
    text: str = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)
    return text


def _lines(resource: Resource[Any], obj: dict[str, Any]) -> Sequence[Line]:
    return lines(f"{resource.plural}.{resource.group}", resource.kind or obj["kind"], obj)


PAGES = tuple(
    Page(pattern, "object.html", _context, prepare=_fetch)
    for pattern in ("/objects/{plural}/{name}", "/objects/{plural}/{namespace}/{name}")
)
ACTIONS: tuple[Action, ...] = ()
