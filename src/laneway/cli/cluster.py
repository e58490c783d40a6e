"""Fetching one object, and its events, from the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from laneway.api import KINDS, KindInfo
from laneway.cli.errors import Failure
from laneway.kube import config
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError

Json = Mapping[str, Any]


async def fetch(text: str, kubeconfig: str | None) -> tuple[Json, list[Json]]:
    """The object that `KIND/NAME` or `NAME` means, and its events."""
    kind, slash, name = text.rpartition("/")
    kinds = _kinds_named(kind) if slash else list(KINDS)
    _check(name)
    try:
        async with Client(config.load(kubeconfig)) as client:
            found = [
                (info, obj) for info in kinds if (obj := await _get(client, info, name)) is not None
            ]
            info, obj = _only(found, kinds, name)
            return obj, await _events(client, info, name)
    except KubeError as error:
        raise Failure(str(error)) from None


def _kinds_named(text: str) -> list[KindInfo]:
    word = text.lower()
    named = [info for info in KINDS if word in (info.plural, info.singular)]
    if not named:
        known = ", ".join(info.singular for info in KINDS)
        raise Failure(f"there is no kind {text!r}; use one of {known}")
    return named


def _check(name: str) -> None:
    """A name becomes a part of a path; nothing passes that could become more than one."""
    if not name or not all(char.isascii() and (char.isalnum() or char in "-.") for char in name):
        raise Failure(
            f"{name!r} is no name of an object, PCI address or USB port; 'laneway devices' lists"
            " this host's devices, 'kubectl get pcidevices' those of the cluster"
        )


async def _get(client: Client, info: KindInfo, name: str) -> Json | None:
    try:
        body = await client.raw(f"{info.path}/{name}")
        return msgspec.json.decode(body, type=dict[str, Any])
    except NotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise Failure(
            f"the server's answer about {info.singular}/{name} is damaged: {error}"
        ) from None


def _only(
    found: list[tuple[KindInfo, Json]], kinds: list[KindInfo], name: str
) -> tuple[KindInfo, Json]:
    if not found:
        known = kinds[0] if len(kinds) == 1 else None
        asked = f"{known.singular}/{name}" if known else f"object {name}"
        plural = f"{known.plural}.{known.group}" if known else "pcidevices"
        raise Failure(f"no {asked} in the cluster; 'kubectl get {plural}' lists what there is")
    if len(found) > 1:
        choices = ", ".join(f"{info.singular}/{name}" for info, _ in found)
        raise Failure(f"{name} names several objects; say which: {choices}")
    return found[0]


async def _events(client: Client, info: KindInfo, name: str) -> list[Json]:
    """Events about the object. None where they may not be read: they are no more than context."""
    selector = {"fieldSelector": f"involvedObject.kind={info.kind},involvedObject.name={name}"}
    try:
        answer = msgspec.json.decode(await client.raw("/api/v1/events", selector))
        return [event for event in answer["items"] if isinstance(event, dict)]
    except (KubeError, msgspec.DecodeError, LookupError, TypeError):
        return []
