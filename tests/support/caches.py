"""Whether a cache has come as far as the server: an answer is often quicker than a watch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.resource import Key, key_of

_call = Client.call  # Before a test counts requests, or stops them: these are not meant.


class _Item(msgspec.Struct):
    metadata: ObjectMeta


class _List(msgspec.Struct):
    items: list[_Item] | None = None


async def caught_up(client: Client, informers: Iterable[Informer[Any]]) -> None:
    """Wait until each of these caches shows what is stored."""
    for informer in informers:
        while not await _shows(client, informer):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)


async def _shows(client: Client, informer: Informer[Any]) -> bool:
    selectors = {
        "labelSelector": informer.label_selector,
        "fieldSelector": informer.field_selector,
    }
    try:
        answer = await _call(client, "GET", informer.resource.path(), selectors)
    except NotFoundError:
        answer = b"{}"
    metas = [one.metadata for one in msgspec.json.decode(answer, type=_List).items or ()]
    stored = {Key(one.namespace, one.name): one.resource_version for one in metas}
    shown = {key_of(one): one.metadata.resource_version for one in informer.store}
    unread = informer.undecodable.keys()
    return all(shown.get(key) == stored.get(key) for key in (shown | stored).keys() - unread)
